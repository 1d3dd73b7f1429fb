"""When the memory of a conversion's operands is kept, and when it is given back."""

import torch
from torch import nn

from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule


def test_it_stays_for_the_backward_pass_and_goes_after_an_evaluation() -> None:
    model = nn.Sequential(nn.Linear(8, 8))
    precision = LayerPrecision.uniform("mxfp8")
    conversion = convert(model, Recipe(name="tried", rules=(Rule(precision=precision),), engine="emulated"))
    workspace = conversion.state.current.workspace
    device = torch.device("cpu")
    loss = model(torch.randn(4, 8)).sum()
    held = workspace.take("first", (4, 8), device)
    assert held is not None
    loss.backward()
    again = workspace.take("first", (4, 8), device)
    assert again is not None
    assert again.data_ptr() == held.data_ptr()
    with torch.no_grad():
        model(torch.randn(4, 8))
    assert not workspace._buffers
    with conversion.region():
        model(torch.randn(4, 8)).sum().backward()
    assert not workspace._buffers
