"""Sums in 16-bit tensors: scattered ones, buffers that each step advances, running statistics, meters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from ..._finding import Finding
from .._call import Call, elsewhere, short
from .._values import NARROW
from ._detector import Detector, Step

#: Additions to one element from which on a 16-bit sum is told: a quarter of where equal addends stop to count.
ADDITIONS = {torch.bfloat16: 64, torch.float16: 512}
#: Where counting by one stops: the first integers that are not held with their successors.
STOPS = {torch.bfloat16: 256, torch.float16: 2048}
_INDEXED = {"index_add": 2, "index_put": 1, "_index_put_impl": 1, "scatter_add": 2, "scatter_reduce": 2}


class AccumulatorDetector(Detector):
    """Sums that 16 bits cannot hold.

    - a scatter of 16-bit values into an fp32 tensor for which the recipe widens them: a note (else torch refuses it);
    - a scattered sum (``index_add``, ``index_put(accumulate=True)``, ``scatter_add``, ``scatter_reduce``) in bf16 with
      64 addends or more to one element, in fp16 with 512: a warning (at 256 and 2,048 equal addends stop to count);
    - a buffer of 16 bits, or a plain attribute, that the step has changed (counter, moving average, codebook): a
      warning; a batch norm's running statistics likewise;
    - a loss in 16 bits; an optimizer's step counter in 16 bits: warnings.
    """

    operations = frozenset(
        name
        for one in (*_INDEXED, "scatter", "index_copy", "masked_scatter", "index_fill")
        for name in (one, f"{one}_")
    )

    def see(self, call: Call) -> Iterable[Finding]:
        """A scattered sum."""
        name, target = call.name.rstrip("_"), call.args[0]
        widened = next((f.widened for t, f in call.inputs if t is not target and f.widened is not None), None)
        if widened is not None and isinstance(target, Tensor) and not call.place.backward:
            yield self._widened(call, name, target, widened)
            return
        if (
            name not in _INDEXED
            or not isinstance(target, Tensor)
            or target.dtype not in NARROW
            or not _accumulates(name, call)
        ):
            return
        at = call.args[_INDEXED[name]]
        most = _most_additions(target, at, int(call.args[1]) if name in ("index_add",) else None)
        least = ADDITIONS[target.dtype]
        if most >= least:
            yield call.finding(
                "warning",
                "scattered sum in 16 bits",
                f"{name} adds up to {most} values to one element of a {short(target.dtype)} tensor",
                evidence={"additions": most, "dtype": short(target.dtype)},
                threshold=f"fewer than {least} additions (equal addends stop to count at {STOPS[target.dtype]})",
                remedy="add in fp32: torch.zeros(..., dtype=torch.float32).index_add(0, index, source.float())",
            )

    def _widened(self, call: Call, name: str, target: Tensor, widened: torch.dtype) -> Finding:
        return call.finding(
            "note",
            "scatter into another dtype",
            f"{name} writes {short(widened)} values into a tensor of {short(target.dtype)}; the recipe casts them "
            "here, torch alone refuses it",
            evidence={"source": short(widened), "target": short(target.dtype)},
            threshold="one dtype",
            remedy=elsewhere("bring the source to the buffer's dtype: source.to(buffer.dtype)"),
        )

    def end(self, step: Step) -> Iterable[Finding]:
        """Buffers and attributes that the step has changed, the loss, and the optimizers' counters."""
        yield from self._buffers(step)
        yield from self._loss(step)
        yield from self._counters()

    def _buffers(self, step: Step) -> Iterator[Finding]:
        norms = {
            f"{path}.{key}".lstrip(".")
            for path, module in self.setting.model.named_modules()
            if isinstance(module, nn.modules.batchnorm._NormBase)  # pyright: ignore[reportPrivateUsage]
            for key in ("running_mean", "running_var")
        }
        for name, (before, after) in step.buffers.items():
            if before.dtype not in NARROW or (name not in step.written and _is_same(before, after)):
                continue
            what = "batch norm statistics in 16 bits" if name in norms else "16-bit buffer that accumulates"
            lasting = 2.0 ** -(9 if before.dtype == torch.bfloat16 else 12)
            yield Finding(
                step=self.setting.step,
                name=what,
                severity="warning",
                site=name,
                message=f"{name} is {short(before.dtype)} and every step advances it: a change below "
                f"{lasting:g} of its value is lost, and a count stops at {STOPS[before.dtype]}",
                evidence={"dtype": short(before.dtype)},
                threshold="buffers that accumulate in fp32 (counters in integers)",
                remedy=f"keep it in fp32: after model.to(...), {name} = {name}.float(); or let mixprec convert an fp32 "
                "model, which leaves buffers as they are",
            )

    def _loss(self, step: Step) -> Iterator[Finding]:
        if step.loss.dtype in NARROW:
            bits = 8 if step.loss.dtype == torch.bfloat16 else 11
            yield Finding(
                step=self.setting.step,
                name="loss in 16 bits",
                severity="warning",
                site="<loss>",
                message=f"the loss is {short(step.loss.dtype)}: {bits} significant bits, and sums of it over steps "
                f"stop to grow after about {STOPS[step.loss.dtype]} of them",
                evidence={"dtype": short(step.loss.dtype)},
                threshold="a loss in fp32",
                remedy="compute the loss of output.float(), and add float(loss) or loss.item() to meters",
            )

    def _counters(self) -> Iterator[Finding]:
        for optimizer in self.setting.optimizers:
            for param, state in optimizer.state.items():
                count: object = state.get("step")
                if isinstance(count, Tensor) and count.dtype in NARROW:
                    yield Finding(
                        step=self.setting.step,
                        name="step counter in 16 bits",
                        severity="fault",
                        site=next((name for p, name in self.setting.names.items() if p is param), "<optimizer>"),
                        message=f"the optimizer's step counter is {short(count.dtype)} and stops at "
                        f"{STOPS[count.dtype]}: Adam's bias correction stops with it",
                        evidence={"dtype": short(count.dtype), "step": float(count)},
                        threshold="a counter in fp32 or an integer",
                        remedy="load the optimizer's state without a cast: counters stay fp32",
                    )
                    return


def _accumulates(name: str, call: Call) -> bool:
    if name in ("index_put", "_index_put_impl"):
        return (len(call.args) > 3 and call.args[3] is True) or call.kwargs.get("accumulate") is True
    return name != "scatter_reduce" or "sum" in call.args or "mean" in call.args


def _most_additions(target: Tensor, at: object, dim: int | None) -> int:
    """How many values the element that gets most of them gets."""
    with torch.no_grad(), torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
        if isinstance(at, (list, tuple)):
            indices = [i for i in at if isinstance(i, Tensor)]
            if not indices or any(i.dtype == torch.bool for i in indices):
                return 1
            joint = torch.stack([i.reshape(-1) for i in torch.broadcast_tensors(*indices)])
            return int(torch.unique(joint, dim=1, return_counts=True)[1].max()) if joint.numel() else 0
        if not isinstance(at, Tensor) or at.numel() == 0:
            return 0
        if dim is not None or at.dim() == 1:
            return int(torch.unique(at, return_counts=True)[1].max())
        # Along one dimension: the others tell elements apart.
        rows = at.reshape(at.shape[0], -1)
        return max(int(torch.unique(rows[:, i], return_counts=True)[1].max()) for i in range(min(rows.shape[1], 64)))


def _is_same(before: Tensor, after: Tensor) -> bool:
    return before.shape == after.shape and torch.equal(before, after)
