"""Attacks on the models of a record, judged: from a record and spec strings to figures with intervals.

What an attack says about one target is :mod:`discreet.exposure`; what that is worth is :mod:`discreet.stats`. Here
the two meet, and what could not be attacked is kept with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet import attacks
from discreet._json import plain
from discreet._types import Float
from discreet._words import label, listing
from discreet.advantage import advantage
from discreet.attack_specs import brief, chosen
from discreet.auc import auc
from discreet.audit_leaks import Blind
from discreet.blind_baseline import blind_or_why
from discreet.duplicate_texts import text_families
from discreet.epsilon import EpsilonBound, epsilon_one_run
from discreet.estimate import Estimate
from discreet.exposure import Exposure, expose
from discreet.labelled import check_level
from discreet.records import Record
from discreet.tpr import OperatingPoint, ppv, tpr_at_fpr

__all__ = [
    "FPRS",
    "PRIORS",
    "Attacked",
    "Found",
    "LeftOut",
    "apart",
    "attacked",
    "dependence",
    "expose_one",
    "judge",
    "left_out_words",
]

FPRS = (0.1, 0.01, 0.001, 0.0001)
"""False positive rates at which true positive rates are reported."""

PRIORS = (0.01, 0.1, 0.5)
"""Shares of members among the people asked about, for the share of accusations that are right."""


@dataclass(frozen=True, eq=False)
class Attacked:
    """What one attack found in one variant, over all runs attacked.

    Attributes:
        exposure: Scores and answers.
        auc: Area under the ROC curve, the mean over runs.
        points: True positive rates at :data:`FPRS`.
        balanced_accuracy: Of a threshold learnt on the other half of the rows, the mean over runs.
        advantage: TPR - FPR of that threshold.
        epsilon: Lower bound on the epsilon of differential privacy; a certificate only if every sample was in or
            out of each run by a fair coin of its own.
    """

    exposure: Exposure
    auc: Estimate
    points: tuple[OperatingPoint, ...]
    balanced_accuracy: Estimate
    advantage: Estimate
    epsilon: EpsilonBound

    @property
    def variant(self) -> str:
        """The variant attacked."""
        return self.exposure.variant

    @property
    def attack(self) -> str:
        """Spec string of the attack without what is default."""
        return brief(self.exposure.attack)

    def to_json(self) -> dict[str, Any]:
        """Return the entry of ``results`` in what ``discreet attack --json`` writes."""
        e = self.exposure
        return {
            "variant": e.variant,
            "attack": self.attack,
            "spec": e.attack,
            "runs": list(e.runs),
            "members": e.members,
            "nonmembers": e.nonmembers,
            "auc": self.auc.to_json(),
            "tpr": [_point_json(point) for point in self.points],
            "balanced_accuracy": self.balanced_accuracy.to_json(),
            "advantage": self.advantage.to_json(),
            "epsilon": {name: getattr(self.epsilon, name) for name in EpsilonBound.__dataclass_fields__},
        }


@dataclass(frozen=True)
class LeftOut:
    """An attack that was asked for and not run on a variant, and why."""

    attack: str
    variant: str
    reason: str


@dataclass(frozen=True, eq=False)
class Found:
    """Results in the order of variants, then attacks, and what was left out.

    Of records with texts, ``blind`` says whether they tell members from non-members without a model, or
    ``blind_missing`` why that is not known.
    """

    results: tuple[Attacked, ...]
    left_out: tuple[LeftOut, ...]
    level: float
    seed: int
    blind: Blind | None = None
    blind_missing: str = ""

    @property
    def copies(self) -> int:
        """How many texts are not judged because they stand among both members and non-members of a run."""
        return max((each.exposure.copies for each in self.results), default=0)

    def to_json(self) -> dict[str, Any]:
        """Return what ``discreet attack --json`` writes (``report/attack.schema.json``)."""
        about: dict[str, Any] = {"copies": self.copies} if self.copies else {}
        if self.blind is not None:
            about["blind"] = plain(self.blind)
        if self.blind_missing:
            about["blind_missing"] = self.blind_missing
        return {
            "schema": "discreet.attack/1",
            **about,
            "level": self.level,
            "seed": self.seed,
            "results": [result.to_json() for result in self.results],
            "left_out": [
                {"attack": each.attack, "variant": each.variant, "reason": each.reason}
                for each in self.left_out
            ],
        }


def attacked(
    record: Record,
    specs: Sequence[str],
    *,
    variants: Sequence[str] | None = None,
    run: str | None = None,
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[str, float], None] = lambda doing, share: None,
) -> Found:
    """Run attacks on variants of a record and judge them.

    Args:
        record: Measurements with membership. A signal ``family`` [sample] names samples that depend on each other.
        specs: Spec strings; ``"all"`` stands for every attack of this installation with its defaults.
        variants: Variants to attack; all of the record's when None.
        run: The one run to attack; every run in turn when None.
        level: Confidence level of all intervals.
        seed: Which halves of the rows choose and judge thresholds.
        progress: Called with what is being done and the share of all work that is done.

    Returns:
        The results. What ``"all"`` brought in and the record does not allow is in ``left_out``, and so are variants
        that an attack on several is not about, if none were named.

    Raises:
        RecordError: No membership, no such run or variant, or the record lacks what a named attack needs.
        SpecError: A named attack is unknown.
        ValueError: The level is no share, or a run lacks members or non-members.

    Example:
        >>> record = Record(
        ...     run=("a", "b"), step=np.ones(2), variant=("full", "full"), sample=np.arange(40),
        ...     signals={"loss": np.tile(np.arange(40.0), (2, 1))},
        ...     member=np.array([np.arange(40) < 20, np.arange(40) >= 20]),
        ... )
        >>> attacked(record, ["loss"], run="a").results[0].auc.value
        1.0
    """
    check_level(level)
    if record.member is None:
        raise record.error(
            "no membership: an attack cannot be judged without knowing who was in which run (a column or array"
            " `member` of 0 and 1)"
        )
    wanted = list(dict.fromkeys(variants if variants is not None else record.variants))
    for variant in wanted:
        record.rows(variant, run)
    methods, left_out = chosen(specs)
    left = [LeftOut(name, variant, why) for variant in wanted for name, why in left_out.items()]
    results = []
    jobs = [(variant, spec, lenient) for variant in wanted for spec, lenient in methods.items()]
    for number, (variant, spec, lenient) in enumerate(jobs):
        progress(f"{spec} on {variant}", number / len(jobs))
        why = apart(spec, variant)
        if why and variants is None:
            left.append(LeftOut(spec, variant, why))
            continue
        try:
            exposure = expose_one(record, spec, variant, run)
        except ValueError as error:
            if not lenient:
                raise
            left.append(LeftOut(spec, variant, str(error)))
            continue
        results.append(judge(exposure, dependence(record), level=level, seed=seed))
    if "text" in record.signals:
        progress("telling members apart without a model", 0.98)
    blind, missing = blind_or_why(record, run=run, level=level, seed=seed)
    progress("done", 1.0)
    return Found(tuple(results), tuple(left), level, seed, blind, missing)


def apart(spec: str, variant: str) -> str:
    """Why an attack on variants released together says nothing about this one; empty if it does.

    Example:
        >>> apart("joint(variants=('a', 'b'))", "c"), apart("joint", "c")
        ("variant 'c' is none of those released together", '')
    """
    together = getattr(attacks.parse(spec), "variants", ())
    return (
        f"variant {variant!r} is none of those released together"
        if together and variant not in together
        else ""
    )


def expose_one(record: Record, spec: str, variant: str, run: str | None = None) -> Exposure:
    """Attack one variant of every run, or of one.

    Raises:
        RecordError: The record lacks what the attack needs, or the attack is about other variants.
    """
    method, why = attacks.parse(spec), apart(spec, variant)
    if why:
        raise record.error(f"{spec}: {why}")
    return expose(record, method, variant, runs=None if run is None else [run])


def judge(
    exposure: Exposure, cluster: np.ndarray | None = None, *, level: float = 0.95, seed: int = 0
) -> Attacked:
    """Work out every figure of merit of what an attack said.

    Args:
        exposure: Scores and answers.
        cluster: One label a sample; samples with one label are dependent.
        level: Confidence level of all intervals.
        seed: Which halves of the rows choose and judge thresholds.

    Raises:
        ValueError: A run lacks members or non-members, or has only one of a kind.
    """
    e = exposure
    about: dict[str, Any] = {"level": level, "cluster": cluster, "keep": e.keep}
    runs = list(zip(e.scores, e.member, e.keep, strict=True))
    gains = _mean_over_runs(
        [advantage(s, y, keep=k, cluster=cluster, level=level, seed=seed) for s, y, k in runs], level
    )
    halved = [(1 + x) / 2 for x in (gains.value, gains.low, gains.high)]
    return Attacked(
        e,
        auc(e.scores, e.member, **about),
        tuple(tpr_at_fpr(e.scores, e.member, fpr, **about) for fpr in FPRS),
        Estimate(halved[0], halved[1], halved[2], gains.n, level, gains.method),
        gains,
        _epsilon(runs, cluster, level),
    )


def left_out_words(left: Iterable[LeftOut]) -> list[tuple[str, str, str]]:
    """Attacks, variants and the reason, one entry for all attacks that were left out for one reason.

    Example:
        >>> left_out_words([LeftOut("mink", "full", "no texts"), LeftOut("zlib", "full", "no texts")])
        [('mink and zlib', 'full', 'no texts')]
    """
    by_attack: dict[tuple[str, str], list[str]] = {}
    for each in left:
        by_attack.setdefault((each.attack, each.reason), []).append(each.variant)
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (attack, reason), variants in by_attack.items():
        alike.setdefault((reason, tuple(variants)), []).append(attack)
    return [
        (listing([label(name) for name in names], 12), listing([label(v) for v in variants]), reason)
        for (reason, variants), names in alike.items()
    ]


def dependence(record: Record) -> np.ndarray | None:
    """Which samples depend on each other: those of one ``family`` [sample] and copies of a text; None if none do."""
    return text_families(record)


def _mean_over_runs(found: Sequence[Estimate], level: float) -> Estimate:
    """Mean over runs, with an interval at least as wide as that of one run's samples.

    Runs share their samples, so the mean half-width of the runs stands for the samples (as if averaging bought
    nothing) and a t interval of the runs' values for the runs; the two add up in quadrature.
    """
    if len(found) == 1:
        return found[0]
    from scipy import stats

    values, low, high = (
        np.sort([getattr(each, name) for each in found]) for name in ("value", "low", "high")
    )
    value = float(values.mean())
    between = float(stats.t.ppf((1 + level) / 2, len(found) - 1) * values.std(ddof=1)) / math.sqrt(len(found))
    down, up = (
        math.hypot(value - float(low.mean()), between),
        math.hypot(float(high.mean()) - value, between),
    )
    method = f"{found[0].method}, mean over {len(found)} runs"
    n = max(each.n for each in found)
    return Estimate(value, max(-1.0, value - down), min(1.0, value + up), n, level, method)


def _epsilon(
    runs: Iterable[tuple[Float[np.ndarray, " sample"], Any, Any]], cluster: np.ndarray | None, level: float
) -> EpsilonBound:
    """The best of the runs' bounds on one and the same epsilon, each at a share of the error (Bonferroni)."""
    runs = list(runs)
    share = 1 - (1 - level) / len(runs)
    found = [epsilon_one_run(s, y, cluster=cluster, keep=k, level=share) for s, y, k in runs]
    best = max(found, key=lambda bound: bound.value)
    method = best.method + (f", best of {len(runs)} (Bonferroni)" if len(runs) > 1 else "")
    return EpsilonBound(best.value, best.ceiling, best.n, level, best.delta, method)


def _point_json(point: OperatingPoint) -> dict[str, Any]:
    return {
        "fpr": point.fpr,
        **point.tpr.to_json(),
        "realised_fpr": point.realised_fpr,
        "members": point.members,
        "nonmembers": point.nonmembers,
        "resolvable": point.resolvable,
        "needs": point.needs,
        "ppv": [{"prior": prior, **_ends(ppv(point, prior))} for prior in PRIORS],
    }


def _ends(found: Estimate) -> dict[str, float]:
    return {"value": found.value, "low": found.low, "high": found.high}
