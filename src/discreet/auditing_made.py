"""What attacks found, put into an audit: the same bytes however often it is done."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from discreet._json import read_as
from discreet._words import label, listing
from discreet.attacked import LeftOut, dependence
from discreet.audit import Analysis, Audit
from discreet.audit_leaks import Blind, Exposed, OfClass, Paired
from discreet.auditing_agreement import agreement, name_of
from discreet.auditing_rows import FPR, MOST_CLASSES, classes, exposed, paired
from discreet.auditing_units import Unit, Units
from discreet.duplicate_texts import in_words
from discreet.summary import summarize, unconfounded

__all__ = ["LOSS", "MOST_EXPOSED", "Made", "put"]

LOSS = "loss"
MOST_EXPOSED = 20
_KEY = "attacks"
_COLUMNS = ("variant", "attack", "sample", "label", "runs", "caught", "mean_rank", "others", "accused", "fpr")


@dataclass(frozen=True, eq=False)
class Made:
    """Everything that attacks found in the variants of a run directory."""

    work: Units
    units: tuple[Unit, ...]
    left_out: tuple[LeftOut, ...]
    blind: Blind | None = None
    blind_missing: str = ""

    @cached_property
    def by_name(self) -> Mapping[tuple[str, str], Unit]:
        """Units by attack and variant."""
        return {(unit.attack, unit.exposure.variant): unit for unit in self.units}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The attacks, in the order they were asked for."""
        return tuple(dict.fromkeys(unit.attack for unit in self.units))

    @cached_property
    def samples(self) -> tuple[str, ...]:
        """Ids of the records."""
        return tuple(str(name) for name in self.work.record.sample.tolist())

    @cached_property
    def labels(self) -> tuple[str, ...] | None:
        """The class of each record, if there are a few of them."""
        record = self.work.record
        if "label" not in record.signals or record.axes["label"] != ("sample",):
            return None
        found = np.asarray(record.signal("label"))
        if found.dtype.kind not in "iubU" or len(np.unique(found)) > MOST_CLASSES:
            return None
        return tuple(str(name) for name in found.tolist())

    def strongest(self, variants: Sequence[str]) -> str:
        """The attack with the largest mean TPR at :data:`FPR` over these variants; by AUC on ties."""

        def size(name: str) -> tuple[float, float]:
            units = [self.by_name[name, variant] for variant in variants]
            return tuple(
                float(np.mean([row.value for unit in units for row in unit.figures if row.metric == metric]))
                for metric in (f"tpr@{FPR:g}", "auc")
            )  # pyright: ignore[reportReturnType]

        complete = [
            name for name in self.names if all((name, variant) in self.by_name for variant in variants)
        ]
        return max(complete, key=size)


def put(audit: Audit, made: Made, progress: Callable[[float], None]) -> tuple[Audit, str]:
    """Return the audit with what was found, and all exposed records as CSV.

    What an earlier call put there goes first. Curves, records, classes and comparisons stand in the first of the
    analyses that share their variants; figures and agreement in every one.
    """
    base = _without(audit)
    analyses, seen, rows = [], set(), []
    complaints: list[str] = []
    for number, analysis in enumerate(base.analyses):
        variants = _variants(analysis, made)
        full = next((row.variant for row in analysis.ranking.variants if row.is_reference), None)
        analysis = _figures(analysis, made, variants)
        if variants and frozenset(variants) not in seen:
            seen.add(frozenset(variants))
            strongest = made.strongest(variants)
            records = [found for variant in variants for found in _exposed(made, strongest, variant)]
            rows += records
            shown, told = _beside(made, variants, strongest, full)
            complaints += told
            analysis = replace(analysis, exposed=tuple(_top(records, variants)), **shown)
        analyses.append(analysis)
        progress((number + 1) / len(base.analyses))
    blind = base.blind if made.blind is None else made.blind
    summary = summarize(analyses[0], blind) if base.summary else ()
    about = {
        "names": list(made.names),
        "records, classes and comparisons at FPR": FPR,
        "left out": [
            {"attack": name, "variants": variants, "reason": reason}
            for (name, reason), variants in _grouped(made.left_out).items()
        ],
        "classes left out": list(dict.fromkeys(complaints)),
        "split": {
            "judged without a model": made.blind is not None,
            "said": [each for each in (_of_split(made.blind), made.blind_missing) if each],
            "copies": max((unit.exposure.copies for unit in made.units), default=0),
        },
        "sentences of the summary": len(summary),
        "agreement from elsewhere": {
            analysis.name: [row.with_ for row in analysis.agreement] for analysis in base.analyses
        },
    }
    before = summarize(base.analyses[0], base.blind)
    extra = tuple(sentence for sentence in base.summary if sentence not in before)
    summary = (*summary, *extra)
    settings = {**base.settings, _KEY: about}
    notes = (*base.notes, *_notes(about))
    whole = {"analyses": tuple(analyses), "summary": summary, "settings": settings, "notes": notes}
    return replace(base, **whole, blind=blind), _csv(rows)


def _without(audit: Audit) -> Audit:
    """The audit as it was before attacks were put into it."""
    about = audit.settings.get(_KEY)
    if not isinstance(about, Mapping):
        return audit
    mine = _notes(about)
    analyses = tuple(_plain(analysis, about) for analysis in audit.analyses)
    extra = audit.summary[about["sentences of the summary"] :]
    blind = None if about.get("split", {}).get("judged without a model") else audit.blind
    return replace(
        audit,
        analyses=analyses,
        summary=(*summarize(analyses[0], blind), *extra) if audit.summary else (),
        blind=blind,
        settings={name: value for name, value in audit.settings.items() if name != _KEY},
        notes=tuple(note for note in audit.notes if note not in mine),
    )


