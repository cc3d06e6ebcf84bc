"""The laws of a record, what its methods give back, and the words of its refusals."""

from __future__ import annotations

import dataclasses
import pickle
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.records import Record, RecordError, laws
from discreet.records.cuts import as_slice


def fields(**changes: Any) -> dict[str, Any]:
    """Two runs, two variants, two steps on three samples; loss[row, sample] = row + sample / 10."""
    rows = [(v, r, s) for v in ("full", "sign") for r in ("0", "3") for s in (1.0, 2.0)]
    made = {
        "run": tuple(r for _, r, _ in rows),
        "step": np.array([s for _, _, s in rows]),
        "variant": tuple(v for v, _, _ in rows),
        "sample": np.array(["a", "b", "c"]),
        "signals": {"loss": np.add.outer(np.arange(8.0), [0.0, 0.1, 0.2]), "label": np.array([0, 1, 0])},
        "member": np.array([[True, False, True], [False, True, True]]),
        "about": {"seed": 7, "widths": (2, 3)},
    }
    return made | changes


def made(**changes: Any) -> Record:
    return Record(**fields(**changes))


def refusal(**changes: Any) -> str:
    with pytest.raises(RecordError) as caught:
        made(**changes)
    return str(caught.value)


def with_loss(**at: float) -> dict[str, Any]:
    loss = fields()["signals"]["loss"]
    for place, value in at.items():
        row, sample = map(int, place[1:].split("_"))
        loss[row, sample] = value
    return {"loss": loss}


def test_distinct_labels_keep_the_order_of_first_appearance() -> None:
    record = made()
    assert (record.runs, record.variants, record.n_samples) == (("0", "3"), ("full", "sign"), 3)
    assert record.about == {"seed": 7, "widths": [2, 3]}
    assert record.axes == {"loss": ("row", "sample"), "label": ("sample",)}


def test_rows_by_variant_run_and_step() -> None:
    record = made()
    assert record.rows().tolist() == list(range(8))
    assert record.rows("sign").tolist() == [4, 5, 6, 7]
    assert record.rows("sign", "3", 2).tolist() == [7]
    assert record.rows(step=1.0).tolist() == [0, 2, 4, 6]
    with pytest.raises(RecordError, match=re.escape("no variant 'sing'; there are 'full', 'sign'")):
        record.rows("sing")
    with pytest.raises(RecordError, match=r"no step '9.0'; there are '1.0', '2.0'"):
        record.rows(step=9.0)


def test_a_trajectory_is_sorted_by_step() -> None:
    record = made().take_rows([1, 0, 3, 2, 7])
    assert record.trajectory("full", "0").tolist() == [1, 0]
    with pytest.raises(RecordError, match="run '0' has no rows of variant 'sign'"):
        record.trajectory("sign", "0")


def test_records_are_frozen() -> None:
    loss = np.ones((8, 3))
    record = made(signals={"loss": loss})
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.source = "x"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValueError, match="read-only"):
        record.signals["loss"][0, 0] = 2
    with pytest.raises(TypeError):
        record.signals["x"] = loss  # pyright: ignore[reportIndexIssue]
    loss[0, 0] = 5  # the caller's own array stays his


def test_equality_is_by_content_and_dtype() -> None:
    assert made() == made(source="elsewhere")
    assert made() != made(about={"seed": 8})
    assert made() != made(signals={"loss": fields()["signals"]["loss"]})
    assert made() != made(member=None)
    assert made() != made(step=np.array([1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 3.0]))
    assert made() != "a record"
    single = fields()["signals"] | {"loss": fields()["signals"]["loss"].astype(np.float32)}
    assert made() != made(signals=single)
    assert made(sample=np.array(["a", "b", "c"], "<U9")) == made()


def test_a_record_survives_pickling_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(made())) == made()


