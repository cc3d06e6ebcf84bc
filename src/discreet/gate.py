"""The release gate: an audit and what is required of it, judged with one reason per requirement.

It fails closed. A number that is missing, or that rests on a trajectory which says little, does not pass. By
default the end of the interval that speaks against the release is judged: the high end where a number must
be small, the low end where it must be large.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet._audit_laws import SHARES
from discreet._find import near
from discreet._json import dumps, plain, save
from discreet._words import interval, label, number
from discreet.audit import Analysis, Audit, Ranked
from discreet.summary import DOUBTS

__all__ = ["Check", "GateError", "Requirement", "Verdict", "gate", "parse"]

_FORM = re.compile(r"(?P<what>.*\S)\s*(?P<op><=|>=|<|>)\s*(?P<limit>[^<>=]+)", re.DOTALL)
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OF_RANKING = ("r", "n_train_r", "rank")
_OF_STORAGE = ("bits_per_weight", "bytes")
_OF_ATTACKS = ("auc", "tpr")


class GateError(ValueError):
    """A requirement that cannot be understood: nothing was judged."""


@dataclass(frozen=True)
class Requirement:
    """``METRIC[@FPR][:VARIANT[:ATTACK]] OPERATOR NUMBER``, read; what is None was not named."""

    text: str
    metric: str
    fpr: float | None
    variant: str | None
    attack: str | None
    operator: str
    limit: float


@dataclass(frozen=True)
class Check:
    """One requirement judged. ``judged`` is the number that was compared, None if there was none."""

    requirement: str
    passed: bool
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


@dataclass(frozen=True)
class Verdict:
    """The gate's answer: passed only if every requirement did."""

    passed: bool
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


def gate(
    audit: Audit,
    requirements: Sequence[str],
    *,
    bound: str = "interval",
    accept: Sequence[str] = (),
    analysis: str | None = None,
) -> Verdict:
    """Judge an audit.

    Metrics: ``r``, ``n_train_r``, ``rank`` of the ranking; ``auc`` and ``tpr@FPR`` of the attacks;
    ``share_of_full`` and every performance metric by its name; ``bits_per_weight`` and ``bytes``. Where no
    variant or attack is named, the worst of them is judged, the full-precision reference included.

    Args:
        audit: what was measured.
        requirements: such as ``"auc:sign < 0.55"`` or ``"share_of_full:sign >= 95 %"``.
        bound: ``"interval"`` judges the end that speaks against the release; ``"point"`` the estimate.
        accept: diagnostics to overlook. A ranking number of a variant that is ``not-converged``,
            ``worse-than-constant`` or ``not-comparable`` does not pass unless this is listed here.
        analysis: which analysis of the audit; by default the headline, the first.

    Returns:
        The verdict, with one reason per requirement.

    Raises:
        GateError: if there is no requirement, or one cannot be understood, or names what the audit lacks; or
            ``accept`` names none of the three.
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
    checks = tuple(_check(chosen, parse(text, chosen), bound, tuple(accept)) for text in requirements)
    return Verdict(all(check.passed for check in checks), chosen.name, bound, tuple(accept), checks)


def parse(text: str, analysis: Analysis) -> Requirement:
    """Read one requirement against the names of an analysis (names may hold colons and comparison signs).

    Raises:
        GateError: saying what was expected, with the nearest name that exists.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise GateError(
            f"requirement {text!r}: expected METRIC[@FPR][:VARIANT[:ATTACK]] followed by <, <=, > or >= and a number"
        )
    metric_part, _, names = match["what"].strip().partition(":")
    metric, _, fpr_part = metric_part.strip().partition("@")
    metric = metric.strip()
    fpr = _number(fpr_part, text, "false-positive rate") if fpr_part else None
    if fpr is not None and (metric != "tpr" or not 0 < fpr < 1):
        raise GateError(f"requirement {text!r}: only tpr takes a false-positive rate, between 0 and 1")
    if metric == "tpr" and fpr is None:
        raise GateError(f"requirement {text!r}: tpr needs its false-positive rate, as in tpr@0.01")
    known = _metrics(analysis)
    if metric not in known:
        raise GateError(f"requirement {text!r}: no metric {metric!r}{_nearest(metric, known)}")
    variant, attack = _names(names.strip(), analysis, text, metric)
    limit = _number(match["limit"], text, "limit")
    if metric in SHARES and not 0 <= limit <= 1:
        raise GateError(f"requirement {text!r}: {metric} lies between 0 and 1, so {limit:g} judges nothing")
    return Requirement(text, metric, fpr, variant, attack, match["op"], limit)


