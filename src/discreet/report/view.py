"""One analysis as the page shows it: short unique names, ranks, and ids that no other analysis uses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from discreet._words import label
from discreet.audit import Analysis, Blind, Ranked
from discreet.report.drawing import Figure
from discreet.report.markup import Markup
from discreet.summary import DOUBTS

__all__ = ["Section", "View", "gaps", "short_names", "thin"]

WIDTH = 30


@dataclass(frozen=True)
class Section:
    """A part of the page: a heading, what stands under it, and the figures it drew."""

    name: str
    title: str
    body: Markup
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class View:
    """An analysis and the names under which the page shows it."""

    analysis: Analysis
    ident: str
    blind: Blind | None = None

    @property
    def confounded(self) -> bool:
        """Whether members and non-members can be told apart without any model."""
        return self.blind is not None and self.blind.confounded

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Every variant's name, cut to fit a table, still unique."""
        return short_names([row.variant for row in self.analysis.ranking.variants], WIDTH)

    @cached_property
    def rows(self) -> Mapping[str, Ranked]:
        """The ranking's rows by variant, in the ranking's order."""
        return {row.variant: row for row in self.analysis.ranking.variants}

    @property
    def level(self) -> str:
        """The level of the intervals, in words."""
        return f"{100 * self.analysis.ranking.level:g}\u00a0%"

    def doubt(self, variant: str) -> str | None:
        """The diagnostic under which a variant's r says little, if it has one."""
        return next((name for name in DOUBTS if name in self.rows[variant].diagnostics), None)

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Sort names of variants as they are ranked."""
        wanted = set(names)
        return [name for name in self.rows if name in wanted]

    def rank(self, variant: str) -> str:
        """A variant's rank, or a dash."""
        rank = self.rows[variant].rank
        return "–" if rank is None else str(rank)


def short_names(names: Sequence[str], width: int) -> dict[str, str]:
    """Cut names to ``width`` characters, with a number behind those that then look alike.

    Example:
        >>> short_names(["a" * 20 + "1" + "b" * 20, "a" * 20 + "2" + "b" * 20, "c"], 12)["c"]
        'c'
    """
    shown: dict[str, str] = {}
    for name in names:
        short, again = label(name, width), 1
        while short in shown.values():
            again += 1
            short = f"{label(name, width - 3)} #{again}"
        shown[name] = short
    return shown


def gaps(values: Iterable[float | None]) -> list[float]:
    """Values to draw: what is not there is a gap in the line.

    Example:
        >>> gaps([1.0, None])
        [1.0, nan]
    """
    return [math.nan if value is None else value for value in values]


def thin(count: int, most: int = 120) -> list[int]:
    """Pick at most ``most`` of ``count`` places, evenly, the first and the last among them.

    Example:
        >>> thin(5), thin(9, 3)
        ([0, 1, 2, 3, 4], [0, 4, 8])
    """
    if count <= most:
        return list(range(count))
    return [round(i * (count - 1) / (most - 1)) for i in range(most)]
