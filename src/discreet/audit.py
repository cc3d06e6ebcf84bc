"""An ``Audit``: everything measured about a set of variants, as frozen data and one JSON file.

It holds no times, hosts or paths, so the same results give the same bytes. ``null`` stands for a number that
does not exist (an unranked variant has no r); NaN and Infinity never occur. The JSON Schema is
``report/audit.schema.json``, and ``report/rank.schema.json`` for the ranking alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from discreet._json import dumps, loads, plain, read_as, save, words_for
from discreet.audit_leaks import Agreement, Attack, Blind, Exposed, OfClass, Paired, RocCurve, more

__all__ = [
    "Agreement",
    "Analysis",
    "Attack",
    "Audit",
    "AuditError",
    "Blind",
    "Curve",
    "Data",
    "Dataset",
    "Exposed",
    "Lambda",
    "OfClass",
    "Pair",
    "Paired",
    "Performance",
    "Provenance",
    "RankTable",
    "Ranked",
    "RocCurve",
    "Stability",
    "StabilityPoint",
    "Storage",
]

REFERENCE = "full-precision-reference"


class AuditError(ValueError):
    """An audit that breaks its own laws; the message names the place in the file."""


@dataclass(frozen=True)
class Ranked:
    """One variant of a ranking: its indicator r (Def. 3.5; larger = harder to attack, by this indicator).

    ``low``..``high`` is the interval of r at the ranking's level; ``resolution`` is the r below which
    nothing can be told from 0 with this many ``samples``. A variant with status ``infinite`` or ``undefined``
    has no rank.
    """

    variant: str
    status: Literal["ok", "infinite", "undefined"]
    r: float | None
    r_median: float | None
    low: float | None
    high: float | None
    runs: int
    runs_undefined: int
    runs_infinite: int
    checkpoints: float
    candidates: float | None
    samples: int
    n_train_r: float | None
    resolution: float | None
    rank: int | None
    rank_low: int | None
    rank_high: int | None
    diagnostics: tuple[str, ...]
    more: Mapping[str, Any] = more()

    @property
    def is_reference(self) -> bool:
        """Whether this is the full-precision model, which the theorem does not speak about."""
        return REFERENCE in self.diagnostics

    @property
    def is_below_resolution(self) -> bool:
        """Whether its r cannot be told from 0."""
        return "below-resolution" in self.diagnostics


@dataclass(frozen=True)
class Pair:
    """``safer`` ranks above ``than``; ``probability`` is that of its r being the larger one.

    It is None where one of the two has no rank.
    """

    safer: str
    than: str
    probability: float | None
    told_apart: bool
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class RankTable:
    """What ``discreet rank`` writes: variants from the largest r down, the unranked last, and all pairs."""

    schema: str
    level: float
    statistic: str
    variants: tuple[Ranked, ...]
    pairwise: tuple[Pair, ...]
    more: Mapping[str, Any] = more()

    @property
    def ranked(self) -> tuple[Ranked, ...]:
        """The variants that have a rank, first rank first."""
        return tuple(row for row in self.variants if row.rank is not None)

    @property
    def unranked(self) -> tuple[Ranked, ...]:
        """The variants without a rank."""
        return tuple(row for row in self.variants if row.rank is None)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs of which both variants have a rank."""
        names = {row.variant for row in self.ranked}
        return tuple(pair for pair in self.pairwise if pair.safer in names and pair.than in names)

    def told_apart(self, a: str, b: str) -> bool:
        """Whether the data tell the r of two variants apart; unlisted pairs are not."""
        return frozenset((a, b)) in self._apart

    @cached_property
    def _apart(self) -> frozenset[frozenset[str]]:
        return frozenset(frozenset((pair.safer, pair.than)) for pair in self.pairwise if pair.told_apart)


