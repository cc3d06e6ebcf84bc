"""The release gate: an audit and what is required of it, judged with one reason per requirement.

There are three outcomes. A requirement passes only if the whole interval meets it, so that the end which speaks
against the release does: the high end where a number must be small, the low end where it must be large. It fails
only if no part of the interval meets it. Between the two it is undecided, and the reason says how much more data
would decide it. A number that is missing, or that rests on a trajectory which says little, never passes and never
fails: it cannot be judged, which counts as undecided.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from discreet._json import dumps, plain, save
from discreet._words import interval, label, number, rounded_up, whole
from discreet.audit import Analysis, Attack, Audit, Ranked
from discreet.requirement import OF_ATTACKS, OF_RANKING, OF_STORAGE, GateError, Requirement, nearest, parse
from discreet.summary import DOUBTS, confounding

__all__ = ["Check", "GateError", "Outcome", "Requirement", "Verdict", "gate", "parse"]

Outcome = Literal["passed", "failed", "undecided"]

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FARTHEST = 1000.0  # a half-width to shrink by more than this is not worth a number


@dataclass(frozen=True)
class Check:
    """One requirement judged.

    ``judged`` is the number that was compared, None if there was none: the end of the interval that speaks against
    the release, or, where even that fails, the other one. ``needed`` is about how many records or samples (``n`` of
    them there are) would decide what is undecided, if the number stays what it is.
    """

    requirement: str
    passed: bool
    outcome: Outcome
    reason: str
    metric: str
    variant: str | None
    attack: str | None
    operator: str
    limit: float
    judged: float | None
    value: float | None
    low: float | None
    high: float | None
    n: int | None
    needed: int | None


@dataclass(frozen=True)
class Verdict:
    """The gate's answer: passed if every requirement did, failed if any did, else undecided."""

    passed: bool
    outcome: Outcome
    analysis: str
    bound: str
    accepted: tuple[str, ...]
    checks: tuple[Check, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """One sentence per requirement, in their order."""
        return tuple(check.reason for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return what ``gate.json`` holds (``report/gate.schema.json``)."""
        return {"schema": "discreet.gate/1", **plain(self)}

    def save(self, path: str | Path) -> Path:
        """Write ``gate.json`` in one step."""
        return save(path, dumps(self.to_json()))


@dataclass(frozen=True)
class _Found:
    """One number that a requirement speaks about, with its interval where it has one."""

    variant: str
    attack: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    exact: bool = False  # known without an interval: a size on disk
    trouble: str = ""  # why there is no number, or none to rely on
    n: int | None = None  # of what narrows the interval
    counted: str = ""  # what that is
    least: int | None = None  # how many of them the number needs to be resolved at all
    least_words: str = ""  # why


@dataclass(frozen=True)
class _Judged:
    """One number judged; ``end`` is what was compared with the limit."""

    found: _Found
    outcome: Outcome
    end: float | None


def gate(
    audit: Audit,
    requirements: Sequence[str],
    *,
    bound: str = "interval",
    accept: Sequence[str] = (),
    analysis: str | None = None,
) -> Verdict:
    """Judge an audit.

    Metrics: ``r``, ``n_train_r``, ``rank`` of the ranking; ``auc``, ``tpr@FPR`` and ``balanced_accuracy`` of the
    attacks; ``share_of_full`` and every performance metric by its name; ``bits_per_weight`` and ``bytes``. Where no
    variant or attack is named, the worst of them is judged, the full-precision reference included. Figures of
    attacks cannot be judged where members and non-members can be told apart without a model (``Audit.blind``).

    Args:
        audit: what was measured.
        requirements: such as ``"auc:sign < 0.55"`` or ``"share_of_full:sign >= 95 %"``.
        bound: ``"interval"`` judges the interval, with three outcomes; ``"point"`` compares the estimate, if
            its rate can be resolved at all.
        accept: diagnostics to overlook. A ranking number of a variant with one of ``summary.DOUBTS`` (such as
            ``not-converged``) cannot be judged unless that is listed here.
        analysis: which analysis of the audit; by default the headline, the first.

    Returns:
        The verdict, with one reason per requirement.

    Raises:
        GateError: if there is no requirement, or one cannot be understood, or names what the audit lacks; or
            ``accept`` names none of those.
    """
    if isinstance(requirements, str):
        raise GateError(f"requirements: expected a list of texts, got one text {requirements!r}")
    if not requirements:
        raise GateError("requirements: expected at least one; a gate that asks nothing would pass everything")
    if bound not in ("interval", "point"):
        raise GateError(f'bound: expected "interval" or "point", got {bound!r}')
    for name in accept:
        if name not in DOUBTS:
            raise GateError(f"accept: expected one of {', '.join(DOUBTS)}, got {name!r}")
    chosen = _choose(audit, analysis)
    wanted = [parse(text, chosen) for text in requirements]
    void = confounding(audit.blind) if audit.blind is not None and audit.blind.confounded else ""
    checks = tuple(
        _check(chosen, each, bound, tuple(accept), void if each.metric in OF_ATTACKS else "")
        for each in wanted
    )
    outcome = _worst([check.outcome for check in checks])
    return Verdict(outcome == "passed", outcome, chosen.name, bound, tuple(accept), checks)


def _worst(outcomes: Sequence[Outcome]) -> Outcome:
    return "failed" if "failed" in outcomes else "undecided" if "undecided" in outcomes else "passed"


def _choose(audit: Audit, name: str | None) -> Analysis:
    if name is None:
        return audit.analyses[0]
    names = [analysis.name for analysis in audit.analyses]
    if name not in names:
        raise GateError(f"analysis: the audit has no {name!r}{nearest(name, names)}")
    return audit.analyses[names.index(name)]


def _check(
    analysis: Analysis, wanted: Requirement, bound: str, accept: tuple[str, ...], void: str = ""
) -> Check:
    """Judge every number that a requirement speaks about, and keep the worst: one that fails before one unknown.

    ``void``: why none of them means anything.
    """
    items = [replace(item, trouble=void or item.trouble) for item in _find(analysis, wanted, accept)]
    judged = [_judge(item, wanted, bound) for item in items]
    outcome = _worst([each.outcome for each in judged])
    those = [each for each in judged if each.outcome == outcome]
    unknown = [each for each in those if each.end is None]
    sign = 1 if wanted.operator in ("<", "<=") else -1
    worst = unknown[0] if unknown else max(those, key=lambda each: sign * (each.end or 0.0))
    found = worst.found
    needed = _needed(worst, wanted)
    return Check(
        requirement=wanted.text,
        passed=outcome == "passed",
        outcome=outcome,
        reason=_reason(wanted, worst, bound, len(judged), needed),
        metric=wanted.metric if wanted.fpr is None else f"{wanted.metric}@{wanted.fpr:g}",
        variant=found.variant or None,
        attack=found.attack,
        operator=wanted.operator,
        limit=wanted.limit,
        judged=worst.end,
        value=found.value,
        low=found.low,
        high=found.high,
        n=found.n,
        needed=needed,
    )


def _judge(item: _Found, wanted: Requirement, bound: str) -> _Judged:
    """Passed if the end that speaks against the release meets the limit, failed if even the other one does not."""
    meets = _COMPARE[wanted.operator]
    against, favour = (item.high, item.low) if wanted.operator in ("<", "<=") else (item.low, item.high)
    if item.trouble:
        return _Judged(item, "undecided", None)
    if item.value is None:
        return _Judged(replace(item, trouble="there is no number"), "undecided", None)
    if bound == "point" and item.least is not None:
        return _Judged(replace(item, trouble=item.least_words), "undecided", None)
    if bound == "point" or item.exact:
        return _Judged(item, "passed" if meets(item.value, wanted.limit) else "failed", item.value)
    if against is not None and meets(against, wanted.limit):
        return _Judged(item, "passed", against)
    if favour is not None and not meets(favour, wanted.limit):
        return _Judged(item, "failed", favour)
    if against is None:
        trouble = 'the number has no interval (bound "point" judges it without)'
        return _Judged(replace(item, trouble=trouble), "undecided", None)
    return _Judged(item, "undecided", against)


def _needed(judged: _Judged, wanted: Requirement) -> int | None:
    """About how many records would decide it: the half-width of an interval shrinks like one over their root."""
    item = judged.found
    if judged.outcome != "undecided" or judged.end is None or item.value is None or not item.n:
        return None
    gap = abs(wanted.limit - item.value)
    # The number itself says which way it would be decided, and so which end has to come closer.
    end = item.high if item.value < wanted.limit else item.low
    half = abs((judged.end if end is None else end) - item.value)
    if gap == 0 or half / gap > _FARTHEST:
        return None
    return max(item.n + 1, math.ceil(item.n * (half / gap) ** 2), item.least or 0)


def _find(analysis: Analysis, wanted: Requirement, accept: tuple[str, ...]) -> list[_Found]:
    """Every number that a requirement speaks about: one a variant, or one a variant and attack or metric."""
    rows = [row for row in analysis.ranking.variants if wanted.variant in (None, row.variant)]
    if wanted.metric in OF_RANKING:
        return [_of_ranking(row, wanted.metric, accept) for row in rows]
    if wanted.metric in OF_STORAGE:
        measured = _of_storage(analysis, wanted.metric)
    elif wanted.metric in OF_ATTACKS:
        measured = _of_attacks(analysis, wanted)
    else:
        measured = _of_performance(analysis, wanted.metric)
    trouble = "it was not measured" + _rates(analysis, wanted)
    by_key = {(key, item.variant): item for key, item in measured}
    keys = list(dict.fromkeys(key for key, _ in by_key)) or [wanted.attack or ""]
    attack = wanted.metric in OF_ATTACKS
    return [
        by_key.get(
            (key, row.variant),
            _Found(row.variant, key or None if attack else None, trouble=trouble),
        )
        for row in rows
        for key in keys
    ]


def _rates(analysis: Analysis, wanted: Requirement) -> str:
    """Where a true positive rate was measured, if not at the rate that is wanted."""
    rates = {_rate(row) for row in analysis.attacks if row.metric.partition("@")[0] == wanted.metric}
    there = sorted((each for each in rates if each > 0), reverse=True)
    if wanted.fpr is None or not there or any(math.isclose(each, wanted.fpr) for each in there):
        return ""
    return f" at this rate (rates there are: {', '.join(f'{100 * each:g}%' for each in there)})"


def _of_ranking(row: Ranked, metric: str, accept: tuple[str, ...]) -> _Found:
    if row.rank is None or row.r is None:
        return _Found(row.variant, trouble=f"its r is {row.status}")
    for name, why in DOUBTS.items():
        if name in row.diagnostics and name not in accept:
            return _Found(row.variant, trouble=f"{why} ({name}), so its r says little")
    if metric == "rank":
        return _Found(row.variant, None, _float(row.rank), _float(row.rank_low), _float(row.rank_high))
    about: dict[str, Any] = {"n": row.samples, "counted": "evaluation samples"}
    if metric == "r":
        return _Found(row.variant, None, row.r, row.low, row.high, **about)
    if row.n_train_r is None:
        return _Found(row.variant, trouble="the number of training records is not known")
    if row.r == 0:
        return _Found(row.variant, None, row.n_train_r, row.n_train_r, None, **about)
    n_train = row.n_train_r / row.r
    low, high = (None if end is None else n_train * end for end in (row.low, row.high))
    return _Found(row.variant, None, row.n_train_r, low, high, **about)


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)


def _of_storage(analysis: Analysis, metric: str) -> Iterator[tuple[str, _Found]]:
    for row in analysis.storage:
        yield "", _Found(row.variant, value=float(getattr(row, metric)), exact=True)


def _of_attacks(analysis: Analysis, wanted: Requirement) -> Iterator[tuple[str, _Found]]:
    for row in analysis.attacks:
        fits = row.metric.partition("@")[0] == wanted.metric and (
            wanted.fpr is None or math.isclose(_rate(row), wanted.fpr)
        )
        if fits and wanted.attack in (None, row.attack):
            yield row.attack, _of_attack(row)


def _of_attack(row: Attack) -> _Found:
    """A figure of an attack, with what it rests on: records judged, and those that its rate takes."""
    runs, n = row.runs or 1, row.more.get("n")
    if not isinstance(n, int):
        n = None if row.members is None or row.nonmembers is None else (row.members + row.nonmembers) // runs
    least, words = None, ""
    needs = row.more.get("needs")
    if row.more.get("resolvable") is False and isinstance(needs, int) and row.nonmembers and n:
        there = row.nonmembers // runs
        least = math.ceil(n * needs / max(there, 1))
        words = (
            f"this rate takes {whole(needs)} non-members a run to be resolved, and there are {whole(there)}"
        )
    return _Found(
        row.variant,
        row.attack,
        row.value,
        row.low,
        row.high,
        n=n,
        counted="records (members and non-members)",
        least=least,
        least_words=words,
    )


def _rate(row: Attack) -> float:
    """The false positive rate of a figure; NaN if it has none."""
    try:
        return float(row.more.get("fpr", row.metric.partition("@")[2]))
    except (TypeError, ValueError):
        return math.nan


def _of_performance(analysis: Analysis, metric: str) -> Iterator[tuple[str, _Found]]:
    for row in analysis.performance:
        if metric == "share_of_full":
            ends = (row.share_of_full, row.share_low, row.share_high)
        elif row.metric == metric:
            ends = (row.value, row.low, row.high)
        else:
            continue
        yield row.metric, _Found(row.variant, None, *ends, n=row.n, counted="evaluation samples")


def _reason(wanted: Requirement, worst: _Judged, bound: str, compared: int, needed: int | None) -> str:
    found = worst.found
    metric = wanted.metric if wanted.fpr is None else f"{wanted.metric}@{wanted.fpr:g}"
    whose = f"{metric} of {label(found.variant)}" + (f" under {label(found.attack)}" if found.attack else "")
    required = f"(required {wanted.operator} {wanted.limit:g})"
    if worst.end is None:
        return f"cannot be judged: {whose}: {found.trouble} {required}"
    most = f", the worst of {compared}" if compared > 1 else ""
    shown = f"{number(found.value)} ({interval(found.low, found.high)})"
    if worst.outcome == "undecided":
        return f"undecided: {whose} is {shown}, with the limit inside{most}: {_more_data(found, needed)} {required}"
    end = ""
    if bound == "interval" and not found.exact:
        side = "high" if (wanted.operator in ("<", "<=")) == (worst.outcome == "passed") else "low"
        end = f", the {side} end of {shown}"
    return f"{worst.outcome}: {whose} is {worst.end:.6g}{end}{most} {required}"


def _more_data(found: _Found, needed: int | None) -> str:
    """What would decide it."""
    if not found.n:
        return "more data could decide it"
    if needed is None:
        return f"it lies so close to the limit that no affordable number of {found.counted} would decide it"
    words = f"; {found.least_words}" if found.least_words else ""
    return (
        f"about {rounded_up(needed)} {found.counted} would decide it if the number stays what it is "
        f"(there are {whole(found.n)}{words})"
    )
