"""``discreet attack``: records in, what attacks find in each variant out. Needs no torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from discreet.attacked import Attacked, Found
    from discreet.records import Record
    from discreet.stats import OperatingPoint

__all__ = ["attack"]

_EXAMPLES = """[bold]Examples[/bold]

discreet attack release.safetensors --attack loss

discreet attack runs-*.safetensors --attack "lira(mode='offline', tail='both'),rmia" --variant sign --json -

discreet attack release.safetensors --attack all --target run-3 --csv scores.csv
"""


def attack(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH…",
            show_default=False,
            help="Records (.safetensors), arrays (.npz) or long tables (.csv, .parquet) that say who was a member; "
            "several files are put together by what they hold.",
        ),
    ],
    names: Annotated[
        list[str],
        typer.Option(
            "--attack",
            metavar="NAME[,NAME…]",
            show_default=False,
            help="Attacks, such as loss or lira(mode='offline'); all for every one with its defaults. Repeatable.",
        ),
    ],
    target: Annotated[
        str, typer.Option("--target", metavar="RUN|all", help="The run to attack; all takes each in turn.")
    ] = "all",
    variant: Annotated[
        list[str] | None,
        typer.Option(
            "--variant",
            metavar="VARIANT",
            show_default=False,
            help="A variant to attack; all if not given. Repeatable.",
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write every figure; - for stdout alone.")
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write the score of every sample in every target."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Confidence level of every interval.")] = 0.95,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of the halves that choose thresholds.")
    ] = 0,
) -> None:
    """Attack the models of a record: how well can members be told from non-members?

    Each run is attacked in turn, blind to its membership; the other runs serve as the attacker's own models.
    """
    from discreet.attack_specs import split_specs
    from discreet.attacked import attacked
    from discreet.cli.output import STDOUT, check_apart, progress, write_json
    from discreet.records import read_all

    if csv is not None and str(csv) == STDOUT:
        raise OSError(22, "scores go to a file, not to stdout", STDOUT)
    check_apart((json, csv), paths)
    specs = [spec for text in names for spec in split_specs(text)]
    record = read_all(paths)
    with progress() as bar:
        found = attacked(
            record,
            specs,
            variants=variant,
            run=_run(record, target),
            level=level,
            seed=seed,
            progress=bar,
        )
    if csv is not None:
        _write_scores(found, record, csv)
    write_json(found.to_json(), json)
    if str(json) != STDOUT:
        _show(found)
    for each in found.left_out if str(json) == STDOUT else ():
        print(f"left out: {each.attack} on {each.variant}: {each.reason}", file=sys.stderr)


attack.__doc__ = f"{attack.__doc__}\n{_EXAMPLES}"


def _run(record: Record, target: str) -> str | None:
    """The run to attack; a run that is itself called ``all`` can only be had together with the others."""
    return None if target == "all" else record.run[int(record.rows(run=target)[0])]


def _show(found: Found) -> None:
    """Print a table for each variant and attack, one for all of them, and what was left out."""
    from discreet._words import interval, label, number
    from discreet.attacked import left_out_words
    from discreet.cli.output import console, say, table
    from discreet.duplicate_texts import in_words
    from discreet.summary import confounding, unconfounded

    out = console()
    if found.blind is not None and found.blind.confounded:
        say(confounding(found.blind))
        out.print()
    for each in found.results:
        _one(each)
        out.print()
    if len(found.results) > 1:
        rows = [
            (
                label(each.variant),
                label(each.attack),
                f"{number(each.auc.value)} ({interval(each.auc.low, each.auc.high)})",
                *(_rate(point) for point in each.points[1:3]),
            )
            for each in found.results
        ]
        head = ("variant", "attack", "AUC", "TPR at 1 % FPR", "TPR at 0.1 % FPR")
        table(head, rows, right=head[2:])
        out.print()
    if found.blind is not None and not found.blind.confounded:
        say(unconfounded(found.blind))
    say(*(words for words in (found.blind_missing, in_words(found.copies)) if words))
    say(
        *(
            f"left out: {names} on {variants}: {why}"
            for names, variants, why in left_out_words(found.left_out)
        )
    )


def _one(each: Attacked) -> None:
    from discreet._words import interval, label, number, percent, whole
    from discreet.attacked import PRIORS
    from discreet.cli.output import say, table
    from discreet.stats import ppv

    e, runs = each.exposure, len(each.exposure.runs)
    target = f"run {label(e.runs[0])}" if runs == 1 else f"{runs} runs in turn"
    say(
        f"{label(e.variant)} attacked by {label(each.attack, 80)}: {target}, {whole(e.members)} members and "
        f"{whole(e.nonmembers)} non-members judged"
    )
    one = next(point for point in each.points if point.fpr == 0.01)
    rows = [("AUC", number(each.auc.value), interval(each.auc.low, each.auc.high), "0.5 is guessing")]
    for point in each.points:
        name = f"TPR at {100 * point.fpr:g} % FPR"
        if point.resolvable:
            realised = f"realised FPR {percent(point.realised_fpr, 3)}"
            rows.append((name, number(point.tpr.value), interval(point.tpr.low, point.tpr.high), realised))
        else:
            rows.append((name, "–", "–", f"{_needs(point)} (there are {whole(point.nonmembers)})"))
    for prior in PRIORS:
        right = ppv(one, prior)
        note = f"if {100 * prior:g} % are members" + ("" if one.resolvable else f"; {_needs(one)}")
        value, ends = number(right.value), interval(right.low, right.high)
        rows.append(
            ("PPV at 1 % FPR", value if one.resolvable else "–", ends if one.resolvable else "–", note)
        )
    for name, figure in (("balanced accuracy", each.balanced_accuracy), ("advantage", each.advantage)):
        rows.append(
            (name, number(figure.value), interval(figure.low, figure.high), "threshold from other rows")
        )
    bound = each.epsilon
    told = f"at {percent(bound.level)} confidence; at most {number(bound.ceiling)} could show; supposes fair coins"
    rows.append(("epsilon at least", number(bound.value), "–", told))
    table(("figure", "value", f"{100 * each.auc.level:g} % interval", ""), rows, right=("value",))


def _rate(point: OperatingPoint) -> str:
    from discreet._words import interval, number

    return (
        f"{number(point.tpr.value)} ({interval(point.tpr.low, point.tpr.high)})"
        if point.resolvable
        else _needs(point)
    )


def _needs(point: OperatingPoint) -> str:
    from discreet._words import whole

    return f"not resolvable: needs {whole(point.needs)} non-members a run"


def _write_scores(found: Found, record: Record, path: Path) -> None:
    """One line for each sample of each target: who it is, its score, and the answer."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv

    from discreet._draft import draft

    text, count = pa.string(), record.n_samples
    kinds = {"variant": text, "attack": text, "run": text, "sample": text, "score": pa.float64()}
    schema = pa.schema({**kinds, "member": pa.bool_(), "judged": pa.bool_()})
    sample = [str(name) for name in record.sample.tolist()]
    try:
        with draft(path) as aside, csv.CSVWriter(aside, schema) as out:
            for e in (each.exposure for each in found.results):
                for run, scores, member, keep in zip(e.runs, e.scores, e.member, e.keep, strict=True):
                    names = [[name] * count for name in (e.variant, e.attack, run)]
                    columns = [*names, sample, np.asarray(scores), np.asarray(member), np.asarray(keep)]
                    arrays = [
                        pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)
                    ]
                    out.write_table(pa.table(arrays, schema=schema))
    except OSError as error:
        raise OSError(error.errno, f"cannot write: {error.strerror or error}", str(path)) from error
