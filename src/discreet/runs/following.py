"""Runs followed as they train: every variant measured at every checkpoint, the shipped one kept.

Checkpoints are measured as they arise and not kept; the one that ships is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet._types import Bool, Float, Int, Num
from discreet.device import Device
from discreet.fingerprint import fingerprints
from discreet.forward import Model
from discreet.measure import inputs, measure_stack
from discreet.mlp import MLP
from discreet.quantizers import quantize, quantize_stack
from discreet.records import Record
from discreet.signals import axes_of

__all__ = ["FULL", "Note", "Panel", "Trained", "by_outputs", "follow", "measure_release", "measure_storage"]

FULL = "full"
"""Name of the variant that is not compressed."""

Stack = dict[str, Tensor]
Note = Callable[[float, Stack], None]
"""Takes a step and one model a run."""


@dataclass(frozen=True, eq=False)
class Panel:
    """What is measured of each model, and on whom.

    Attributes:
        model: The architecture; None for models that are outputs alone.
        task: ``"bce"``, ``"ce"`` or ``"mse"``.
        variants: Specs of quantizers by the name of their variant; full precision is the first.
        x: Inputs of all samples.
        y: Their labels.
        sample: Their ids.
        family: Which samples depend on each other; None: none do.
        released: Positions of the samples that the shipped checkpoint is measured on, members among them.
        validation: Positions of those that choose the shipped checkpoint; none: the last one ships.
        evaluation: Positions of those that every checkpoint is measured on.
        about: JSON to keep with the records; ``task`` and ``n_train`` among it.
        which: Signals at the shipped checkpoint; None: the usual ones.
        workers: Threads; None: one a core.
        on: Where forward passes run, and how precisely.
    """

    model: Model | None
    task: str
    variants: Mapping[str, str]
    x: Tensor
    y: Tensor
    sample: np.ndarray
    family: np.ndarray | None
    released: Int[np.ndarray, " released"]
    validation: Int[np.ndarray, " validated"]
    evaluation: Int[np.ndarray, " evaluated"]
    about: Mapping[str, Any]
    which: tuple[str, ...] | None = None
    workers: int | None = 1
    on: Device = Device()  # noqa: RUF009 (frozen)

    @property
    def network(self) -> Model:
        """The architecture.

        Raises:
            ValueError: There is none.
        """
        if self.model is None:
            raise ValueError("model: expected an architecture, got none")
        return self.model

    def part(self, at: Int[np.ndarray, " part"]) -> tuple[Any, Tensor]:
        """Inputs, in the form that they are evaluated on fastest, and labels of some samples."""
        rows = torch.from_numpy(at)
        return inputs(self.network, self.x[rows]), self.y[rows]

    @cached_property
    def evaluated(self) -> tuple[Any, Tensor]:
        """The evaluation samples."""
        return self.part(self.evaluation)

    @cached_property
    def validated(self) -> tuple[Any, Tensor]:
        """The validation samples."""
        return self.part(self.validation)


@dataclass(frozen=True, eq=False)
class Trained:
    """What some runs leave behind.

    Attributes:
        trajectory: Every variant at every checkpoint, on the evaluation samples; None if nobody asked.
        shipped: The weights of each run at its shipped checkpoint, with a leading axis for the run.
        steps: The step of that checkpoint: the lowest validation loss of full precision, or the last one.
    """

    trajectory: Record | None
    shipped: Stack
    steps: tuple[float, ...]

    @property
    def followed(self) -> Record:
        """The trajectory of runs that were followed.

        Raises:
            ValueError: They were not.
        """
        if self.trajectory is None:
            raise ValueError("trajectory: expected runs that were measured as they trained")
        return self.trajectory


def follow(
    panel: Panel, runs: Sequence[str], train: Callable[[Note], object], *, trajectory: bool = True
) -> Trained:
    """Train some runs side by side, and measure every variant at every checkpoint.

    Args:
        panel: What is measured.
        runs: Their labels.
        train: Trains them, and calls what it is given with each checkpoint in turn.
        trajectory: Whether to measure more than what chooses the shipped checkpoint.

    Raises:
        ValueError: No checkpoint, or one whose outputs are not finite.
    """
    best = _Best(len(runs))
    steps: list[float] = []
    found: dict[str, list[np.ndarray]] = {}
    hashes: list[np.ndarray] = []

    def note(step: float, params: Stack) -> None:
        steps.append(step)
        if trajectory:
            variants = _variants(panel, params)
            for name, values in _measure(panel, variants, panel.evaluated).items():
                found.setdefault(name, []).append(values.swapaxes(0, 1))
            hashes.append(_hashes(variants))
        losses = None
        if len(panel.validation):
            losses = _measure(panel, {FULL: params}, panel.validated)["loss"][:, 0].mean(axis=1)
        best.note(step, params, losses)

    train(note)
    if not steps:
        raise ValueError("checkpoint: expected at least one checkpoint of a run, got none")
    record = None
    if trajectory:
        rows = [(run, step, variant) for variant in panel.variants for run in runs for step in steps]
        signals = {name: np.stack(values, axis=2) for name, values in found.items()}
        record = _record(
            panel, panel.evaluation, rows, signals, np.stack(hashes, axis=2), _nobody(panel, runs)
        )
    return Trained(record, best.params, tuple(best.steps))


def measure_release(
    panel: Panel,
    runs: Sequence[str],
    shipped: Stack,
    steps: Sequence[float],
    member: Bool[np.ndarray, "run released"],
) -> Record:
    """Measure every variant of the shipped checkpoints, members and not.

    Args:
        panel: What is measured, and on whom.
        runs: Labels of the runs.
        shipped: One model a run.
        steps: Of which step each is.
        member: Which of the released samples each run trained on.
    """
    variants = _variants(panel, shipped)
    measured = _measure(panel, variants, panel.part(panel.released), panel.which)
    found = {name: values.swapaxes(0, 1) for name, values in measured.items()}
    rows = [(run, step, variant) for variant in panel.variants for run, step in zip(runs, steps, strict=True)]
    return _record(panel, panel.released, rows, found, _hashes(variants), member)


def by_outputs(
    panel: Panel,
    at: Int[np.ndarray, " part"],
    rows: Iterable[tuple[str, float, str]],
    found: Mapping[str, np.ndarray],
    member: Bool[np.ndarray, "run part"] | None,
    hashes: Num[np.ndarray, " row"] | None = None,
) -> Record:
    """A record of models that have outputs and no weights to quantize.

    Args:
        panel: What was measured.
        at: Positions of the samples.
        rows: Run, step and variant of each model.
        found: Signals, [row, sample].
        member: Which of the samples each run trained on, runs in the order of their first rows.
        hashes: What tells the models' files apart, where there are any.
    """
    return _record(panel, at, rows, found, hashes, member)


def measure_storage(panel: Panel, weights: Mapping[str, Tensor]) -> dict[str, dict[str, Any]]:
    """What each variant of one model takes on disk: bits per weight, bytes, promised levels."""
    state: Mapping[str, Tensor] | nn.Module = weights
    if isinstance(panel.model, nn.Module):
        import copy

        state = copy.deepcopy(panel.model)
        state.load_state_dict(dict(weights), strict=False)
    found = {}
    for variant, spec in panel.variants.items():
        stored = quantize(state, spec)
        found[variant] = {
            "bits_per_weight": stored.bits_per_weight,
            "bytes": stored.bytes,
            "levels": stored.levels,
        }
    return found


class _Best:
    """The checkpoint of lowest validation loss of each run, the first of equals; without losses the last one."""

    def __init__(self, runs: int) -> None:
        self.losses = np.full(runs, np.inf)
        self.steps: list[float] = [0] * runs
        self.params: Stack = {}

    def note(self, step: float, params: Stack, losses: Float[np.ndarray, " run"] | None) -> None:
        if not self.params:
            self.params = {name: value.clone() for name, value in params.items()}
        better = np.ones(len(self.steps), bool) if losses is None else losses < self.losses
        for run in np.flatnonzero(better):
            self.steps[run] = step
            if losses is not None:
                self.losses[run] = losses[run]
            for name, value in params.items():
                self.params[name][run] = value[run]


def _nobody(panel: Panel, runs: Sequence[str]) -> Bool[np.ndarray, "run evaluated"]:
    return np.zeros((len(runs), len(panel.evaluation)), bool)


def _variants(panel: Panel, params: Stack) -> dict[str, Stack]:
    module = None if isinstance(panel.network, MLP) else panel.network
    return {
        name: params if name == FULL else quantize_stack(params, spec, module=module)
        for name, spec in panel.variants.items()
    }


def _measure(
    panel: Panel,
    variants: Mapping[str, Stack],
    part: tuple[Any, Tensor],
    which: tuple[str, ...] | None = None,
) -> dict[str, Float[np.ndarray, "run variant *sample"]]:
    return measure_stack(
        panel.network,
        variants,
        *part,
        panel.task,
        which=which,
        dtype=np.float32,
        workers=panel.workers,
        on=panel.on,
    )


def _hashes(variants: Mapping[str, Stack]) -> Num[np.ndarray, "variant run"]:
    """Fingerprints of all parameters: checkpoints that share one are one configuration."""
    return np.stack([fingerprints(stack, workers=1) for stack in variants.values()])


def _record(
    panel: Panel,
    at: Int[np.ndarray, " part"],
    rows: Iterable[tuple[str, float, str]],
    found: Mapping[str, np.ndarray],
    hashes: Num[np.ndarray, ...] | None,
    member: np.ndarray | None,
) -> Record:
    run, step, variant = zip(*rows, strict=True)
    axes = {name: axes_of(name) for name in found}
    signals: dict[str, np.ndarray] = {
        name: values.reshape(-1, len(at), *values.shape[values.ndim - len(axes[name]) + 2 :])
        for name, values in found.items()
    }
    signals["label"] = panel.y[torch.from_numpy(at)].numpy()
    axes["label"] = ("sample", "target")[: panel.y.ndim]
    if panel.family is not None:
        signals["family"] = panel.family[at]
    if hashes is not None:
        signals["params_hash"], axes["params_hash"] = hashes.ravel(), ("row",)
    return Record(
        run=run,
        step=np.array(step, np.float64),
        variant=variant,
        sample=panel.sample[at],
        signals=signals,
        axes=axes,
        member=member,
        about=dict(panel.about),
    )
