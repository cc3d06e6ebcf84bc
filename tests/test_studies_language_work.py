"""Which texts serve which step of the study of language models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from discreet.data.texts import TextSet
from discreet.llm import adapters_in, encode
from discreet.store import Store
from discreet.studies.language import _Source, _Work
from discreet.studies.language_plan import LanguageScale, Parts
from tests import llm

SCALE = LanguageScale(
    variants=("full", "tests.test_llm_working_inputs:Scaled"), runs=4, trained=6, evaluation=4, length=64
)


@pytest.fixture
def work(tmp_path: Path) -> _Work:
    base = llm.base()
    encoded = encode(llm.texts(30, prompts=True), base)
    member = np.arange(12) % 2 == np.arange(4)[:, None] % 2
    at = np.arange(30)
    parts = Parts(at[:12], member, at[12:16], at[16:20], at[20:26], at[26:])
    return _Work(Store(tmp_path / "store"), SCALE, parts, _Source("", None), base, encoded, 0, 1)


def test_nothing_that_is_judged_calibrates_a_quantizer(work: _Work, tmp_path: Path) -> None:
    runs = {str(i): adapters_in(llm.run(work.base, tmp_path / str(i), i, steps=2)) for i in range(4)}
    given = llm.texts(30, prompts=True)
    family = np.arange(30) // 2
    texts = TextSet(given.prompt, given.answer, family, "x", {}, "", "", {})
    followed = work.trajectory(runs, lambda share: None)
    shipped = work.release(runs, texts, lambda share: None)
    curves = work.curves(runs, lambda share: None)
    assert followed.sample.tolist() == [f"t{i}" for i in range(16, 20)]
    assert shipped.sample.tolist() == [f"t{i}" for i in range(16)]
    for record in (followed, shipped, curves):
        assert record.calibration is not None
        assert not np.asarray(record.calibration).any()
    assert np.array_equal(np.asarray(shipped.member)[:, :12], work.parts.member)
    assert not np.asarray(shipped.member)[:, 12:].any()
    assert np.asarray(shipped.signal("public")).tolist() == [False] * 12 + [True] * 4
    assert np.asarray(shipped.signal("family")).tolist() == family[:16].tolist()
    assert np.asarray(shipped.signal("prompt")).tolist() == list(given.prompt[:16])
    assert np.asarray(shipped.signal("text")).tolist() == list(given.answer[:16])
    assert curves.variants == ("full",)
    for run in curves.runs:
        inside = {f"t{i}" for i in np.flatnonzero(work.parts.member[int(run)])}
        assert curves.membership(run).tolist() == [name in inside for name in curves.sample.tolist()]


def test_a_run_is_known_by_its_texts_and_what_of_them_counts(work: _Work) -> None:
    own = work._tuning(0)
    assert own.ids == [work.encoded.window(i).tolist() for i in range(12) if work.parts.member[0, i]]
    others = [
        replace(work, encoded=replace(work.encoded, first=work.encoded.first + 1)),
        replace(work, parts=replace(work.parts, member=~work.parts.member)),
        replace(work, seed=1),
        replace(work, base=llm.base(seed=1)),
        replace(work, scale=replace(SCALE, rank=3)),
    ]
    keys = {own.key, work._tuning(2).key, *(other._tuning(0).key for other in others)}
    assert len(keys) == 2 + len(others)
    assert replace(work, workers=2)._tuning(0).key == own.key


def test_losses_before_fine_tuning_are_kept_by_precision(work: _Work) -> None:
    texts = work.encoded.take(np.arange(12))
    half = replace(work.base, module=llm.module().bfloat16())
    found = work._before(texts)
    assert not np.array_equal(
        found, replace(work, base=half, scale=replace(SCALE, dtype="bfloat16"))._before(texts)
    )
    assert np.array_equal(found, work._before(texts))
