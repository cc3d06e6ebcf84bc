"""What a unit of a trajectory or a release depends on, and what it need not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from discreet.llm import adapters_in, encode
from discreet.llm._variants import parse_variant
from discreet.llm.trajectory import _Work
from discreet.store import Store
from tests import llm

BLIND, LOOKING = "uniform(bits=3, granularity='channel')", "tests.test_llm_working_inputs:Scaled"


@pytest.fixture
def work(tmp_path: Path) -> _Work:
    base = llm.base()
    texts, calibration = encode(llm.texts(6), base), encode(llm.texts(3), base)
    return _Work(Store(tmp_path / "store"), base, texts, calibration, 100, 64, "release")


def key(
    work: _Work,
    folder: Path,
    variant: str,
    *,
    seed: int = 1,
    run: str = "a",
    member: np.ndarray | None = None,
) -> str:
    place = folder / str(seed) / "checkpoint-1"
    if not place.exists():
        llm.adapter(work.base, place, seed)
    return work.key(run, adapters_in(place.parent)[0], parse_variant(variant), member=member)


@pytest.mark.parametrize("variant", [BLIND, LOOKING])
def test_everything_that_matters_is_in_the_key(variant: str, work: _Work, tmp_path: Path) -> None:
    other = encode(llm.texts(7), work.base)
    changed = [
        key(replace(work, texts=other), tmp_path, variant),
        key(replace(work, calibration=other), tmp_path, variant),
        key(replace(work, calibration=None), tmp_path, variant),
        key(replace(work, batch_tokens=65), tmp_path, variant),
        key(replace(work, kind="trajectory"), tmp_path, variant),
        key(replace(work, base=llm.base(seed=1)), tmp_path, variant),
        key(work, tmp_path, variant, seed=2),
        key(work, tmp_path, variant, run="b"),
        key(work, tmp_path, variant, member=np.arange(6) < 3),
        key(work, tmp_path, variant, member=np.arange(6) < 4),
        key(work, tmp_path, f"adapter over {variant}"),
        key(work, tmp_path, "full"),
    ]
    own = key(work, tmp_path, variant)
    assert own == key(work, tmp_path, variant)
    assert len({own, *changed}) == 1 + len(changed)


def test_only_quantizers_that_look_at_inputs_depend_on_how_many(work: _Work, tmp_path: Path) -> None:
    more = replace(work, calibration_tokens=101)
    assert key(more, tmp_path, LOOKING) != key(work, tmp_path, LOOKING)
    assert key(more, tmp_path, BLIND) == key(work, tmp_path, BLIND)


def test_a_quantizer_of_ones_own_is_known_by_its_code() -> None:
    from discreet.llm._variants import parse_variant

    own = parse_variant("tests.test_llm_working_inputs:Scaled").content
    assert own[-1].startswith("; code ")
    assert parse_variant("uniform(bits=4, granularity='channel')").content[1:] == [False, None]
