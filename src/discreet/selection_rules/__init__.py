"""Which candidate goes on: one rule a file, found by file name."""

from __future__ import annotations

import copy

import numpy as np

from discreet import _find
from discreet.selection_rules._protocol import Candidate, SelectionRule

__all__ = ["Candidate", "SelectionRule", "choose", "names", "parse"]


def names() -> tuple[str, ...]:
    """Names of all rules, found by listing this folder.

    Example:
        >>> names()
        ('constrained', 'indicator', 'least', 'random', 'tm')
    """
    return _find.names(__name__)


def parse(spec: str | SelectionRule) -> SelectionRule:
    """The rule that a spec string such as ``"constrained(delta=0.02)"`` describes.

    Raises:
        SpecError: Unknown name or field, or something else than a rule.
    """
    rule = _find.parse(spec, __name__) if isinstance(spec, str) else spec
    if not isinstance(rule, SelectionRule):
        raise _find.SpecError(f"{spec!r} is no selection rule: it needs needs and worth")
    return rule


def choose(
    rule: SelectionRule, candidates: tuple[Candidate, ...], draw: np.random.Generator
) -> tuple[int, bool]:
    """The candidate that goes on, and whether the rule told candidates apart at all, which lots never do.

    Raises:
        ValueError: The rule gives something else than one number a candidate.

    Example:
        >>> from discreet.estimate import Estimate
        >>> same = Estimate(0.9, 0.8, 1.0, 100, 0.95)
        >>> pair = Candidate("a", same, 0.6, 0.01), Candidate("b", same, 0.5, 0.01)
        >>> choose(parse("tm"), pair, np.random.default_rng(0))
        (1, True)
        >>> choose(parse("random"), pair, np.random.default_rng(0))[1]
        False
    """
    alike = (candidates[0],) * len(candidates)
    blind = np.asarray(rule.worth(alike, copy.deepcopy(draw)), dtype=np.float64)
    worth = np.asarray(rule.worth(candidates, draw), dtype=np.float64)
    if worth.shape != (len(candidates),) or np.isnan(worth).any():
        raise ValueError(f"{rule}: expected one number for each of {len(candidates)} candidates, got {worth}")
    # Numbers that equal candidates would have been given as well say nothing of these.
    return int(worth.argmax()), bool(np.unique(worth).size > 1 and not np.array_equal(worth, blind))
