"""A training run that may be killed at any instant, and a server that forks such runs: one JSON request per line.

The server imports everything once and computes nothing, so that a fork is a fresh process in milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import select
import signal
import sys
import time
from pathlib import Path

import safetensors.torch
import tomlkit
import torch
from torch import nn

import mixprec.optim
from mixprec.specs import LayerPrecision, LossScale, Moments, Recipe, Rule
from mixprec.tensors.trees import pack_state
from mixprec.training import prepare
from mixprec.training.checkpoint import CheckpointNotWritten

STEPS, EVERY, BAD = 10, 2, 3
RECIPE = Recipe(
    name="everything",
    rules=(
        Rule(
            precision=LayerPrecision.of(
                input="e4m3[tensor] delayed(16)", weight="mxfp8", grad_output="e2m1[1x16:e4m3*fp32] sr"
            )
        ),
    ),
    compute_dtype="bf16",
    weights="stochastic",
    moments=Moments(kind="e4m3", small=0),
    loss_scale=LossScale(kind="dynamic", initial=2.0**8, interval=3),
)
FILE_EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir")


class Loader:
    """Batches in an order of its own, which it continues."""

    def __init__(self) -> None:
        self.position, self.generator = 0, torch.Generator().manual_seed(5)

    def next(self) -> torch.Tensor:
        self.position += 1
        return torch.randn(8, 16, generator=self.generator)

    def state_dict(self):
        return {"position": self.position, "generator": self.generator.get_state()}

    def load_state_dict(self, state):
        self.position = state["position"]
        self.generator.set_state(state["generator"])


def build(run: Path | None):
    torch.manual_seed(0)
    random.seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 16)).bfloat16()
    optimizer = mixprec.optim.AdamW(model.parameters(), lr=0.01)
    return prepare(model, optimizer, RECIPE, run=run, clip_norm=1.0, seed=3)


def digest(session, loader) -> str:
    """A hash of all that must not differ."""
    states = {
        "model": session.model.state_dict(),
        "optimizer": session.optimizer.state_dict(),
        "session": session.state_dict(),
        "loader": loader.state_dict(),
        "random": [torch.get_rng_state(), random.getstate()],
    }
    packed = pack_state(states)
    hashed = hashlib.sha256(json.dumps(packed.structure).encode())
    for tensors in packed.tensors.values():
        for name, tensor in tensors.items():
            hashed.update(name.encode() + tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()


def train(request, say) -> None:
    """Train to the end from wherever the run stands; ``say`` acknowledges what is saved."""
    session, loader = build(Path(request["run"])), Loader()
    folder = request.get("folder")
    resumed = session.resume(folder if folder and os.path.isdir(folder) else None, extra={"loader": loader})
    say(f"resumed {loader.position}")
    for damage in resumed.passed_over:
        say(f"damaged {damage}")
    session.model.train()
    while loader.position < STEPS:
        x = loader.next() + random.random()
        loss = session.model(x).float().square().mean()
        session.step(loss * float("inf") if loader.position == BAD else loss)
        if loader.position % EVERY == 0:
            save(session, loader, request, say)
    say(f"done {digest(session, loader)}")


def save(session, loader, request, say) -> None:
    filler = Path(request.get("filler") or "/nonexistent")
    if request.get("full_at") == loader.position:
        fill(filler)
    if request.get("limit_at") == loader.position:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["limit"], resource.RLIM_INFINITY))
    killer = None
    if request.get("kill_at_save") == loader.position:
        killer = KillAtAccess(request["kill_at_event"], request["run"])
    try:
        session.save(request.get("folder"), extra={"loader": loader})
        if killer is not None:
            killer.is_on = False
        say(f"saved {loader.position}")
    except CheckpointNotWritten as error:
        say(f"failed {loader.position} {error}")
    filler.unlink(missing_ok=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def fill(filler: Path) -> None:
    """Take all the space that a small disk has left, but a little."""
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            file.truncate(max(file.tell() - 8192, 0))


class KillAtAccess:
    """Dies just before the given access to the run's files, as long as ``is_on``."""

    def __init__(self, number: int, run: str) -> None:
        self.left, self.run, self.is_on = number, run, True
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.is_on and event in FILE_EVENTS and any(self.run in str(argument) for argument in arguments[:2]):
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1


def serve_one(request) -> dict[str, object]:
    """Fork a run, kill it when its time is over, and give what it said."""
    read, write = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(read)
            train(request, lambda text: os.write(write, (text.replace("\n", " ") + "\n").encode()))
            code = 0
        except BaseException as error:
            os.write(write, f"error {type(error).__name__}: {error}".replace("\n", " ").encode() + b"\n")
        finally:
            os._exit(code)
    os.close(write)
    said, was_killed = b"", False
    deadline = began + request.get("kill_after", 120.0)
    while True:
        ready, _, _ = select.select([read], [], [], None if was_killed else max(deadline - time.monotonic(), 0))
        if not ready:
            os.kill(child, signal.SIGKILL)
            was_killed = True
            continue
        part = os.read(read, 65536)
        if not part:
            break
        said += part
    os.close(read)
    _, status = os.waitpid(child, 0)
    lines = said.decode().splitlines()
    return {"said": lines, "killed": os.WIFSIGNALED(status), "seconds": time.monotonic() - began}


def main() -> None:
    torch.set_num_threads(1)
    assert safetensors.torch.load_file is not None
    assert tomlkit.dumps is not None
    torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)  # imports what an optimizer imports when it is made
    for line in sys.stdin:
        print(json.dumps(serve_one(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
