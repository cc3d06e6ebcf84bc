"""``discreet selftest``: does this installation compute what it should, and do its attacks find what is there?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from discreet.selfcheck.judging import Finding

__all__ = ["selftest"]

_ATTACKS = "attacks, with and without a leak"

_EXAMPLES = """[bold]Examples[/bold]

discreet selftest

discreet selftest --samples 2000 --features 100 --runs 16

discreet selftest release.safetensors
"""


def selftest(
    record: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RECORD]",
            show_default=False,
            help="Measurements with membership. Copies with memberships shuffled, and with a planted leak, are "
            "attacked instead of networks trained here.",
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option("--samples", metavar="N", help="Samples judged. [default: 160]")
    ] = None,
    features: Annotated[
        int | None, typer.Option("--features", metavar="N", help="Columns of the inputs. [default: 16]")
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option("--runs", metavar="N", help="Networks to train, an even number. [default: 8]"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of data, networks and shuffles.")] = 0,
) -> None:
    """Check this installation: closed cases, then every attack where there is no leak and where one was planted.

    Networks are trained, quantized, measured, written to a file and attacked as in an audit, once on samples that
    they never saw (no attack may find anything) and once on their own (every attack must).
    """
    from discreet.cli.output import say, table
    from discreet.selfcheck.closed import closed_cases, missing
    from discreet.selfcheck.judging import FALSE_ALARM

    sizes = {
        name: value
        for name, value in (("samples", samples), ("features", features), ("runs", runs))
        if value is not None
    }
    if record is not None and sizes:
        raise ValueError(f"--{next(iter(sizes))}: a record has its own sizes; expected one or the other")
    said = ""
    if record is not None:
        found, said = _own(record, seed)
        rows = closed_cases() + _rows(found)
    elif missing("torch"):
        rows = [*closed_cases(), (_ATTACKS, missing("torch"))]
    else:
        found, said = _built_in(sizes, seed)
        rows = closed_cases() + _rows(found)
    table(("check", "outcome"), rows)
    if said:
        say(
            f"Attacks: {said}.",
            f"Intervals are so wide that a sound installation fails on no leak with a chance of {FALSE_ALARM:.0%} "
            "at most, all attacks and variants together.",
        )
    failed = [what for what, outcome in rows if outcome.startswith("failed")]
    if failed:
        raise ValueError(f"{len(failed)} of {len(rows)} checks failed: {', '.join(failed)}")


def _built_in(sizes: dict[str, int], seed: int) -> tuple[list[Finding], str]:
    from discreet.selfcheck.built_in import VARIANTS, Sizes, build
    from discreet.selfcheck.judging import NO_LEAK, PLANTED, judge

    settled = Sizes(**sizes, seed=seed)
    silent, leaky = build(settled)
    found = [*judge(silent, NO_LEAK, variants=VARIANTS), *judge(leaky, PLANTED, variants=VARIANTS)]
    said = f"{settled.samples:,} samples of {settled.features:,} features, {settled.runs} networks"
    return found, f"{said}, {len(VARIANTS)} variants"


def _own(path: Path, seed: int) -> tuple[list[Finding], str]:
    from discreet.records import read
    from discreet.selfcheck.own import own_record

    return own_record(read(path), seed=seed)


def _rows(found: list[Finding]) -> list[tuple[str, str]]:
    return [(f"{finding.case}: {finding.attack}", finding.outcome) for finding in found]


selftest.__doc__ = f"{selftest.__doc__}\n{_EXAMPLES}"
