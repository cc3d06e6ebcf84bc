"""The unit of the demo's work: two runs with complementary training halves, trained, quantized and measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet._types import Float, Int
from discreet.data import b3db
from discreet.mlp import MLP
from discreet.quantizers import PRESETS
from discreet.recipe import Recipe
from discreet.records import Record
from discreet.runs import following
from discreet.runs.following import FULL, Note, Panel, Trained, follow
from discreet.studies.plan import Material, Plan
from discreet.training import train

__all__ = ["FULL", "VARIANTS", "measure_release", "measure_storage", "train_pair"]

VARIANTS: tuple[str, ...] = (FULL, *dict.fromkeys(spec for specs in PRESETS.values() for spec in specs))
"""Every variant that is measured: full precision, then the quantizers of each preset."""


def train_pair(
    plan: Plan, material: Material, pair: int, on_epoch: Callable[[int], None] = lambda epoch: None
) -> Trained:
    """Train runs 2·pair and 2·pair + 1 on one core, and measure every variant after every epoch.

    Args:
        plan: Settings.
        material: The molecules.
        pair: Number of the pair.
        on_epoch: Called after each epoch; what it raises ends the training.
    """
    runs = _runs(pair)

    def fit(note: Note) -> None:
        def noted(epoch: int, params: dict[str, Tensor]) -> None:
            note(float(epoch), params)
            on_epoch(epoch)

        train(
            _network(plan),
            _x(material, material.training),
            torch.from_numpy(material.label[material.training]),
            np.stack([np.flatnonzero(material.halves[run]) for run in runs]),
            Recipe("bce", "adam", lr=plan.lr, epochs=plan.epochs, batch_size=plan.batch_size),
            seed=plan.seed,
            model_ids=runs,
            workers=1,
            on_checkpoint=noted,
        )

    return follow(_panel(plan, material), _labels(pair), fit)


def measure_release(
    plan: Plan, material: Material, pair: int, shipped: dict[str, Tensor], steps: Sequence[float]
) -> Record:
    """Measure every variant of a pair's shipped checkpoints on all training molecules, members and not."""
    halves = material.halves[list(_runs(pair))]
    return following.measure_release(_panel(plan, material), _labels(pair), shipped, steps, halves)


def measure_storage(
    plan: Plan, material: Material, weights: Mapping[str, Tensor]
) -> dict[str, dict[str, Any]]:
    """What each variant of one model takes on disk."""
    return following.measure_storage(_panel(plan, material), weights)


def _runs(pair: int) -> tuple[int, int]:
    return 2 * pair, 2 * pair + 1


def _labels(pair: int) -> tuple[str, str]:
    first, second = _runs(pair)
    return str(first), str(second)


def _network(plan: Plan) -> MLP:
    return MLP((plan.bits, plan.hidden, 1))


def _x(material: Material, part: Int[np.ndarray, " part"]) -> Float[Tensor, "part bit"]:
    return torch.from_numpy(material.fingerprint[part]).float()


def _panel(plan: Plan, material: Material) -> Panel:
    return Panel(
        _network(plan),
        "bce",
        {spec: spec for spec in VARIANTS},
        torch.from_numpy(material.fingerprint),
        torch.from_numpy(material.label),
        material.number,
        material.family,
        material.training,
        material.validation,
        material.evaluation,
        {
            "study": "demo",
            "data": {"name": b3db.NAME, "sha256": b3db.SHA256, "licence": b3db.LICENCE},
            "task": "bce",
            "n_train": material.n_train,
            "settings": plan.training(),
        },
    )
