"""The unit of the demo's work: two runs with complementary training halves, trained, quantized and measured.

Checkpoints are measured as they arise and not kept; the shipped one of each run is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet._types import Float, Int, Num
from discreet.data import b3db
from discreet.fingerprint import fingerprints
from discreet.measure import inputs, measure_stack
from discreet.mlp import MLP
from discreet.quantizers import PRESETS, quantize, quantize_stack
from discreet.recipe import Recipe
from discreet.records import Record
from discreet.studies.plan import Material, Plan
from discreet.training import train

__all__ = ["FULL", "VARIANTS", "Trained", "measure_release", "measure_storage", "train_pair"]

FULL = "full"
VARIANTS: tuple[str, ...] = (FULL, *dict.fromkeys(spec for specs in PRESETS.values() for spec in specs))
"""Every variant that is measured: full precision, then the quantizers of each preset."""

_SIGNALS = ("loss", "margin")
Stack = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Trained:
    """What a pair of runs leaves behind.

    Attributes:
        trajectory: Every variant at every checkpoint, on the evaluation molecules.
        shipped: The weights of each run at its shipped checkpoint, with a leading axis for the run.
        steps: The epoch of that checkpoint: the lowest loss of full precision on the validation molecules.
    """

    trajectory: Record
    shipped: Stack
    steps: tuple[int, int]


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
    network, runs = _network(plan), _runs(pair)
    evaluation, validation = (
        _Part(inputs(network, _x(material, part)), _y(material, part))
        for part in (material.evaluation, material.validation)
    )
    found = {
        name: np.empty((len(VARIANTS), 2, plan.epochs, len(material.evaluation)), np.float32)
        for name in _SIGNALS
    }
    hashes = np.empty((len(VARIANTS), 2, plan.epochs), np.uint64)
    best = _Best()

    def note(epoch: int, params: Stack) -> None:
        variants = _variants(params)
        measured = _measure(network, variants, evaluation)
        for name in _SIGNALS:
            found[name][:, :, epoch - 1] = measured[name].swapaxes(0, 1)
        hashes[:, :, epoch - 1] = _hashes(variants)
        best.note(epoch, params, _measure(network, {FULL: params}, validation)["loss"][:, 0].mean(axis=1))
        on_epoch(epoch)

    subsets = np.stack([np.flatnonzero(material.halves[run]) for run in runs])
    recipe = Recipe("bce", "adam", lr=plan.lr, epochs=plan.epochs, batch_size=plan.batch_size)
    train(
        network,
        _x(material, material.training),
        _y(material, material.training),
        subsets,
        recipe,
        seed=plan.seed,
        model_ids=runs,
        workers=1,
        on_checkpoint=note,
    )
    steps = range(1, plan.epochs + 1)
    rows = [(str(run), step, variant) for variant in VARIANTS for run in runs for step in steps]
    member = np.zeros((2, len(material.evaluation)), bool)
    trajectory = _record(plan, material, material.evaluation, rows, found, hashes, member)
    return Trained(trajectory, best.params, (best.steps[0], best.steps[1]))


def measure_release(
    plan: Plan, material: Material, pair: int, shipped: Stack, steps: tuple[int, int]
) -> Record:
    """Measure every variant of a pair's shipped checkpoints on all training molecules, members and not."""
    network, runs = _network(plan), _runs(pair)
    part = _Part(inputs(network, _x(material, material.training)), _y(material, material.training))
    variants = _variants(shipped)
    measured = _measure(network, variants, part)
    found = {name: measured[name].swapaxes(0, 1) for name in _SIGNALS}
    rows = [(str(run), step, variant) for variant in VARIANTS for run, step in zip(runs, steps, strict=True)]
    return _record(
        plan, material, material.training, rows, found, _hashes(variants), material.halves[list(runs)]
    )


def measure_storage(weights: Mapping[str, Tensor]) -> dict[str, dict[str, Any]]:
    """What each variant of one model takes on disk: bits per weight, bytes, promised levels."""
    found = {}
    for variant in VARIANTS:
        stored = quantize(weights, variant)
        found[variant] = {
            "bits_per_weight": stored.bits_per_weight,
            "bytes": stored.bytes,
            "levels": stored.levels,
        }
    return found


@dataclass(frozen=True)
class _Part:
    x: Any
    y: Int[Tensor, " sample"]


class _Best:
    """The checkpoint of lowest validation loss of each run, the first of equals."""

    def __init__(self) -> None:
        self.losses = np.full(2, np.inf)
        self.steps = [0, 0]
        self.params: Stack = {}

    def note(self, epoch: int, params: Stack, losses: Float[np.ndarray, " run"]) -> None:
        if not self.params:
            self.params = {name: value.clone() for name, value in params.items()}
        for run in np.flatnonzero(losses < self.losses):
            self.steps[run], self.losses[run] = epoch, losses[run]
            for name, value in params.items():
                self.params[name][run] = value[run]


def _runs(pair: int) -> tuple[int, int]:
    return 2 * pair, 2 * pair + 1


def _network(plan: Plan) -> MLP:
    return MLP((plan.bits, plan.hidden, 1))


def _x(material: Material, part: Int[np.ndarray, " part"]) -> Float[Tensor, "part bit"]:
    return torch.from_numpy(material.fingerprint[part]).float()


def _y(material: Material, part: Int[np.ndarray, " part"]) -> Int[Tensor, " part"]:
    return torch.from_numpy(material.label[part])


def _variants(params: Stack) -> dict[str, Stack]:
    return {FULL: params} | {spec: quantize_stack(params, spec) for spec in VARIANTS if spec != FULL}


def _measure(
    network: MLP, variants: Mapping[str, Stack], part: _Part
) -> dict[str, Float[np.ndarray, "run variant sample"]]:
    return measure_stack(network, variants, part.x, part.y, "bce", dtype=np.float32, workers=1)


def _hashes(variants: Mapping[str, Stack]) -> Num[np.ndarray, "variant run"]:
    """Fingerprints of all parameters: checkpoints that share one are one configuration."""
    return np.stack([fingerprints(stack, workers=1) for stack in variants.values()])


def _record(
    plan: Plan,
    material: Material,
    part: Int[np.ndarray, " part"],
    rows: Iterable[tuple[str, int, str]],
    found: Mapping[str, np.ndarray],
    hashes: Num[np.ndarray, ...],
    member: np.ndarray,
) -> Record:
    run, step, variant = zip(*rows, strict=True)
    signals: dict[str, np.ndarray] = {name: values.reshape(-1, len(part)) for name, values in found.items()}
    return Record(
        run=run,
        step=np.array(step, np.float64),
        variant=variant,
        sample=material.number[part],
        signals=signals
        | {
            "label": material.label[part],
            "family": material.family[part],
            "params_hash": hashes.ravel(),
        },
        axes={"params_hash": ("row",)},
        member=member,
        about={
            "study": "demo",
            "data": {"name": b3db.NAME, "sha256": b3db.SHA256, "licence": b3db.LICENCE},
            "task": "bce",
            "n_train": material.n_train,
            "settings": plan.training(),
        },
    )
