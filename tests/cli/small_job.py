"""A workload of two linear layers, as a file that commands are told."""

WORKLOAD = """
import torch
from torch import nn
import mixprec


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(1024, 2048), nn.Linear(2048, 64)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def loss(model, batch):
    return (model(batch).float() - batch[:, :64]).square().mean()


def workload(seed, device):
    torch.manual_seed(seed)

    def batches(step):
        return torch.randn(512, 1024, generator=torch.Generator().manual_seed(step))

    return mixprec.Workload(
        model=Model(),
        loss=loss,
        batches=batches,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
        steps=4,
        evaluate=lambda model: {"loss": loss(model, batches(99)).item()},
    )
"""
