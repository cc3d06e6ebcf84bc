"""The simplest attack on losses: accuse below a threshold, or above one.

The threshold is chosen on some runs and judged on others. No network, hence the cheapest lower bound of what the
discriminator of section 11 must find.
"""

from __future__ import annotations

import numpy as np

from discreet._types import Bool, Float
from discreet.baseline.prior import Prior
from discreet.baseline.security import Security, judge
from discreet.baseline.split import split_runs

__all__ = ["threshold"]


def threshold(
    loss: Float[np.ndarray, "run row"],
    member: Bool[np.ndarray, "run row"],
    *,
    prior: Prior = Prior(),  # noqa: B008 (frozen)
    folds: int = 5,
    level: float = 0.95,
    seed: int = 0,
) -> Security:
    """MIS against the best threshold on the loss; every run is judged by a threshold that did not see it.

    Args:
        loss: In nats.
        member: Whether the run trained on the row.
        prior: Share of members and weight of the true positive rate.
        folds: Parts of the runs, each judged by the threshold of the others.
        level: Confidence level.
        seed: Deals out the runs.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> member = np.tile(np.arange(200) < 100, (40, 1))
        >>> found = threshold(rng.normal(size=member.shape) - 2 * member, member)
        >>> found.mis.covers(0.317)  # 2 - 2 Phi(1)
        True
    """
    accused = np.zeros((1, *member.shape), bool)
    for split in split_runs(len(member), folds=folds, seed=seed):
        seen = np.concatenate([split.train, split.stop])
        cut, below = _best(loss[seen].ravel(), member[seen].ravel(), prior)
        accused[0, split.test] = loss[split.test] < cut if below else loss[split.test] >= cut
    return judge(accused, member, prior=prior, level=level)


def _best(
    loss: Float[np.ndarray, " row"], member: Bool[np.ndarray, " row"], prior: Prior
) -> tuple[float, bool]:
    """The threshold of greatest accuracy, between two losses, and whether to accuse below it."""
    order = np.argsort(loss, kind="stable")
    loss, member = loss[order], member[order]
    inside = np.concatenate([[0.0], np.cumsum(member)]) / member.sum()
    outside = np.concatenate([[0.0], np.cumsum(~member)]) / (~member).sum()
    below, above = prior.accuracy(inside, 1 - outside), prior.accuracy(1 - inside, outside)
    cuts = np.concatenate([[-np.inf], (loss[1:] + loss[:-1]) / 2, [np.inf]])
    possible = np.concatenate([[True], loss[1:] > loss[:-1], [True]])  # a tie cannot be cut
    below, above = np.where(possible, below, -1.0), np.where(possible, above, -1.0)
    at = int(np.argmax(np.maximum(below, above)))
    return float(cuts[at]), bool(below[at] >= above[at])
