"""``discreet demo``: everything once, on a real model and real data."""

from __future__ import annotations

from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from discreet.audit import Analysis

__all__ = ["demo"]

_EXAMPLES = """[bold]Examples[/bold]

discreet demo

discreet demo my-demo --runs 32 --seed 1
"""
_NEEDED = {"torch": "torch", "rdkit": "rdkit", "B3DB": "qc-b3db"}


def demo(
    run_dir: Annotated[
        Path,
        typer.Argument(metavar="[RUN_DIR]", help="Where everything goes; a second call goes on from there."),
    ] = Path("discreet-demo"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of everything.")] = 0,
    runs: Annotated[int, typer.Option("--runs", min=2, help="Training runs, an even number.")] = 16,
    epochs: Annotated[int, typer.Option("--epochs", min=8, help="Epochs of each run.")] = 40,
    molecules: Annotated[
        int | None,
        typer.Option("--molecules", min=200, show_default=False, help="Use about so many, for a quick look."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, show_default=False, help="Cores to use; all of them if not given."),
    ] = None,
) -> None:
    """Rank eight quantizers of a model that predicts blood-brain-barrier permeability of molecules.

    Trains, quantizes, measures and ranks, and writes RUN_DIR/audit.json and RUN_DIR/report.html. Stop it at any
    moment: the next call goes on where it stopped.
    """
    from discreet.cli import output

    missing = [package for module, package in _NEEDED.items() if util.find_spec(module) is None]
    if missing:
        raise ValueError(f'the demo needs {" and ".join(missing)}: pip install "discreet[molecules]"')
    output.check_folder(run_dir)

    from discreet.cli.rank import show
    from discreet.studies import demo as study
    from discreet.studies.plan import Plan

    plan = Plan(seed=seed, runs=runs, epochs=epochs, molecules=molecules)
    with output.progress() as progress:
        audit = study.demo(run_dir, plan=plan, workers=workers, progress=progress)
    output.say(*(f"{name}: {count:,}" for name, count in audit.data.counts.items()))
    for analysis in audit.analyses[:: len(audit.analyses) // 2]:
        print(f"\n{analysis.name}: at the shipped checkpoint")
        _beside(analysis)
    print(f"\n{audit.analyses[0].name}: ranked by r")
    show(audit.analyses[0], (*audit.summary, *audit.notes))
    print()
    output.say(
        f"report: {run_dir / 'report.html'}",
        f"all numbers: {run_dir / 'audit.json'}",
        f'judge it: discreet gate {run_dir} --require "auc < 0.6"',
    )


demo.__doc__ = f"{demo.__doc__}\n{_EXAMPLES}"


def _beside(analysis: Analysis) -> None:
    """Print what each variant is worth, takes and gives away at its shipped checkpoint."""
    from discreet._words import interval, label, number, percent, whole
    from discreet.cli.output import table

    rows = [
        (
            label(task.variant),
            f"{number(task.value)} ({interval(task.low, task.high)})",
            f"{percent(task.share_of_full)} ({interval(task.share_low, task.share_high, percent)})",
            number(size.bits_per_weight),
            whole(size.bytes),
            f"{number(leak.value)} ({interval(leak.low, leak.high)})",
        )
        for task, size, leak in zip(analysis.performance, analysis.storage, analysis.attacks, strict=True)
    ]
    head = ("variant", "AUROC", "of the original", "bits a weight", "bytes", "AUC of the loss attack")
    table(head, rows, right=head[1:])
