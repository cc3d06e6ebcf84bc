"""Joint attacks where runs lack a variant."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.attacks import attack
from discreet.records import Record, RecordError
from tests.banks import bank


def without(record: Record, *rows: tuple[str, str]) -> Record:
    return record.take_rows(
        [at for at, row in enumerate(zip(record.variant, record.run, strict=True)) if row not in rows]
    )


def scores(record: Record) -> np.ndarray:
    return attack(record, "joint", run="0", variant="full").values


def test_only_runs_with_all_variants_are_references() -> None:
    record = bank(runs=8)
    uneven = without(record, ("sign", "3"), ("full", "5"))
    assert [(uneven.variant.count(name)) for name in ("full", "sign")] == [7, 7]
    neither = without(record, *((name, run) for name in ("full", "sign") for run in ("3", "5")))
    assert scores(uneven) == pytest.approx(scores(neither), abs=0)
    fewer = without(record, ("sign", "3"))
    both = without(record, ("sign", "3"), ("full", "3"))
    assert scores(fewer) == pytest.approx(scores(both), abs=0)


def test_no_run_with_all_variants_is_an_error() -> None:
    record = bank(runs=6)
    apart = without(record, *(("full", run) for run in "23"), *(("sign", run) for run in "45"))
    with pytest.raises(RecordError, match="variants: no other run has all of those released together"):
        scores(apart)
