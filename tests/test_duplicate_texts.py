"""Copies of texts: what counts as one, who is not judged, and what depends on what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from discreet.attacked import dependence
from discreet.duplicate_texts import in_words, on_both_sides, same_text, text_families
from discreet.exposure import expose
from discreet.records import Record, RecordError


def record(text: list[str], member: list[list[int]], **signals: np.ndarray) -> Record:
    truth = np.array(member, dtype=bool)
    return Record(
        run=tuple(f"r{i}" for i in range(len(truth))),
        step=np.ones(len(truth)),
        variant=("full",) * len(truth),
        sample=np.arange(len(text)),
        signals={"loss": np.ones(truth.shape), "text": np.array(text), **signals},
        member=truth,
    )


def test_white_space_and_spelling_of_a_letter_make_no_difference_and_case_does() -> None:
    text = ["a  b\n", "a b", "A b", "caf\u00e9", "cafe\u0301", "c1ccccc1", "C1CCCCC1"]
    found = same_text(record(text, [[0, 1, 0, 1, 0, 1, 0]]))
    assert found is not None
    assert found.tolist() == [0, 0, 1, 2, 2, 3, 4]


def test_one_answer_to_two_prompts_makes_two_texts() -> None:
    prompt = np.array(["is it?", "is it  not?", "is it not?", "is it?", "is it?"])
    made = record(["yes", "yes", "yes ", "no", "yes"], [[1, 0, 1, 0, 1]], prompt=prompt)
    found = same_text(made)
    assert found is not None
    assert found.tolist() == [0, 1, 1, 2, 0]
    assert expose(made, "loss", "full").keep.tolist() == [[True, False, False, True, True]]


def test_records_without_texts_have_no_copies() -> None:
    plain = record(["a", "b"], [[1, 0]])
    kept = {"loss": plain.signal("loss")}
    assert same_text(replace(plain, signals=kept, axes={})) is None
    numbers = replace(plain, signals={**kept, "text": np.arange(2.0)}, axes={})
    assert same_text(numbers) is None
    assert text_families(numbers) is None


def test_both_sides_as_a_loop_would_find_them() -> None:
    rng = np.random.default_rng(0)
    text, member = rng.integers(0, 30, 80), rng.random((3, 80)) < 0.5
    naive = [
        [len({bool(m) for m, other in zip(row, text, strict=True) if other == mine}) == 2 for mine in text]
        for row in member
    ]
    assert np.array_equal(on_both_sides(text, member), naive)


def test_they_are_not_judged_in_the_runs_where_they_disagree_and_counted_once() -> None:
    made = record(["x", "x", "y", "z", "w"], [[1, 0, 1, 0, 0], [1, 1, 0, 1, 0]])
    found = expose(made, "loss", "full")
    assert found.keep.tolist() == [[False, False, True, True, True], [True] * 5]
    assert found.copies == 2
    assert expose(made, "loss", "full", runs=["r1"]).copies == 0


def test_a_copy_among_public_texts_takes_the_member_out_too() -> None:
    made = record(["x", "x", "y", "z"], [[1, 0, 1, 0]], public=np.array([0, 1, 0, 0]))
    assert expose(made, "loss", "full").keep.tolist() == [[False, False, True, True]]


def test_nothing_left_to_judge() -> None:
    with pytest.raises(RecordError, match="text: every text stands among members and among non-members"):
        expose(record(["x", "x"], [[1, 0]]), "loss", "full")


def test_copies_and_families_are_linked() -> None:
    """0 and 1 are a family, 1 and 2 one text: all three depend on each other; 3 is alone."""
    made = record(["a", "b", "b", "c"], [[1, 0, 0, 1]], family=np.array([7, 7, 8, 9]))
    found = text_families(made)
    assert found is not None
    assert len(set(found[:3].tolist())) == 1
    assert found[3] != found[0]
    assert np.array_equal(dependence(made), found)


def test_where_nothing_depends_or_all_does_there_are_no_families() -> None:
    assert text_families(record(["a", "b"], [[1, 0]])) is None
    assert text_families(record(["a", "a"], [[1, 1]])) is None


@pytest.mark.parametrize(
    ("count", "words"), [(0, ""), (1, "1 text has a copy"), (1200, "1,200 texts have a")]
)
def test_words(count: int, words: str) -> None:
    assert in_words(count).startswith(words)
    assert bool(in_words(count)) == bool(count)
