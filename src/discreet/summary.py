"""An analysis in plain words: what it says, what it does not say, and what it would take to say more.

The words keep to three rules. r is an indicator, not a proof. A variant is called ahead of another one only
where the data tell the two apart. What cannot be told (below resolution, unranked, outside the theorem) is
said, never left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from discreet._words import interval, label, listing, number, percent, rounded_up, whole
from discreet.audit import Agreement, Analysis, Blind, Ranked

__all__ = [
    "DOUBTS",
    "confounding",
    "headline",
    "named",
    "needed_samples",
    "pairs_told_apart",
    "summarize",
    "unconfounded",
]

# Diagnostics under which the place of a variant in the ranking means little.
DOUBTS = {
    "worse-than-constant": "it predicts worse than a constant",
    "not-converged": "its loss still fell at the last checkpoint",
    "optimum-late": "its lowest loss falls late in the trajectory",
    "optimum-early": "its lowest loss falls at the start of the trajectory",
    "not-comparable": "it was not measured like the others",
}
_OF_MANY = {
    "worse-than-constant": "they predict worse than a constant",
    "not-converged": "their loss still fell at the last checkpoint",
    "optimum-late": "their lowest loss falls late in the trajectory",
    "optimum-early": "their lowest loss falls at the start of the trajectory",
    "not-comparable": "they were not measured like the others",
}


def summarize(analysis: Analysis, blind: Blind | None = None) -> tuple[str, ...]:
    """Say in plain words what an analysis found, the most important sentence first.

    Args:
        analysis: one ranking and what was measured beside it.
        blind: what a classifier that sees no model makes of members and non-members. If it tells them apart, that
            comes first, and nothing is said about leaks.

    Returns:
        Sentences; names stand between backticks.
    """
    of_leaks = (_leaks, _compared, _attacks)
    told = (
        _told_apart, _leaks, _compared, _doubts, _resolution, _runs, _silent, _unranked, _reference, _attacks,
    )  # fmt: skip
    first: tuple[str, ...] = ()
    if blind is not None and blind.confounded:
        first = (confounding(blind),)
        told = tuple(part for part in told if part not in of_leaks)
    return (*first, headline(analysis), *(sentence for part in told for sentence in part(analysis)))


def confounding(blind: Blind) -> str:
    """What follows from a split that can be told without a model, in one sentence."""
    return (
        f"The split is confounded, so no leak is claimed: the {_OF.get(blind.of, blind.of)} alone tell members from "
        f"non-members, without any model ({_blind_size(blind)}), and what attacks find is not evidence of a leak."
    )


def unconfounded(blind: Blind) -> str:
    """What a baseline says that cannot tell members from non-members, in one sentence."""
    return (
        f"The {_OF.get(blind.of, blind.of)} alone were not found to tell members from non-members "
        f"({_blind_size(blind)}): no sign that the split is confounded."
    )


_OF = {"text": "texts"}


def _blind_size(blind: Blind) -> str:
    level = f"{100 * blind.level:g}\u00a0%"
    return f"AUC {number(blind.auc, 2)}, {level} interval {interval(blind.low, blind.high, _two)}"


def headline(analysis: Analysis) -> str:
    """Say which variant ranks first, and from which others the data tell it apart."""
    rows = _compressed(analysis)
    if not rows:
        variants = analysis.ranking.variants
        if all(row.checkpoints <= 1 for row in variants):
            return (
                f"By attacks alone: each run has one checkpoint of {named(variants)}, and r compares several."
            )
        return "No variant could be ranked, so nothing is said about which is safer."
    first = rows[0]
    size = f"r = {number(first.r)}, {_level(analysis)} interval {interval(first.low, first.high)}"
    if len(rows) == 1 and len(analysis.ranking.ranked) > 1:
        return f"{named(rows)} is the only variant ranked beside the reference ({size})."
    if len(rows) == 1:
        return f"Only {named(rows)} was ranked ({size}): there is nothing to compare it with."
    others = rows[1:]
    all_others = "the other variant" if len(others) == 1 else f"all {len(others)} others"
    apart = [row for row in others if analysis.ranking.told_apart(first.variant, row.variant)]
    level = [row for row in others if row not in apart]
    for name, why in DOUBTS.items():
        if name in first.diagnostics:
            return (
                f"{named([first])} ranks first ({size}), but {why}, so that is no sign of safety (`{name}`)."
            )
    if all(row.is_below_resolution for row in rows):
        return (
            f"No ranked variant has an r that can be told from 0 here; {named([first])} comes first ({size}), "
            "but that order may be chance."
        )
    if not level:
        return f"By the indicator, {named([first])} is ahead of {all_others} ({size})."
    if not apart:
        return (
            f"{named([first])} ranks first by the indicator ({size}), but it is not told apart from "
            f"{'any other' if len(others) > 1 else named(others)}: the data do not say which is safer."
        )
    return (
        f"{named([first])} ranks first by the indicator ({size}). It is told apart from {len(apart)} of the "
        f"{len(others)} others, but not from {named(level)}."
    )


def pairs_told_apart(analysis: Analysis) -> tuple[int, int]:
    """Count the pairs of ranked variants that are told apart, and all of them."""
    pairs = analysis.ranking.pairs
    return sum(pair.told_apart for pair in pairs), len(pairs)


def needed_samples(row: Ranked) -> int | None:
    """Evaluation samples at which the r of a variant would reach the resolution z²/(2n), if it keeps its value."""
    if not row.r or not row.resolution:
        return None
    return math.ceil(row.samples * row.resolution / row.r)


def named(rows: Sequence[Ranked]) -> str:
    """List variants by name, between backticks."""
    return listing([f"`{label(row.variant).replace('`', chr(39))}`" for row in rows])


def _compressed(analysis: Analysis) -> tuple[Ranked, ...]:
    """The ranked variants that one could ship: without the full-precision reference, if others are ranked."""
    ranked = analysis.ranking.ranked
    return tuple(row for row in ranked if not row.is_reference) or ranked


def _level(analysis: Analysis) -> str:
    return f"{100 * analysis.ranking.level:g}\u00a0%"


def _told_apart(analysis: Analysis) -> Iterator[str]:
    apart, all_pairs = pairs_told_apart(analysis)
    if all_pairs == 1:
        chance = "" if apart else "; their order may be chance, and neither is called safer"
        yield f"The two variants are {'' if apart else 'not '}told apart at the {_level(analysis)} level{chance}."
    elif all_pairs:
        others = "the other pair" if all_pairs - apart == 1 else "the others"
        rest = (
            ""
            if apart == all_pairs
            else f"; in {others} the order may be chance, and neither variant is called safer"
        )
        verb = "is" if apart == 1 else "are"
        yield f"Of {all_pairs} pairs of variants, {apart} {verb} told apart at the {_level(analysis)} level{rest}."


def _doubts(analysis: Analysis) -> Iterator[str]:
    for name, why in DOUBTS.items():
        rows = _flagged(analysis, name)
        if rows:
            place = "its place in the ranking says" if len(rows) == 1 else "their places in the ranking say"
            why = why if len(rows) == 1 else _OF_MANY[name]
            yield f"Read {named(rows)} with doubt (`{name}`): {why}, and {place} little."


def _resolution(analysis: Analysis) -> Iterator[str]:
    rows = [row for row in analysis.ranking.ranked if row.is_below_resolution]
    if not rows:
        return
    largest = max(rows, key=lambda row: row.r or 0)
    needed = needed_samples(largest)
    lie, it = ("lies", "its r") if len(rows) == 1 else ("lie", "their r")
    yield (
        f"{len(rows)} of {len(analysis.ranking.ranked)} ranked variants ({named(rows)}) {lie} below the resolution: "
        f"with {whole(largest.samples)} evaluation samples, {it} cannot be told from 0."
    )
    if needed is not None and needed > 1000 * largest.samples:
        yield "More runs do not help there; over a thousand times as many evaluation samples would be needed."
    elif needed is not None:
        yield (
            f"More runs do not help there. More evaluation samples do: about {rounded_up(needed)} would bring "
            f"{named([largest])}, the largest of them, up to the resolution if its r stays what it is."
        )


def _runs(analysis: Analysis) -> Iterator[str]:
    ranked = {row.variant: row for row in analysis.ranking.ranked}
    undecided = [
        pair
        for pair in analysis.ranking.pairs
        if not pair.told_apart
        and pair.probability is not None
        and not (ranked[pair.safer].is_below_resolution and ranked[pair.than].is_below_resolution)
    ]
    needed = analysis.stability.runs_needed
    alone = max((row.runs for row in ranked.values()), default=0) == 1
    if undecided:
        what = "training runs" if alone else "training runs or evaluation samples"
        pairs = "1 undecided pair" if len(undecided) == 1 else f"{len(undecided)} of the undecided pairs"
        yield f"More {what} could tell {pairs} apart."
    for level, runs in needed.items():
        if runs is None and alone:
            continue  # nothing was tried
        if runs is None:
            yield f"No number of runs tried made two disjoint halves agree at a Spearman correlation of {level}."
        else:
            yield f"About {whole(runs)} runs make two disjoint halves agree at a Spearman correlation of {level}."


def _silent(analysis: Analysis) -> Iterator[str]:
    rows = _flagged(analysis, "theorem-silent")
    if rows:
        yield (
            f"For {named(rows)}, n_train·r is not well above 1: the theorem behind r promises nothing at this "
            "training size, and r is only an ordering."
        )


def _unranked(analysis: Analysis) -> Iterator[str]:
    single = [row for row in analysis.ranking.unranked if row.checkpoints <= 1]
    if single and analysis.ranking.ranked:  # else the first sentence says it
        are, them, they = ("is", "it", "it has") if len(single) == 1 else ("are", "them", "they have")
        yield (
            f"{named(single)} {are} not ranked: each run has one checkpoint of {them}, and r compares several. Read "
            f"what attacks find in {them}; that {they} no r is no sign of safety."
        )
    for row in analysis.ranking.unranked:
        if row.checkpoints <= 1:
            continue
        if row.status == "infinite":
            why = f"r is infinite in {_all_runs(row.runs_infinite)}, which compares with nothing"
        else:
            why = f"r is undefined in {_all_runs(row.runs_undefined)}: quantized, the checkpoints are all one model"
        yield f"{named([row])} is not ranked: {why}. That is no sign of safety."


def _all_runs(count: int) -> str:
    return "its only run" if count == 1 else f"all its {count} runs" if count else "its runs"


def _reference(analysis: Analysis) -> Iterator[str]:
    rows = [row for row in analysis.ranking.variants if row.is_reference]
    if rows:
        words = "the theorem speaks of small discrete sets of models, not of full precision"
        first = _compressed(analysis)[:1]
        ahead = rows[0].rank == 1 and first != (rows[0],)
        yield f"{named(rows)} is a reference{', though its r is the largest' if ahead else ''}: {words}."


def _attacks(analysis: Analysis) -> Iterator[str]:
    if not analysis.ranking.ranked:
        return  # there is no order to check
    if len(analysis.agreement) > _FEW_CHECKS:
        yield from _many_attacks(analysis)
        return
    for row in analysis.agreement:
        if row.spearman is None:
            yield f"Whether r agrees with the {label(row.with_)} could not be computed."
            continue
        size = f"Spearman correlation {number(row.spearman, 2)}, {interval(row.low, row.high, _two)}"
        full = number(row.full_agreement, 1)
        yield (
            f"As a cross-check, the {label(row.with_)} {_VERDICTS[_verdict(row)]} the order by r "
            f"({size}; {full} would be full agreement)."
        )


_FEW_CHECKS = 3
_VERDICTS = {
    "agrees": "agrees with",
    "contradicts": "contradicts",
    "neither": "neither confirms nor contradicts",
}


def _verdict(row: Agreement) -> str:
    """What a correlation with r says: ``agrees``, ``contradicts`` or ``neither``."""
    if row.spearman is None or row.low is None or row.high is None or row.low <= 0 <= row.high:
        return "neither"
    return "agrees" if (row.spearman < 0) == (row.full_agreement < 0) else "contradicts"


def _many_attacks(analysis: Analysis) -> Iterator[str]:
    """One sentence for all cross-checks."""
    told = [_verdict(row) for row in analysis.agreement]
    words = {
        "agrees": ("agrees with the order by r", "agree with the order by r"),
        "contradicts": ("contradicts it", "contradict it"),
        "neither": ("neither confirms nor contradicts it", "neither confirm nor contradict it"),
    }
    parts = [
        f"{told.count(kind)} {both[told.count(kind) > 1]}" for kind, both in words.items() if kind in told
    ]
    yield f"Of {len(told)} figures of attacks, {listing(parts)}."


def _leaks(analysis: Analysis) -> Iterator[str]:
    """What the strongest attack finds at a low false positive rate, on the original and on the others."""
    if not analysis.roc:
        return
    attack = analysis.roc[0].attack
    found = {
        row.variant: row
        for row in analysis.attacks
        if row.attack == attack and row.metric == _LOW_RATE and row.more.get("resolvable", True)
    }
    rows = [row for row in analysis.ranking.variants if row.variant in found]
    if not rows:
        return
    strongest = f"At a false positive rate of 1\u00a0%, the strongest attack (`{label(attack)}`) finds"
    full = next((row for row in rows if row.is_reference), None)
    others = sorted((found[row.variant] for row in rows if row is not full), key=lambda row: row.value)
    span = ""
    if others:
        least, most = others[0], others[-1]
        span = f"{percent(least.value)} of those of {_quoted(least.variant)}"
        if most is not least:
            span = f"from {span} to {percent(most.value)} of those of {_quoted(most.variant)}"
    if full is None:
        yield f"{strongest} {span.replace('those', 'the members')}."
        return
    row = found[full.variant]
    ends = interval(row.low, row.high, percent)
    yield (
        f"{strongest} {percent(row.value)} ({ends}) of the members of {named([full])}"
        + (f", and {span}." if span else ".")
    )


def _compared(analysis: Analysis) -> Iterator[str]:
    """Which variants leak less than the original, under the strongest attack."""
    if not analysis.paired:
        return
    first = analysis.paired[0]
    rows = [row for row in analysis.paired if row.attack == first.attack and row.metric == _LOW_RATE]
    by_answer = {
        answer: [_quoted(row.variant) for row in rows if row.answer == answer]
        for answer in ("less", "more", "not told apart")
    }
    words = {"less": ("leaks less", "leak less"), "more": ("leaks more", "leak more")}
    words["not told apart"] = ("is not told apart from it", "are not told apart from it")
    parts = [
        f"{listing(names)} {words[answer][len(names) > 1]}" for answer, names in by_answer.items() if names
    ]
    if parts:
        yield f"Compared with {_quoted(first.against)} on the same records, {listing(parts)}."


_LOW_RATE = "tpr@0.01"


def _quoted(name: str) -> str:
    return f"`{label(name).replace('`', chr(39))}`"


def _two(value: int | float | None) -> str:
    return number(value, 2)


def _flagged(analysis: Analysis, diagnostic: str) -> list[Ranked]:
    return [row for row in analysis.ranking.variants if diagnostic in row.diagnostics]
