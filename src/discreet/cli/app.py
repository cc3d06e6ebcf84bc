"""The list of commands, with what holds for all of them."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.cli.attack import attack
from discreet.cli.audit import audit
from discreet.cli.compress import compress
from discreet.cli.demo import demo
from discreet.cli.gate import gate
from discreet.cli.quantize import quantize
from discreet.cli.rank import rank
from discreet.cli.report import report
from discreet.cli.selftest import selftest
from discreet.cli.status import status
from discreet.cli.study import study

__all__ = ["app"]

app = typer.Typer(
    name="discreet",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit code: 0 done or passed, 1 judged and failed (gate, and a spec's gate), 2 everything else.",
)
for command in (demo, rank, attack, audit, quantize, compress, report, gate, status, study, selftest):
    app.command()(command)


def _version(wanted: bool) -> bool:
    if wanted:
        from importlib.metadata import version

        print(f"discreet {version('discreet')}")
        raise typer.Exit
    return wanted


@app.callback()
def _discreet(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """What does a compressed model give away about its training records?

    Start with [bold]discreet demo[/bold], or rank your own losses: [bold]discreet rank losses.csv[/bold]
    """
