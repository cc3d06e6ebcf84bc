"""``discreet audit``: a model of one's own as a spec says, or attacks on what a run directory has released."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from discreet.spec import AuditSpec

from discreet.cli.audit_hf import audit_hf, check_no_hf, refuse_with_hf
from discreet.cli.audit_told import tell
from discreet.cli.initial_spec import check_name, write_initial

__all__ = ["audit"]

_EXAMPLES = """[bold]Examples[/bold]

discreet audit --init my.toml

discreet audit my.toml

discreet audit my.toml --folder my-run --time-budget 20

discreet audit my.toml --backend ray

discreet audit discreet-demo --attack "lira(mode='offline'),rmia"

discreet audit --hf MODEL --adapter OUTPUT --members train.jsonl --nonmembers held-out.jsonl
"""
_HEAD = """#:schema {schema}
What discreet audit is to do; it runs as it is, in about a minute.
Lines that begin with "# key =" are defaults. A spec runs the code that it names: run only specs you trust."""
_SHOWN = {
    ("data", "load"): "tab20",
    ("data", "samples"): 6000,
    ("model", "hidden"): (128, 128),
    ("train", "loss"): "ce",
    ("train", "epochs"): 30,
    ("train", "batch_size"): 64,
    ("budget", "runs"): 8,
    ("attacks", "names"): ("loss", "lira", "rmia", "attack_p"),
}


def audit(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="SPEC.toml|RUN_DIR",
            show_default=False,
            help="What to do, see --init; or a run directory, such as discreet demo leaves one. Not with --hf.",
        ),
    ] = None,
    init: Annotated[
        bool, typer.Option("--init", help="Write a commented spec there, and a schema for editors beside it.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            show_default=False,
            help="Of a spec: where everything goes; named like the spec if not given.",
        ),
    ] = None,
    time_budget: Annotated[
        float | None,
        typer.Option(
            "--time-budget",
            min=0,
            metavar="MINUTES",
            show_default=False,
            help="Of a spec: instead of [budget] minutes.",
        ),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            metavar="NAME[,NAME…]",
            show_default=False,
            help="Of a run directory: attacks; every one with its defaults if not given. The loss attack always runs."
            " Repeatable.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            show_default=False,
            help="Cores to use; all of them if not given. With --hf: variants measured side by side, a core each and"
            " each with a copy of the linear layers in memory; one if not given.",
        ),
    ] = None,
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            metavar="local|processes|ray|ray://HOST:PORT",
            help="Where work runs: here, or as tasks of a Ray cluster (docs/scale.md). The numbers are the same.",
        ),
    ] = "local",
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="cpu|cuda|cuda:N|mps",
            show_default=False,
            help="Of a spec: where models are measured, instead of [device] name.",
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            "--precision",
            metavar="full|mixed",
            show_default=False,
            help="Of a spec: of the forward passes, instead of [device] precision. With --hf, mixed is bfloat16.",
        ),
    ] = None,
    hf: Annotated[
        str | None,
        typer.Option(
            "--hf",
            metavar="MODEL",
            show_default=False,
            help="A causal language model that was fine-tuned: a folder, or a name on the Hugging Face hub.",
        ),
    ] = None,
    adapter: Annotated[
        Path | None,
        typer.Option(
            "--adapter",
            show_default=False,
            help="With --hf: output folder of the Trainer, with its checkpoints (adapters or whole models).",
        ),
    ] = None,
    members: Annotated[
        Path | None,
        typer.Option(
            "--members", show_default=False, help="With --hf: the training file, .jsonl, .csv or .parquet."
        ),
    ] = None,
    nonmembers: Annotated[
        Path | None,
        typer.Option(
            "--nonmembers",
            show_default=False,
            help="With --hf: texts of the same kind that it was not trained on.",
        ),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            "--calibration",
            show_default=False,
            help="With --hf: texts for GPTQ; some of the non-members, which are then not judged, if not given.",
        ),
    ] = None,
    quantizers: Annotated[
        list[str] | None,
        typer.Option(
            "--quantizer",
            metavar="SPEC[,SPEC…]",
            show_default=False,
            help='With --hf: such as "hqq(bits=4),gptq(bits=3),adapter over bnb4"; if not given, bnb8, bnb4,'
            " and hqq at 8, 4, 3 and 2 bits. Repeatable.",
        ),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", show_default=False, help="With --hf: column of the prompts.")
    ] = None,
    answer: Annotated[
        str | None, typer.Option("--answer", show_default=False, help="With --hf: column of what is scored.")
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="With --hf: score prompts as well as answers.")
    ] = False,
    on_long: Annotated[
        str,
        typer.Option(
            "--on-long",
            metavar="refuse|split|cut",
            help="With --hf: what to do with texts longer than the context.",
        ),
    ] = "refuse",
    most: Annotated[
        int | None,
        typer.Option(
            "--most",
            min=2,
            show_default=False,
            help="With --hf: at most so many texts of either kind, at random.",
        ),
    ] = None,
    revision: Annotated[
        str | None, typer.Option("--revision", show_default=False, help="With --hf: of a name on the hub.")
    ] = None,
    trust_remote_code: Annotated[
        bool,
        typer.Option("--trust-remote-code", help="With --hf: run Python code that comes with the model."),
    ] = False,
) -> None:
    """Audit a model of your own as a spec says: train or read runs, measure, rank, attack, report, judge.

    Writes FOLDER/report.html, FOLDER/audit.json, FOLDER/exposed.csv and, if the spec has a gate, FOLDER/gate.json;
    then it ends as discreet gate does. Given a run directory instead, attacks every variant in it, and puts what is
    found into its audit and its report. With --hf, ranks the quantizers of a fine-tuned language model from its
    checkpoints, and attacks the last one. Stop it at any moment: the next call goes on where it stopped.
    """
    started = time.monotonic()
    texts = {"adapter": adapter, "members": members, "nonmembers": nonmembers}
    if hf is not None:
        refuse_with_hf(path, init=init, time_budget=time_budget, backend=backend)
        folder = folder or Path(f"audit-{Path(hf).resolve().name}")
        found = audit_hf(
            hf,
            texts,
            folder,
            calibration=calibration,
            quantizers=quantizers,
            attacks=names,
            columns=(prompt, answer),
            whole=whole,
            on_long=on_long,
            most=most,
            revision=revision,
            trust_remote_code=trust_remote_code,
            device=device,
            precision=precision,
            workers=workers,
        )
        tell(found, folder, ranked=True)
        return
    check_no_hf(
        **texts,
        calibration=calibration,
        quantizer=quantizers,
        prompt=prompt,
        answer=answer,
        whole=whole or None,
        on_long=None if on_long == "refuse" else on_long,
        most=most,
        revision=revision,
        trust_remote_code=trust_remote_code or None,
    )
    if path is None:
        raise ValueError("expected SPEC.toml, a run directory, or --hf MODEL; see discreet audit --help")
    if init:
        _init(path)
        return
    check_name(path)
    is_spec = path.suffix == ".toml" and not path.is_dir()
    if is_spec and names:
        raise ValueError("--attack: it is for run directories; a spec says it under [attacks]")
    changes = {"time_budget": time_budget, "device": device, "precision": precision}
    if not is_spec and (folder is not None or any(each is not None for each in changes.values())):
        raise ValueError(
            "--folder, --time-budget, --device, --precision: they are for specs, SPEC.toml; got a run directory"
        )
    if is_spec:
        _spec(path, folder or Path(path.stem), changes, workers, backend, started)
    else:
        _run_dir(path, names, workers, backend)


audit.__doc__ = f"{audit.__doc__}\n{_EXAMPLES}"


def _init(path: Path) -> None:
    from discreet.spec import AuditSpec

    write_initial(path, AuditSpec, "discreet audit", _HEAD, _SHOWN)


def _changed(spec: AuditSpec, changes: Mapping[str, Any]) -> AuditSpec:
    """The spec with what the command line says instead."""
    from dataclasses import replace

    from discreet.cli.output import minutes
    from discreet.device import Device

    if changes["time_budget"] is not None:
        spec = replace(spec, budget=replace(spec.budget, minutes=minutes(changes["time_budget"])))
    name, precision = changes["device"], changes["precision"]
    if name is None and precision is None:
        return spec
    own = spec.device
    try:
        on = Device(own.name if name is None else name, own.precision if precision is None else precision)
    except ValueError as error:
        key, _, words = str(error).partition(": ")
        raise ValueError(f"--{'device' if key == 'name' else key}: {words}") from error
    return replace(spec, device=on)


def _spec(
    path: Path,
    folder: Path,
    changes: Mapping[str, Any],
    workers: int | None,
    backend: str,
    started: float,
) -> None:
    from discreet.cli import output
    from discreet.spec import AuditSpec, CalledError, read

    spec, source = read(path, AuditSpec)
    spec = _changed(spec, changes)
    output.check_folder(folder)
    from discreet.auditing_spec import audit_spec
    from discreet.backends import backend_named

    try:
        with backend_named(backend, workers) as where, output.progress() as progress:
            done = audit_spec(
                spec, source, folder, workers=workers, backend=where, progress=progress, started=started
            )
    except CalledError as error:
        if error.shown:
            typer.echo(error.shown, err=True)
        raise
    output.say(*(f"{name}: {count:,}" for name, count in done.audit.data.counts.items()))
    tell(done.audit, folder, ranked=True)
    if done.verdict is None:
        return
    print()
    output.say(*done.verdict.reasons, done.verdict.outcome)
    if not done.verdict.passed:
        raise typer.Exit(1 if done.verdict.outcome == "failed" else 2)


def _run_dir(run_dir: Path, names: list[str] | None, workers: int | None, backend: str) -> None:
    import os

    from discreet.attack_specs import split_specs
    from discreet.auditing import audit_attacks
    from discreet.backends import backend_named
    from discreet.cli.output import check_file, progress

    if not (run_dir / "audit.json").is_file():
        raise OSError(2, "no audit to add attacks to; expected a run directory", str(run_dir / "audit.json"))
    for name in ("audit.json", "report.html", "exposed.csv"):
        check_file(run_dir / name)
    specs = [spec for text in names for spec in split_specs(text)] if names else ["all"]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with backend_named(backend, workers) as where, progress() as bar:
        found = audit_attacks(run_dir, specs, workers=workers or cores, backend=where, progress=bar)
    tell(found, run_dir, ranked=False)
