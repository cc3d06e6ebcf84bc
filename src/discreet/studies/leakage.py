"""Every attack on every variant of a bank: do references help, and do fewer bits leak less?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.attack_specs import chosen
from discreet.attacked import LeftOut
from discreet.auditing_units import Unit, Units
from discreet.backends import Backend
from discreet.bank import BankSettings, bank
from discreet.records import Record
from discreet.stats import Comparison, Estimate, compare
from discreet.store import Store, content_hash
from discreet.studies.tasks import Task, task

__all__ = ["ATTACKS", "SCALES", "VARIANTS", "Leakage", "Scale", "content_of", "leakage", "with_features"]

_SCALED = "granularity='channel', scope='weights', scale='absmean'"
VARIANTS: Mapping[str, str] = {
    "full": "full",
    "4 bits": f"uniform(bits=4, {_SCALED})",
    "3 bits": f"uniform(bits=3, {_SCALED})",
    "2 bits": f"uniform(bits=2, {_SCALED})",
    "1.58 bits": f"ternary(zeros=0.33, {_SCALED})",
    "1 bit": f"sign({_SCALED})",
}
"""One scale an output channel, biases kept: what would be shipped."""

ATTACKS = (
    "loss",
    "metric(kind='modified')",
    "attack_p",
    "marginal",
    "quantile(folds=2)",
    "reference",
    "base",
    "rmia",
    "lira(mode='offline')",
    "lira",
    "neural(kind='blackbox(epochs=10)', most=2000)",
)


@dataclass(frozen=True)
class Scale:
    """How large a study is.

    Attributes:
        models: Models of the bank, each a target and a reference for the others.
        private: Samples of which each model trains on half.
        public: Samples that no model trains on.
    """

    models: int
    private: int
    public: int


SCALES: Mapping[str, Scale] = {"small": Scale(16, 2000, 2000), "paper": Scale(64, 4000, 10_000)}
_WHICH = ("loss", "margin", "confidence", "entropy", "modified_entropy", "correct", "outputs")


@dataclass(frozen=True, eq=False)
class Leakage:
    """What a study found.

    Attributes:
        data: Where the data came from.
        scale: How large it was.
        accuracy: Accuracy of each variant on training and on public samples, the means over models.
        units: Every attack on every variant.
        left_out: Attacks that were not run, and why.
        paired: For each attack and variant, the variant's AUC less that of full precision, on the same rows.
    """

    data: Mapping[str, Any]
    scale: Scale
    accuracy: Mapping[str, tuple[Estimate, Estimate]]
    units: tuple[Unit, ...]
    left_out: tuple[LeftOut, ...]
    paired: Mapping[tuple[str, str], Comparison]


def leakage(
    folder: str | Path,
    data: str = "fashion",
    *,
    scale: Scale | str = "small",
    attacks: Sequence[str] = ATTACKS,
    variants: Mapping[str, str] = VARIANTS,
    seed: int = 0,
    workers: int = 1,
    backend: Backend | None = None,
    progress: Callable[[str, float], None] = lambda doing, share: None,
) -> Leakage:
    """Train a bank and attack it.

    Args:
        folder: The run directory; what is there is not made again.
        data: ``"fashion"``, ``"b3db"`` or ``"adult"``.
        scale: A scale or its name.
        attacks: Spec strings.
        variants: Quantizers by name, ``full`` among them.
        seed: Of everything.
        workers: Threads that attack.
        backend: Where models are trained and attacks run; None: here. The bytes do not depend on it.
        progress: Called with what is being done, and the share of all work that is done.

    Raises:
        ValueError: Unknown data or scale.
        DataError: The data is not installed.
    """
    if isinstance(scale, str):
        if scale not in SCALES:
            raise ValueError(f"scale: expected one of {', '.join(SCALES)}, got {scale!r}")
        scale = SCALES[scale]
    progress(f"reading {data}", 0.0)
    given = task(data, private=scale.private, public=scale.public, seed=seed)
    settings = BankSettings(
        given.network, given.recipe, models=scale.models, variants=dict(variants), which=_WHICH, seed=seed
    )
    store = Store(folder)
    record = bank(
        store,
        settings,
        given.x,
        given.y,
        public=given.public,
        group=given.group,
        backend=backend,
        progress=lambda share: progress("training and measuring", 0.01 + 0.29 * share),
    )
    methods, unusable = chosen(attacks)
    left = [LeftOut(name, variant, why) for name, why in unusable.items() for variant in record.variants]
    with store.lock():
        release = with_features(record, given)
        work = Units(store, release, (content_of(record),), 0.95, seed)
        if backend is not None:
            work.elsewhere(
                backend, record.variants, methods, lambda doing, share: progress(doing, 0.3 + 0.7 * share)
            )
        units, refused = work.all(
            record.variants, methods, workers, lambda doing, share: progress(doing, 0.3 + 0.7 * share)
        )
    return Leakage(given.about, scale, _accuracy(record), units, (*left, *refused), _paired(units))


def with_features(record: Record, given: Task) -> Record:
    """The record with the inputs as features that an attacker may learn from."""
    return dataclasses.replace(
        record,
        signals={**record.signals, "features": given.x},
        axes={**record.axes, "features": ("sample", "feature")},
    )


def content_of(record: Record) -> str:
    """A hash of the models of a record and of what was measured of them."""
    return content_hash(
        {
            "weights": np.asarray(record.signals["params_hash"]),
            "member": np.asarray(record.member),
            "loss": np.asarray(record.signals["loss"]),
        }
    )


def _accuracy(record: Record) -> dict[str, tuple[Estimate, Estimate]]:
    """Mean accuracy over models, on members and on public samples, with the spread over models."""
    found = {}
    public = np.asarray(record.signal("public")).astype(bool)
    correct = record.signal("correct")
    for variant in record.variants:
        rows = record.rows(variant)
        inside = [float(correct[row][record.membership(record.run[row])].mean()) for row in rows]
        outside = [float(correct[row][public].mean()) for row in rows]
        found[variant] = (_mean(inside), _mean(outside))
    return found


def _mean(values: Sequence[float]) -> Estimate:
    from scipy import stats

    mean, n = float(np.mean(values)), len(values)
    half = float(stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n))
    return Estimate(mean, max(0.0, mean - half), min(1.0, mean + half), n, 0.95, "t interval over models")


def _paired(units: Sequence[Unit]) -> dict[tuple[str, str], Comparison]:
    by = {(unit.attack, unit.exposure.variant): unit.exposure for unit in units}
    found = {}
    for (attack, variant), e in by.items():
        full = by.get((attack, "full"))
        if variant != "full" and full is not None:
            found[attack, variant] = compare(e.scores, full.scores, e.member, keep=e.keep & full.keep)
    return found
