"""Sparse times bits, and several densities published together: what quantization and company add."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from discreet.artefacts import quantize_sparse_stack
from discreet.methods import fit
from discreet.model_seeds import stream
from discreet.phase import Setting
from discreet.release_audit import AUDIT, assess, mean_of_runs
from discreet.safety import Case, parse
from discreet.seen import cases
from discreet.studies.compression_tasks import TASKS, setting
from discreet.studies.leakage import VARIANTS

__all__ = ["METHOD", "Grid", "grid", "together"]

METHOD = "set"
_TEST = "odds"


@dataclass(frozen=True, eq=False)
class Grid:
    """What came of one task.

    Attributes:
        task: Of ``TASKS``.
        cells: By density and bits: what ``assess`` said, as plain data.
        alone: By density: accuracy of the attack network on that model.
        joint: Accuracy of the attack network that holds all densities of one run at once.
        gain: That, less the best of ``alone`` in each run.
    """

    task: str
    cells: Mapping[str, Mapping[str, Any]]
    alone: Mapping[str, Mapping[str, Any]]
    joint: Mapping[str, Any]
    gain: Mapping[str, Any]


def grid(
    task: str, *, runs: int, seed: int = 0, progress: Callable[[str, float], None] = lambda doing, share: None
) -> Grid:
    """Train sparse models of a task at each of its densities, quantize each, and audit all of them.

    Args:
        task: Of ``TASKS``.
        runs: How many runs.
        seed: Of everything; all densities of one run train on the same samples.
        progress: Called with what is being done, and the share that is done.
    """
    densities, found, released = TASKS[task].densities, {}, {}
    given = setting(task, runs=runs, density=densities[0], seed=seed)
    for number, density in enumerate(densities):
        progress(f"density {density:g}", number / len(densities))
        done = fit(METHOD, replace(given, density=density))
        released[f"{density:g}"] = (done.model, done.params)
        for name, quantizer in VARIANTS.items():
            params = (
                done.params
                if quantizer == "full"
                else quantize_sparse_stack(done.params, done.masks, quantizer)
            )
            found[f"{density:g}, {name}"] = assess(given, done.model, params).to_json()
    return Grid(task, found, *together(given, released))


def together(
    given: Setting, released: Mapping[str, tuple[Any, Mapping[str, Tensor]]]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Attack several versions of each run's model, one by one and all at once.

    Args:
        given: Whose samples.
        released: By name a model and its stack.

    Returns:
        Accuracies of the attack on each version alone, on all together, and the gain over the best one alone; each
        a mean over runs as plain data.
    """
    test, panel = parse(_TEST), given.roles.audit
    seeds = [int(stream(given.seed, run, AUDIT).integers(2**62)) for run in range(given.runs)]
    shown = {name: cases(given, model, {"": params}, panel)[""] for name, (model, params) in released.items()}
    alone = {name: [each.value for each in test(own, seeds=seeds)] for name, own in shown.items()}
    first, *others = shown.values()
    joined = [_join(own, [each[run] for each in others]) for run, own in enumerate(first)]
    joint = [each.value for each in test(joined, seeds=seeds)]
    gains = [
        replace(each, value=gain, low=gain, high=gain)
        for run, each in enumerate(joint)
        for gain in [each.value - max(values[run].value for values in alone.values())]
    ]
    told = {name: mean_of_runs(values).to_json() for name, values in alone.items()}
    return told, mean_of_runs(joint).to_json(), mean_of_runs(gains).to_json()


def _join(own: Case, others: Sequence[Case]) -> Case:
    """The case of an attacker who holds all versions."""
    return replace(
        own,
        known=replace(own.known, also=tuple(np.asarray(each.known.outputs) for each in others)),
        judged=replace(own.judged, also=tuple(np.asarray(each.judged.outputs) for each in others)),
    )
