"""How long things take beside each other: measured in turns, on one thread, with intervals of medians.

Seconds are the thread's processor time: what a clock shows when nothing else keeps the core busy. An interval is that
of the median of the turns by order statistics (David and Nagaraja, "Order Statistics", section 7.1): it tells how
steady this machine was just now, not what another one needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr

from discreet._types import Float

__all__ = ["Middle", "in_turns", "middle"]

_LEAST = 1e-3  # seconds a measurement lasts, so that the clock's steps do not count


@dataclass(frozen=True)
class Middle:
    """A median with its interval.

    Attributes:
        value: The median.
        low, high: Its interval; None where there are too few turns for one.
        n: Turns.
    """

    value: float
    low: float | None
    high: float | None
    n: int


def in_turns(works: Mapping[str, Callable[[], object]], turns: int) -> dict[str, Float[np.ndarray, " turn"]]:
    """Seconds that one call of each work takes, turn by turn, after a few calls to warm up.

    Args:
        works: What to call.
        turns: How often each is measured; in each turn one after the other, the order turned round every time.

    Returns:
        For each work one number a turn; a number is the mean of as many calls as last a millisecond.
    """
    calls = {}
    for name, work in works.items():
        work()
        start = time.thread_time()
        work()
        calls[name] = max(1, min(1000, round(_LEAST / max(time.thread_time() - start, 1e-7))))
    spent: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(turns):
        for name in list(works)[:: 1 if turn % 2 else -1]:
            work, many = works[name], calls[name]
            start = time.thread_time()
            for _ in range(many):
                work()
            spent[name].append((time.thread_time() - start) / many)
    return {name: np.array(each) for name, each in spent.items()}


def middle(values: Float[np.ndarray, " turn"], level: float = 0.95) -> Middle:
    """The median and its interval.

    Example:
        >>> middle(np.arange(1.0, 12.0))
        Middle(value=6.0, low=2.0, high=10.0, n=11)
    """
    ordered, n = np.sort(values), len(values)
    # between the k-th value from each end: it misses with probability 2 P(Binomial(n, 1/2) < k)
    places = [k for k in range(n // 2) if 2 * float(bdtr(k, n, 0.5)) <= 1 - level]
    if not places:
        return Middle(float(np.median(values)), None, None, n)
    return Middle(float(np.median(values)), float(ordered[places[-1]]), float(ordered[n - 1 - places[-1]]), n)
