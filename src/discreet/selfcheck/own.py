"""The user's own record as a test of the attacks: no leak, then a planted one, at the record's own sizes."""

from __future__ import annotations

from discreet.records import Record
from discreet.selfcheck.judging import NO_LEAK, PLANTED, Finding, judge
from discreet.selfcheck.planted import plant, shuffled

__all__ = ["own_record"]

_MOST_RUNS = 8


def own_record(record: Record, *, seed: int) -> tuple[list[Finding], str]:
    """Attack copies of a record whose answer is known.

    The last step of every run counts. At most eight runs and two variants (the first and the last) are attacked; all
    runs serve as references.

    Args:
        record: Measurements with membership.
        seed: Of the shuffle.

    Returns:
        What each attack found, and what was attacked, in words.

    Raises:
        RecordError: No membership, or nothing to plant a leak in.
    """
    variants = tuple(dict.fromkeys((record.variants[0], record.variants[-1])))
    rows = [
        int(record.trajectory(variant, run)[-1])
        for run in record.runs
        for variant in variants
        if record.rows(variant, run).size
    ]
    release = record.take_rows(sorted(rows))
    having = [{release.run[row] for row in release.rows(variant)} for variant in variants]
    runs = [run for run in release.member_runs if all(run in each for each in having)][:_MOST_RUNS]
    if not runs:
        raise record.error(f"expected a run with the variants {', '.join(variants)}, got none")
    silent = shuffled(release, seed)
    found = [
        finding
        for case, made in ((NO_LEAK, silent), (PLANTED, plant(silent)))
        for finding in judge(made, case, variants=variants, runs=runs, lenient=True)
    ]
    said = (
        f"{record.n_samples:,} samples, {len(variants)} of {len(record.variants)} variants, "
        f"{len(runs)} of {len(record.runs)} runs attacked"
    )
    return found, said
