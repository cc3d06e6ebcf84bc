"""``discreet report``: the page of a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from discreet.audit import Audit

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
    model_card: Annotated[
        Path | None,
        typer.Option(
            "--model-card",
            metavar="FILE",
            show_default=False,
            help="Write metadata and the privacy section for a model card, instead of the page; - for stdout.",
        ),
    ] = None,
    variants: Annotated[
        list[str] | None,
        typer.Option(
            "--variant", metavar="NAME", show_default=False, help="What ships, of the model card; repeatable."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", show_default=False, help="Of the model, in the card's metadata."
        ),
    ] = None,
    mlflow: Annotated[
        str | None,
        typer.Option(
            "--mlflow",
            metavar="URI",
            show_default=False,
            help="Log the run directory to MLflow, such as sqlite:///mlflow.db; auto: as MLflow is set up.",
        ),
    ] = None,
    experiment: Annotated[
        str, typer.Option("--experiment", metavar="NAME", help="MLflow's experiment.")
    ] = "discreet",
) -> None:
    """Write the page of an audit: one HTML file that opens anywhere, without a network.

    [bold]Examples[/bold]

    discreet report discreet-demo

    discreet report discreet-demo --out page.html --figures figures

    discreet report discreet-demo --model-card privacy.md --variant "uniform(bits=4)"

    discreet report discreet-demo --mlflow sqlite:///mlflow.db
    """
    from discreet.cli.output import check_file, check_folder, say
    from discreet.cli.run_dirs import audit_in, is_compression
    from discreet.report import write

    audit = audit_in(run_dir)
    if model_card is not None:
        if out is not None or figures is not None or mlflow is not None:
            raise ValueError(
                "--model-card writes the card alone: call again for --out, --figures or --mlflow"
            )
        _card(audit, run_dir, model_card, tuple(variants or ()), name)
        return
    if variants or name:
        raise ValueError("--variant and --name belong to --model-card")
    page = out or run_dir / "report.html"
    check_file(page)
    if figures is not None:
        check_folder(figures)
    written = _compressed(run_dir, page, figures) if is_compression(run_dir) else write(audit, page, figures)
    more = f", and {len(written) - 1} figures in {figures}" if figures is not None else ""
    say(f"wrote {page}{more}")
    if mlflow is not None:
        from discreet.tracking import log_run

        run, new = log_run(run_dir, None if mlflow == "auto" else mlflow, experiment)
        say(f"{'logged' if new else 'logged before'} to MLflow as run {run} of {experiment!r}")


def _compressed(run_dir: Path, page: Path, figures: Path | None) -> tuple[Path, ...]:
    """Write the page of a compression, which shows its files and its controls."""
    from discreet._json import loads, save
    from discreet.report.compressed import compressed

    if figures is not None:
        raise ValueError(f"--figures: {run_dir} is of discreet compress, whose figures are on its page alone")
    told, speed = ((run_dir / name) for name in ("compress.json", "speed.json"))
    shown = compressed(loads(told.read_bytes()), loads(speed.read_bytes()) if speed.is_file() else None)
    return (save(page, shown),)


def _card(audit: Audit, run_dir: Path, path: Path, variants: tuple[str, ...], name: str | None) -> None:
    """Write the model card's part, with the gate's verdict if that is of this audit."""
    import sys

    from discreet._json import loads, read_as, save
    from discreet.cli.output import STDOUT, check_apart, say
    from discreet.gate import Verdict
    from discreet.report.model_card import model_card

    gate, verdict = run_dir / "gate.json", None
    if gate.is_file() and gate.stat().st_mtime_ns >= (run_dir / "audit.json").stat().st_mtime_ns:
        told = {key: value for key, value in loads(gate.read_bytes()).items() if key != "schema"}
        verdict = read_as(Verdict, told, "gate.json")
    check_apart((path,), (run_dir / "audit.json", gate))
    card = model_card(audit, variants, name=name, verdict=verdict)
    if str(path) == STDOUT:
        sys.stdout.write(card)
    else:
        save(path, card)
        say(f"wrote {path}")
