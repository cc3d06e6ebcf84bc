"""What is required of a release: ``METRIC[@FPR][:VARIANT[:ATTACK]] OPERATOR NUMBER``, read against an audit."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from discreet._audit_laws import SHARES
from discreet._find import near
from discreet._words import label
from discreet.audit import Analysis

__all__ = ["OF_ATTACKS", "OF_RANKING", "OF_STORAGE", "GateError", "Requirement", "nearest", "parse"]

_FORM = re.compile(r"(?P<what>.*\S)\s*(?P<op><=|>=|<|>)\s*(?P<limit>[^<>=]+)", re.DOTALL)
OF_RANKING = ("r", "n_train_r", "rank")
OF_STORAGE = ("bits_per_weight", "bytes")
OF_ATTACKS = ("auc", "tpr", "balanced_accuracy")


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
        raise GateError(f"requirement {text!r}: no metric {metric!r}{nearest(metric, known)}")
    variant, attack = _names(names.strip(), analysis, text, metric)
    limit = _number(match["limit"], text, "limit")
    if metric in SHARES and not 0 <= limit <= 1:
        raise GateError(f"requirement {text!r}: {metric} lies between 0 and 1, so {limit:g} judges nothing")
    return Requirement(text, metric, fpr, variant, attack, match["op"], limit)


def _metrics(analysis: Analysis) -> list[str]:
    own = dict.fromkeys(row.metric for row in analysis.performance)
    return list(dict.fromkeys((*OF_RANKING, *OF_ATTACKS, *OF_STORAGE, "share_of_full", *own)))


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
            f"requirement {text!r}: the ranking has no variant {names!r}{nearest(names, variants)}"
        )
    if metric not in OF_ATTACKS:
        raise GateError(
            f"requirement {text!r}: {metric} is not the figure of an attack, so none can be named"
        )
    if attack not in attacks:
        raise GateError(f"requirement {text!r}: no attack {attack!r} was measured{nearest(attack, attacks)}")
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


def nearest(name: str, known: Sequence[str]) -> str:
    """What a wrong name may have meant, as the end of a message."""
    known = list(known)
    return near(name, known) or (
        f"; known: {', '.join(map(label, known[:12]))}" if known else "; there are none"
    )