@dataclass(frozen=True)
class Performance:
    """Task performance of one variant, and as a share of the uncompressed model's (0.97 = 97 %)."""

    variant: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    share_of_full: float | None = None
    share_low: float | None = None
    share_high: float | None = None
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class Storage:
    """What a variant takes on disk: honest bits per weight (scales included), bytes, promised levels."""

    variant: str
    bits_per_weight: float
    bytes: int
    levels: int | None = None
    bytes_full: int | None = None
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class Curve:
    """A signal over training steps: the mean over runs and a band."""

    variant: str
    signal: str
    steps: tuple[float, ...]
    mean: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class Lambda:
    """Lambda_kk by loss rank k (Figure 13): its median over runs, and in how many runs rank k decides r."""

    variant: str
    rank: tuple[int, ...]
    median: tuple[float | None, ...]
    deciding: tuple[float, ...]
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class StabilityPoint:
    """How well two orderings agree when each rests on ``runs`` runs."""

    runs: int
    spearman: float | None
    low: float | None = None
    high: float | None = None
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class Stability:
    """The stability curve of Figure 2, the stricter one between disjoint halves, and the runs needed by level."""

    subset_vs_all: tuple[StabilityPoint, ...] = ()
    disjoint_halves: tuple[StabilityPoint, ...] = ()
    runs_needed: Mapping[str, int | None] = field(default_factory=dict)
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class Analysis:
    """One ranking and what was measured beside it. Every list may be empty but the ranking's."""

    name: str
    ranking: RankTable
    note: str = ""
    performance: tuple[Performance, ...] = ()
    storage: tuple[Storage, ...] = ()
    attacks: tuple[Attack, ...] = ()
    roc: tuple[RocCurve, ...] = ()
    exposed: tuple[Exposed, ...] = ()
    classes: tuple[OfClass, ...] = ()
    paired: tuple[Paired, ...] = ()
    agreement: tuple[Agreement, ...] = ()
    curves: tuple[Curve, ...] = ()
    lambda_: tuple[Lambda, ...] = ()
    stability: Stability = Stability()
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class Dataset:
    """Where data came from."""

    name: str
    sha256: str
    licence: str = ""
    source: str = ""
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class Provenance:
    """What it takes to get the same numbers again."""

    seed: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    data: tuple[Dataset, ...] = ()
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class Data:
    """How many records went where."""

    counts: Mapping[str, int] = field(default_factory=dict)
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class Audit:
    """All results for a set of variants. The first analysis is the headline.

    ``blind`` says whether members and non-members can be told apart without any model, where that was looked at.

    Raises:
        AuditError: at construction, if a number is not finite, a list names a variant that the ranking lacks,
            columns differ in length, or an interval is turned round.
    """

    title: str
    analyses: tuple[Analysis, ...]
    summary: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance = Provenance()
    data: Data = Data()
    notes: tuple[str, ...] = ()
    blind: Blind | None = None
    schema: Literal["discreet.audit/1"] = "discreet.audit/1"
    more: Mapping[str, Any] = more()

    def __post_init__(self) -> None:
        from discreet._audit_laws import check

        try:
            check(self)
        except ValueError as error:
            raise AuditError(str(error)) from None

    @classmethod
    def of_ranking(
        cls, ranking: Mapping[str, Any], *, title: str = "Ranking by the indicator r", **parts: Any
    ) -> Audit:
        """Wrap the JSON of ``discreet rank`` and nothing else, with its summary in plain words.

        Args:
            ranking: exactly what ``discreet rank --json`` writes.
            title: the report's title.
            parts: other fields of an audit (``settings``, ``provenance``, ``notes``).
        """
        from discreet.summary import summarize

        try:
            analysis = Analysis("ranking", read_as(RankTable, ranking, "ranking"))
        except ValueError as error:
            raise AuditError(str(error)) from None
        return cls(title, (analysis,), summarize(analysis), **parts)

    def to_json(self) -> dict[str, Any]:
        """Return what is saved: the schema first, then the fields in their order."""
        out = plain(self)
        if self.blind is None:  # nothing was looked at: the bytes are those of earlier releases
            del out["blind"]
        return {"schema": out.pop("schema"), "title": out.pop("title"), "summary": out.pop("summary"), **out}

    @classmethod
    def from_json(cls, value: Any) -> Audit:
        """Read parsed JSON.

        Raises:
            AuditError: naming the place, what was expected and what came.
        """
        found = value.get("schema") if isinstance(value, Mapping) else None
        if found != "discreet.audit/1":
            raise AuditError(f'schema: expected "discreet.audit/1", got {words_for(found)}')
        try:
            return read_as(cls, value, "")
        except AuditError:
            raise
        except ValueError as error:
            raise AuditError(str(error)) from None

    def save(self, path: str | Path) -> Path:
        """Write ``audit.json`` in one step; a reader never sees half of it."""
        return save(path, dumps(self.to_json()))

    @classmethod
    def load(cls, path: str | Path) -> Audit:
        """Read an audit from disk.

        Raises:
            AuditError: naming the file and the place in it.
            OSError: if the file cannot be read.
        """
        data = Path(path).read_bytes()
        try:
            return cls.from_json(loads(data))
        except ValueError as error:
            raise AuditError(f"{path}: {error}") from None
