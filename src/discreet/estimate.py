"""The one noun of statistics: a number that never travels without its interval and its n."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Estimate"]


@dataclass(frozen=True)
class Estimate:
    """An estimated quantity with a confidence interval.

    Attributes:
        value: The point estimate, inside ``[low, high]``.
        low: Lower end of the interval.
        high: Upper end of the interval.
        n: How many independent things it was estimated from (each function says which).
        level: Confidence level of the interval, in (0, 1).
        method: How the interval was made, in words.

    Raises:
        ValueError: The numbers are not finite or out of order, the level is outside (0, 1), or n < 1.

    Example:
        >>> print(Estimate(0.531, 0.502, 0.56, 2000, 0.95, "logit DeLong"))
        0.531 [0.502, 0.560] (95%, n = 2,000)
    """

    value: float
    low: float
    high: float
    n: int
    level: float
    method: str = ""

    def __post_init__(self) -> None:
        if not all(math.isfinite(x) for x in (self.value, self.low, self.high)):
            raise ValueError(f"Estimate: expected finite numbers, got {(self.value, self.low, self.high)}")
        if not self.low <= self.value <= self.high:
            raise ValueError(
                f"Estimate: expected low <= value <= high, got {self.low} <= {self.value} <= {self.high}"
            )
        if not 0 < self.level < 1:
            raise ValueError(f"level: expected a number in (0, 1), got {self.level}")
        if self.n < 1:
            raise ValueError(f"n: expected at least 1, got {self.n}")

    def covers(self, x: float) -> bool:
        """Whether the interval holds x, ends included."""
        return bool(self.low <= x <= self.high)

    def to_json(self) -> dict[str, float | int | str]:
        """The fields as plain JSON values (always finite)."""
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "level": self.level,
            "method": self.method,
        }

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] ({self.level:.0%}, n = {self.n:,})"
