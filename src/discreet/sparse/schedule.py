"""When masks change, and how much."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.sparse._errors import SparseError

__all__ = ["Schedule"]


@dataclass(frozen=True)
class Schedule:
    """Updates at whole intervals, each dropping less than the one before it.

    The share that is dropped falls as half a cosine from ``fraction`` at the start to 0 at ``stop``, from which on
    masks are fixed ("Rigging the Lottery: Making All Tickets Winners", section 3). Times are counted in epochs, or
    steps: whatever the caller counts in.

    Attributes:
        interval: Time between updates; None: a thirtieth of the whole training, at least 1.
        fraction: Share of a layer's weights that an update at time 0 would exchange.
        stop: Share of the training after which nothing changes.

    Raises:
        SparseError: A field out of its range.

    Example:
        >>> Schedule(interval=2).times(10)
        (2, 4, 6)
    """

    interval: int | None = None
    fraction: float | int = 0.5
    stop: float | int = 0.75

    def __post_init__(self) -> None:
        if self.interval is not None and self.interval < 1:
            raise SparseError(f"interval: expected at least 1, or None, got {self.interval}")
        for name, value in (("fraction", self.fraction), ("stop", self.stop)):
            if not 0 < value <= 1:
                raise SparseError(f"{name}: expected above 0, at most 1, got {value}")

    def times(self, total: int) -> tuple[int, ...]:
        """Times of all updates of a training of this length: while it lasts, and while they exchange anything.

        Example:
            >>> Schedule(interval=5).times(20)  # at 15 the share is 0
            (5, 10)
        """
        step = self.step(total)
        times = range(step, min(math.floor(self.stop * total + 1e-9), total - 1) + 1, step)
        return tuple(time for time in times if self.rate(time, total) > 0)

    def step(self, total: int) -> int:
        """Time between two updates of a training of this length."""
        return max(1, total // 30) if self.interval is None else self.interval

    def rate(self, time: int, total: int) -> float:
        """Share of a layer's weights that an update exchanges at a time.

        Example:
            >>> Schedule().rate(0, 100), round(Schedule().rate(25, 100), 3), Schedule().rate(75, 100)
            (0.5, 0.375, 0.0)
        """
        done = min(1.0, time / (self.stop * total))
        return self.fraction / 2 * (1 + math.cos(math.pi * done))
