"""What each level does to models and optimizers."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mixprec
from mixprec.compat import apex_amp as amp
from tests.compat.apex_amp.models import INPUT, LEVELS, TARGET, Weights, backward, network

FP32, FP16 = torch.float32, torch.float16


def prepared(opt_level: str, model: nn.Module | None = None, **options: Any) -> tuple[Any, torch.optim.Optimizer]:
    model = network() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return amp.initialize(model, optimizer, opt_level=opt_level, **options)


@pytest.mark.parametrize(
    ("opt_level", "linear", "norm", "master", "saved", "loss_scale"),
    [
        ("O0", FP32, FP32, FP32, FP32, 1.0),
        ("O1", FP32, FP32, FP32, FP32, 2.0**16),
        ("O2", FP16, FP32, FP32, FP32, 2.0**16),
        ("O3", FP16, FP16, FP16, FP16, 1.0),
    ],
)
def test_levels(
    opt_level: str, linear: torch.dtype, norm: torch.dtype, master: torch.dtype, saved: torch.dtype, loss_scale: float
) -> None:
    model = network()
    identities = [id(p) for p in model.parameters()]
    model, optimizer = prepared(opt_level, model)
    assert [id(p) for p in model.parameters()] == identities
    assert isinstance(model[4], nn.Linear)
    assert isinstance(optimizer, torch.optim.SGD)
    assert (model[4].weight.dtype, model[1].weight.dtype, model[1].running_mean.dtype) == (linear, norm, norm)
    assert next(amp.master_params(optimizer)).dtype == master
    assert model.state_dict()["4.weight"].dtype == saved
    assert amp.state_dict(optimizer) == {"loss_scaler0": {"loss_scale": loss_scale, "unskipped": 0}}
    y = model(INPUT)
    assert y.dtype == FP32
    assert model[4](torch.ones(1, 144)).dtype in (FP32, FP16)
    backward(F.cross_entropy(y, TARGET), optimizer)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in amp.master_params(optimizer))
    before = model[4].weight.detach().clone()
    optimizer.step()
    assert not torch.equal(model[4].weight, before)


@pytest.mark.parametrize("opt_level", LEVELS)
def test_training_follows_fp32(opt_level: str) -> None:
    plain = network()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    model, amp_optimizer = prepared(opt_level)
    for _ in range(4):
        wanted = F.cross_entropy(plain(INPUT), TARGET)
        optimizer.zero_grad()
        wanted.backward()
        optimizer.step()
        found = F.cross_entropy(model(INPUT), TARGET)
        amp_optimizer.zero_grad()
        backward(found, amp_optimizer)
        amp_optimizer.step()
        assert found.item() == pytest.approx(wanted.item(), abs=0 if opt_level == "O0" else 5e-3)


def test_o1_is_the_fp16_recipe() -> None:
    converted = network()
    mixprec.convert(converted, "fp16")
    model, optimizer = prepared("O1", loss_scale=1024.0)
    loss, wanted = F.cross_entropy(model(INPUT), TARGET), F.cross_entropy(converted(INPUT), TARGET)
    assert torch.equal(loss, wanted)
    backward(loss, optimizer)
    (1024 * wanted).backward()
    for p, q in zip(model.parameters(), converted.parameters(), strict=True):
        assert p.grad is not None
        assert q.grad is not None
        assert torch.equal(p.grad, q.grad / 1024)


def test_masters_start_as_the_fp32_model_and_move_where_16_bits_cannot() -> None:
    model = Weights(1.0, 1.0 + 2.0**-20)
    model, optimizer = amp.initialize(
        model, torch.optim.SGD(model.parameters(), lr=2.0**-13), opt_level="O2", loss_scale=64.0
    )
    (master,) = amp.master_params(optimizer)
    assert master.tolist() == [1.0, 1.0 + 2.0**-20]
    assert model.p.tolist() == [1.0, 1.0]
    for _ in range(8):
        optimizer.zero_grad()
        backward(model(1.0, 0.0), optimizer)
        optimizer.step()
    assert master.tolist() == [1.0 - 2.0**-10, 1.0 + 2.0**-20]
    assert model.p.tolist() == [1.0 - 2.0**-10, 1.0]  # in fp16, 1 - 2^-13 is 1


def test_inputs_and_outputs_are_cast() -> None:
    class Told(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x: Tensor, *, more: dict[str, Tensor]) -> dict[str, Tensor]:
            seen.append((x.dtype, more["mask"].dtype, more["index"].dtype))
            return {"y": self.fc(x), "index": more["index"]}

    seen: list[tuple[torch.dtype, ...]] = []
    more = {"mask": torch.ones(2), "index": torch.ones(2, dtype=torch.int64)}
    for opt_level, outputs, inside, outside in (
        ("O0", None, FP32, FP32),
        ("O1", None, FP32, FP32),
        ("O2", None, FP16, FP32),
        ("O2", FP16, FP16, FP16),
        ("O1", FP16, FP32, FP16),
        ("O3", None, FP16, FP32),
    ):
        model = amp.initialize(Told(), opt_level=opt_level, cast_model_outputs=outputs)
        y = model(torch.ones(1, 2), more=more)
        assert seen.pop() == (inside, inside, torch.int64)
        assert (y["y"].dtype, y["index"].dtype) == (outside, torch.int64)


def test_overrides() -> None:
    model, optimizer = prepared("O2", keep_batchnorm_fp32="False", loss_scale="128.0")
    assert model[1].weight.dtype == FP16
    assert amp.state_dict(optimizer)["loss_scaler0"]["loss_scale"] == 128.0
    model, optimizer = prepared("O3", keep_batchnorm_fp32=True, loss_scale="dynamic", max_loss_scale=2.0**10)
    assert model[1].weight.dtype == FP32
    assert amp.state_dict(optimizer)["loss_scaler0"]["loss_scale"] == 2.0**10
    _, optimizer = prepared("O2", master_weights=False)
    assert next(amp.master_params(optimizer)).dtype == FP16
    model, optimizer = prepared("O2", cast_model_type=torch.bfloat16)
    assert model[4].weight.dtype == torch.bfloat16
    model, optimizer = prepared("O1", patch_torch_functions=False)
    assert torch.equal(model(INPUT), network()(INPUT))


def test_the_form_of_what_is_returned() -> None:
    def parts() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = nn.Linear(2, 2)
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    model, optimizer = parts()
    assert amp.initialize(model, optimizer) == (model, optimizer)
    model, optimizer = parts()
    assert amp.initialize([model], [optimizer]) == ([model], [optimizer])
    model, optimizer = parts()
    assert amp.initialize([model], optimizer) == ([model], optimizer)
    model, optimizer = parts()
    assert amp.initialize(model, [optimizer]) == (model, [optimizer])
    model, _ = parts()
    assert amp.initialize(model) is model


def test_disabled() -> None:
    model, optimizer = prepared("O2", enabled=False)
    assert model[4].weight.dtype == FP32
    loss = F.cross_entropy(model(INPUT), TARGET)
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        assert scaled_loss is loss
        scaled_loss.backward()
    optimizer.step()
    assert amp.state_dict(optimizer) == {}
    assert type(optimizer) is torch.optim.SGD


def test_a_group_that_is_added_later() -> None:
    model = Weights(1.0, 1.0)
    other = amp.initialize(nn.Linear(1, 1, bias=False), opt_level="O2")
    model, optimizer = amp.initialize(
        model, torch.optim.SGD(model.parameters(), lr=0.5), opt_level="O2", loss_scale=64.0
    )
    optimizer.add_param_group({"params": list(other.parameters()), "lr": 0.25})
    assert [p.dtype for p in amp.master_params(optimizer)] == [FP32, FP32]
    start = other.weight.item()
    backward(model(1.0, 0.0) + other(torch.ones(1, 1)).sum(), optimizer)
    optimizer.step()
    assert model.p.tolist() == [0.5, 1.0]
    assert other.weight.item() == pytest.approx(start - 0.25, abs=1e-3)


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("clears", ["optimizer", "model"])
def test_clearing_on_either_side_clears_both(clears: str, set_to_none: bool) -> None:
    model, optimizer = prepared("O2")
    for _ in range(2):
        backward(F.cross_entropy(model(INPUT), TARGET), optimizer)
        (optimizer if clears == "optimizer" else model).zero_grad(set_to_none=set_to_none)
        backward(0.0 * model(INPUT).sum(), optimizer)
        gradients = [*(p.grad for p in model.parameters()), *(p.grad for p in amp.master_params(optimizer))]
        assert all(g is not None and not g.any() for g in gradients)
    optimizer.zero_grad(set_to_none=True)
    assert all(p.grad is None for p in model.parameters())


def test_copies() -> None:
    model, optimizer = prepared("O2")
    twin = copy.deepcopy(model)
    pickle.loads(pickle.dumps(optimizer))
    backward(F.cross_entropy(model(INPUT), TARGET), optimizer)
    optimizer.step()
    state, wide = twin.state_dict()["4.weight"], twin[4].weight.float()
    assert torch.equal(state, wide)
    assert not torch.equal(state, model.state_dict()["4.weight"])
    again = pickle.loads(pickle.dumps(model))
    assert torch.equal(again.state_dict()["4.weight"], model[4].weight.float())


@pytest.mark.parametrize("own", ["AdamW", "SGD"])
def test_optimizers_of_this_package(own: str) -> None:
    kind = getattr(__import__("mixprec.optim", fromlist=[own]), own)
    model = Weights(1.0, 1.0)
    model, optimizer = amp.initialize(
        model, kind(model.parameters(), lr=2.0**-13, weight_decay=0.0), opt_level="O2", loss_scale=64.0
    )
    for _ in range(8):
        optimizer.zero_grad()
        backward(model(1.0, 0.0), optimizer)
        optimizer.step()
    assert model.state_dict()["p"].tolist() == pytest.approx([1.0 - 2.0**-10, 1.0], rel=1e-6)


def test_refusals() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for options, told in (
        ({"opt_level": "02"}, "O0"),
        ({"opt_level": "O1", "cast_model_type": FP16}, "use O2 or O3"),
        ({"opt_level": "O1", "keep_batchnorm_fp32": True}, "batch norms stay fp32"),
        ({"opt_level": "O1", "master_weights": True}, "fp32 already"),
        ({"opt_level": "O2", "patch_torch_functions": True}, "opt_level='O1'"),
        ({"opt_level": "O2", "cast_model_type": torch.float8_e4m3fn}, r"mixprec\.convert"),
        ({"opt_level": "O2", "loss_scale": "large"}, "loss_scale is 'large'"),
        ({"opt_level": "O2", "loss_scale": 0.0}, "above 0"),
        ({"opt_level": "O2", "num_losses": 0}, "1 or more"),
        ({"opt_level": "O2", "min_loss_scale": 4.0, "max_loss_scale": 2.0}, "minimum"),
    ):
        with pytest.raises(ValueError, match=told):
            amp.initialize(model, optimizer, **options)
    for options in ({"keep_batchnorm_fp32": "yes"}, {"num_losses": "2"}, {"levels": 3}):
        with pytest.raises(TypeError):
            amp.initialize(model, optimizer, opt_level="O2", **options)
    for models, optimizers in ((3, optimizer), (model, 3), (model, model)):
        with pytest.raises(TypeError, match="expected a torch"):
            amp.initialize(models, optimizers)
    with pytest.raises(ValueError, match="DataParallel"):
        amp.initialize(nn.DataParallel(model), optimizer)
    with pytest.raises(ValueError, match=r"weight is fp16.*leave out model\.half"):
        amp.initialize(nn.Linear(2, 2).half(), optimizer)
    assert type(model) is nn.Linear
    amp.initialize(model, optimizer)
    with pytest.raises(RuntimeError, match="before"):
        amp.initialize(nn.Linear(2, 2), optimizer)
    with pytest.raises(ValueError, match="converted already"):
        amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.1))


def test_a_failed_call_leaves_everything_as_it_was() -> None:
    first, second = network(), nn.Linear(2, 2)
    with torch.no_grad():
        second.weight.fill_(1e6)
    before = copy.deepcopy(first.state_dict())
    optimizer = torch.optim.SGD(first.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="weight has values above 65504"):
        amp.initialize([first, second], optimizer, opt_level="O2")
    assert all(torch.equal(v, before[k]) and v.dtype == before[k].dtype for k, v in first.state_dict().items())
    assert type(first[4]) is nn.Linear
    amp.initialize(first, optimizer, opt_level="O2")
