"""docs/optimizers.md: its bytes are those of the tensors."""

from __future__ import annotations

import pytest
import torch
from torch.nn import Parameter

from mixprec.optim import AdamW
from mixprec.specs import Moments
from tests.architecture import tree

PAGE = (tree.ROOT / "docs" / "optimizers.md").read_text(encoding="utf-8")
COUNT = 2**16


def rows() -> list[tuple[str, str, float]]:
    """Cells of the table of bytes: way, moments, bytes."""
    table = PAGE.split("## Bytes per parameter")[1].split("\n\n")[2]
    head, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return [(line[0], kind, float(cell)) for line in lines for kind, cell in zip(head[1:], line[1:], strict=True)]


@pytest.mark.parametrize(("way", "moments", "expected"), rows())
def test_its_bytes_are_those_of_the_tensors(way: str, moments: str, expected: float) -> None:
    is_wide = way == "fp32 parameters"
    param = Parameter(torch.ones(COUNT, dtype=torch.float32 if is_wide else torch.bfloat16))
    optimizer = AdamW([param], weights="master" if is_wide else way, moments=Moments(kind=moments))
    param.grad = torch.ones_like(param)
    optimizer.step()
    tensors = [param, *(value for name, value in optimizer.state[param].items() if name != "step")]
    assert sum(t.untyped_storage().nbytes() for t in tensors) / COUNT == pytest.approx(expected, abs=0.005)
