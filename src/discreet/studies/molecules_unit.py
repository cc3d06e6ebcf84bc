"""The study's unit of work: some runs on one task and embedder, trained, quantized and measured at every checkpoint.

Losses are turned into indicators on the spot and not kept; outputs are kept at two checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor

from discreet._types import Bool, Float, Int
from discreet.fingerprint import fingerprints
from discreet.indicator import RunIndicator, measure
from discreet.measure import inputs, measure_stack
from discreet.mlp import MLP
from discreet.quantizers import PRESETS, quantize_stack
from discreet.recipe import Recipe
from discreet.studies.molecules_plan import MoleculeScale, Parts, subset
from discreet.training import train

__all__ = ["FULL", "VARIANTS", "UnitResult", "load_unit", "run_unit"]

FULL = "full"
VARIANTS: tuple[str, ...] = (FULL, *PRESETS["paper"])
"""Full precision, and the eight quantizers of Table 2."""

_ROW = ("r", "low", "high", "best", "decider", "candidates", "tied", "losses", "ratios", "dropped", "drawn")


@dataclass(frozen=True, eq=False)
class UnitResult:
    """What some runs leave behind.

    Attributes:
        indicators: By variant and run.
        outputs: Raw outputs on the validation molecules at the checkpoint of lowest full-precision loss.
        own: The same at each variant's own checkpoint of lowest loss.
        step: Epoch of the former, by run.
        own_step: Epoch of the latter.
    """

    indicators: Mapping[str, Mapping[str, RunIndicator]]
    outputs: Float[np.ndarray, "variant run sample"]
    own: Float[np.ndarray, "variant run sample"] = field(repr=False)
    step: Int[np.ndarray, " run"]
    own_step: Int[np.ndarray, "variant run"]


def run_unit(
    x: Float[np.ndarray, "molecule feature"],
    y: Float[np.ndarray, " molecule"],
    task: str,
    parts: Parts,
    scale: MoleculeScale,
    runs: Sequence[int],
    *,
    seed: int,
    path: Path,
    on_epoch: Callable[[], None] = lambda: None,
) -> None:
    """Train some runs side by side on one core, measure them, and save what `load_unit` reads.

    Args:
        x: Vectors of all molecules, as the networks are given them.
        y: Labels: classes, or numbers standardised over the pool.
        task: ``"bce"`` or ``"mse"``.
        parts: Which molecules are for what.
        scale: Settings.
        runs: Numbers of the runs.
        seed: Of the study.
        path: Where to write.
        on_epoch: Called after each epoch; what it raises ends the training.
    """
    network = MLP((x.shape[1], scale.hidden, 1))
    held = inputs(network, torch.from_numpy(x[parts.validation]))
    labels = y if task == "mse" else y.astype(np.int64)
    truth = torch.from_numpy(labels[parts.validation])
    trace = _Trace(len(runs), scale.epochs // scale.every, len(parts.validation))

    def note(epoch: int, params: dict[str, Tensor]) -> None:
        if epoch % scale.every == 0:
            variants = {FULL: params} | {
                spec: quantize_stack(params, spec) for spec in VARIANTS if spec != FULL
            }
            found = measure_stack(
                network, variants, held, truth, task, which=("loss", "outputs"), dtype=np.float32, workers=1
            )
            hashes = np.stack([fingerprints(stack, workers=1) for stack in variants.values()])
            trace.note(epoch, found["loss"].swapaxes(0, 1), found["outputs"][..., 0].swapaxes(0, 1), hashes)
        on_epoch()

    train(
        network,
        torch.from_numpy(x[parts.pool]),
        torch.from_numpy(labels[parts.pool]),
        np.stack([subset(parts, run, seed) for run in runs]),
        Recipe(task, "adam", lr=scale.lr, epochs=scale.epochs, batch_size=scale.batch_size),
        seed=seed,
        model_ids=list(runs),
        workers=1,
        on_checkpoint=note,
    )
    trace.save(path, runs, seed)


class _Trace:
    """Losses along the trajectory, and outputs at the best checkpoints so far."""

    def __init__(self, runs: int, checkpoints: int, samples: int) -> None:
        shape = (len(VARIANTS), runs)
        self.losses = np.empty((*shape, checkpoints, samples), np.float32)
        self.hashes = np.empty((*shape, checkpoints), np.uint64)
        self.outputs, self.own = (np.empty((*shape, samples), np.float32) for _ in range(2))
        self.step, self.own_step = np.zeros(runs, np.int64), np.zeros(shape, np.int64)
        self.lowest = np.full(shape, np.inf)
        self.at = 0

    def note(
        self,
        epoch: int,
        losses: Float[np.ndarray, "variant run sample"],
        outputs: Float[np.ndarray, "variant run sample"],
        hashes: np.ndarray,
    ) -> None:
        self.losses[:, :, self.at], self.hashes[:, :, self.at] = losses, hashes
        self.at += 1
        mean = losses.mean(axis=-1, dtype=np.float64)
        better: Bool[np.ndarray, "variant run"] = mean < self.lowest
        self.lowest = np.where(better, mean, self.lowest)
        self.own[better], self.own_step[better] = outputs[better], epoch
        shipped = better[0]  # full precision comes first
        self.outputs[:, shipped], self.step[shipped] = outputs[:, shipped], epoch

    def save(self, path: Path, runs: Sequence[int], seed: int) -> None:
        rows = [
            measure(self.losses[v, at], spec, str(run), twin=self.hashes[v, at], seed=seed)
            for v, spec in enumerate(VARIANTS)
            for at, run in enumerate(runs)
        ]
        arrays = {
            name: np.array([-1 if getattr(row, name) is None else getattr(row, name) for row in rows])
            for name in _ROW
        }
        arrays |= {
            "samples": np.array([self.losses.shape[-1]]),
            "runs": np.array(runs),
            "outputs": self.outputs,
            "own": self.own,
            "step": self.step,
            "own_step": self.own_step,
        }
        save_file({name: np.ascontiguousarray(value) for name, value in arrays.items()}, path)


def load_unit(path: Path) -> UnitResult:
    """Read what `run_unit` saved."""
    told = load_file(path)
    runs, samples = told["runs"].tolist(), int(told["samples"][0])
    indicators: dict[str, dict[str, RunIndicator]] = {spec: {} for spec in VARIANTS}
    for row, (spec, run) in enumerate((spec, run) for spec in VARIANTS for run in runs):
        decider = int(told["decider"][row])
        indicators[spec][str(run)] = RunIndicator(
            r=float(told["r"][row]),
            low=float(told["low"][row]),
            high=float(told["high"][row]),
            best=int(told["best"][row]),
            decider=None if decider < 0 else decider,
            candidates=int(told["candidates"][row]),
            samples=samples,
            tied=bool(told["tied"][row]),
            losses=told["losses"][row],
            ratios=told["ratios"][row],
            dropped=told["dropped"][row],
            drawn=told["drawn"][row],
        )
    return UnitResult(indicators, told["outputs"], told["own"], told["step"], told["own_step"])
