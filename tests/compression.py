"""A small task for tests of compressors and defences: three classes, or two, that a perceptron learns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet.defences._gradients import plain
from discreet.mlp import MLP
from discreet.phase import Phase, Setting
from discreet.recipe import Recipe
from discreet.roles import Roles, Sizes, deal
from discreet.training_paths import Batch

SIZES = Sizes(fit=16, loop=8, audit=8, validation=12, test=12, reference=18)
RECIPE = Recipe("ce", "sgd", lr=0.1, epochs=2, batch_size=8, momentum=0.9)
NETWORK = MLP((6, 12, 3))


def samples(task: str = "ce", dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(120, 6))
    if task == "mse":
        return torch.from_numpy(x).to(dtype), torch.from_numpy(x[:, :1] + 0.1 * rng.normal(size=(120, 1))).to(
            dtype
        )
    classes = 3 if task == "ce" else 2
    y = (x[:, :classes] + rng.normal(size=(120, classes))).argmax(1)
    return torch.from_numpy(x).to(dtype), torch.from_numpy(y)


def setting(
    runs: int = 2, model: Any = None, task: str = "ce", dtype: torch.dtype = torch.float32, **changes: Any
) -> Setting:
    """Runs 0 and 1 of two are those of three."""
    x, y = samples(task, dtype)
    outputs = {"ce": 3, "bce": 1, "mse": 1}[task]
    roles = changes.pop("roles", None) or deal(len(x), runs, SIZES)
    recipe = replace(RECIPE, loss=task, **changes.pop("recipe", {}))
    network = MLP((6, 12, outputs)) if model is None else model
    return Setting(network, x, y, roles, recipe, changes.pop("density", 0.3), **changes)


def without_reference(runs: int = 2) -> Roles:
    return deal(120, runs, replace(SIZES, reference=0))


class Drifting(nn.Module):
    """Running statistics and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(6, 8), nn.BatchNorm1d(8)
        self.act, self.drop, self.last = nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.drop(self.act(self.norm(self.first(x)))))


@dataclass(frozen=True)
class Fuse:
    """A defence that ruins one run in some epochs, so many times."""

    run: int
    epoch: int
    last: int
    left: list[int] = field(default_factory=lambda: [1_000])

    @property
    def needs_teacher(self) -> bool:
        return False

    def apply(self, phase: Phase) -> Phase:
        def steps(final: Phase) -> Any:
            own = plain(final)

            def gradients(params: dict[str, torch.Tensor], batch: Batch) -> dict[str, torch.Tensor]:
                found = own(params, batch)
                due = self.epoch <= batch.epoch.number <= self.last and self.run in batch.epoch.models
                if due and self.left[0] > 0:
                    self.left[0] -= 1
                    at = batch.epoch.models.index(self.run)
                    for value in found.values():
                        value[at] = torch.inf
                return found

            return gradients

        return replace(phase, steps=steps)