def test_values_must_be_finite() -> None:
    assert refusal(signals=with_loss(r7_0=np.nan)) == (
        "loss of variant 'sign', run '3', step 2 has 1 value that is NaN or infinite"
    )
    bad = with_loss(r7_0=np.nan, r7_1=np.inf, r7_2=-np.inf, r1_0=np.nan)
    assert refusal(signals=bad, source="x.npz") == (
        "x.npz: loss of variant 'full', run '0', step 2 has 1 value that is NaN or infinite;"
        " 2 of 8 rows have such values"
    )
    labels = {"label": np.array([0.0, np.nan, np.inf])}
    assert refusal(signals=labels) == "label has 2 values that are NaN or infinite"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_largest_finite_values_are_allowed(dtype: Any) -> None:
    huge = np.full((8, 3), np.finfo(dtype).max, dtype)
    assert made(signals={"loss": huge}).signals["loss"].dtype == dtype
    assert made(signals={"loss": -huge}).signals["loss"].dtype == dtype
    huge[4, 1] = np.inf
    assert "variant 'sign', run '0', step 1 has 1 value" in refusal(signals={"loss": huge})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"run": (), "variant": (), "step": np.zeros(0)}, "no rows: expected at least one model"),
        ({"variant": ("full",)}, "variant: expected one label for each of the 8 rows, got 1"),
        ({"run": ("",) * 8}, "run of row 0 is empty"),
        ({"step": np.arange(7.0)}, "step: expected one number for each of the 8 rows, got shape (7,)"),
        ({"step": np.array([1, 2, 1, np.nan, 1, 2, 1, 2])}, "step of row 3 is nan: expected a finite number"),
        ({"step": np.ones(8)}, "variant 'full', run '0', step 1 appears twice: rows 0 and 1"),
        ({"sample": np.array(["a", "b", "a"])}, "sample 'a' appears 2 times"),
        ({"sample": np.array([5, 5, 5])}, "sample '5' appears 3 times"),
        ({"sample": np.array([1.0, 2.0, 3.0])}, "sample: expected whole numbers or text, got float64"),
        ({"sample": np.zeros((3, 1), int)}, "sample: expected a list of at least one id, got shape (3, 1)"),
        ({"sample": np.zeros(0, int)}, "sample: expected a list of at least one id, got shape (0,)"),
        ({"sample": np.array(["a", 1, "c"], object)}, "sample 1: expected text in every place, got 1"),
        ({"sample": np.array(["a", "b\0", "c"], object)}, "sample 'b\\x00' ends in a NUL character"),
        (
            {"sample": np.array([1, 2, 2**63], np.uint64)},
            "sample: 9223372036854775808 does not fit into 64 bits",
        ),
        ({"signals": {}}, "no signals: expected at least one, such as loss"),
        (
            {"signals": {"loss": np.ones((8, 4))}},
            "loss has shape (8, 4): along sample, expected 3 as in sample, got 4",
        ),
        (
            {"signals": {"loss": np.ones((7, 3))}},
            "loss has shape (7, 3): along row, expected 8 as in step, got 7",
        ),
        ({"signals": {"loss": np.ones((8, 3), int)}}, "loss: expected floating-point numbers, got int64"),
        ({"signals": {"x": np.ones((8, 3), complex)}}, "x: expected numbers, flags or text, got complex128"),
        ({"signals": {"x": np.ones((8, 3), np.longdouble)}}, "has no place in a file; use float64"),
        ({"signals": {"x": np.ones((8, 2, 3))}}, "x has 3 dimensions: say in axes what they are"),
        ({"axes": {"lost": ("sample",)}}, "axes names 'lost', which is no signal"),
        ({"axes": {"loss": ("sample",)}}, "loss: 2 dimensions, but axes (sample)"),
        (
            {"axes": {"loss": ("sample", "row")}},
            "loss: expected each axis once, row first, and one of sample and",
        ),
        ({"axes": {"loss": ("row", "class")}}, "got (row, class)"),
        (
            {"signals": {"t": np.array([["a", "b", "c"]])}},
            "t: text needs the axes (sample), got (row, sample)",
        ),
        ({"member": np.ones((3, 3), bool)}, "member has shape (3, 3): expected (2, 3)"),
        ({"calibration": np.ones((2, 1, 3), bool)}, "calibration has shape (2, 1, 3): expected (2, 2, 3)"),
        ({"about": {"x": np.nan}}, "about: expected plain JSON values: Out of range float values"),
        ({"about": {"x": {1, 2}}}, "about: expected plain JSON values: Object of type set"),
        ({"hidden": ("9",)}, "hidden names the run '9', which has no rows"),
    ],
)
def test_each_broken_law_is_named(changes: dict[str, Any], text: str) -> None:
    assert text in refusal(**changes)


