"""``discreet audit``: attacks on everything that a run directory has released."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from discreet.audit import Analysis, Paired

__all__ = ["audit"]

_EXAMPLES = """[bold]Examples[/bold]

discreet audit discreet-demo

discreet audit discreet-demo --attack "lira(mode='offline'),rmia"
"""


def audit(
    run_dir: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_DIR", show_default=False, help="A run directory, such as discreet demo leaves one."
        ),
    ],
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            metavar="NAME[,NAME…]",
            show_default=False,
            help="Attacks; every one with its defaults if not given. The loss attack always runs. Repeatable.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, show_default=False, help="Cores to use; all of them if not given."),
    ] = None,
) -> None:
    """Run attacks on every variant of a run directory, and put what they find into its audit and its report.

    Stop it at any moment: the next call goes on where it stopped. Writes RUN_DIR/audit.json, RUN_DIR/report.html and
    RUN_DIR/exposed.csv.
    """
    import os

    from discreet.attack_specs import split_specs
    from discreet.auditing import audit_attacks
    from discreet.cli.output import check_file, progress, say

    if not (run_dir / "audit.json").is_file():
        raise OSError(2, "no audit to add attacks to; expected a run directory", str(run_dir / "audit.json"))
    for name in ("audit.json", "report.html", "exposed.csv"):
        check_file(run_dir / name)
    specs = [spec for text in names for spec in split_specs(text)] if names else ["all"]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with progress() as bar:
        found = audit_attacks(run_dir, specs, workers=workers or cores, progress=bar)
    for analysis in found.analyses:
        if analysis.roc:
            print(f"\n{analysis.name}: what attacks find in each variant")
            _show(analysis)
    print()
    say(*found.summary, *(note for note in found.notes if note.startswith("Left out")))
    print()
    say(
        f"report: {run_dir / 'report.html'}",
        f"every record: {run_dir / 'exposed.csv'}",
        f'judge it: discreet gate {run_dir} --require "tpr@0.1% < 0.01"',
    )


audit.__doc__ = f"{audit.__doc__}\n{_EXAMPLES}"


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
