"""What attacks fit: one frozen dataclass a file, found by file name.

A quantile learner predicts, for each record, the distribution of a score among records that a model was
not trained on; other learners tell members from non-members they were given. Which library does it is a
learner's own affair, loaded when the learner is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet import _find
from discreet.learners._levels import LEVELS, check_level, pinball_loss
from discreet.learners._protocol import Predictor, QuantileLearner
from discreet.learners._search import search
from discreet.learners._selection import Candidate, Selection, deal, fold_seed, held_out_pinball, select
from discreet.learners._space import Choice, Range

if TYPE_CHECKING:
    from discreet.learners._attacker import Attacker
    from discreet.learners._evidence import Evidence

__all__ = [
    "LEVELS",
    "Attacker",
    "Candidate",
    "Choice",
    "Evidence",
    "Predictor",
    "QuantileLearner",
    "Range",
    "Selection",
    "check_level",
    "deal",
    "fold_seed",
    "held_out_pinball",
    "names",
    "parse",
    "pinball_loss",
    "quantile_learner",
    "search",
    "select",
]


def __getattr__(name: str) -> Any:
    if name == "Evidence":  # these two need torch
        from discreet.learners._evidence import Evidence

        return Evidence
    if name == "Attacker":
        from discreet.learners._attacker import Attacker

        return Attacker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def names() -> tuple[str, ...]:
    """Names of all learners, found by listing this folder.

    Example:
        >>> "ridge" in names()
        True
    """
    return _find.names(__name__)


def parse(spec: str) -> Any:
    """Build the learner that a spec string describes, of whatever kind.

    Raises:
        SpecError: Unknown learner or field, a value that it refuses, or a package it needs is not installed.

    Example:
        >>> parse("ridge(penalty=3.0)").penalty
        3.0
    """
    return _find.parse(spec, __name__)


def quantile_learner(spec: str) -> QuantileLearner:
    """Build a learner of quantiles.

    Raises:
        SpecError: As :func:`parse`, or the learner learns something else.
    """
    learner = parse(spec)
    if not isinstance(learner, QuantileLearner):
        raise _find.SpecError(f"learner {spec!r} does not predict quantiles of a score (fit and space)")
    return learner
