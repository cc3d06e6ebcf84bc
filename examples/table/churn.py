"""Who will leave? A perceptron on a table of customers, in plain PyTorch.

    python churn.py

The table is made by scikit-learn: 20 columns, and one answer in ten is wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn


def load(rows: int = 12_000) -> tuple[np.ndarray, np.ndarray]:
    """Standardised columns, and who left."""
    x, y = make_classification(
        rows,
        n_features=20,
        n_informative=8,
        n_redundant=4,
        n_clusters_per_class=4,
        flip_y=0.1,
        random_state=1,
    )
    return StandardScaler().fit_transform(x).astype(np.float32), y.astype(np.int64)


def build_model(width: int = 128) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(20, width),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, 1),
    )


def fit(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    seed: int = 0,
    checkpoint: Callable[[nn.Module], None] = lambda model: None,
    epochs: int = 20,
) -> nn.Module:
    """Train the usual way, and show the model after each epoch."""
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(epochs):
        model.train()
        for rows in torch.randperm(len(x), generator=draw).split(128):
            optimizer.zero_grad()
            logit = model(x[rows])[:, 0]
            nn.functional.binary_cross_entropy_with_logits(logit, y[rows].float()).backward()
            optimizer.step()
        checkpoint(model)
    return model


def main() -> None:
    torch.manual_seed(0)
    x, y = (torch.from_numpy(each) for each in load())
    model = fit(build_model(), x[:9_000], y[:9_000])
    with torch.no_grad():
        hits = ((model.eval()(x[9_000:])[:, 0] > 0) == (y[9_000:] > 0)).float().mean()
    print(f"test accuracy {hits:.3f}")


if __name__ == "__main__":
    main()