def _choose(audit: Audit, name: str | None) -> Analysis:
    if name is None:
        return audit.analyses[0]
    names = [analysis.name for analysis in audit.analyses]
    if name not in names:
        raise GateError(f"analysis: the audit has no {name!r}{_nearest(name, names)}")
    return audit.analyses[names.index(name)]


def _metrics(analysis: Analysis) -> list[str]:
    own = dict.fromkeys(row.metric for row in analysis.performance)
    return list(dict.fromkeys((*_OF_RANKING, *_OF_ATTACKS, *_OF_STORAGE, "share_of_full", *own)))


def _names(names: str, analysis: Analysis, text: str, metric: str) -> tuple[str | None, str | None]:
    """Split ``VARIANT[:ATTACK]``: the longest text that is a variant's name wins."""
    variants = [row.variant for row in analysis.ranking.variants]
    attacks = list(dict.fromkeys(row.attack for row in analysis.attacks))
    if not names or names in variants:
        return names or None, None
    variant, colon, attack = names.rpartition(":")
    while colon and variant and variant not in variants:
        variant, colon, _ = variant.rpartition(":")
    attack = names[len(variant) + 1 :] if colon else ""
    if not colon:
        raise GateError(
            f"requirement {text!r}: the ranking has no variant {names!r}{_nearest(names, variants)}"
        )
    if metric not in _OF_ATTACKS:
        raise GateError(
            f"requirement {text!r}: {metric} is not the figure of an attack, so none can be named"
        )
    if attack not in attacks:
        raise GateError(f"requirement {text!r}: no attack {attack!r} was measured{_nearest(attack, attacks)}")
    return variant or None, attack


def _number(text: str, requirement: str, what: str) -> float:
    digits = text.strip()
    scale = 100 if digits.endswith("%") else 1
    try:
        value = math.nan if "_" in digits else float(digits.removesuffix("%")) / scale
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise GateError(f"requirement {requirement!r}: the {what} {digits!r} is not a number")
    return value


def _nearest(name: str, known: Sequence[str]) -> str:
    known = list(known)
    return near(name, known) or (
        f"; known: {', '.join(map(label, known[:12]))}" if known else "; there are none"
    )


def _check(analysis: Analysis, wanted: Requirement, bound: str, accept: tuple[str, ...]) -> Check:
    """Judge the worst of the numbers that a requirement speaks about; one without a number is worse than any."""
    found = [_relied(item, bound, wanted) for item in _find(analysis, wanted, accept)]
    small = wanted.operator in ("<", "<=")
    missing = [item for item in found if item.trouble]
    if missing:
        worst, judged = missing[0], None
    else:
        worst = (max if small else min)(found, key=lambda item: _judged(item, bound, small))
        judged = _judged(worst, bound, small)
    passed = judged is not None and _COMPARE[wanted.operator](judged, wanted.limit)
    return Check(
        requirement=wanted.text,
        passed=passed,
        reason=_reason(wanted, worst, judged, passed, bound, len(found)),
        metric=wanted.metric if wanted.fpr is None else f"{wanted.metric}@{wanted.fpr:g}",
        variant=worst.variant or None,
        attack=worst.attack,
        operator=wanted.operator,
        limit=wanted.limit,
        judged=judged,
        value=worst.value,
        low=worst.low,
        high=worst.high,
    )


def _relied(item: _Found, bound: str, wanted: Requirement) -> _Found:
    """Mark a number as missing where the end of the interval that must be judged does not exist."""
    if item.trouble or item.exact:
        return item
    end = item.high if wanted.operator in ("<", "<=") else item.low
    if item.value is None:
        trouble = "there is no number"
    elif bound == "interval" and end is None:
        trouble = 'the number has no interval (bound "point" judges it without)'
    else:
        return item
    return _Found(item.variant, item.attack, item.value, item.low, item.high, trouble=trouble)


def _judged(item: _Found, bound: str, small: bool) -> float:
    chosen = item.value if bound == "point" or item.exact else item.high if small else item.low
    return math.nan if chosen is None else chosen


