"""``discreet gate``: judge an audit; the only command that exits with 1."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["gate"]

_EXAMPLES = """[bold]Examples[/bold]

discreet gate discreet-demo --require "auc < 0.6"

discreet gate run --require "tpr@0.1% < 0.01"

discreet gate run --require "auc:sign:loss < 0.55" --require "share_of_full:sign >= 95%"
"""


class Bound(StrEnum):
    """What is compared with the limit."""

    interval = "interval"
    point = "point"


def gate(
    run_dir: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", show_default=False, help="A folder with an audit.json.")
    ],
    require: Annotated[
        list[str],
        typer.Option(
            "--require",
            metavar='"METRIC[@FPR][:VARIANT[:ATTACK]] < NUMBER"',
            show_default=False,
            help="What must hold; repeatable. The worst of what is not named is judged.",
        ),
    ],
    bound: Annotated[
        Bound,
        typer.Option("--bound", help="Judge the whole interval, or the point alone."),
    ] = Bound.interval,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="DIAGNOSTIC", help="A diagnostic to overlook; repeatable."),
    ] = None,
    analysis: Annotated[
        str | None,
        typer.Option(
            "--analysis", metavar="NAME", show_default=False, help="Instead of the audit's first one."
        ),
    ] = None,
) -> None:
    """Judge an audit for CI: exit 0 if every requirement holds, 1 if one fails, 2 if that cannot be decided.

    A requirement holds if the whole interval meets it, and fails if none of it does; between the two it is undecided,
    and the reason says how much more data would decide it. A missing number is never decided.

    Writes RUN_DIR/gate.json with one reason per requirement.
    """
    from discreet import gate as gates
    from discreet.audit import Audit
    from discreet.cli.output import check_file, say

    written = run_dir / "gate.json"
    audit = Audit.load(run_dir / "audit.json")
    check_file(written)
    written.unlink(missing_ok=True)  # an older verdict must not outlive a judgement that fails
    verdict = gates.gate(audit, require, bound=bound.value, accept=tuple(accept or ()), analysis=analysis)
    verdict.save(written)
    say(*verdict.reasons)
    say(verdict.outcome)
    if not verdict.passed:
        raise typer.Exit(1 if verdict.outcome == "failed" else 2)


gate.__doc__ = f"{gate.__doc__}\n{_EXAMPLES}"
