"""All pairs of variants: how probable it is that one has the larger r, and whether the data tell them apart."""

from __future__ import annotations

from discreet._words import percent
from discreet.report.markup import Markup, join, node
from discreet.report.table import code, more, note, table
from discreet.report.view import Section, View

__all__ = ["pairs"]

MOST_COLUMNS = 16
MOST_PAIRS = 2000


def pairs(view: View) -> Section | None:
    """The section that answers: which of two variants has the larger r, and is that more than chance?"""
    found = view.analysis.ranking.pairs
    if not found:
        return None
    apart = sum(pair.told_apart for pair in found)
    words = note(
        f"{apart} of {len(found)} pairs are told apart at the {view.level} level. For the others the order may be "
        "chance, whatever the probability reads: below the resolution a bootstrap repeats the same samples' accident."
    )
    ranked = [row.variant for row in view.analysis.ranking.ranked]
    matrix = _matrix(view, ranked) if len(ranked) <= MOST_COLUMNS else None
    cut = f"The first {MOST_PAIRS:,} of {len(found):,} pairs; the JSON file has the rest."
    tail = note(cut) if len(found) > MOST_PAIRS else None
    whole = more("All pairs as a list", join(_list(view), tail), on_paper=False)
    return Section("pairs", "Pair by pair", join(words, matrix, whole))


def _matrix(view: View, ranked: list[str]) -> Markup:
    found = {(pair.safer, pair.than): pair for pair in view.analysis.ranking.pairs}

    def cell(a: str, b: str) -> Markup | str:
        if a == b:
            return "·"
        pair = found.get((a, b)) or found.get((b, a))
        if pair is None:
            return "–"
        words = _chance(pair.probability, pair.safer != a)
        return node("strong", words, class_="apart") if pair.told_apart else words

    head = ("Variant", "Rank", *(view.rank(name) for name in ranked))
    rows = [(code(view.names[a]), view.rank(a), *(cell(a, b) for b in ranked)) for a in ranked]
    shown = table(
        f"Probability that the row's r is larger than that of the rank above the column, {view.analysis.name}",
        head,
        rows,
    )
    return join(shown, note("Bold on colour: told apart. Plain: not told apart."))


def _chance(share: float | None, turned: bool = False) -> str:
    """A probability, or that of the pair turned round; a bootstrap never proves certainty."""
    if share is None:
        return "–"
    share = 1 - share if turned else share
    if share >= 0.995:
        return ">\u00a099\u00a0%"
    if share <= 0.005:
        return "<\u00a01\u00a0%"
    return percent(share, 0)


def _list(view: View) -> Markup:
    rows = [
        (
            code(view.names[pair.safer]),
            code(view.names[pair.than]),
            _chance(pair.probability),
            "told apart" if pair.told_apart else "not told apart",
        )
        for pair in view.analysis.ranking.pairs[:MOST_PAIRS]
    ]
    head = ("Ranks above", "Below it", "Probability of a larger r", "Verdict")
    return table(f"All pairs, {view.analysis.name}", head, rows, text=(0, 1, 3))