def test_membership_is_true_or_false() -> None:
    with pytest.raises(RecordError, match=r"member: expected true or false values \(dtype bool\), got int64"):
        laws.table_of_flags("member", np.ones((2, 3), int), (2, 3))


def test_long_and_strange_names_stay_on_one_short_line() -> None:
    strange = "<script>\n" + "x" * 10_000
    text = refusal(run=(strange,) * 8)
    assert "\n" not in text
    assert len(text) < 150
    assert "appears twice" in text


def test_sizes_of_free_axes_agree_between_signals() -> None:
    axes = {"p": ("row", "sample", "class"), "q": ("row", "sample", "class")}
    text = refusal(signals={"p": np.ones((8, 3, 10)), "q": np.ones((8, 3, 12))}, axes=axes)
    assert text == "q has shape (8, 3, 12): along class, expected 10 as in the signal 'p', got 12"


def test_every_declared_shape_is_taken_and_cut() -> None:
    signals = {
        "query": np.arange(8 * 2 * 3.0).reshape(8, 2, 3),
        "probability": np.arange(8 * 3 * 4.0).reshape(8, 3, 4),
        "pixels": np.arange(3 * 5).reshape(3, 5),
        "split": np.array(["train", "", "test"]),
    }
    axes = {
        "query": ("row", "query", "sample"),
        "probability": ("row", "sample", "class"),
        "pixels": ("sample", "pixel"),
    }
    cut = made(signals=signals, axes=axes).take_samples([2, 0])
    assert np.array_equal(cut.signals["query"], signals["query"][:, :, [2, 0]])
    assert np.array_equal(cut.signals["probability"], signals["probability"][:, [2, 0]])
    assert np.array_equal(cut.signals["pixels"], signals["pixels"][[2, 0]])
    assert cut.signals["split"].tolist() == ["test", "train"]
    assert cut.sample.tolist() == ["c", "a"]


def tokens() -> Record:
    loss = np.arange(8 * 6.0).reshape(8, 6)
    return made(signals={"loss": loss, "offsets": np.array([0, 2, 2, 6])}, axes={"loss": ("row", "token")})


def test_tokens_follow_their_samples() -> None:
    cut = tokens().take_samples([2, 1, 0])
    assert cut.signals["offsets"].tolist() == [0, 4, 4, 6]
    assert cut.signals["loss"][0].tolist() == [2, 3, 4, 5, 0, 1]
    got = [(part.start, part.stop, block[1].tolist()) for part, block in tokens().chunks(rows=[0, 1], size=1)]
    assert got == [(0, 1, [6, 7]), (1, 2, []), (2, 3, [8, 9, 10, 11])]


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        (None, "loss has one value a token: add the signal 'offsets'"),
        (np.array([0, 2, 6]), "offsets has shape (3,): along bound, expected 4 as in sample, and one, got 3"),
        (np.array([0, 3, 2, 6]), "offsets: expected numbers that start at 0, never fall and end at 6 tokens"),
        (np.array([0, 2, 2, 5]), "end at 6 tokens"),
        (np.array([0.0, 2, 2, 6]), "offsets: expected whole numbers with the axes (bound)"),
    ],
)
def test_offsets_must_cut_the_tokens(offsets: Any, text: str) -> None:
    signals = {"loss": np.ones((8, 6))} | ({} if offsets is None else {"offsets": offsets})
    assert text in refusal(signals=signals, axes={"loss": ("row", "token")})


