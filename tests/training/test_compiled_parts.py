"""Parts of a model that are compiled by themselves: eager in a measured step, compiled from the next one on."""

import pytest
import torch
from torch import nn

from mixprec import prepare
from mixprec.specs import recipe

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function.* should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.c = nn.Linear(4, 32), nn.Linear(32, 1)
        self.b = nn.Sequential(nn.Linear(32, 32), nn.GELU())

    def forward(self, x):
        return self.c(self.b(self.a(x)))


class Counted:
    """A backend that counts its graphs and their runs."""

    def __init__(self):
        self.graphs = self.runs = 0

    def __call__(self, graph, inputs):
        self.graphs += 1

        def run(*args):
            self.runs += 1
            return graph.forward(*args)

        return run


def compile_in_place(model, backend):
    model.b.compile(backend=backend)


def compile_around(model, backend):
    model.b = torch.compile(model.b, backend=backend)


def build(name):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Net()
    chosen = recipe(name, engine="emulated")
    return prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), chosen, process_group=None)


def step(session, i):
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(i))
    loss = session.model(x).square().mean()
    assert session.step(loss).applied
    return loss.item()


@pytest.mark.parametrize("compiled", [compile_in_place, compile_around])
def test_a_part_is_compiled_from_the_second_step_on(compiled):
    session, backend = build("bf16"), Counted()
    compiled(session.model, backend)
    step(session, 0)  # warnings are errors: torch has one for global hooks on modules
    assert backend.graphs == 0
    step(session, 1)
    graphs, runs = backend.graphs, backend.runs
    assert graphs > 0
    assert runs > 0
    step(session, 2)
    assert backend.graphs == graphs
    assert backend.runs == 2 * runs


@pytest.mark.parametrize("name", ["bf16", "fp8-delayed", "fp4-all-the-way"])
@pytest.mark.parametrize("compiled", [compile_in_place, compile_around])
def test_the_numbers_are_the_eager_ones(name, compiled):
    eager = build(name)
    want = [step(eager, i) for i in range(3)]
    session = build(name)
    compiled(session.model, "aot_eager")
    assert [step(session, i) for i in range(3)] == want
    assert all(map(torch.equal, eager.model.parameters(), session.model.parameters()))


def test_the_audit_counts_the_part_and_says_that_it_ran_uncompiled():
    eager, session = build("bf16"), build("bf16")
    compile_in_place(session.model, "eager")
    step(eager, 0)
    step(session, 0)
    assert session.audit().rows == eager.audit().rows
    assert any("ran uncompiled in the measured step" in note for note in session.audit().notes)
    assert not any("uncompiled" in note for note in eager.audit().notes)


def test_between_the_graphs_of_a_compiled_caller_nothing_is_measured_and_the_audit_says_so():
    session, backend = build("bf16"), Counted()

    def caller(x):
        torch._dynamo.graph_break()
        return session.model(x).square().mean()

    compiled = torch.compile(caller, backend=backend)
    for _ in range(2):
        session.step(compiled(torch.ones(4, 4)))
    assert backend.graphs > 0
    assert any("was compiled by torch.compile" in note for note in session.audit().notes)


def test_a_users_stance_is_given_back():
    session, backend = build("bf16"), Counted()
    compile_in_place(session.model, backend)
    with torch.compiler.set_stance("force_eager"):
        step(session, 0)
        step(session, 1)
    assert backend.graphs == 0
    step(session, 2)
    assert backend.graphs > 0
