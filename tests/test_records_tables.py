"""Losses from CSV, Parquet and npz: the same numbers give the same record, and bad tables are named."""

from __future__ import annotations

import csv
import pickle
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from discreet.records import Record, RecordError, read
from discreet.records.order import natural_order, row_order, sample_ids

HEADER = ("variant", "run", "step", "sample", "loss")
Line = tuple[Any, ...]


def write_csv(path: Path, lines: Sequence[Line], header: Sequence[str] = HEADER) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(lines)
    return path


def write_parquet(path: Path, lines: Sequence[Line], header: Sequence[str] = HEADER) -> Path:
    columns = zip(*lines, strict=True)
    parquet.write_table(
        pa.table({name: list(column) for name, column in zip(header, columns, strict=True)}), path
    )
    return path


def long(losses: dict[str, np.ndarray], member: np.ndarray | None = None) -> list[Line]:
    """Melt arrays [run, checkpoint, sample] into lines, by loops."""
    lines: list[Line] = []
    for variant, array in losses.items():
        for (run, step, sample), loss in np.ndenumerate(array):
            line: Line = (variant, run, step + 1, sample, float(loss))
            lines.append(line if member is None else (*line, int(member[run, sample])))
    return lines


def refused(path: Path) -> str:
    with pytest.raises(RecordError) as caught:
        read(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert not text.startswith(f"{path}: {path}: ")
    assert "\n" not in text
    assert len(text) < 500 + len(str(path))
    return text.removeprefix(f"{path}: ")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(
    st.integers(1, 12), st.integers(1, 3), st.integers(1, 12), st.integers(0, 9), st.booleans(), st.randoms()
)
def test_the_same_numbers_give_the_same_record(
    tmp_path: Path, runs: int, steps: int, samples: int, seed: int, known: bool, random: Any
) -> None:
    rng = np.random.default_rng(seed)
    losses = {name: rng.normal(size=(runs, steps, samples)) for name in ("sign", "full")}
    member = rng.random((runs, samples)) < 0.5 if known else None
    np.savez(tmp_path / "t.npz", **losses, **({} if member is None else {"member": member}))
    lines, header = long(losses, member), (*HEADER, "member") if known else HEADER
    tail = lines[1:]
    random.shuffle(tail)  # any order, but that "sign" comes first
    lines = [lines[0], *tail]
    from_npz = read(tmp_path / "t.npz")
    assert read(write_csv(tmp_path / "t.csv", lines, header)) == from_npz
    assert read(write_parquet(tmp_path / "t.parquet", lines, header)) == from_npz
    assert read(from_npz.save(tmp_path / "t.safetensors")) == from_npz
    made = Record(
        run=tuple(str(r) for _ in losses for r in range(runs) for _ in range(steps)),
        step=np.tile(np.arange(steps) + 1.0, 2 * runs),
        variant=tuple(name for name in losses for _ in range(runs * steps)),
        sample=np.arange(samples),
        signals={"loss": np.concatenate([losses[name].reshape(-1, samples) for name in losses])},
        member=member,
    )
    assert made == from_npz


def test_runs_and_integer_samples_sort_as_numbers_and_steps_too(tmp_path: Path) -> None:
    lines = [("full", r, s, x, x) for x in (10, 9, -1) for s in ("1e1", "9", "0.5") for r in (10, 9)]
    record = read(write_csv(tmp_path / "t.csv", lines))
    assert record.runs == ("9", "10")
    assert record.step.tolist() == [0.5, 9, 10] * 2
    assert record.sample.tolist() == [-1, 9, 10]
    assert record.sample.dtype == np.int64
    assert record.signals["loss"][3].tolist() == [-1, 9, 10]


def test_labels_that_are_not_plain_numbers_stay_text(tmp_path: Path) -> None:
    lines = [("full", r, 1, x, 0.5) for r in ("run10", "run9") for x in ("10", "9", "007")]
    record = read(write_csv(tmp_path / "t.csv", lines))
    assert record.runs == ("run9", "run10")
    assert record.sample.tolist() == ["007", "10", "9"]


def test_integers_beyond_64_bits_stay_text(tmp_path: Path) -> None:
    lines = [("full", 0, 1, x, 0.5) for x in (2**63, 9)]
    assert read(write_csv(tmp_path / "t.csv", lines)).sample.tolist() == ["9", "9223372036854775808"]


def test_strange_names_come_back(tmp_path: Path) -> None:
    names = ("<script>alert('x')</script>", 'a\nb,"c"', "x" * 10_000, " é\u202e\U0001f600", "NA", "null")
    lines = [(v, r, 1, x, 0.5) for v in names for r in names for x in names]
    for path in (write_csv(tmp_path / "t.csv", lines), write_parquet(tmp_path / "t.parquet", lines)):
        record = read(path)
        assert record.variants == names
        assert sorted(record.runs) == sorted(names)
        assert record.sample.tolist() == sorted(names)


def test_a_byte_order_mark_and_windows_line_ends_are_harmless(tmp_path: Path) -> None:
    path = tmp_path / "t.CSV"
    path.write_bytes(
        b"\xef\xbb\xbfvariant, run ,step,sample,loss\r\nfull,0,1,0, 0.5 \r\n\r\nfull,0,1,1,-3\r\n"
    )
    record = read(path)
    assert record.signals["loss"].tolist() == [[0.5, -3.0]]


def test_pandas_indexes_are_no_data(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(long({"full": np.arange(8.0).reshape(2, 2, 2)}), columns=list(HEADER))
    frame.to_csv(tmp_path / "t.csv")
    frame[frame.index >= 0].sample(frac=1, random_state=0).to_parquet(tmp_path / "t.parquet")
    frame["variant"] = frame["variant"].astype("category")
    frame["loss"] = frame["loss"].astype("float32")
    frame["run"] = frame["run"].astype("float64")
    frame.to_parquet(tmp_path / "c.parquet")
    assert read(tmp_path / "t.csv") == read(tmp_path / "t.parquet") == read(tmp_path / "c.parquet")


GOOD: list[Line] = [("full", r, s, x, 0.5, r) for r in (0, 1) for s in (1, 2) for x in ("a", "b")]


def changed(line: int, **cells: Any) -> list[Line]:
    lines = [list(cells_) for cells_ in GOOD]
    for name, value in cells.items():
        lines[line][(*HEADER, "member").index(name)] = value
    return [tuple(cells_) for cells_ in lines]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (
            GOOD[:3] + GOOD[4:],
            "variant 'full', run '0', step 2 has no line for sample 'b' (1 of 2 samples are missing there;"
            " every variant, run and step needs the same samples)",
        ),
        ([*GOOD, GOOD[2]], "variant 'full', run '0', step 2, sample 'a' appears 2 times: lines 3, 9"),
        (changed(2, loss=""), "line 3: the cell of loss is empty"),
        (changed(2, step=" "), "line 3: the cell of step is empty"),
        (changed(2, step="nan"), "line 3: step is nan: expected a finite number"),
        (changed(2, step="-inf"), "line 3: step is -inf: expected a finite number"),
        (changed(2, run=""), "line 3: the cell of run is empty"),
        (changed(2, variant=""), "line 3: the cell of variant is empty"),
        (changed(2, sample=""), "line 3: the cell of sample is empty"),
        (changed(2, member=""), "line 3: the cell of member is empty"),
        (changed(2, loss="1,5"), "line 3: loss is '1,5': expected a number"),
        (changed(6, loss="0x10"), "line 7: loss is '0x10': expected a number"),
        (changed(0, step="one"), "line 1: step is 'one': expected a number"),
        (changed(0, step="inf"), "line 1: step is inf: expected a finite number"),
        (
            changed(2, loss="nan"),
            "loss of variant 'full', run '0', step 2 has 1 value that is NaN or infinite",
        ),
        (
            changed(5, loss="-inf"),
            "loss of variant 'full', run '1', step 1 has 1 value that is NaN or infinite",
        ),
        (changed(5, member="2"), "line 6: member is '2': expected 0 or 1, or true or false"),
        (
            changed(2, member=1),
            "line 1: member of run '0', sample 'a' is both 0 and 1: all rows of a run share one membership",
        ),
        (
            [(*GOOD[0], "more"), *GOOD[1:]],
            "not a regular table: CSV parse error: Row #2: Expected 6 columns, got 7",
        ),
        ([GOOD[0][:5], *GOOD[1:]], "not a regular table: CSV parse error: Row #2: Expected 6 columns, got 5"),
        ([], "no lines below the header"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, lines: list[Line], text: str) -> None:
    assert refused(write_csv(tmp_path / "t.csv", lines, (*HEADER, "member"))).startswith(text)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (
            ("variant", "run", "step", "sample", "lost"),
            "no column 'loss': expected the columns variant, run, step,",
        ),
        (
            ("variant;run;step;sample;loss",),
            "no column 'variant': expected the columns variant, run, step, sample,",
        ),
        (
            (*HEADER, "members"),
            "unknown column 'members': expected the columns variant, run, step, sample, loss and",
        ),
        ((*HEADER, "loss"), "two columns are called 'loss'"),
    ],
)
def test_wrong_headers(tmp_path: Path, header: tuple[str, ...], text: str) -> None:
    line = (1,) * len(header)
    assert refused(write_csv(tmp_path / "t.csv", [line], header)).startswith(text)
    if len(set(header)) == len(header):
        assert refused(write_parquet(tmp_path / "t.parquet", [line], header)).startswith(text)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.npz"])
