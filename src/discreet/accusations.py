"""Who was in the training set, by name, with a guarantee on the share of wrong accusations.

Benjamini and Hochberg, "Controlling the False Discovery Rate" (1995), on conformal p-values, which depend on each
other only in the harmless direction: Bates et al., "Testing for Outliers with Conformal p-values" (2023), section 2.
The false discovery rate then holds whatever share of the samples are members.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet._types import Bool, Float, Int
from discreet.attacks import Attack, Scores, attack, parse
from discreet.attacks._public import known_answers, public_samples
from discreet.conformal import needs as rows_needed
from discreet.conformal import p_values, realised_band
from discreet.fixed_counts import evened, fewest, may_tell_by_count, unused_by_all
from discreet.groups import mondrian
from discreet.labelled import check_level
from discreet.records import Record, RecordError

__all__ = ["Accusations", "accuse", "benjamini_hochberg"]

_NOTHING = "nothing to calibrate on: needs the signal public or known, or more runs with membership"


@dataclass(frozen=True, eq=False)
class Accusations:
    """The list of one attack on one model.

    Attributes:
        attack: Spec string of the attack.
        run: Training run of the target.
        step: Step of the target.
        variant: Variant of the target.
        rule: ``"fdr"``: the share of wrong ones among the accused is at most ``rate`` on average; or ``"alpha"``:
            a non-member is accused with probability at most ``rate``.
        rate: That rate.
        sample: Ids of the samples judged: all but those whose answer the attacker knows beforehand.
        p: Conformal p-value of each; small = unlike a non-member.
        accused: Ids of the accused, the smallest p-value first (ids break ties).
        calibration: Scores of non-members that they were compared with; with groups, of the smallest group.
        source: Whose: ``"public"`` samples, ``"known"`` non-members of the target, or non-members of the
            ``"other runs"``. The last holds on average over runs, if these are drawn alike, and not for each.
        low: Lower end of the band of the realised false positive rate at the cut-off of this list, taken as given
            (with groups: in every group). With ``"other runs"`` 0, since nothing can be said for one run.
        high: Upper end; with ``"other runs"`` 1.
        level: Confidence level of the band.
        resolvable: Whether there are enough calibration rows to accuse anybody.
        needs: Calibration rows (in each group) needed to accuse one sample alone.
        fewest: Smallest number that can be accused at once with these calibration rows.
    """

    attack: str
    run: str
    step: float
    variant: str
    rule: str
    rate: float
    sample: np.ndarray
    p: Float[np.ndarray, " judged"]
    accused: np.ndarray
    calibration: int
    source: str
    low: float
    high: float
    level: float
    resolvable: bool
    needs: int
    fewest: int

    def __str__(self) -> str:
        aim = f"{'FDR' if self.rule == 'fdr' else 'FPR'} {self.rate:.4g}"
        count = f"{len(self.accused):,} of {len(self.sample):,} accused"
        start = f"{self.attack} on {self.variant}, run {self.run}: {count}"
        if not self.resolvable:
            few = f"needs {self.needs:,} calibration rows, has {self.calibration:,}"
            return f"{start}; {aim} is not resolvable ({few})"
        band = (
            "on average over runs"
            if self.source == "other runs"
            else f"realised FPR {self.low:.3g} to {self.high:.3g} ({self.level:.4g})"
        )
        few = f"; {self.fewest:,} at once or none" if self.fewest > 1 else ""
        return f"{start} at {aim}, {band}, {self.calibration:,} calibration rows ({self.source}){few}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; the p-values are those of ``sample``, in its order."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return plain | {name: plain[name].tolist() for name in ("sample", "p", "accused")}


def accuse(
    record: Record,
    method: Attack | str,
    *,
    run: str,
    variant: str,
    step: float | None = None,
    fdr: float | None = None,
    alpha: float | None = None,
    groups: np.ndarray | str | None = None,
    level: float = 0.95,
) -> Accusations:
    """Attack one model and accuse the samples that score too high for a non-member.

    Calibration rows are public samples (signal ``public``; without it, those that took part in no other run, where
    the others would have covered the pool) that the attack's fit did not see. Attacks that compare with other runs
    treat a sample in none of them differently from the rest; they are calibrated on the target's known non-members
    (signal ``known``), or else by attacking the other runs in turn, whose members the attacker knows. Where runs may
    share out the samples so that counting them gives the answer, every sample is compared with as many runs that
    trained on it as every other, and as many that did not (:mod:`discreet.fixed_counts`).

    Args:
        record: Measurements, blind to the run's membership or not: it is not looked at.
        method: An attack or its spec string.
        run: Training run of the target.
        variant: Variant of the target.
        step: Step of the target; its last one when None.
        fdr: Accept this share of wrong accusations among the accused, on average.
        alpha: Or: accuse a non-member with this probability.
        groups: One label a sample, or the name of such a signal: each sample is compared with its own group alone
            (Mondrian), so that ``alpha`` holds in each group.
        level: Confidence level of the band of the realised rate.

    Raises:
        ValueError: Not one of ``fdr`` and ``alpha``, or out of (0, 1).
        RecordError: Nothing to calibrate on, no such model, or the record lacks what the attack needs.

    Example:
        >>> record = Record(
        ...     run=("0",), step=np.array([1.0]), variant=("full",), sample=np.arange(22),
        ...     signals={"loss": np.r_[0.0, 3.0, np.arange(1.0, 21)][None], "public": np.r_[0, 0, np.ones(20, int)]},
        ... )
        >>> accuse(record, "loss", run="0", variant="full", alpha=0.05).accused.tolist()
        [0]
    """
    rule, rate = _rule(fdr, alpha)
    check_level(level)
    method = parse(method) if isinstance(method, str) else method
    blind = record.blind(run)
    given = _given(blind, method, run, variant)
    judged = ~given.public & (given.known < 0)
    if not judged.any():
        raise blind.error(
            "public, known: the attacker knows the answer to every sample; none is left to judge"
        )
    scores = attack(given.even(blind), method, run=run, variant=variant, step=step)
    rows = _calibration(blind, method, scores, given)
    source = rows.source
    if groups is None:
        p, sizes = p_values(scores.values[judged], rows.scores), [len(rows.scores)]
    else:
        labels = _labels(blind, groups)
        p, by_group = mondrian(scores.values[judged], labels[judged], rows.scores, labels[rows.column], rate)
        sizes = [by_group[name].n for name in np.unique(labels[judged]).astype(str).tolist()]
    chosen = benjamini_hochberg(p, rate) if rule == "fdr" else p <= rate
    ids = record.sample[judged]
    smallest, low, high = min(sizes), 0.0, 1.0
    # BH's line at the number accused; fresh non-members of this p-value or less would be accused too.
    cut = rate if rule == "alpha" else rate * int(chosen.sum()) / len(p)
    if source != "other runs":
        ends = [
            realised_band(n, cut, level=1 - (1 - level) / len(sizes)) if cut else (0.0, 0.0) for n in sizes
        ]
        low, high = min(end for end, _ in ends), max(end for _, end in ends)
    alone = rate if rule == "alpha" else rate / len(p)
    return Accusations(
        attack=scores.attack,
        run=run,
        step=scores.step,
        variant=variant,
        rule=rule,
        rate=rate,
        sample=ids,
        p=p,
        accused=ids[chosen][np.lexsort((ids[chosen], p[chosen]))],
        calibration=smallest,
        source=source,
        low=low,
        high=high,
        level=level,
        resolvable=smallest >= rows_needed(rate),
        needs=rows_needed(alone),
        fewest=1 if rule == "alpha" else max(1, math.ceil(len(p) / (rate * (smallest + 1)) - 1e-9)),
    )


def benjamini_hochberg(p: Float[np.ndarray, " test"], fdr: float) -> Bool[np.ndarray, " test"]:
    """Reject the k smallest p-values, k the largest number with p_(k) <= fdr k / m (the paper's Eq. 1).

    Example:
        >>> benjamini_hochberg(np.array([0.3, 0.01, 0.04, 0.9]), 0.1).tolist()
        [False, True, True, False]
    """
    m = len(p)
    # Equal rationals may differ in the last bit of their floats.
    line = fdr * np.arange(1, m + 1) / m * (1 + 1e-12)
    below = np.flatnonzero(np.sort(p) <= line)
    return p <= line[below[-1]] if below.size else np.zeros(m, dtype=bool)


def _rule(fdr: float | None, alpha: float | None) -> tuple[str, float]:
    if (fdr is None) == (alpha is None):
        raise ValueError(f"accuse: expected one of fdr and alpha, got {'neither' if fdr is None else 'both'}")
    rule, rate = ("fdr", fdr) if alpha is None else ("alpha", alpha)
    if rate is None or not 0 < rate < 1:
        raise ValueError(f"{rule}: expected a rate in (0, 1), got {rate}")
    return rule, float(rate)


def _marked(blind: Record) -> Bool[np.ndarray, " sample"]:
    return public_samples(blind) if "public" in blind.signals else np.zeros(blind.n_samples, dtype=bool)


def _known(blind: Record, run: str) -> Int[np.ndarray, " sample"]:
    """What the attacker of a run knows from whichever of its rows: 1 a member, 0 no member, -1 unknown."""
    if "known" not in blind.signals:
        return np.full(blind.n_samples, -1)
    return known_answers(blind, blind.rows(run=run)).max(axis=0)


@dataclass(frozen=True, eq=False)
class _Given:
    """What the attacker of one run starts from.

    Attributes:
        variant: Variant of the target.
        public: Samples known to be non-members of every run; none where nothing says so.
        known: What is known of the target: 1 a member, 0 no member, -1 unknown.
        dealt: Samples of a design that may fix in how many training sets each is; None if it does not.
        most: References that trained on a sample, and that did not, where these are even; None for all that the
            design leaves.
    """

    variant: str
    public: Bool[np.ndarray, " sample"]
    known: Int[np.ndarray, " sample"]
    dealt: Bool[np.ndarray, " sample"] | None
    most: tuple[int, int] | None

    def even(self, blind: Record) -> Record:
        """The record to attack with: as many references for members as for others, where a design is to be feared."""
        if self.dealt is None:
            return blind
        seen = _of_variant(blind, self.variant)
        return evened(seen, self.dealt, most=self.most) if seen.member_runs else seen


def _given(blind: Record, method: Attack, run: str, variant: str) -> _Given:
    marked, known = _marked(blind), _known(blind, run)
    dealt = may_tell_by_count(blind, np.where(marked, 0, known))
    learns = hasattr(method, "untouched")
    public = marked
    if "public" not in blind.signals:
        with suppress(RecordError):  # Nothing says who is no member.
            public = public_samples(blind) & (learns | unused_by_all(blind, dealt))
        if learns:
            dealt = None  # What it learns from is in no run, and surplus references would count as such.
    most = None
    if dealt is not None and not learns and not ((known == 0) & ~public).any():
        most = _shared(blind, variant, dealt)
    return _Given(variant, public, known, dealt, most)


def _shared(blind: Record, variant: str, dealt: Bool[np.ndarray, " sample"]) -> tuple[int, int]:
    """References on either side that the target and each other run have for all non-members alike.

    Another run has fewer than the target, which is out of the count there; were the target compared with more, or
    with another mixture of both sides, its non-members would not score like theirs.
    """
    least = [fewest(_of_variant(blind, variant), dealt)]
    for other in _runs(blind, variant):
        seen, outside = _of_variant(blind.blind(other), variant), dealt & ~blind.membership(other)
        if seen.member_runs and outside.any():
            least.append(fewest(seen, outside))
    return min(inside for inside, _ in least), min(outside for _, outside in least)


def _runs(blind: Record, variant: str) -> list[str]:
    """The other runs that have the variant and whose membership is known."""
    if blind.member is None:
        return []
    return [run for run in blind.member_runs if blind.rows(variant, run).size]


def _of_variant(blind: Record, variant: str) -> Record:
    """The runs that have the variant: no others are references, so no others may be counted."""
    have = {blind.run[row] for row in blind.rows(variant)}
    return blind.take_rows(np.flatnonzero([run in have for run in blind.run]))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Scores of non-members that the target's are compared with.

    Attributes:
        source: Where they come from.
        scores: The scores.
        column: Number of the sample of each.
    """

    source: str
    scores: Float[np.ndarray, " calibrated"]
    column: Int[np.ndarray, " calibrated"]


def _calibration(blind: Record, method: Attack, scores: Scores, given: _Given) -> _Rows:
    row = int(blind.rows(scores.variant, scores.run, scores.step)[0])
    untouched = getattr(method, "untouched", None)
    if untouched is not None:
        kept = np.asarray(untouched(blind, row), dtype=bool)
        if not kept.any():
            raise blind.error(f"public: {scores.attack} left no public sample untouched to calibrate on")
        return _Rows("public", scores.values[kept], np.flatnonzero(kept))
    if given.public.any() and not _compares(blind, method, row):
        return _Rows("public", scores.values[given.public], np.flatnonzero(given.public))
    strangers = (given.known == 0) & ~given.public
    if strangers.any():
        return _Rows("known", scores.values[strangers], np.flatnonzero(strangers))
    return _others(blind, method, scores, given)


def _compares(blind: Record, method: Attack, row: int) -> bool:
    """Whether the attack asks what the other runs trained on."""
    if blind.member is None:
        return False
    try:
        method(replace(blind, member=None, calibration=None), row)
    except RecordError:
        return True
    return False


def _others(blind: Record, method: Attack, scores: Scores, given: _Given) -> _Rows:
    """Scores of the non-members of each other run, attacked as the target is.

    Such a run has fewer references than the target (it does without its own partners too), so its scores spread
    more and the target's p-values are rather too large: at 0.1, with eight runs, 0.07 to 0.1 was measured. Where a
    design is to be feared that fixes counts, both have the same number.
    """
    found = []
    for other in _runs(blind, scores.variant):
        steps = blind.step[blind.rows(scores.variant, other)]
        step = scores.step if scores.step in steps else None
        strangers = ~blind.membership(other)
        # Partners are told by whole training sets, so references are made even after they are gone.
        seen = given.even(blind.blind(other))
        try:
            theirs = attack(seen, method, run=other, variant=scores.variant, step=step)
        except RecordError as error:
            raise blind.error(f"{scores.attack}: {_NOTHING} ({error})") from error
        outside = strangers & ~given.public & (_known(blind, other) < 0)
        if blind.calibration is not None:
            line, column = blind.member_runs.index(other), blind.variants.index(scores.variant)
            outside &= ~blind.calibration[line, column]
        found.append((theirs.values[outside], np.flatnonzero(outside)))
    if not any(len(values) for values, _ in found):
        raise blind.error(f"{scores.attack}: {_NOTHING}")
    return _Rows("other runs", *(np.concatenate(part) for part in zip(*found, strict=True)))


def _labels(blind: Record, groups: np.ndarray | str) -> np.ndarray:
    labels = blind.signal(groups) if isinstance(groups, str) else np.asarray(groups)
    if labels.shape != (blind.n_samples,):
        raise blind.error(
            f"groups: expected one label for each of {blind.n_samples} samples, got shape {list(labels.shape)}"
        )
    return labels
