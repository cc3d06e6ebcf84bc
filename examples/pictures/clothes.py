"""Tell clothes apart: a small convolutional network on Fashion-MNIST, in plain PyTorch.

    python clothes.py

The pictures come from Debian's package dataset-fashion-mnist.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

FOLDER = Path("/usr/share/datasets/fashion-mnist")


def load(part: str = "train", count: int = 10_000) -> TensorDataset:
    """The first pictures of a part, ``"train"`` or ``"t10k"``: [1, 28, 28], around 0."""
    images, labels = (
        np.frombuffer(
            gzip.decompress((FOLDER / f"{part}-{name}-ubyte.gz").read_bytes()), np.uint8, offset=skip
        )
        for name, skip in (("images-idx3", 16), ("labels-idx1", 8))
    )
    x = torch.from_numpy(images.reshape(-1, 1, 28, 28)[:count] / np.float32(255))
    return TensorDataset((x - 0.286) / 0.353, torch.from_numpy(labels[:count].astype(np.int64)))


class Net(nn.Module):
    """Two convolutions, two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(16 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def build_model() -> Net:
    return Net()


def fit(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    seed: int = 0,
    checkpoint: Callable[[nn.Module], None] = lambda model: None,
    epochs: int = 8,
) -> nn.Module:
    """Train the usual way, and show the model after each epoch."""
    order = torch.Generator().manual_seed(seed)
    batches = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, generator=order)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        model.train()
        for inputs, labels in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        checkpoint(model)
    return model


def main() -> None:
    torch.manual_seed(0)
    model = fit(build_model(), *load().tensors)
    x, y = load("t10k").tensors
    with torch.no_grad():
        hits = (model.eval()(x).argmax(dim=1) == y).float().mean()
    print(f"test accuracy {hits:.3f}")


if __name__ == "__main__":
    main()