def test_empty_and_foreign_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"")
    assert refused(path) == "the file is empty"
    path.write_bytes(bytes(range(256)) * 8)
    assert refused(path).startswith(("not UTF-8 text", "not a whole Parquet file", "not a whole npz file"))


def test_truncated_parquet_and_npz(tmp_path: Path) -> None:
    whole = write_parquet(tmp_path / "t.parquet", [line[:5] for line in GOOD]).read_bytes()
    (tmp_path / "t.parquet").write_bytes(whole[:-20])
    assert refused(tmp_path / "t.parquet").startswith("not a whole Parquet file")
    np.savez(tmp_path / "t.npz", full=np.ones((2, 2, 2)))
    whole = (tmp_path / "t.npz").read_bytes()
    (tmp_path / "t.npz").write_bytes(whole[:-30])
    assert refused(tmp_path / "t.npz") == "not a whole npz file"
    (tmp_path / "t.npz").write_bytes(whole.replace(np.ones(3).tobytes(), np.zeros(3).tobytes()))
    assert "cannot read" in refused(tmp_path / "t.npz")  # the checksum of the zip file


def test_parquet_cells_and_types(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"

    def write(**columns: Any) -> str:
        good = dict(zip(HEADER, zip(*[line[:5] for line in GOOD], strict=True), strict=True))
        parquet.write_table(pa.table({k: pa.array(v) for k, v in (good | columns).items()}), path)
        return refused(path)

    assert write(loss=[0.5] * 7 + [None]) == "line 8: the cell of loss is empty"
    assert write(run=[None, None] + [0] * 6) == "line 1: the cell of run is empty (2 such cells)"
    assert write(sample=[0.5] * 8) == "sample: expected text or whole numbers, got double"
    assert write(sample=[b"x"] * 8) == "sample: expected text or whole numbers, got binary"
    assert write(loss=[True] * 8) == "loss: expected numbers, got bool"
    assert write(member=[0.0] * 7 + [0.5]) == "line 8: member is '0.5': expected 0 or 1, or true or false"
    assert write(sample=["a\0", "b"] * 4) == "sample 'a\\x00' ends in a NUL character"


@pytest.mark.parametrize("kind", [bool, int, float, str, lambda flag: "True" if flag else "FALSE"])
def test_ways_to_write_membership(tmp_path: Path, kind: Callable[[bool], Any]) -> None:
    lines = [(*line[:5], kind(bool(line[5])) if kind is not str else str(line[5])) for line in GOOD]
    header = (*HEADER, "member")
    for path in (
        write_csv(tmp_path / "t.csv", lines, header),
        write_parquet(tmp_path / "t.parquet", lines, header),
    ):
        record = read(path)
        assert record.membership("0").tolist() == [False, False]
        assert record.membership("1").tolist() == [True, True]


def test_members_follow_their_runs_when_a_run_appears_late(tmp_path: Path) -> None:
    lines = [("a", "2", 1, "x", 0.0, 1), ("b", "1", 1, "x", 0.0, 0), ("b", "2", 1, "x", 0.0, 1)]
    record = read(write_csv(tmp_path / "t.csv", lines, (*HEADER, "member")))
    assert record.runs == ("2", "1")
    assert record.membership("2").tolist() == [True]
    assert record.membership("1").tolist() == [False]


def test_sparse_tables_of_many_labels_are_refused_without_building_the_grid(tmp_path: Path) -> None:
    lines = [("full", i, i, i, 0.5) for i in range(20_000)]  # 4e8 cells if it were built
    assert "has no line for sample" in refused(write_csv(tmp_path / "t.csv", lines))


def test_a_million_lines_take_seconds(tmp_path: Path) -> None:
    runs, steps, samples = 4, 10, 12_500
    loss = np.random.default_rng(0).random((2, runs, steps, samples))
    v, r, s, x = (axis.ravel() for axis in np.indices(loss.shape))
    shuffled = np.random.default_rng(1).permutation(loss.size)
    columns = {
        "variant": pa.array(["full", "sign"]).take(pa.array(v[shuffled])),
        "run": r[shuffled],
        "step": s[shuffled] + 1,
        "sample": x[shuffled],
        "loss": loss.ravel()[shuffled],
    }
    from pyarrow import csv as arrow_csv

    arrow_csv.write_csv(pa.table(columns), tmp_path / "t.csv")
    start = time.process_time()
    record = read(tmp_path / "t.csv")
    assert time.process_time() - start < 8
    assert len(record.run) == 80
    first = ("full", "sign").index(record.variants[0])
    assert np.array_equal(record.signals["loss"], loss[[first, 1 - first]].reshape(80, samples))
    bad = pa.table(columns | {"loss": pa.array(["0.5"] * 999_990 + ["x"] * 10)})
    arrow_csv.write_csv(bad, tmp_path / "t.csv")
    start = time.process_time()
    assert refused(tmp_path / "t.csv") == "line 999991: loss is 'x': expected a number"
    assert time.process_time() - start < 8


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_npz_shapes_dtypes_and_members(tmp_path: Path) -> None:
    flat = read(npz(tmp_path / "t.npz", full=np.ones((3, 5), np.float32), member=np.array([1, 0, 0, 1, 1])))
    assert (flat.runs, flat.step.tolist(), flat.n_samples) == (("0",), [1, 2, 3], 5)
    assert flat.signals["loss"].dtype == np.float32
    both = read(
        npz(
            tmp_path / "t.npz",
            b=np.ones((1, 3, 5), ">f4"),
            a=np.zeros((3, 5), "<f4"),
            member=np.ones(5, bool),
        )
    )
    assert both.variants == ("b", "a")
    assert both.signals["loss"].dtype == np.dtype(np.float32)
    ints = read(npz(tmp_path / "t.npz", full=np.arange(12).reshape(2, 2, 3), member=np.eye(2, 3, dtype=bool)))
    assert ints.signals["loss"].dtype == np.float64
    assert ints.membership("1").tolist() == [False, True, False]
    shared = read(npz(tmp_path / "t.npz", full=np.ones((2, 2, 3)), member=np.array([True, False, True])))
    assert shared.membership("0").tolist() == shared.membership("1").tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({}, "no losses: expected one array a variant"),
        ({"member": np.ones(3, bool)}, "no losses: expected one array a variant"),
        (
            {"full": np.ones(3)},
            "'full' has shape (3,): expected [run, checkpoint, sample] or [checkpoint, sample]",
        ),
        ({"full": np.ones((2, 3, 0))}, "'full' is empty: shape (2, 3, 0) (run, checkpoint, sample)"),
        ({"full": np.array([["a"]])}, "'full' is <U1: expected losses, numbers in nats"),
        (
            {"full": np.ones((2, 3, 4)), "sign": np.ones((2, 3, 5))},
            "'sign' has shape (2, 3, 5), 'full' has (2, 3, 4) (run, checkpoint, sample): all variants need",
        ),
        (
            {"full": np.ones((2, 3)), "sign": np.ones((2, 3), np.float32)},
            "'sign' is float32, others are float64: expected one dtype",
        ),
        (
            {"full": np.ones((2, 3, 4)), "member": np.ones((3, 4))},
            "'member' has shape (3, 4): expected (2, 4) or (4,)",
        ),
        ({"full": np.ones((3, 4)), "member": np.full(4, 2)}, "'member' must hold only 0 and 1, or booleans"),
        (
            {"full": np.array([[0.5, np.nan]])},
            "loss of variant 'full', run '0', step 1 has 1 value that is NaN",
        ),
        (
            {"full": np.array([[None]], object)},
            "cannot read 'full': it holds Python objects, which are never unpickled",
        ),
    ],
)
def test_bad_npz_files_are_named(tmp_path: Path, arrays: dict[str, Any], text: str) -> None:
    assert refused(npz(tmp_path / "t.npz", **arrays)).startswith(text)


