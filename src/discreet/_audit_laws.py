"""The laws of an audit, checked whenever one is made: what its types alone cannot say."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from discreet._json import words_for

if TYPE_CHECKING:
    from discreet.audit import Analysis, Audit, Ranked
    from discreet.audit_leaks import Blind, Exposed, Paired, RocCurve

__all__ = ["SHARES", "check"]

SHARES = ("auc", "auroc", "auprc", "accuracy", "balanced_accuracy", "tpr")
"""Figures that lie between 0 and 1."""

_IDENTITIES = {
    "performance": ("variant", "metric"),
    "storage": ("variant",),
    "attacks": ("variant", "attack", "metric", "rule"),
    "roc": ("variant", "attack"),
    "exposed": ("variant", "attack", "sample"),
    "classes": ("variant", "attack", "label", "metric"),
    "paired": ("variant", "against", "attack", "metric"),
}
_BY_VARIANT = (
    "performance",
    "storage",
    "attacks",
    "roc",
    "exposed",
    "classes",
    "paired",
    "curves",
    "lambda_",
)


def check(audit: Audit) -> None:
    """Refuse an audit that breaks a law.

    Raises:
        ValueError: naming the place, what was expected and what came.
    """
    if not audit.analyses:
        raise ValueError("analyses: expected at least one analysis, got an empty list")
    _unique([analysis.name for analysis in audit.analyses], "analyses")
    for place, node in _walk(audit, ""):
        _check_finite(place, node)
    if audit.blind is not None:
        _check_blind(audit.blind)
    for i, analysis in enumerate(audit.analyses):
        _check_analysis(analysis, f"analyses[{i}]")


def _check_blind(blind: Blind) -> None:
    if not 0 <= blind.low <= blind.auc <= blind.high <= 1:
        ends = (blind.low, blind.auc, blind.high)
        raise ValueError(f"blind: expected 0 <= low <= auc <= high <= 1, got {ends}")
    if blind.confounded != (blind.low > 0.5):
        raise ValueError(
            f"blind.confounded: expected {'true' if blind.low > 0.5 else 'false'} for an interval that begins at "
            f"{blind.low}, got {words_for(blind.confounded)}"
        )


def _walk(node: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield every leaf with its place."""
    if is_dataclass(node):
        for item in fields(node):
            yield from _walk(getattr(node, item.name), f"{place}.{item.name}".lstrip("."))
    elif isinstance(node, Mapping):
        for key, value in node.items():
            yield from _walk(value, f"{place}.{key}".lstrip("."))
    elif isinstance(node, (list, tuple)):
        for i, value in enumerate(node):
            yield from _walk(value, f"{place}[{i}]")
    else:
        yield place, node


