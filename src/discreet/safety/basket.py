"""Several attacks at once: the open question of "Safety and Performance, Why not Both?" (2022), section 8.

Their outcomes are put together as the strongest of them, which needs no weights, or as a weighted mean, as the paper
suggests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from discreet import _find
from discreet.estimate import Estimate
from discreet.safety._judge import LEVEL
from discreet.safety._protocol import Case, Found, SafetyTest

__all__ = ["Basket"]


@dataclass(frozen=True)
class Basket:
    """Tests that a model has to pass together.

    Attributes:
        tests: Spec strings.
        weights: One a test: the leak is the weighted mean. None: it is the greatest.

    Raises:
        ValueError: No tests, or weights that are not one positive number for each.
    """

    tests: tuple[str, ...] = ("modified", "odds")
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.tests or isinstance(self.tests, str):
            raise ValueError(f"tests: expected spec strings of tests, got {self.tests!r}")
        if self.weights is not None and (
            len(self.weights) != len(self.tests) or not all(0 < weight < 1e300 for weight in self.weights)
        ):
            raise ValueError(
                f"weights: expected {len(self.tests)} positive numbers, one a test, got {self.weights!r}"
            )
        _ = self._methods

    @cached_property
    def _methods(self) -> dict[str, SafetyTest]:
        return {spec: _find.parse(spec, "discreet.safety") for spec in self.tests}

    @property
    def needs(self) -> frozenset[str]:
        """All that one of the tests needs."""
        return frozenset().union(*(test.needs for test in self._methods.values()))

    def __call__(
        self, cases: Sequence[Case], *, seeds: Sequence[int], init: Sequence[Found] | None = None
    ) -> list[Found]:
        """See ``SafetyTest``."""
        by_test = {}
        for spec, test in self._methods.items():
            starts = None if init is None else [each.parts[spec] for each in init]
            by_test[spec] = test(cases, seeds=seeds, init=starts)
        return [
            self._join({spec: found[row] for spec, found in by_test.items()}) for row in range(len(cases))
        ]

    def _join(self, parts: dict[str, Found]) -> Found:
        if self.weights is None:
            worst = max(parts.values(), key=lambda each: each.leak)
            return Found(worst.leak, worst.value, worst.metric, worst.scores, None, parts)
        total = sum(self.weights)
        share = [weight / total for weight in self.weights]
        value, low, high = (
            sum(part * getattr(each.value, end) for part, each in zip(share, parts.values(), strict=True))
            for end in ("value", "low", "high")
        )
        leak = sum(part * each.leak for part, each in zip(share, parts.values(), strict=True))
        least = min(each.value.n for each in parts.values())
        how = "weighted mean of the tests' values and of the ends of their intervals (wider than needed)"
        return Found(leak, Estimate(value, low, high, least, LEVEL, how), "weighted", None, None, parts)
