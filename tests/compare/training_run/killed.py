"""A training run of milliseconds, for processes that are killed in it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from mixprec.compare import Audience, Trained, Training, Workload, train
from mixprec.specs import recipe
from tests.compare.fits import fit, source

STEPS = 60


def fitted(seed: int, device: str) -> Workload:
    optimizer = lambda parameters: torch.optim.AdamW(parameters, lr=0.01)  # noqa: E731
    return fit(seed, device, steps=STEPS, optimizer=optimizer)


def train_here(folder: str) -> Trained:
    torch.set_num_threads(1)
    training = Training(
        source=source(fitted),
        recipe=recipe("mxfp8"),
        seed=3,
        checkpoint_every=7,
    )
    return train(training, folder, audience=Audience())


def digest(folder: Path) -> str:
    """A hash of the tensors of the last checkpoint: weights, moments, what lies beside them, random states."""
    newest = max((folder / "checkpoints").glob("step-*"))
    files = sorted(newest.glob("*.safetensors"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
