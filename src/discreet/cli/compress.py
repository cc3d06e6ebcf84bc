"""``discreet compress``: a small model of one's own, its files, and an audit of what ships."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.initial_spec import check_name, write_initial

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["compress"]

_EXAMPLES = """[bold]Examples[/bold]

discreet compress --init my.toml

discreet compress my.toml

discreet compress my.toml --folder my-run --time-budget 20
"""
_HEAD = """#:schema {schema}
What discreet compress is to do; it runs as it is, in about ten minutes.
Lines that begin with "# key =" are defaults. A spec runs the code that it names: run only specs you trust."""
_SHOWN = {
    ("data", "load"): "tab20",
    ("data", "samples"): 6000,
    ("model", "hidden"): (256, 256),
    ("train", "loss"): "ce",
    ("train", "optimizer"): "sgd",
    ("train", "lr"): 0.05,
    ("train", "momentum"): 0.9,
    ("train", "nesterov"): True,
    ("train", "weight_decay"): 5e-4,
    ("train", "epochs"): 60,
    ("train", "batch_size"): 128,
    ("compress", "method"): "safecompress",
    ("compress", "densities"): (0.1, 0.05, 0.2),
}


def compress(
    path: Annotated[
        Path, typer.Argument(metavar="SPEC.toml", show_default=False, help="What to do; see --init.")
    ],
    init: Annotated[
        bool, typer.Option("--init", help="Write a commented spec there, and a schema for editors beside it.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder", show_default=False, help="Where everything goes; named like the spec if not given."
        ),
    ] = None,
    time_budget: Annotated[
        float | None,
        typer.Option(
            "--time-budget", min=0, metavar="MINUTES", show_default=False, help="Instead of [budget] minutes."
        ),
    ] = None,
) -> None:
    """Make a model small and test what it gives away: files that ship, an audit of them, and what it is worth.

    Writes FOLDER/report.html, FOLDER/compress.json, FOLDER/audit.json and the model's files. Stop it at any moment:
    the next call goes on where it stopped, and discreet status FOLDER says what is left.
    """
    started = time.monotonic()
    from discreet.cli import output

    if init:
        _init(path)
        return
    check_name(path)
    from discreet.spec import CalledError, CompressSpec, importable, read

    spec, source = read(path, CompressSpec)
    if time_budget is not None:
        from dataclasses import replace

        spec = replace(spec, budget=replace(spec.budget, minutes=output.minutes(time_budget)))
    where = folder or Path(path.stem)
    output.check_folder(where)
    from discreet.compressing import compress as run

    try:
        with importable(source.folder), output.progress() as progress:
            told = run(spec, source, where, progress=progress, started=started)
    except CalledError as error:
        if error.shown:
            typer.echo(error.shown, err=True)
        raise
    _show(told)
    output.say(*_said(told), f"report: {where / 'report.html'}", f"all numbers: {where / 'compress.json'}")


compress.__doc__ = f"{compress.__doc__}\n{_EXAMPLES}"


def _init(path: Path) -> None:
    from discreet.spec import CompressSpec

    write_initial(path, CompressSpec, "discreet compress", _HEAD, _SHOWN)


def _show(told: Mapping[str, Any]) -> None:
    from discreet._find import bare
    from discreet._words import number
    from discreet.cli.output import table

    rows = [
        (
            bare(unit["method"]) + (" (candidates at random)" if unit["part"] == "random" else ""),
            number(unit["used"] / unit["parameters_full"]),
            _interval(unit["audit"]["task"]),
            _interval(unit["audit"]["mia"]),
            _interval(unit["audit"]["tm"]),
            number(unit["spent"]),
        )
        for unit in told["units"]
    ]
    head = ("method", "weights in use", "task", "attack accuracy", "task / attack", "passes spent")
    table(head, rows, right=head[1:])


def _interval(estimate: Mapping[str, Any] | None) -> str:
    from discreet._words import interval, number

    if estimate is None:  # task / attack where a performance is below 0
        return "–"
    return f"{number(estimate['value'])} ({interval(estimate['low'], estimate['high'])})"


def _said(told: Mapping[str, Any]) -> list[str]:
    from discreet._find import bare
    from discreet._words import whole
    from discreet.guarantee import AGAINST, guarantee

    said = list(told["notes"])
    said += [
        f"{bare(unit['method'])} at {unit['density']:g}: {guarantee(unit['epsilon'])}, {AGAINST}"
        for unit in told["units"]
        if unit["epsilon"]
    ]
    said += dict.fromkeys(
        f"{bare(unit['method'])}: {each}" for unit in told["units"] for each in unit["notes"]
    )
    if told["shipped"] is not None:
        said += told["shipped"]["notes"]
        said += [
            f"{each['form']}: {each['name']}, {whole(each['bytes'])} bytes"
            for each in told["shipped"]["files"]
        ]
    return said
