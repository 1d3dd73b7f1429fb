"""Hugging Face's GPT-2 from a config, trained from nothing on a text of yours, in any precision.

    python examples/gpt2_own_text.py my.txt --recipe mxfp8 --steps 300 --out runs/gpt2

Nothing is downloaded: a token is a byte of the file, so that there is no tokenizer, and the weights start at random.
The last tenth of the file is held out. Printed are the loss on both parts [nats per byte] and the memory that the run
holds, measured; the run folder gets `report.html`. Needs transformers: `python -m pip install transformers`.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

import mixprec
from mixprec.report import write_report


def main() -> None:
    options = _options()
    torch.manual_seed(options.seed)
    text = torch.frombuffer(bytearray(options.text.read_bytes()), dtype=torch.uint8).long()
    if len(text) < 20 * options.context:
        raise SystemExit(f"{options.text} has {len(text)} bytes: at least {20 * options.context} are needed")
    train, held_out = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]
    config = GPT2Config(
        vocab_size=256, n_positions=options.context, n_embd=options.width, n_layer=options.layers, n_head=4,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    config.loss_type = "ForCausalLM"  # what GPT-2 would take after a warning
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    session = mixprec.prepare(model, optimizer, options.recipe, clip_norm=1.0, run=options.out)
    print(session)
    print(f"before training: held-out loss {evaluate(model, held_out, options):.4f}")
    for step in range(options.steps):
        ids = windows(train, options.batch, options.context)
        loss = model(input_ids=ids, labels=ids).loss  # GPT-2 moves the labels by one itself
        session.step(loss)
        if step % max(1, options.steps // 10) == 0 or step == options.steps - 1:
            print(f"step {step:5d}  loss {loss.item():.4f}")
    print(f"after training: held-out loss {evaluate(model, held_out, options):.4f}")
    print(session.memory())
    session.restore()
    print(f"report: {write_report(options.out)}")


def windows(ids: Tensor, count: int, length: int) -> Tensor:
    """``count`` pieces [count, length] from random places."""
    return ids[torch.randint(0, len(ids) - length + 1, (count, 1)) + torch.arange(length)]


@torch.no_grad()
def evaluate(model: GPT2LMHeadModel, ids: Tensor, options: argparse.Namespace) -> float:
    """Mean loss of the first pieces of held-out text, one after another."""
    pieces = ids[: len(ids) // options.context * options.context].view(-1, options.context)[: 4 * options.batch]
    loss = model.eval()(input_ids=pieces, labels=pieces).loss.item()
    model.train()
    return loss


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="GPT-2 from a config on a text of yours, in any precision.")
    parser.add_argument("text", type=Path, help="any file; its bytes are the tokens")
    parser.add_argument("--recipe", default="auto", help="a name that `mixprec recipes` lists, or a TOML file")
    parser.add_argument("--out", type=Path, default=Path("runs/gpt2-own-text"), help="the run folder, new")
    for name, default in {"steps": 300, "seed": 0, "width": 128, "layers": 4, "context": 128, "batch": 8}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


if __name__ == "__main__":
    main()