def _plain(analysis: Analysis, about: Mapping[str, Any]) -> Analysis:
    rows = tuple(row for row in analysis.attacks if row.attack not in about["names"])
    before = about["agreement from elsewhere"].get(analysis.name, ())
    agreed = tuple(row for row in analysis.agreement if row.with_ in before)
    return replace(analysis, attacks=rows, agreement=agreed, roc=(), exposed=(), classes=(), paired=())


def _variants(analysis: Analysis, made: Made) -> list[str]:
    attacked = {variant for _, variant in made.by_name}
    return [row.variant for row in analysis.ranking.variants if row.variant in attacked]


def _figures(analysis: Analysis, made: Made, variants: Sequence[str]) -> Analysis:
    """Every figure of every attack, and how r agrees with AUC and TPR; what the audit had on others stays."""
    kept = tuple(row for row in analysis.attacks if row.attack not in made.names)
    rows = tuple(
        row
        for name in made.names
        for v in variants
        if (name, v) in made.by_name
        for row in made.by_name[name, v].figures
    )
    had = {row.with_ for row in analysis.agreement}
    agreed = []
    for name in made.names:
        for metric in ("auc", f"tpr@{FPR:g}"):
            mine = [row for row in rows if (row.attack, row.metric) == (name, metric)]
            if mine and name_of(mine[0]) not in had:
                agreed.append(agreement(analysis.ranking, mine, seed=made.work.seed))
    return replace(analysis, attacks=(*kept, *rows), agreement=(*analysis.agreement, *agreed))


def _exposed(made: Made, attack: str, variant: str) -> tuple[Exposed, ...]:
    return exposed(attack, made.by_name[attack, variant].exposure, made.samples, made.labels)


def _top(rows: Sequence[Exposed], variants: Sequence[str]) -> Iterator[Exposed]:
    for variant in variants:
        yield from [row for row in rows if row.variant == variant][:MOST_EXPOSED]


def _beside(
    made: Made, variants: Sequence[str], strongest: str, full: str | None
) -> tuple[dict[str, Any], list[str]]:
    """Curves, classes and comparisons of the strongest attack and, but for classes, of the loss attack."""
    shown = dict.fromkeys((strongest, LOSS))
    curves = tuple(made.by_name[name, v].roc for name in shown for v in variants if (name, v) in made.by_name)
    found, complaints = [], []
    for each in (_classes(made, strongest, variant) for variant in variants) if made.labels else ():
        for row in each:
            complaints.append(row) if isinstance(row, str) else found.append(row)
    compared = [
        row
        for name in shown
        for variant in variants
        if full in variants and variant != full and (name, variant) in made.by_name
        for row in _paired(made, name, variant, str(full))
    ]
    return {"roc": curves, "classes": tuple(found), "paired": tuple(compared)}, complaints


def _classes(made: Made, attack: str, variant: str) -> list[OfClass | str]:
    def compute() -> list[Any]:
        cluster, exposure = dependence(made.work.record), made.by_name[attack, variant].exposure
        return list(classes(attack, exposure, made.labels or (), cluster, made.work.level))

    found = made.work.kept(f"classes {attack} {variant}", compute, attack=attack, variant=variant, fpr=FPR)
    return [row if isinstance(row, str) else read_as(OfClass, row, "classes") for row in found]


def _paired(made: Made, attack: str, variant: str, full: str) -> tuple[Paired, ...]:
    def compute() -> Any:
        one, other = (made.by_name[attack, name].exposure for name in (variant, full))
        cluster = dependence(made.work.record)
        return paired(attack, one, other, cluster, level=made.work.level, seed=made.work.seed)

    found = made.work.kept(
        f"paired {attack} {variant}", compute, attack=attack, variant=variant, against=full, fpr=FPR
    )
    return read_as(tuple[Paired, ...], found, "paired")


def _grouped(left: Sequence[LeftOut]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for each in left:
        found.setdefault((each.attack, each.reason), []).append(each.variant)
    return found


def _notes(about: Mapping[str, Any]) -> tuple[str, ...]:
    names = listing([f"`{label(name)}`" for name in about["names"]], 20)
    notes = [
        f"Attacks of this audit: {names}. The strongest is the one that finds most members at a false positive rate "
        f"of {100 * FPR:g} %, on average over the variants; it was picked on the rows that its figures come from."
    ]
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for each in about["left out"]:
        alike.setdefault((each["reason"], tuple(each["variants"])), []).append(f"`{label(each['attack'])}`")
    for (reason, variants), found in alike.items():
        few = f" on {listing([f'`{label(v)}`' for v in variants])}"
        notes.append(f"Left out: the attack{'s' * (len(found) > 1)} {listing(found, 12)}{few}: {reason}.")
    notes += [f"Left out: {reason}." for reason in about["classes left out"]]
    split = about.get("split", {})
    notes += [f"{words[0].upper()}{words[1:]}" for words in split.get("said", ())]
    notes += [words for words in (in_words(split.get("copies", 0)),) if words]
    return tuple(notes)


def _of_split(blind: Blind | None) -> str:
    """What the baseline without a model found; nothing where the summary says it first."""
    return "" if blind is None or blind.confounded else unconfounded(blind)


def _csv(rows: Sequence[Exposed]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in dict.fromkeys((row.variant, row.attack, row.sample, i) for i, row in enumerate(rows)):
        found = rows[row[3]]
        writer.writerow(["" if getattr(found, name) is None else getattr(found, name) for name in _COLUMNS])
    return out.getvalue()
