"""Several attacks at once: the open question of "Safety and Performance, Why not Both?" (2022), section 8.

Their outcomes are put together as the strongest of them, which needs one metric but no weights, or as a weighted
mean, as the paper suggests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        tests: Spec strings, none twice.
        weights: One a test: the leak is the weighted mean of leaks. None: it is the greatest, of tests of one metric:
            others have other floors (an attribute is guessed as often as its commonest class), so that the greatest
            would say nothing.

    Raises:
        ValueError: No tests, one that is named twice, weights that are not one positive number for each, or tests of
            unlike metrics without weights.
    """

    tests: tuple[str, ...] = ("modified", "odds")
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.tests or isinstance(self.tests, str):
            raise ValueError(f"tests: expected spec strings of tests, got {self.tests!r}")
        twice = [spec for at, spec in enumerate(self.tests) if spec in self.tests[:at]]
        if twice:
            raise ValueError(f"tests: expected each test once, got {twice[0]!r} twice")
        if self.weights is not None and (
            len(self.weights) != len(self.tests) or not all(0 < weight < 1e300 for weight in self.weights)
        ):
            raise ValueError(
                f"weights: expected {len(self.tests)} positive numbers, one a test, got {self.weights!r}"
            )
        measures = {spec: _measure(test) for spec, test in self.methods.items()}
        if self.weights is None:
            _check_alike(measures)

    @cached_property
    def methods(self) -> dict[str, SafetyTest]:
        """The tests by their spec strings."""
        return {spec: _find.parse(spec, "discreet.safety") for spec in self.tests}

    @property
    def needs(self) -> frozenset[str]:
        """All that one of the tests needs."""
        return frozenset().union(*(test.needs for test in self.methods.values()))

    def __call__(
        self, cases: Sequence[Case], *, seeds: Sequence[int], init: Sequence[Found] | None = None
    ) -> list[Found]:
        """See ``SafetyTest``."""
        by_test = {}
        for spec, test in self.methods.items():
            starts = None if init is None else [each.parts[spec] for each in init]
            by_test[spec] = test(cases, seeds=seeds, init=starts)
        return [
            self._join({spec: found[row] for spec, found in by_test.items()}) for row in range(len(cases))
        ]

    def _join(self, parts: dict[str, Found]) -> Found:
        if self.weights is None:
            _check_alike({spec: _found(each) for spec, each in parts.items()})
            worst = max(parts.values(), key=lambda each: each.leak)
            return Found(worst.leak, worst.value, worst.metric, worst.scores, None, parts)
        from scipy import special

        total = sum(self.weights)
        share = [weight / total for weight in self.weights]
        leak, error = (
            sum(part * getattr(each, name) for part, each in zip(share, parts.values(), strict=True))
            for name in ("leak", "error")
        )
        # Raw values cannot be averaged: a mean absolute error has a unit, and falls the more leaks.
        half = error * float(special.ndtri((1 + LEVEL) / 2))
        least = min(each.value.n for each in parts.values())
        how = "weighted mean of the tests' leaks and of their standard errors (wider than needed)"
        return Found(
            leak, Estimate(leak, leak - half, leak + half, least, LEVEL, how), "weighted", None, None, parts
        )


def _measure(test: SafetyTest) -> str | None:
    """What a test's leak is measured in; None where only its outcome says it."""
    if isinstance(test, Basket):
        if test.weights is not None:
            return f"a weighted mean of {', '.join(test.tests)}"
        return next((told for each in test.methods.values() if (told := _measure(each))), None)
    metric = getattr(test, "metric", None)
    return metric and (f"{metric} of an attribute" if "attribute" in test.needs else metric)


def _found(part: Found) -> str:
    """What an outcome was measured in; only membership attacks score samples."""
    return part.metric if part.scores is not None else f"{part.metric} of no membership attack"


def _check_alike(measures: Mapping[str, str | None]) -> None:
    """Refuse measures that have no greatest.

    Raises:
        ValueError: Naming two tests of unlike metrics.
    """
    told = {spec: each for spec, each in measures.items() if each is not None}
    for spec, each in told.items():
        first, own = next(iter(told.items()))
        if each != own:
            raise ValueError(
                f"tests: expected tests of one metric, of which the greatest counts, got {first!r} ({own}) and"
                f" {spec!r} ({each}); give weights for a mean"
            )