def _find(analysis: Analysis, wanted: Requirement, accept: tuple[str, ...]) -> list[_Found]:
    """Every number that a requirement speaks about: one a variant, or one a variant and attack or metric."""
    rows = [row for row in analysis.ranking.variants if wanted.variant in (None, row.variant)]
    if wanted.metric in _OF_RANKING:
        return [_of_ranking(row, wanted.metric, accept) for row in rows]
    if wanted.metric in _OF_STORAGE:
        measured = _of_storage(analysis, wanted.metric)
    elif wanted.metric in _OF_ATTACKS:
        measured = _of_attacks(analysis, wanted)
    else:
        measured = _of_performance(analysis, wanted.metric)
    by_key = {(key, item.variant): item for key, item in measured}
    keys = list(dict.fromkeys(key for key, _ in by_key)) or [wanted.attack or ""]
    attack = wanted.metric in _OF_ATTACKS
    return [
        by_key.get(
            (key, row.variant),
            _Found(row.variant, key or None if attack else None, trouble="it was not measured"),
        )
        for row in rows
        for key in keys
    ]


def _of_ranking(row: Ranked, metric: str, accept: tuple[str, ...]) -> _Found:
    if row.rank is None or row.r is None:
        return _Found(row.variant, trouble=f"its r is {row.status}")
    for name, why in DOUBTS.items():
        if name in row.diagnostics and name not in accept:
            return _Found(row.variant, trouble=f"{why} ({name}), so its r says little")
    if metric == "rank":
        return _Found(row.variant, None, _float(row.rank), _float(row.rank_low), _float(row.rank_high))
    if metric == "r":
        return _Found(row.variant, None, row.r, row.low, row.high)
    if row.n_train_r is None:
        return _Found(row.variant, trouble="the number of training records is not known")
    if row.r == 0:
        return _Found(row.variant, None, row.n_train_r, row.n_train_r, None)
    n_train = row.n_train_r / row.r
    low, high = (None if end is None else n_train * end for end in (row.low, row.high))
    return _Found(row.variant, None, row.n_train_r, low, high)


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)


def _of_storage(analysis: Analysis, metric: str) -> Iterator[tuple[str, _Found]]:
    for row in analysis.storage:
        yield "", _Found(row.variant, value=float(getattr(row, metric)), exact=True)


def _of_attacks(analysis: Analysis, wanted: Requirement) -> Iterator[tuple[str, _Found]]:
    for row in analysis.attacks:
        name, _, at = row.metric.partition("@")
        fits = name == wanted.metric and (
            wanted.fpr is None or _same_rate(row.more.get("fpr", at), wanted.fpr)
        )
        if fits and wanted.attack in (None, row.attack):
            yield row.attack, _Found(row.variant, row.attack, row.value, row.low, row.high)


def _same_rate(rate: Any, wanted: float) -> bool:
    try:
        return math.isclose(float(rate), wanted, rel_tol=1e-9)
    except (TypeError, ValueError):
        return False


def _of_performance(analysis: Analysis, metric: str) -> Iterator[tuple[str, _Found]]:
    for row in analysis.performance:
        if metric == "share_of_full":
            yield row.metric, _Found(row.variant, None, row.share_of_full, row.share_low, row.share_high)
        elif row.metric == metric:
            yield row.metric, _Found(row.variant, None, row.value, row.low, row.high)


def _reason(
    wanted: Requirement, worst: _Found, judged: float | None, passed: bool, bound: str, compared: int
) -> str:
    metric = wanted.metric if wanted.fpr is None else f"{wanted.metric}@{wanted.fpr:g}"
    whose = f"{metric} of {label(worst.variant)}" + (f" under {label(worst.attack)}" if worst.attack else "")
    if judged is None:
        return f"not passed: {whose}: {worst.trouble} (required {wanted.operator} {wanted.limit:g})"
    end = ""
    if bound == "interval" and not worst.exact:
        side = "high" if wanted.operator in ("<", "<=") else "low"
        end = f", the {side} end of {number(worst.value)} ({interval(worst.low, worst.high)})"
    most = f", the worst of {compared}" if compared > 1 else ""
    verb = "passed" if passed else "not passed"
    return f"{verb}: {whose} is {judged:.6g}{end}{most} (required {wanted.operator} {wanted.limit:g})"