class _Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle was run",)


def test_no_pickle_is_ever_run(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    path.write_bytes(pickle.dumps(_Trap()))
    assert refused(path) == "not a whole npz file"
    np.savez(path, full=np.ones((1, 2)), trap=np.array([_Trap()], object))
    assert refused(path) == "cannot read 'trap': it holds Python objects, which are never unpickled"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("full", pickle.dumps(_Trap()))
    assert refused(path) == "'full' is no array"


@given(st.lists(st.from_regex(r"[ab]?[0-9]{0,3}", fullmatch=True), min_size=1, max_size=8, unique=True))
def test_natural_order_sorts_and_keeps_labels(labels: list[str]) -> None:
    ordered = natural_order(labels)
    assert sorted(ordered) == sorted(labels)
    assert natural_order(ordered[::-1]) == ordered


def test_numbers_of_any_length_sort() -> None:
    long_ones = ["9" * 5000, "1" + "0" * 5000, "x"]
    assert natural_order(long_ones) == long_ones


@given(st.lists(st.integers(-(2**70), 2**70), min_size=1, max_size=8, unique=True))
def test_sample_ids_sort_and_say_where(numbers: list[int]) -> None:
    ids, places = sample_ids([str(n) for n in numbers])
    assert [str(v) for v in ids[places]] == [str(n) for n in numbers]
    if all(-(2**63) <= n < 2**63 for n in numbers):
        assert ids.tolist() == sorted(numbers)
    else:
        assert ids.tolist() == sorted(str(n) for n in numbers)


def test_rows_go_by_variant_then_run_then_step() -> None:
    order = row_order(["10", "9", "9", "9"], np.array([1.0, 2.0, 1.0, 1.0]), ["b", "b", "b", "a"])
    assert order.tolist() == [2, 1, 0, 3]
