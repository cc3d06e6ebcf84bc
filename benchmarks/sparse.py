"""Sparse training beside dense training of the same models: the masked step, and the updates of the masks."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch

from discreet.mlp import MLP
from discreet.recipe import Recipe
from discreet.sparse import preset, train_sparse
from discreet.training import train
from discreet.training_state import TrainingState
from tuning.rates import timed

MODELS, SAMPLES, FEATURES, CLASSES = 4, 3000, 20, 10


def main() -> None:
    """Print the ratios, in processor time."""
    torch.set_num_threads(1)
    x = torch.randn(SAMPLES, FEATURES, generator=torch.Generator().manual_seed(0))
    y = torch.arange(SAMPLES) % CLASSES
    subsets = np.stack([np.arange(SAMPLES)] * MODELS)
    network = MLP((FEATURES, 256, 256, CLASSES))
    recipe = Recipe(
        loss="ce", epochs=15, batch_size=128, lr=0.05, optimizer="sgd", momentum=0.9, weight_decay=5e-4
    )
    longer = replace(recipe, epochs=60)
    dense = timed(lambda: train(network, x, y, subsets, recipe, workers=1))
    static = timed(lambda: train_sparse(network, x, y, subsets, recipe, preset("static", 0.1), workers=1))
    print(f"masked training takes {static.core / dense.core:.2f} times as long as dense ({dense.core:.1f} s)")
    step = dense.core / recipe.epochs / -(-SAMPLES // recipe.batch_size)
    for name in ("set", "rigl"):
        spent, count = updates(network, x, y, subsets, longer, name)
        whole = 4 * dense.core
        print(
            f"{name}: updates of the masks take {100 * spent / whole:.1f} % of the time of dense training; one costs"
            f" {spent / count / step:.1f} dense steps, 2 % where {50 * spent / count / step:.0f} lie between two"
        )


def updates(
    network: MLP, x: torch.Tensor, y: torch.Tensor, subsets: np.ndarray, recipe: Recipe, name: str
) -> tuple[float, int]:
    """Processor seconds between the end of an epoch and the end of the update that follows it; how many updates."""
    spent, since, count = 0.0, 0.0, 0

    def start(state: TrainingState) -> None:
        nonlocal since
        since = time.process_time()

    def stop(update: object) -> None:
        nonlocal spent, count
        spent, count = spent + time.process_time() - since, count + 1

    train_sparse(network, x, y, subsets, recipe, preset(name, 0.1), workers=1, on_state=start, on_update=stop)
    return spent, count


if __name__ == "__main__":
    main()
