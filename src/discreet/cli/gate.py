"""``discreet gate``: judge an audit; the only command that exits with 1."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

if TYPE_CHECKING:
    from discreet.gate import Verdict

__all__ = ["gate"]

_EXAMPLES = """[bold]Examples[/bold]

discreet gate discreet-demo --require "auc < 0.6"

discreet gate run --require "tpr@0.1% < 0.01"

discreet gate run --require "auc:sign:loss < 0.55" --require "share_of_full:sign >= 95%"

discreet gate run --require "auc < 0.6" --junit gate.xml --sarif gate.sarif

discreet gate compressed --require "accuracy > 0.8" --require "balanced_accuracy < 0.55"
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
            help="What must hold; repeatable. The worst of what is not named is judged, full precision included.",
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
    junit: Annotated[
        Path | None,
        typer.Option(
            "--junit",
            metavar="FILE",
            show_default=False,
            help="Write JUnit XML, a test for each requirement.",
        ),
    ] = None,
    sarif: Annotated[
        Path | None,
        typer.Option(
            "--sarif",
            metavar="FILE",
            show_default=False,
            help="Write SARIF, a result for each that did not pass.",
        ),
    ] = None,
) -> None:
    """Judge an audit for CI: exit 0 if every requirement holds, 1 if one fails, 2 if that cannot be decided.

    A requirement holds if the whole interval meets it, and fails if none of it does; between the two it is undecided,
    and the reason says how much more data would decide it. A missing number is never decided.

    Writes RUN_DIR/gate.json with one reason per requirement.
    """
    from discreet import gate as gates
    from discreet.cli.output import STDOUT, check_apart, say
    from discreet.cli.run_dirs import audit_in

    written = run_dir / "gate.json"
    audit = audit_in(run_dir)
    for path in (junit, sarif):
        if str(path) == STDOUT:
            raise OSError(22, "this goes to a file, not to stdout", STDOUT)
    check_apart((written, junit, sarif), (run_dir / "audit.json",))
    for path in (written, junit, sarif):  # an older verdict must not outlive a judgement that fails
        if path is not None:
            path.unlink(missing_ok=True)
    verdict = gates.gate(audit, require, bound=bound.value, accept=tuple(accept or ()), analysis=analysis)
    verdict.save(written)
    _annotate(verdict, run_dir / "audit.json", junit, sarif)
    say(*verdict.reasons)
    say(verdict.outcome)
    if not verdict.passed:
        raise typer.Exit(1 if verdict.outcome == "failed" else 2)


gate.__doc__ = f"{gate.__doc__}\n{_EXAMPLES}"


def _annotate(verdict: Verdict, audit: Path, junit: Path | None, sarif: Path | None) -> None:
    """Write the verdict in the forms that CI systems and code hosts show."""
    from discreet._json import dumps, save
    from discreet.report.junit import junit as to_junit
    from discreet.report.sarif import sarif as to_sarif

    if junit is not None:
        save(junit, to_junit(verdict))
    if sarif is not None:
        uri = audit.name if audit.is_absolute() else quote(audit.as_posix())
        save(sarif, dumps(to_sarif(verdict, uri)))
