"""A small compress spec and the code that it names, for tests that carry it out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SPEC = """
[data]
load = "own_table:data"
[model]
hidden = [16, 16]
[train]
loss = "ce"
epochs = 4
lr = 0.01
[compress]
method = "set"
densities = [0.3, 0.5]
runs = 2
controls = ["dense", "kd"]
[safety]
audit = ["modified", "loss"]
[export]
formats = ["sparse", "dense"]
quantizer = "sign(scope='weights', scale='absmean')"
batch_sizes = []
"""
TABLE = """
import numpy as np

def data():
    draw = np.random.default_rng(0)
    x = draw.standard_normal((600, 8)).astype(np.float32)
    return x, ((x[:, :3].sum(1) > 0) ^ (draw.random(600) < 0.2)).astype(np.int64)
"""
OWN = """
import torch
from torch import nn

def data(n=400):
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(n, 1, 6, 6, generator=draw)
    return {"x": x, "y": (x.sum((1, 2, 3)) > 0).long(), "reference": torch.randn(60, 1, 6, 6, generator=draw)}

def build(channels=3, width=1.0):
    channels = max(1, int(width * channels))
    return nn.Sequential(
        nn.Conv2d(1, channels, 3), nn.BatchNorm2d(channels), nn.ReLU(), nn.Flatten(), nn.Linear(16 * channels, 2)
    )

def loss(outputs, y):
    return nn.functional.cross_entropy(outputs, y, reduction="none", label_smoothing=0.1)

def mean(outputs, y):
    return nn.functional.cross_entropy(outputs, y)

def count(outputs, y):
    return (outputs.argmax(1) == y).float()

def broken():
    return missing_name
"""


def working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with the table; modules imported from it are forgotten."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_table.py").write_text(TABLE)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


def stamps(folder: Path) -> dict[str, int]:
    """When each file of the models was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "models").iterdir()}
