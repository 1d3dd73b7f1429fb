"""Whether two batches hold the same."""

from __future__ import annotations

import math
from collections import UserDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from mixprec.compare._same_batch import difference


@dataclass
class Pair:
    x: Any
    y: Any


class Graph:
    """An object that is no container, with something beside its data."""

    def __init__(self, x: Any) -> None:
        self.x, self.owner, self.made = x, object(), next(Graph.count)

    count = iter(range(100))


def batch(value: float = 1.0) -> dict[str, Any]:
    x = torch.tensor([value, math.nan])
    return {"x": x, "ids": [1, "a", None], "sparse": x.nan_to_num().to_sparse(), "array": np.array([value, math.nan])}


SAME = [
    (batch(), batch()),
    (math.nan, math.nan),
    (Pair(torch.ones(2), "a"), Pair(torch.ones(2), "a")),
    (UserDict(batch()), UserDict(batch())),
    (Graph(torch.ones(2)), Graph(torch.ones(2))),
    (object(), object()),
    (torch.zeros(0), torch.zeros(0)),
    (torch.tensor([1 + 2j]), torch.tensor([1 + 2j])),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_what_holds_the_same_is_the_same(first: object, second: object):
    assert difference(first, second) is None


@pytest.mark.parametrize(
    ("first", "second", "place"),
    [
        (batch(1.0), batch(2.0), "batch['x']"),
        ((torch.ones(2), torch.ones(3)), (torch.ones(2), torch.ones(4)), "batch[1]"),
        (torch.ones(2), torch.ones(2, dtype=torch.float64), "batch"),
        ([1, 2], [1, 3], "batch[1]"),
        ([1, 2], (1, 2), "batch"),
        ({"a": 1}, {"b": 1}, "batch"),
        (Pair(1, "a"), Pair(1, "b"), "batch.y"),
        (Graph([torch.ones(2)]), Graph([torch.zeros(2)]), "batch.x[0]"),
        (np.ones(2), np.zeros(2), "batch"),
        (torch.ones(2).to_sparse(), torch.zeros(2).to_sparse(), "batch"),
    ],
)
def test_the_first_difference_is_named(first: object, second: object, place: str):
    assert difference(first, second) == place
