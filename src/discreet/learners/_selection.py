"""Choose a learner by its pinball loss on rows it was not fitted on (Bertran et al. (2023), Eq. 1).

A lower pinball loss at the level of the target false positive rate means a stronger attack, and finding it
needs non-members only. Losses of different scores do not compare; those of different learners on one do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet import _find
from discreet._types import Float, Int
from discreet.learners._levels import check_level, check_levels, pinball_loss, resolvable
from discreet.learners._protocol import QuantileLearner
from discreet.learners._search import search

__all__ = ["Candidate", "Selection", "deal", "fold_seed", "held_out_pinball", "select"]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A learner, judged fold by fold on rows that its fit did not see.

    Attributes:
        learner: The learner.
        pinball: Mean held-out pinball loss at the target level, in units of the score.
        error: Standard error of that mean over rows.
        crossed: Share of held-out rows whose quantiles crossed before sorting.
        scores: Out-of-fold score of each row; higher = more likely member.
    """

    learner: QuantileLearner
    pinball: float
    error: float
    crossed: float
    scores: Float[np.ndarray, " n"]

    @property
    def spec(self) -> str:
        """The learner's spec string."""
        return _find.spec(self.learner, "discreet.learners")


@dataclass(frozen=True, eq=False)
class Selection:
    """All that was tried, in order.

    Attributes:
        level: The target level, 1 - alpha.
        levels: Levels that were fitted.
        candidates: What was tried.
    """

    level: float
    levels: Float[np.ndarray, " level"]
    candidates: tuple[Candidate, ...]

    @property
    def best(self) -> Candidate:
        """The candidate of least held-out pinball loss, the first of equals."""
        return min(self.candidates, key=lambda candidate: candidate.pinball)


def select(
    learners: Sequence[QuantileLearner],
    x: np.ndarray,
    y: np.ndarray | None,
    s: Float[np.ndarray, " n"],
    fold: Int[np.ndarray, " n"],
    *,
    level: float = 0.99,
    levels: Float[np.ndarray, " level"] | None = None,
    seed: int = 0,
    trials: int = 0,
) -> Selection:
    """Judge learners on held-out folds.

    Args:
        learners: What to try first.
        x: Features of non-members, [n, …].
        y: Their labels, or None.
        s: Their scores under the audited model.
        fold: Number of each row's fold, as :func:`deal` gives it.
        level: Level of the quantile to judge, 1 - alpha.
        levels: Levels to fit, ``level`` among them; those that the rows resolve when None.
        seed: Of fits and search.
        trials: Further settings to try, from the search spaces of ``learners`` (needs Optuna).

    Raises:
        ValueError: No learner, a level that is not among the levels, or rows that a learner refuses.
        SpecError: ``trials`` without Optuna.
    """
    if not learners:
        raise ValueError("learners: expected at least one, got none")
    if levels is None:
        levels = resolvable(len(s) - int(np.bincount(fold).max()), check_level(level))
    levels = check_levels(levels)
    if not np.isclose(levels, level, rtol=0, atol=1e-12).any():
        raise ValueError(f"level: expected one of the levels, got {level}")
    tried: dict[str, Candidate] = {}

    def judge(learner: QuantileLearner) -> float:
        spec = _find.spec(learner, "discreet.learners")
        if spec not in tried:
            tried[spec] = _held_out(learner, x, y, s, fold, level=level, levels=levels, seed=seed)
        return tried[spec].pinball

    for learner in learners:
        judge(learner)
    if trials:
        search(learners, judge, trials=trials, seed=seed)
    return Selection(level, levels, tuple(tried.values()))


def held_out_pinball(
    learner: QuantileLearner,
    x: np.ndarray,
    y: np.ndarray | None,
    s: Float[np.ndarray, " n"],
    *,
    level: float = 0.99,
    folds: int = 5,
    seed: int = 0,
) -> float:
    """Mean pinball loss of a learner at one level, by cross-validation.

    Args:
        learner: The learner.
        x: Features of non-members, [n, …].
        y: Their labels, or None.
        s: Their scores under the audited model.
        level: Level of the quantile, 1 - alpha.
        folds: Parts, each held out once.
        seed: Of the parts and the fits.

    Example:
        >>> from discreet.learners import parse
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(300, 1))
        >>> s = 3 * x[:, 0] + rng.normal(size=300)
        >>> held_out_pinball(parse("ridge"), x, None, s) < held_out_pinball(parse("ridge"), 0 * x, None, s)
        True
    """
    order = np.random.default_rng(seed).permutation(len(s))
    fold = deal(order, y, folds)
    return select([learner], x, y, s, fold, level=level, seed=seed).best.pinball


def deal(order: Int[np.ndarray, " n"], y: np.ndarray | None, folds: int) -> Int[np.ndarray, " n"]:
    """Deal rows into folds of equal size, class by class, so that no fold holds all of a class.

    Args:
        order: The order in which rows are dealt: a permutation of their numbers.
        y: Labels; None deals without regard to them.
        folds: Number of folds, at least 2.

    Returns:
        The number of each row's fold.

    Raises:
        ValueError: Fewer rows than folds, or a label of one row only.

    Example:
        >>> deal(np.arange(6), np.array([0, 1, 0, 1, 0, 1]), 3).tolist()
        [0, 0, 1, 1, 2, 2]
    """
    if folds < 2:
        raise ValueError(f"folds: expected at least 2, got {folds}")
    if len(order) < folds:
        raise ValueError(f"folds: expected at least {folds} rows for {folds} folds, got {len(order)}")
    if y is not None:
        classes, place, counts = np.unique(y, return_inverse=True, return_counts=True)
        if counts.min() < 2:
            raise ValueError(
                f"y: label {str(classes[np.argmin(counts)])!r} has one row only; expected at least 2 of each, so "
                "that each is predicted by a fit that saw its label"
            )
        order = order[np.argsort(place[order], kind="stable")]
    fold = np.empty(len(order), dtype=np.int64)
    fold[order] = np.arange(len(order)) % folds
    return fold


def _held_out(
    learner: QuantileLearner,
    x: np.ndarray,
    y: np.ndarray | None,
    s: Float[np.ndarray, " n"],
    fold: Int[np.ndarray, " n"],
    *,
    level: float,
    levels: Float[np.ndarray, " level"],
    seed: int,
) -> Candidate:
    at = int(np.argmin(np.abs(levels - level)))
    loss, scores, crossed = np.empty(len(s)), np.empty(len(s)), 0.0
    for each in np.unique(fold):
        out = fold == each
        fit, held = np.flatnonzero(~out), np.flatnonzero(out)
        fitted = learner.fit(x[fit], _rows(y, fit), s[fit], levels=levels, seed=fold_seed(seed, int(each)))
        loss[held] = pinball_loss(fitted.quantiles(x[held], _rows(y, held))[:, at], s[held], level)
        scores[held] = fitted.score(x[held], _rows(y, held), s[held])
        crossed += len(held) * fitted.crossed(x[held], _rows(y, held))
    spread = float(loss.std(ddof=1) / np.sqrt(len(s)))
    return Candidate(learner, float(loss.mean()), spread, crossed / len(s), scores)


def fold_seed(seed: int, fold: int) -> int:
    """The seed of one fold's fit, apart from the others'."""
    return int(np.random.SeedSequence([seed, fold]).generate_state(1)[0])


def _rows(y: np.ndarray | None, rows: Int[np.ndarray, " n"]) -> np.ndarray | None:
    return None if y is None else y[rows]