def test_taking_rows_takes_their_memberships() -> None:
    flags = np.arange(12).reshape(2, 2, 3) % 2 == 0
    cut = made(calibration=flags).take_rows([7, 6])
    assert (cut.runs, cut.variants) == (("3",), ("sign",))
    assert cut.member is not None
    assert cut.member.tolist() == [[False, True, True]]
    assert cut.calibration is not None
    assert np.array_equal(cut.calibration, flags[1:, 1:])
    swapped = made().take_rows([2, 3, 0, 1])
    assert swapped.membership("0").tolist() == [True, False, True]
    assert np.array_equal(swapped.signals["loss"], fields()["signals"]["loss"][[2, 3, 0, 1]])


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ([3], "sample numbers: expected 0 to 2, got 3 to 3"),
        ([-1], "sample numbers: expected 0 to 2, got -1 to -1"),
        ([0, 0], "sample 'a' appears 2 times"),
        ([], "sample: expected a list of at least one id"),
        (np.array([0.5]), "sample numbers: expected a list of whole numbers, got float64"),
        (np.array([True, False]), "a mask of samples: expected 3 values, got shape (2,)"),
    ],
)
def test_samples_that_are_not_there_cannot_be_taken(index: Any, text: str) -> None:
    with pytest.raises(RecordError) as caught:
        made(source="f.csv").take_samples(index)
    assert str(caught.value).startswith(f"f.csv: {text}")


def test_masks_take_rows_and_samples() -> None:
    record = made().take_samples(np.array([True, False, True])).take_rows(np.arange(8) % 2 == 0)
    assert record.sample.tolist() == ["a", "c"]
    assert np.array_equal(record.signals["loss"], fields()["signals"]["loss"][::2, ::2])


@given(st.lists(st.integers(0, 7), min_size=1, max_size=8), st.integers(1, 5))
def test_chunks_put_together_are_the_signal(rows: list[int], size: int) -> None:
    record = made()
    blocks = list(record.chunks("loss", rows, size))
    assert np.array_equal(np.concatenate([b for _, b in blocks], axis=1), record.signals["loss"][rows])
    assert [part.start for part, _ in blocks] == list(range(0, 3, size))
    assert np.array_equal(
        np.concatenate([b for _, b in record.chunks("label", size=size)]), record.signals["label"]
    )


def test_chunks_refuse_what_is_not_there() -> None:
    with pytest.raises(RecordError, match="no signal 'los'; there are 'label', 'loss'"):
        next(made().chunks("los"))
    with pytest.raises(RecordError, match="at least one sample in a chunk, got 0"):
        next(made().chunks(size=0))
    with pytest.raises(RecordError, match="row numbers: expected 0 to 7, got 8 to 8"):
        next(made().chunks(rows=[8]))


@given(st.lists(st.integers(0, 20), max_size=8))
def test_a_slice_is_the_same_as_its_numbers(index: list[int]) -> None:
    numbers = np.array(index, np.int64)
    values = np.arange(21)
    assert np.array_equal(values[as_slice(numbers)], values[numbers])


def test_evenly_spaced_rows_are_read_without_a_copy() -> None:
    record = made()
    for _, block in record.chunks(rows=[1, 3, 5, 7]):
        assert np.shares_memory(block, record.signals["loss"])


def test_ids_too_wide_for_memory_are_refused() -> None:
    ids = np.array(["x" * 10_000, *map(str, range(70_000))], object)
    with pytest.raises(RecordError, match="70001 texts of up to 10000 characters take 2 GiB"):
        Record(
            run=("0",), step=np.ones(1), variant=("full",), sample=ids, signals={"loss": np.ones((1, 70_001))}
        )
