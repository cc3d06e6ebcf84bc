"""``discreet report``: the page of a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report"]


def report(
    run_dir: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", show_default=False, help="A folder with an audit.json.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", show_default=False, help="Instead of RUN_DIR/report.html."),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", metavar="DIR", help="Write each figure as SVG and PNG too.")
    ] = None,
) -> None:
    """Write the page of an audit: one HTML file that opens anywhere, without a network.

    [bold]Examples[/bold]

    discreet report discreet-demo

    discreet report discreet-demo --out page.html --figures figures
    """
    from discreet.audit import Audit
    from discreet.cli.output import check_file, check_folder, say
    from discreet.report import write

    page = out or run_dir / "report.html"
    audit = Audit.load(run_dir / "audit.json")
    check_file(page)
    if figures is not None:
        check_folder(figures)
    written = write(audit, page, figures)
    more = f", and {len(written) - 1} figures in {figures}" if figures is not None else ""
    say(f"wrote {page}{more}")
