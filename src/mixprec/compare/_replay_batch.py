"""Whether a replayed step sees the batch that was recorded; where not, the recorded one is put in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from mixprec.monitor.recorder import BatchIdentity
from mixprec.records import RecordedStep


class BatchCheck:
    """A hook on the model that compares what it is called with.

    Args:
        model: that is called.
        recorded: the step as the recorder kept it, or ``None``.
        calls: what the model was called with then, as far as the dump holds it; the last ones of the step.

    Attributes:
        told: what was found.
    """

    def __init__(self, model: nn.Module, recorded: RecordedStep | None, calls: Sequence[Mapping[str, Any]]) -> None:
        self._batches = () if recorded is None else recorded.batches
        self._calls = calls
        self._seen = 0
        self.told: list[str] = []
        self._device = next((p.device for p in model.parameters()), None)
        self._handle = model.register_forward_pre_hook(self._compare, with_kwargs=True)
        if not self._batches:
            self.told.append("batch: the recorder holds none of this step, so it is the workload's")

    def close(self) -> None:
        """Take the hook off."""
        self._handle.remove()

    def _compare(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        number = self._seen
        self._seen += 1
        if number >= len(self._batches):
            return None
        expected = self._batches[number]["hash"]
        got = BatchIdentity.of(args, kwargs).row()["hash"]
        name = self._batches[number]["name"]
        which = f" ({name})" if name else ""
        if got == expected:
            self.told.append(f"batch{which}: the workload's, which is the recorded one (hash {got})")
            return None
        kept = number - (len(self._batches) - len(self._calls))
        if kept < 0 or kept >= len(self._calls):
            self.told.append(
                f"batch{which}: the workload's has hash {got}, the recorded one had {expected}, and the dump does not "
                "hold it: this is not the step that failed"
            )
            return None
        self.told.append(
            f"batch{which}: the model's arguments are those of the dump (hash {expected}), for the workload's differ "
            f"(hash {got}); what the loss compares with is still the workload's"
        )
        call = self._calls[kept]
        return _moved(call["args"], self._device), _moved(call["kwargs"], self._device)


def _moved(value: Any, device: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: _moved(item, device) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return type(value)(_moved(item, device) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return value
