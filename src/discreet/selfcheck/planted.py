"""A user's own record with the answer known: memberships shuffled (no leak), and a leak planted on top.

Only labels are shuffled and only signals of made-up members are changed, so sizes, files and models are the user's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from discreet._types import Bool, Float
from discreet.attacks._public import public_samples
from discreet.records import Record, RecordError
from discreet.records.laws import OFFSETS

__all__ = ["plant", "shuffled"]


_SHUFFLES = 4
"""A stream of its own: drawn from the one that dealt the halves, shuffles could undo the deal."""


def shuffled(record: Record, seed: int) -> Record:
    """Deal the memberships out anew among the samples that took part in any run.

    Runs that give each other's membership away (complementary halves) are shuffled together, so the design stays
    what it was. Nothing in the measurements depends on the new memberships: there is no leak to find. Samples
    that took part in no run are marked ``public``.

    Args:
        record: Measurements with membership.
        seed: Of the shuffles.

    Raises:
        RecordError: No membership, or fewer than two samples took part in any run.
    """
    if record.member is None:
        raise record.error("no membership: expected a record that says which samples trained which run")
    member = np.array(record.member)
    calibration = None if record.calibration is None else np.array(record.calibration)
    public = np.array(public_samples(record)) if "public" in record.signals else ~member.any(axis=0)
    pool = np.flatnonzero(~public)
    if len(pool) < 2:
        raise record.error(f"member: expected at least two samples that took part in a run, got {len(pool)}")
    signals: dict[str, Any] = dict(record.signals)
    known = np.array(signals["known"]) if "known" in signals else None
    rng = np.random.default_rng([seed, _SHUFFLES])
    for together in _designs(record):
        new = rng.permutation(pool)
        for run in together:
            line = record.member_runs.index(run)
            member[line, pool] = member[line, new]
            if calibration is not None:
                calibration[line][:, pool] = calibration[line][:, new]
            if known is not None:
                rows = record.rows(run=run)
                known[np.ix_(rows, pool)] = known[np.ix_(rows, new)]
    if known is not None:
        signals["known"] = known
    if public.any():
        signals["public"] = public.astype(np.int8)
    axes = {name: record.axes[name] for name in signals if name in record.axes}
    return replace(record, signals=signals, axes=axes, member=member, calibration=calibration)


def plant(record: Record, strength: float = 2.0) -> Record:
    """Make every model fit its members better.

    The logit of the true label's probability rises by ``strength`` standard deviations (over samples), in all
    signals that hold it; losses that are no cross-entropies, and entropies, shrink by as much on a
    logarithmic scale, and log-probabilities of tokens with the loss of their text. Hidden layers stay as they are.

    Args:
        record: Measurements with membership.
        strength: How much.

    Raises:
        RecordError: No membership, or no signal to plant anything in.
    """
    if record.member is None:
        raise record.error("no membership: expected a record that says which samples trained which run")
    lines = [record.member_runs.index(run) for run in record.run]
    hit = np.asarray(record.member)[lines]
    signals: dict[str, Any] = dict(record.signals)
    classes = "margin" in signals or "confidence" in signals
    if not {"loss", "margin", "confidence"} & set(signals):
        raise record.error("no signal to plant a leak in: expected loss, margin or confidence")
    logit = _logit(record) if classes else None
    rise = 0.0 if logit is None else strength * float(logit.std(axis=-1).mean())
    for name in ("margin", "confidence"):
        if name in signals:
            signals[name] = _like(
                signals[name], np.asarray(signals[name], np.float64) + rise * _wide(hit, signals[name])
            )
    if "loss" in signals:
        losses = np.asarray(signals["loss"], np.float64)
        if logit is not None and (losses >= 0).all():
            own = _from_loss(losses)
            raised = np.logaddexp(0.0, -(own + rise))
            signals["loss"] = _like(signals["loss"], np.where(_wide(hit, losses), raised, losses))
        else:
            signals["loss"] = _like(signals["loss"], _shrunk(losses, hit, strength))
        if "logp" in signals and record.axes["loss"] == ("row", "sample"):
            signals["logp"] = _tokens(record, losses, np.asarray(signals["loss"], np.float64))
    for name in ("entropy", "modified_entropy", "absolute_error"):
        if name in signals:
            signals[name] = _like(
                signals[name], _shrunk(np.asarray(signals[name], np.float64), hit, strength)
            )
    if "correct" in signals:
        signals["correct"] = _like(
            signals["correct"], np.where(_wide(hit, signals["correct"]), 1, signals["correct"])
        )
    if "outputs" in signals and "label" in signals and logit is not None:
        signals["outputs"] = _raised(record, hit, rise)
    return replace(record, signals=signals, axes=dict(record.axes))


def _designs(record: Record) -> list[tuple[str, ...]]:
    """Runs, those together that give each other away."""
    found, seen = [], set()
    for run in record.member_runs:
        if run not in seen:
            together = (run, *(other for other in record.partners(run) if other not in seen))
            seen.update(together)
            found.append(together)
    return found


def _logit(record: Record) -> Float[np.ndarray, "*row sample"]:
    for name in ("confidence", "margin"):
        if name in record.signals:
            return np.asarray(record.signals[name], np.float64)
    raise RecordError("no logit")


def _from_loss(loss: Float[np.ndarray, "*row sample"]) -> Float[np.ndarray, "*row sample"]:
    """log p - log(1 - p) of a cross-entropy, -log(exp(loss) - 1)."""
    floor = np.maximum(loss, 1e-300)
    return -(floor + np.log(-np.expm1(-floor)))


def _shrunk(
    values: Float[np.ndarray, "*row sample"], hit: Bool[np.ndarray, "row sample"], strength: float
) -> Float[np.ndarray, "*row sample"]:
    positive = values[values > 0]
    if (values < 0).any() or positive.size < 2:
        return values - strength * values.std() * _wide(hit, values)
    return values * np.where(_wide(hit, values), np.exp(-strength * np.log(positive).std()), 1.0)


def _raised(
    record: Record, hit: Bool[np.ndarray, "row sample"], rise: float
) -> Float[np.ndarray, "row *query sample class"]:
    """Raw outputs with the true label's logit raised; untouched where labels are no class numbers."""
    outputs, label = np.asarray(record.signals["outputs"]), np.asarray(record.signals["label"])
    width = outputs.shape[-1]
    known = label.dtype.kind in "biu" and int(label.min()) >= 0 and int(label.max()) < max(width, 2)
    if not known or record.axes["outputs"] != ("row", "sample", "class"):
        return outputs
    if width == 1:
        direction = (2 * (label > 0) - 1.0)[:, None]
    else:
        direction = (np.arange(width) == label[:, None]).astype(np.float64)
    return _like(outputs, outputs.astype(np.float64) + rise * hit[:, :, None] * direction)


def _tokens(
    record: Record, before: Float[np.ndarray, "row sample"], after: Float[np.ndarray, "row sample"]
) -> Float[np.ndarray, "row token"]:
    """Log-probabilities of tokens whose mean follows the loss of their text."""
    logp, counts = record.signals["logp"], np.diff(np.asarray(record.signals[OFFSETS]).astype(np.int64))
    share = np.where(before > 0, after / np.where(before > 0, before, 1.0), 1.0)
    return _like(logp, np.asarray(logp, np.float64) * np.repeat(share, counts, axis=1))


def _wide(hit: Bool[np.ndarray, "row sample"], values: np.ndarray) -> np.ndarray:
    return hit if values.ndim == 2 else hit[:, None, :]


def _like(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    return new.astype(old.dtype)
