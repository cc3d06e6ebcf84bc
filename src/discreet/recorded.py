"""From a record to the indicators of its runs: which rows and samples count, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._types import Bool, Int, Num
from discreet.indicator import RunIndicator, measure
from discreet.records import Record
from discreet.records.order import natural_order

__all__ = ["RecordedIndicators", "constant_loss", "evaluation_samples", "measure_record"]


@dataclass(frozen=True)
class RecordedIndicators:
    """The indicator of every variant and run of a record.

    Attributes:
        per_variant: By variant and run.
        n_train: Training samples of a run, when the record says.
        constant_loss: Loss of the best constant prediction, in nats, when the record tells.
        notes: What was left out, in words.
        diagnostics: What to heed in every variant.
    """

    per_variant: Mapping[str, Mapping[str, RunIndicator]]
    n_train: int | None
    constant_loss: float | None
    notes: tuple[str, ...]
    diagnostics: tuple[str, ...] = ()


def measure_record(record: Record, *, level: float = 0.95, seed: int = 0) -> RecordedIndicators:
    """Measure every variant and run on the samples that no run trained on (Algorithm 2's D_val).

    Raises:
        ValueError: There is no loss signal, fewer than two samples are left, variants of a run do not share
            its checkpoints, or a loss is not finite.
    """
    losses, keep = _losses(record), evaluation_samples(record)
    notes = []
    if dropped := int((~keep).sum()):
        notes.append(
            f"{dropped:,} of {record.n_samples:,} samples were left out: some run trained or calibrated on them"
        )
    columns = _columns(record.sample, keep)
    twin = record.signals.get("params_hash")
    per_variant: dict[str, dict[str, RunIndicator]] = {}
    lengths: set[tuple[float, ...]] = set()
    for variant in record.variants:
        here = per_variant.setdefault(variant, {})
        for run in natural_order(record.runs):
            rows = _trajectory(record, variant, run)
            if not len(rows):
                notes.append(f"variant {variant!r} has no run {run!r}")
                continue
            _check_steps(record, variant, run, rows)
            lengths.add(tuple(record.step[rows]))
            here[run] = measure(
                _select(losses, rows, columns),
                variant,
                run,
                twin=None if twin is None else np.asarray(twin)[rows],
                steps=[f"{step:g}" for step in record.step[rows]],
                level=level,
                seed=seed,
            )
    n_train = record.about.get("n_train")
    if n_train is not None and (not isinstance(n_train, int) or n_train < 1):
        notes.append(f"the record's n_train is {n_train}, no one whole number: n_train * r is left out")
        n_train = None
    differ = ("not-comparable",) if len(lengths) > 1 else ()
    return RecordedIndicators(per_variant, n_train, constant_loss(record, keep), tuple(notes), differ)


def evaluation_samples(record: Record) -> Bool[np.ndarray, " sample"]:
    """The samples that no run trained on and no quantizer was calibrated on.

    Raises:
        ValueError: Fewer than two are left, or a run's membership is hidden.
    """
    if record.hidden:
        raise record.error(f"the membership of run {record.hidden[0]!r} is hidden: open the full record")
    keep = np.ones(record.n_samples, bool)
    if record.member is not None:
        keep &= ~np.asarray(record.member).any(axis=0)
    if record.calibration is not None:
        keep &= ~np.asarray(record.calibration).any(axis=(0, 1))
    if keep.sum() < 2:
        raise record.error(
            f"{int(keep.sum())} of {record.n_samples} samples were in no run's training set; at least 2 are "
            "needed, since the indicator is taken on samples that no compared run trained on"
        )
    return keep


def constant_loss(record: Record, keep: Bool[np.ndarray, " sample"]) -> float | None:
    """Loss of the best constant prediction on class labels, in nats: the entropy of their shares."""
    if "label" not in record.signals or record.about.get("task") not in ("bce", "ce"):
        return None
    _, counts = np.unique(np.asarray(record.signals["label"])[keep], return_counts=True)
    share = counts / counts.sum()
    return float(-(share * np.log(share)).sum())


def _losses(record: Record) -> Num[np.ndarray, "row sample"]:
    if "loss" not in record.signals:
        names = ", ".join(sorted(record.signals)) or "no signal at all"
        raise record.error(f"expected a signal 'loss' [row, sample], found {names}")
    if record.axes["loss"] != ("row", "sample"):
        raise record.error(f"the signal 'loss' has axes {list(record.axes['loss'])}, expected [row, sample]")
    return record.signals["loss"]


def _columns(sample: np.ndarray, keep: Bool[np.ndarray, " sample"]) -> slice | Int[np.ndarray, " kept"]:
    """The kept samples in the order of their ids: blocks of samples are cut by id, not by position."""
    if keep.all() and (sample[:-1] < sample[1:]).all():
        return slice(None)
    order = np.argsort(sample, kind="stable")
    return order[keep[order]]


def _select(losses: Any, rows: Int[np.ndarray, " row"], columns: slice | np.ndarray) -> np.ndarray:
    """Rows that follow one another stay a view, so that a mapped file stays mapped."""
    follow = (np.diff(rows) == 1).all()
    chosen = losses[int(rows[0]) : int(rows[-1]) + 1] if follow else losses[rows]
    # one memory layout, whatever the order in the file: sums depend on it in the last bit
    return np.asarray(chosen) if isinstance(columns, slice) else np.ascontiguousarray(chosen[:, columns])


def _trajectory(record: Record, variant: str, run: str) -> Int[np.ndarray, " row"]:
    """Rows by ascending step; none where the variant was not measured on that run."""
    rows = record.rows(variant, run)
    return rows[np.argsort(record.step[rows], kind="stable")]


def _check_steps(record: Record, variant: str, run: str, rows: Int[np.ndarray, " row"]) -> None:
    first = next(v for v in record.variants if len(record.rows(v, run)))
    expected = record.step[_trajectory(record, first, run)]
    if not np.array_equal(expected, record.step[rows]):
        odd = sorted(set(expected) ^ set(record.step[rows]))
        raise record.error(
            f"variants must share a run's checkpoints: in run {run!r}, {first!r} and {variant!r} differ at "
            f"step{'s' * (len(odd) > 1)} {', '.join(f'{step:g}' for step in odd[:5])}"
        )
