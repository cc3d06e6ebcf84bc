"""A record's file: the same record comes back, and no broken or foreign file passes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import save_file

from discreet.records import Record, RecordError, read
from discreet.records.files import pieces

LABEL = st.text(min_size=1, max_size=12)
FINITE = {"allow_nan": False, "allow_infinity": False}


@st.composite
def record_fields(draw: st.DrawFn) -> dict[str, Any]:
    rows = draw(
        st.lists(
            st.tuples(LABEL, st.floats(**FINITE), LABEL),
            min_size=1,
            max_size=6,
            unique_by=lambda row: (row[0], row[1] + 0.0, row[2]),
        )
    )
    texts = st.text(max_size=8).filter(lambda text: not text.endswith("\0"))
    ids = draw(
        st.one_of(
            st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5, unique=True),
            st.lists(texts, min_size=1, max_size=5, unique=True),
        )
    )
    n, count, runs = len(ids), len(rows), len({r[0] for r in rows})
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64]))
    width = np.dtype(dtype).itemsize * 8
    signals = {
        "loss": draw(hnp.arrays(dtype, (count, n), elements=st.floats(width=width, **FINITE))),
        draw(st.text(min_size=1, max_size=5).filter(lambda s: s not in ("loss", "offsets"))): np.arange(n),
        "words": np.array(draw(st.lists(texts, min_size=n, max_size=n)), object),
        "deep": np.arange(count * n * 2, dtype=np.uint8).reshape(count, 2, n),
    }
    plain = st.integers() | st.text(max_size=5) | st.none()
    return {
        "run": tuple(r[0] for r in rows),
        "step": np.array([r[1] for r in rows]),
        "variant": tuple(r[2] for r in rows),
        "sample": np.array(ids, np.int64 if isinstance(ids[0], int) else object),
        "signals": signals,
        "axes": {"deep": ("row", "query", "sample")},
        "member": draw(st.one_of(st.none(), hnp.arrays(bool, (runs, n)))),
        "about": draw(st.dictionaries(st.text(max_size=5), plain, max_size=3)),
    }


@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    max_examples=40,
    deadline=None,
)
@given(record_fields())
def test_round_trip(tmp_path: Path, fields: dict[str, Any]) -> None:
    record = Record(**fields)
    path = record.save(tmp_path / "r.safetensors")
    again = Record.open(path)
    assert again == record
    assert again.save(tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    assert again.validate() is again
    with safe_open(path, framework="numpy") as foreign:  # the library reads it, tensor by tensor
        assert np.array_equal(foreign.get_tensor("signal/loss"), record.signals["loss"])
        assert list(foreign.metadata()) == ["discreet.record"]


def made(rows: int = 3, samples: int = 5, dtype: Any = np.float32, **changes: Any) -> Record:
    loss = np.random.default_rng(0).random((rows, samples)).astype(dtype)
    fields: dict[str, Any] = {
        "run": ("0",) * rows,
        "step": np.arange(1.0, rows + 1),
        "variant": ("sign",) * rows,
        "sample": np.arange(samples),
        "signals": {"loss": loss},
    }
    return Record(**fields | changes)


def test_names_from_hell_come_back(tmp_path: Path) -> None:
    names = ("<script>alert(1)</script>", "a\nb\r\n\t", "x" * 10_000, "\u202e\U0001f600\0", '"\\')
    record = Record(
        run=names,
        step=np.arange(5.0),
        variant=names[::-1],
        sample=np.array([f"{n}." for n in names], object),
        signals={"loss": np.ones((5, 5)), names[0]: np.arange(5)},
    )
    again = read(record.save(tmp_path / "r.safetensors"))
    assert again == record
    assert again.run == names
    assert again.sample.tolist() == [f"{n}." for n in names]


def test_a_blind_record_stays_blind_in_its_file(tmp_path: Path) -> None:
    record = made(run=("0", "1", "2"), member=np.eye(3, 5, dtype=bool))
    blind = record.blind("1")
    again = Record.open(blind.save(tmp_path / "b.safetensors"))
    assert again == blind
    assert again.hidden == ("1",)


def test_arrays_are_mapped_and_aligned(tmp_path: Path) -> None:
    record = made(
        dtype=np.float64, signals={"loss": np.ones((3, 5)), "flag": np.ones(5, bool), "b": np.ones(5, "u2")}
    )
    again = Record.open(record.save(tmp_path / "r.safetensors"))
    for values in again.signals.values():
        assert isinstance(values, np.memmap)
        assert not values.flags.writeable
        assert values.ctypes.data % values.dtype.itemsize == 0


def test_opening_a_large_file_reads_none_of_it(tmp_path: Path) -> None:
    path = made(8, 1_000_000).save(tmp_path / "r.safetensors")
    Record.open(path)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        Record.open(path)
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    np.fromfile(path, np.uint8)
    assert min(times) < max(0.05, time.perf_counter() - start)


def test_a_nan_in_a_mapped_file_never_passes(tmp_path: Path) -> None:
    record = made(3, 1000)
    path = record.save(tmp_path / "r.safetensors")
    at = path.read_bytes().rindex(np.asarray(record.signals["loss"][1, 700:704]).tobytes())
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(np.full(4, np.nan, np.float32).tobytes())
    opened = Record.open(path)
    message = f"{path}: loss of variant 'sign', run '0', step 2 has 4 values that are NaN or infinite"
    for reading in (
        lambda: list(opened.chunks(size=1)),
        lambda: list(opened.chunks(rows=[0, 1])),
        opened.validate,
    ):
        with pytest.raises(RecordError) as caught:
            reading()
        assert str(caught.value) == message
    with pytest.raises(RecordError, match="step 2 has 4 values"):
        opened.take_rows([1, 0])
    assert len(list(opened.chunks(rows=[0, 2]))) == 1  # the other rows are sound


def broken(path: Path) -> str:
    with pytest.raises(RecordError) as caught:
        read(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


def test_missing_empty_truncated_and_foreign_files(tmp_path: Path) -> None:
    whole = made().save(tmp_path / "whole.safetensors").read_bytes()
    path = tmp_path / "r.safetensors"
    assert broken(path) == "no such file"
    path.write_bytes(b"")
    assert broken(path) == "the file is empty"
    for cut in (1, 7, 8, 50, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert broken(path).startswith("not a whole safetensors file: ")
    path.write_bytes(whole + b"x")
    assert broken(path).startswith("not a whole safetensors file: ")
    path.write_bytes(b"PK\x03\x04" + bytes(200))
    assert broken(path).startswith("not a whole safetensors file: ")
    save_file({"weight": np.ones(3)}, path)
    assert broken(path) == "a safetensors file, but no record: its metadata has no 'discreet.record'"
    path.unlink()
    path.mkdir()
    assert broken(path) == "a folder, not a file"
    assert "expected a file that ends in .safetensors, .npz, .csv, .parquet" in broken(tmp_path / "r.txt")


def rewritten(path: Path, tensors: dict[str, np.ndarray], **facts: Any) -> Path:
    with safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["discreet.record"]) | facts
        kept = {name: file.get_tensor(name) for name in file.keys()} | tensors  # noqa: SIM118
    kept = {name: values for name, values in kept.items() if values.size}
    out = path.with_name("changed.safetensors")
    save_file(kept, out, {"discreet.record": json.dumps(header)})
    return out


@pytest.mark.parametrize(
    ("tensors", "facts", "text"),
    [
        ({}, {"schema": "discreet.record/2"}, "schema 'discreet.record/2'; this version of discreet reads"),
        ({}, {"schema": None}, "schema None; this version of discreet reads 'discreet.record/1'"),
        (
            {"run": np.array([0, 0, 9], np.int32)},
            {},
            "the record's header and its tensors do not fit together",
        ),
        (
            {"run": np.array([0, 0, -1], np.int32)},
            {},
            "the record's header and its tensors do not fit together",
        ),
        ({"step": np.zeros(0)}, {}, "the record's header and its tensors do not fit together"),
        ({"step": np.ones(3)}, {}, "variant 'sign', run '0', step 1 appears twice: rows 0 and 1"),
        ({"sample": np.zeros(5, np.int64)}, {}, "sample '0' appears 5 times"),
        ({}, {"axes": {"loss": ["row", "token"]}}, "loss has one value a token"),
        ({}, {"axes": 3}, "the record's header and its tensors do not fit together"),
        ({"member": np.ones((2, 5), bool)}, {}, "member has shape (2, 5): expected (1, 5)"),
        ({}, {"runs": [""]}, "run of row 0 is empty"),
    ],
)
def test_files_that_contradict_themselves(
    tmp_path: Path, tensors: dict[str, np.ndarray], facts: dict[str, Any], text: str
) -> None:
    path = made().save(tmp_path / "r.safetensors")
    assert text in broken(rewritten(path, tensors, **facts))


def test_bytes_that_are_no_truth_values(tmp_path: Path) -> None:
    path = made(member=np.ones((1, 5), bool)).save(tmp_path / "r.safetensors")
    data = bytearray(path.read_bytes())
    data[-1] = 2
    path.write_bytes(data)
    assert broken(path) == "the tensor 'member' holds bytes that are neither true nor false"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80, deadline=None)
@given(st.data())
def test_a_changed_byte_is_an_error_or_a_record(tmp_path: Path, data: st.DataObject) -> None:
    path = made(sample=np.array(["a", "b", "c", "d", "é"])).save(tmp_path / "r.safetensors")
    whole = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    path.write_bytes(whole)
    with suppress(RecordError):  # and no other kind of error
        read(path).validate()


def test_the_same_record_gives_the_same_bytes_whatever_the_order_of_its_signals(tmp_path: Path) -> None:
    signals = {"margin": np.ones((3, 5)), "loss": np.zeros((3, 5)), "label": np.arange(5)}
    one = made(signals=signals, about={"a": 1, "b": 2}).save(tmp_path / "1.safetensors")
    backwards = dict(reversed(signals.items()))
    two = made(signals=backwards, about={"b": 2, "a": 1}).save(tmp_path / "2.safetensors")
    assert one.read_bytes() == two.read_bytes()


@given(hnp.array_shapes(min_dims=1, max_dims=4, max_side=5))
def test_pieces_cover_an_array_once(shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape)
    copy = np.full(shape, -1)
    for at, block in pieces(values, limit=64):
        where = tuple(slice(a, a + n) for a, n in zip(at, block.shape, strict=True))
        assert (copy[where] == -1).all()
        copy[where] = block
    assert np.array_equal(copy, values)


def test_saving_replaces_in_one_step_and_keeps_usual_permissions(tmp_path: Path) -> None:
    path = made().save(tmp_path / "r.safetensors")
    opened = Record.open(path)
    opened.save(path)  # over the file it is mapped from
    assert opened == Record.open(path)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    assert [p.name for p in tmp_path.iterdir()] == ["r.safetensors"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "no" / "r.safetensors"
    with pytest.raises(RecordError) as caught:
        made().save(path)
    assert str(caught.value) == f"{path}: cannot write the record: No such file or directory"


AS_NOBODY = """
import os, sys
import numpy as np
from discreet.records import Record, RecordError
import discreet.records.files
from pathlib import Path
record = Record(("0",), np.ones(1), ("full",), np.arange(100_000), {"loss": np.ones((1, 100_000))})
if sys.argv[2] == "nobody":
    if os.geteuid() == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
else:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
try:
    record.save(Path(sys.argv[1]) / "r.safetensors")
except RecordError as error:
    print(error, end="")
"""


@pytest.mark.parametrize(("how", "reason"), [("nobody", "Permission denied"), ("full", "File too large")])
def test_a_folder_that_cannot_take_the_file(how: str, reason: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "shut"
        folder.mkdir()
        Path(name).chmod(0o755)
        folder.chmod(0o555 if how == "nobody" else 0o755)
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(folder), how], capture_output=True, text=True, check=True
        )
        assert done.stdout == f"{folder}/r.safetensors: cannot write the record: {reason}"
        assert list(folder.iterdir()) == []


INTERRUPTED_SAVE = """
import os, signal, sys, threading, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
import numpy as np
from discreet.records import Record, files

path = Path(sys.argv[1])

def ctrl_c():
    while len(os.listdir(path.parent)) < 2:  # until the draft is there
        time.sleep(0.0005)
    os.kill(os.getpid(), signal.SIGINT)

loss = np.zeros((400, 250_000), np.float32)
record = Record(("0",) * 400, np.arange(400.0), ("full",) * 400, np.arange(250_000), {"loss": loss})
threading.Thread(target=ctrl_c).start()
record.save(path)
"""


def test_ctrl_c_leaves_no_half_written_file(tmp_path: Path) -> None:
    path = tmp_path / "r.safetensors"
    path.write_text("the old file")
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_SAVE, str(path)], capture_output=True, text=True)
    assert done.stderr.endswith("KeyboardInterrupt\n")
    assert path.read_text() == "the old file"
    assert list(tmp_path.iterdir()) == [path]
