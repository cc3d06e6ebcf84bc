"""Texts of the study of language models: files, and parts that stay apart once texts are cut."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from discreet.data.samples import DataError
from discreet.llm.encoding import Encoded
from discreet.studies.language_plan import SCALES, Parts, deal
from discreet.studies.language_texts import distinct, text_file


def encoded(tokens: list[list[int]]) -> Encoded:
    bounds = np.cumsum([0, *map(len, tokens)])
    count = len(tokens)
    whole = np.concatenate([np.array(each) for each in tokens])
    return Encoded(
        np.arange(count), whole, bounds, np.ones(count, int), np.arange(count), tuple(map(str, tokens))
    )


def parts(**held: list[int]) -> Parts:
    names = ("pool", "public", "evaluation", "calibration", "pretraining")
    found = {name: np.array(held.get(name, []), np.int64) for name in names}
    member = np.arange(len(found["pool"])) % 2 == np.arange(4)[:, None] % 2
    return Parts(member=member, **found)


def test_texts_that_are_the_same_once_cut_play_one_part() -> None:
    cut = [[1, 2], [1, 3], [1, 2], [4, 5], [6, 7], [1, 3], [4, 5], [8, 9], [6, 7], [2, 2]]
    given = parts(pool=[0, 1, 2, 3], public=[4, 5], evaluation=[6, 7], calibration=[8], pretraining=[9])
    with pytest.raises(ValueError, match="length: too short: cut there, every text of the part calibration"):
        distinct(given, encoded(cut))
    left, lost = distinct(given, encoded([*cut[:8], [9, 9], [1, 3]]))
    assert lost == 4
    assert left.pool.tolist() == [0, 3]
    assert left.member.tolist() == given.member[:, [0, 3]].tolist()
    assert (left.public.tolist(), left.evaluation.tolist()) == ([4], [7])
    assert (left.calibration.tolist(), left.pretraining.tolist()) == ([8], [9])
    assert left.trained == 1


def test_where_no_two_are_the_same_nothing_changes() -> None:
    given = parts(pool=[0, 1, 2, 3], public=[4], evaluation=[5], calibration=[6])
    left, lost = distinct(given, encoded([[i, i] for i in range(7)]))
    assert lost == 0
    for name in ("pool", "member", "public", "evaluation", "calibration", "pretraining"):
        assert np.array_equal(getattr(left, name), getattr(given, name))


def test_a_file_has_each_text_once(tmp_path: Path) -> None:
    rows = [("a", "b"), ("a", "c"), ("a ", " b\n"), ("d", "b"), ("a", "b")]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": p, "completion": c}) for p, c in rows))
    found = text_file(path)
    assert (found.prompt, found.answer) == (("a", "a", "d"), ("b", "c", "b"))
    assert found.counts == {"texts": 5, "there already": 2, "families": 3}
    assert found.family.tolist() == [0, 1, 2]


def test_a_molecule_that_is_asked_for_and_given_is_in_one_part(tmp_path: Path) -> None:
    names = [f"C1CC{'C' * at}O1N" for at in range(2, 42)]
    rows = [
        (f"Describe <SMILES> {name} </SMILES> .", f"It is number {at} of many kinds.")
        for at, name in enumerate(names)
    ]
    rows += [(f"Give number {at} of many.", f"<SMILES> {name} </SMILES>") for at, name in enumerate(names)]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": p, "completion": c}) for p, c in rows))
    found = text_file(path)
    long = [name for name in names if len(name) >= 8]
    assert found.counts["families"] == 80 - len(long)
    for name in long:
        assert found.family[names.index(name)] == found.family[40 + names.index(name)]
    scale = replace(SCALES["small"], model="x", trained=10, evaluation=10, public=5, calibration=5)
    dealt = deal(found, scale, 0)
    held = [
        set(found.family[getattr(dealt, part)]) for part in ("pool", "public", "evaluation", "calibration")
    ]
    assert sum(map(len, held)) == len(set.union(*held))
    for member in dealt.member:
        assert not set(found.family[dealt.pool[member]]) & set(found.family[dealt.pool[~member]])


def test_files_of_chats_are_none(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"messages": [{"role": "assistant", "content": "a"}]}))
    with pytest.raises(DataError, match=r"x\.jsonl: holds chats \(messages\); expected texts"):
        text_file(path)
    with pytest.raises(DataError, match=r"none\.csv: no such file"):
        text_file(tmp_path / "none.csv")


def test_what_a_run_depends_on() -> None:
    scale = SCALES["quick"]
    told = scale.tuning()
    for changed in (
        {"trained": 201},
        {"epochs": 4},
        {"checkpoints": 4},
        {"rank": 8},
        {"lr": 1e-4},
        {"batch": 8},
        {"length": 64},
        {"dtype": "bfloat16"},
        {"device": "cuda"},
    ):
        assert replace(scale, **changed).tuning() != told
    for free in ({"variants": ("full", "hqq")}, {"runs": 6}, {"evaluation": 300}, {"public": 7}):
        assert replace(scale, **free).tuning() == told
    for changed in ({"model": "x"}, {"pretrained": 300}, {"passes": 2}, {"length": 64}):
        assert replace(scale, **changed).pretraining() != scale.pretraining()
    for free in ({"rank": 8}, {"lr": 1.0}, {"dtype": "bfloat16"}, {"device": "cuda"}):
        assert replace(scale, **free).pretraining() == scale.pretraining()
