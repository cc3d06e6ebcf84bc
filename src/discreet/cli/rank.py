"""``discreet rank``: losses in, an ordering of the variants out. Needs no torch."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from discreet.audit import Analysis

__all__ = ["rank", "show"]

_EXAMPLES = """[bold]Examples[/bold]

discreet rank losses.csv

discreet rank losses.npz --n-train 5000 --json ranking.json --report ranking.html

discreet rank run-*.safetensors --json - | jq '.variants[0].variant'
"""


class Statistic(StrEnum):
    """What is taken over runs."""

    mean = "mean"
    median = "median"


def rank(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH…",
            show_default=False,
            help="Records (.safetensors), arrays (.npz: one per variant, \\[runs, checkpoints, samples]) or long "
            "tables (.csv, .parquet: variant, run, step, sample, loss, optionally member). Several files are "
            "put together by what they hold.",
        ),
    ],
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the ranking; - for stdout alone.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write a page to read.")
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Confidence level of every interval.")] = 0.95,
    statistic: Annotated[
        Statistic, typer.Option("--statistic", help="What is taken over runs; the paper takes the mean.")
    ] = Statistic.mean,
    n_train: Annotated[
        int | None,
        typer.Option(
            "--n-train", min=1, show_default=False, help="Training records of a run, if no file says."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the bootstrap.")] = 0,
) -> None:
    """Rank compressed variants by the membership-inference indicator r, from their per-sample losses.

    A larger r means harder to attack, by this indicator. The table says what the data can tell apart.
    """
    from discreet import ranking
    from discreet.audit import Audit
    from discreet.cli.output import STDOUT, check_apart, write_json
    from discreet.records import read_all

    if report is not None and str(report) == STDOUT:
        raise OSError(22, "a page goes to a file, not to stdout", STDOUT)
    check_apart((json, report), paths)
    found = ranking.rank(read_all(paths), level=level, statistic=statistic.value, n_train=n_train, seed=seed)
    audit = Audit.of_ranking(found.to_json(), notes=found.notes)
    if report is not None:
        from discreet.report import write

        write(audit, report)
    write_json(found.to_json(), json)
    if str(json) != STDOUT:
        show(audit.analyses[0], (*audit.summary, *found.notes))
    for note in found.notes if str(json) == STDOUT else ():
        print(note, file=sys.stderr)


rank.__doc__ = f"{rank.__doc__}\n{_EXAMPLES}"


def show(analysis: Analysis, sentences: tuple[str, ...]) -> None:
    """Print a ranking as a table, what it says in words, and what to heed."""
    from discreet._words import among, interval, label, number, whole
    from discreet.cli.output import console, say, table
    from discreet.diagnostics import ADVICE

    ranked = analysis.ranking
    rows = [
        (
            among(row.rank_low, row.rank_high),
            label(row.variant),
            number(row.r) if row.status == "ok" else row.status,
            interval(row.low, row.high),
            number(row.n_train_r),
            whole(row.runs),
            f"{sum(ranked.told_apart(row.variant, other.variant) for other in ranked.variants)}"
            f" of {len(ranked.variants) - 1}",
            ", ".join(row.diagnostics),
        )
        for row in ranked.variants
    ]
    head = (
        "rank",
        "variant",
        "r",
        f"{100 * ranked.level:g} % interval",
        "n_train·r",
        "runs",
        "told apart from",
        "heed",
    )
    table(head, rows, right=("r", "n_train·r", "runs"))
    out = console()
    out.print()
    say(*sentences)
    heeded = [name for name in ADVICE if any(name in row.diagnostics for row in ranked.variants)]
    if heeded:
        out.print()
        say(*(f"{name}: {' '.join(ADVICE[name])}" for name in heeded))
