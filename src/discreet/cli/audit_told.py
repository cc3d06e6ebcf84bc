"""What an audit found, on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discreet.audit import Analysis, Audit, Paired

__all__ = ["tell"]


def tell(found: Audit, folder: Path, *, ranked: bool) -> None:
    """Tables of what attacks find and, if wanted, of the ranking; what it says in words; where the rest is."""
    from discreet.cli.output import say
    from discreet.cli.rank import show

    void = " (not evidence of a leak)" if found.blind is not None and found.blind.confounded else ""
    for analysis in found.analyses:
        if analysis.roc:
            print(f"\n{analysis.name}: what attacks find in each variant{void}")
            _show(analysis)
    print()
    if ranked and found.analyses[0].ranking.ranked:
        print("Ranked by r")
        show(found.analyses[0], (*found.summary, *found.notes))
    elif ranked:
        say(*found.summary, *found.notes)
    else:
        say(*found.summary, *(note for note in found.notes if note.startswith("Left out")))
    print()
    lines = [f"report: {folder / 'report.html'}"]
    if (folder / "exposed.csv").is_file():
        lines.append(f"every record: {folder / 'exposed.csv'}")
    say(*lines, f'judge it: discreet gate {folder} --require "tpr@0.1% < 0.01"')


def _show(analysis: Analysis) -> None:
    """A row for each variant: what the strongest attack and the loss attack find, and how it compares."""
    from discreet._words import interval, label, number
    from discreet.cli.output import table

    names = list(dict.fromkeys(row.attack for row in analysis.roc))
    wanted = [(names[0], "auc"), *((name, "tpr@0.01") for name in names)]
    found = {(row.variant, row.attack, row.metric): row for row in analysis.attacks}
    answers = {
        row.variant: row for row in analysis.paired if (row.attack, row.metric) == (names[0], "tpr@0.01")
    }
    rows = []
    for variant in dict.fromkeys(row.variant for row in analysis.roc):
        line = [label(variant)]
        for attack, metric in wanted:
            row = found[variant, attack, metric]
            told = f"{number(row.value)} ({interval(row.low, row.high)})"
            line.append("not resolvable" if row.more.get("resolvable") is False else told)
        answer = answers.get(variant)
        line.append("–" if answer is None else _compared(answer))
        rows.append(line)
    titles = [
        f"{'AUC' if metric == 'auc' else 'TPR at 1 % FPR'}, {label(attack, 24)}" for attack, metric in wanted
    ]
    table(("variant", *titles, "leaks"), rows, right=titles)


def _compared(row: Paired) -> str:
    from discreet._words import label

    return f"{row.answer} {'from' if row.answer == 'not told apart' else 'than'} {label(row.against)}"
