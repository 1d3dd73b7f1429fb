"""Seconds on a machine that was measured, from grids and curves whose values are known."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from mixprec.hardware import Curve, Grid, Hardware, Measured
from mixprec.optim import AdamW
from mixprec.planner import Assignment, Inventory, Product, Traffic, estimate_time, take_inventory

MEASURED = Measured(
    machine="a machine",
    threads=1,
    torch="2",
    products={
        "fp32": Grid((1,), (1,), (1,), (1e-3,)),
        "attention": Grid((1, 8), (16, 64), (16,), (1e-3, 2e-3, 8e-3, 16e-3)),
    },
    operators={
        "elementwise": Curve(((1.0, 1e-6),)),
        "kernel_update": Curve(((1.0, 5e-6), (2.0, 5e-6))),
        "recurrent": Curve(((1e6, 1e-3), (1e9, 1.0))),
    },
    casts={},
)
MACHINE = Hardware(name="a machine", title="a machine", kind="cpu", measured=MEASURED)


def seconds(*products: Product, traffic: tuple[Traffic, ...] = (), hardware: Hardware = MACHINE) -> float:
    inventory = Inventory(products=products, traffic=traffic, parameters=())
    return estimate_time(inventory, Assignment(precisions={}), hardware).seconds


def test_attention_is_found_by_its_length_whichever_product_it_is() -> None:
    sizes = {"fprop": (64, 64, 16), "dgrad": (64, 16, 64), "wgrad": (64, 16, 64)}
    qk = [Product(site="qk", kind="qk", gemm=g, batch=8, m=m, n=n, k=k) for g, (m, n, k) in sizes.items()]
    assert seconds(*qk) == pytest.approx(3 * 16e-3 / 7)
    twice = replace(qk[0], calls=2)  # once more in the backward pass
    sizes = {"fprop": (64, 16, 64), "dgrad": (64, 64, 16), "wgrad": (64, 16, 64)}
    pv = [Product(site="pv", kind="pv", gemm=g, batch=8, m=m, n=n, k=k) for g, (m, n, k) in sizes.items()]
    assert seconds(twice, *qk[1:], *pv) == pytest.approx(16e-3)


def test_each_layer_of_an_lstm_has_its_own_place_on_the_curve() -> None:
    def layers(count: int) -> list[Product]:
        return [
            Product(site="l", kind="LSTM", gemm=g, m=100, n=100, k=100, calls=2 * count) for g in ("fprop", "dgrad")
        ]

    assert seconds(*layers(2)) == pytest.approx(2 * seconds(*layers(1)))
    assert seconds(*layers(1)) == pytest.approx(MEASURED.operators["recurrent"].at(8e6))


def test_calls_and_a_cold_cache_cost_more() -> None:
    slower = replace(MACHINE, measured=replace(MEASURED, call=1e-4, cold=2.0))
    product = Product(site="a", kind="Linear", gemm="fprop", m=1, n=1, k=1, calls=3)
    assert seconds(product, hardware=slower) == pytest.approx(3 * (2e-3 + 1e-4))


def test_an_optimizer_of_one_kernel_is_counted_with_its_bytes() -> None:
    model = nn.Sequential(nn.Linear(8, 4, bias=False), nn.Linear(4, 2, bias=False))

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        return model(x).square().mean()

    def adamw(parameters: object) -> torch.optim.Optimizer:
        return AdamW(parameters, lr=1e-3)

    traffic = [t for t in take_inventory(model, loss, torch.ones(3, 8), optimizer=adamw).traffic if t.pass_ == "update"]
    (update,) = traffic
    assert update.calls == 2
    assert update.written == pytest.approx(3 * 4 * (32 + 8), abs=16)  # weight and two moments, and steps
    assert update.read == update.written + 4 * (32 + 8)
    assert seconds(traffic=(update,)) >= 2 * 5e-6