def _check_finite(place: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(
            f"{place}: expected a finite number, got {value} (null stands for a number that is not there)"
        )


def _unique(names: Sequence[str], place: str) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ValueError(f"{place}[{i}]: the name {words_for(name)} is taken already")


def _check_analysis(analysis: Analysis, place: str) -> None:
    table = analysis.ranking
    names = [row.variant for row in table.variants]
    if not names:
        raise ValueError(f"{place}.ranking.variants: expected at least one variant, got an empty list")
    if not 0 < table.level < 1:
        raise ValueError(f"{place}.ranking.level: expected a number between 0 and 1, got {table.level}")
    _unique(names, f"{place}.ranking.variants")
    for i, row in enumerate(table.variants):
        _check_ranked(row, f"{place}.ranking.variants[{i}]")
    known = set(names)
    for key in _BY_VARIANT:
        for i, row in enumerate(getattr(analysis, key)):
            here = f"{place}.{key.rstrip('_')}[{i}]"
            _check_known(row.variant, known, f"{here}.variant")
            _check_columns(row, here)
            _check_figure(row, here)
    for i, row in enumerate(analysis.roc):
        _check_roc(row, f"{place}.roc[{i}]")
    for i, row in enumerate(analysis.exposed):
        _check_exposed(row, f"{place}.exposed[{i}]")
    for i, row in enumerate(analysis.paired):
        _check_paired(row, known, f"{place}.paired[{i}]")
    for key, identity in _IDENTITIES.items():
        rows = [tuple(str(getattr(row, name)) for name in identity) for row in getattr(analysis, key)]
        if key == "attacks":
            rows = [
                (*told, str(row.more.get("fpr"))) for told, row in zip(rows, analysis.attacks, strict=True)
            ]
        _unique([" ".join(told) for told in rows], f"{place}.{key}")
    for i, pair in enumerate(table.pairwise):
        here = f"{place}.ranking.pairwise[{i}]"
        _check_known(pair.safer, known, f"{here}.safer")
        _check_known(pair.than, known, f"{here}.than")
        if pair.probability is not None and not 0 <= pair.probability <= 1:
            raise ValueError(f"{here}.probability: expected a number from 0 to 1, got {pair.probability}")


def _check_ranked(row: Ranked, place: str) -> None:
    if (row.status == "ok") != (row.rank is not None):
        raise ValueError(
            f'{place}: a variant has a rank if and only if its status is "ok", got {words_for(row.status)}'
            f" and rank {words_for(row.rank)}"
        )
    if row.rank is not None and row.r is None:
        raise ValueError(f"{place}.r: expected a number for a ranked variant, got null")
    _check_interval(row.low, row.high, place, row.r)
    _check_interval(row.rank_low, row.rank_high, f"{place}.rank")


def _check_known(name: str, known: set[str], place: str) -> None:
    if name not in known:
        raise ValueError(f"{place}: the ranking has no variant {words_for(name)}")


def _check_columns(row: Any, place: str) -> None:
    """Columns of one length (an absent band may be empty), and intervals the right way round."""
    if hasattr(row, "steps") or hasattr(row, "deciding"):
        first = row.steps if hasattr(row, "steps") else row.rank
        columns = ("mean", "low", "high") if hasattr(row, "steps") else ("median", "deciding")
        for name in columns:
            column = getattr(row, name)
            if len(column) != len(first) and not (name in ("low", "high") and not column):
                raise ValueError(
                    f"{place}.{name}: expected {len(first)} numbers, one a step, got {len(column)}"
                )
        return
    if hasattr(row, "low"):
        _check_interval(row.low, row.high, place)


def _check_figure(row: Any, place: str) -> None:
    """A number lies inside its own interval, shares between 0 and 1, sizes above 0."""
    if hasattr(row, "metric"):
        _check_interval(row.low, row.high, place, row.value)
        if not hasattr(row, "against") and row.metric.partition("@")[0] in SHARES and not 0 <= row.value <= 1:
            raise ValueError(f"{place}.value: expected a number from 0 to 1, got {row.value}")
    if hasattr(row, "share_of_full"):
        _check_interval(row.share_low, row.share_high, f"{place}.share", row.share_of_full)
    if hasattr(row, "bytes") and (row.bytes < 0 or row.bits_per_weight < 0):
        raise ValueError(
            f"{place}: expected sizes of at least 0, got {row.bytes} bytes, {row.bits_per_weight} bits"
        )


def _check_roc(row: RocCurve, place: str) -> None:
    if len(row.tpr) != len(row.fpr):
        raise ValueError(f"{place}.tpr: expected {len(row.fpr)} numbers, one a rate, got {len(row.tpr)}")
    for name, column in (("fpr", row.fpr), ("tpr", row.tpr)):
        for i, value in enumerate(column):
            if not 0 <= value <= 1 or (i and value < column[i - 1] - 1e-12):
                raise ValueError(f"{place}.{name}[{i}]: expected rates from 0 to 1, ascending, got {value}")
    if not 0 < row.resolvable <= 1:
        raise ValueError(f"{place}.resolvable: expected a number above 0 and up to 1, got {row.resolvable}")


def _check_exposed(row: Exposed, place: str) -> None:
    for name, count, total in (("caught", row.caught, row.runs), ("accused", row.accused, row.others)):
        if not 0 <= count <= total:
            raise ValueError(f"{place}.{name}: expected a count from 0 to {total}, got {count}")
    if not 0 <= row.mean_rank <= 1:
        raise ValueError(f"{place}.mean_rank: expected a number from 0 to 1, got {row.mean_rank}")


def _check_paired(row: Paired, known: set[str], place: str) -> None:
    _check_known(row.against, known, f"{place}.against")
    answer = "less" if row.high < 0 else "more" if row.low > 0 else "not told apart"
    if row.answer != answer:
        raise ValueError(
            f"{place}.answer: an interval of {row.low} to {row.high} says {words_for(answer)}, "
            f"got {words_for(row.answer)}"
        )


def _check_interval(
    low: int | float | None, high: int | float | None, place: str, value: int | float | None = None
) -> None:
    if low is not None and high is not None and low > high:
        raise ValueError(f"{place}: the interval's low end {low} lies above its high end {high}")
    if value is None:
        return
    slack = 1e-9 * abs(value)
    if (low is not None and low > value + slack) or (high is not None and value > high + slack):
        raise ValueError(f"{place}: the number {value} lies outside its own interval, {low} to {high}")
