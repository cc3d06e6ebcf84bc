"""Records put together: streamed or in memory, the same bytes; parts that do not fit are named."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discreet.records import Record, RecordError, join, merge_runs, merge_samples, read, read_all
from discreet.records.alike import common


def whole(runs: int = 3, steps: int = 2, samples: int = 6, seed: int = 0, text: bool = True) -> Record:
    """A record in canonical order with every kind of array."""
    rng = np.random.default_rng(seed)
    rows = [(v, str(r), s + 1.0) for v in ("full", "sign") for r in range(runs) for s in range(steps)]
    tokens = rng.integers(0, 3, samples)
    signals = {
        "loss": rng.random((len(rows), samples), np.float32),
        "margin": rng.random((len(rows), samples)),
        "query": rng.random((len(rows), 2, samples)),
        "chance": rng.random((len(rows), samples, 3)),
        "logprob": rng.random((len(rows), tokens.sum())),
        "offsets": np.concatenate([[0], np.cumsum(tokens)]),
        "pixel": rng.integers(0, 255, (samples, 4), np.uint8),
        "split": np.array([f"s{i % 2}" for i in range(samples)]),
    }
    return Record(
        run=tuple(r for _, r, _ in rows),
        step=np.array([s for _, _, s in rows]),
        variant=tuple(v for v, _, _ in rows),
        sample=np.array([f"id{i}" for i in range(samples)]) if text else np.arange(samples),
        signals=signals if text else {name: signals[name] for name in ("loss", "margin")},
        axes={
            "query": ("row", "query", "sample"),
            "chance": ("row", "sample", "class"),
            "logprob": ("row", "token"),
            "pixel": ("sample", "pixel"),
        }
        if text
        else {},
        member=rng.random((runs, samples)) < 0.5,
        calibration=rng.random((runs, 2, samples)) < 0.5,
        about={"seed": 1},
    )


def by_run_and_step(record: Record) -> list[Record]:
    """One small record for each run and step, as training writes them."""
    keys = [(r, s) for s in dict.fromkeys(record.step.tolist()) for r in record.runs]
    return [record.take_rows(record.rows(run=r, step=s)) for r, s in keys]


def test_parts_by_run_and_step_join_to_the_whole(tmp_path: Path) -> None:
    record = whole()
    parts = [p.save(tmp_path / f"{i}.safetensors") for i, p in enumerate(by_run_and_step(record))]
    joined = join(parts, tmp_path / "joined.safetensors")
    assert joined == record
    assert isinstance(joined.signals["loss"], np.memmap)
    at_once = merge_runs([Record.open(part) for part in parts]).save(tmp_path / "once.safetensors")
    assert at_once.read_bytes() == (tmp_path / "joined.safetensors").read_bytes()
    assert record.save(tmp_path / "w.safetensors").read_bytes() == at_once.read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8, deadline=None)
@given(st.randoms(), st.integers(0, 5))
def test_the_order_in_which_workers_finish_changes_nothing(tmp_path: Path, random: Any, seed: int) -> None:
    record = whole(seed=seed)
    parts = by_run_and_step(record)
    random.shuffle(parts)
    assert merge_runs(parts) == record
    files = [part.save(tmp_path / f"{i}.safetensors") for i, part in enumerate(parts)]
    join(files, tmp_path / "joined.safetensors")
    assert (tmp_path / "joined.safetensors").read_bytes() == record.save(
        tmp_path / "w.safetensors"
    ).read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8, deadline=None)
@given(st.integers(1, 5), st.integers(0, 5))
def test_samples_cut_apart_merge_to_the_whole(tmp_path: Path, cut: int, seed: int) -> None:
    record = whole(seed=seed)
    parts = [record.take_samples(range(cut)), record.take_samples(range(cut, 6))]
    assert merge_samples(parts) == record
    files = [part.save(tmp_path / f"{i}.safetensors") for i, part in enumerate(parts)]
    assert merge_samples(files, tmp_path / "m.safetensors") == record
    assert (tmp_path / "m.safetensors").read_bytes() == record.save(tmp_path / "w.safetensors").read_bytes()
    backwards = merge_samples([parts[0], parts[1].take_rows(range(11, -1, -1))])
    assert backwards == record


def test_samples_in_another_order_are_put_in_order(tmp_path: Path) -> None:
    record = whole()
    first, second = record.take_rows(record.rows(run="0")), record.take_rows(record.rows(run="1"))
    shuffled = second.take_samples([3, 1, 5, 0, 2, 4])
    expected = merge_runs([first, second])
    assert merge_runs([first, shuffled]) == expected
    files = [first.save(tmp_path / "a.safetensors"), shuffled.save(tmp_path / "b.safetensors")]
    assert join(files, tmp_path / "j.safetensors") == expected


def test_more_parts_than_files_may_be_open(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    record = whole(runs=40, steps=2, samples=2, text=False)
    parts = [p.save(tmp_path / f"{i}.safetensors") for i, p in enumerate(by_run_and_step(record))]
    resource.setrlimit(resource.RLIMIT_NOFILE, (60, hard))
    try:
        joined = join(parts, tmp_path / "joined.safetensors")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert joined == record


@pytest.mark.parametrize("along", ["runs", "samples"])
def test_a_streaming_copy_needs_little_memory(tmp_path: Path, along: str) -> None:
    rows, samples = 8, 500_000
    loss = np.random.default_rng(0).random((rows, samples), np.float32)
    record = Record(("0",) * rows, np.arange(8.0), ("full",) * rows, np.arange(samples), {"loss": loss})
    cut = [
        (record.take_rows([r]), record.take_samples(range(r * 62_500, (r + 1) * 62_500))) for r in range(8)
    ]
    parts = [pair[along == "samples"].save(tmp_path / f"{i}.safetensors") for i, pair in enumerate(cut)]
    del cut
    tracemalloc.start()
    try:
        merge = merge_runs if along == "runs" else merge_samples
        merged = merge(parts, tmp_path / "out.safetensors")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert merged == record
    # The ids (4 MB), once or twice, and a block (8 MB) at most; the losses are 16 MB.
    assert peak < 14e6, peak


def part(**changes: Any) -> Record:
    fields: dict[str, Any] = {
        "run": ("0",),
        "step": np.array([1.0]),
        "variant": ("full",),
        "sample": np.arange(3),
        "signals": {"loss": np.ones((1, 3))},
        "source": "a.npz",
    }
    return Record(**fields | changes)


OTHER = {"run": ("1",), "source": "b.npz"}


@pytest.mark.parametrize(
    ("one", "two", "text"),
    [
        ({}, {"source": "b.npz"}, "variant 'full', run '0', step 1 appears twice: in a.npz and in b.npz"),
        ({}, OTHER | {"sample": np.array([0, 1, 5])}, "samples differ: '2' is in a.npz, but not in b.npz"),
        (
            {"sample": np.arange(2), "signals": {"loss": np.ones((1, 2))}},
            OTHER,
            "sizes differ: 'sample' is 2 in a.npz, 3 in b.npz",
        ),
        (
            {},
            OTHER | {"signals": {"margin": np.ones((1, 3))}},
            "axes differ: 'loss' is ('row', 'sample') in a.npz, absent",
        ),
        (
            {},
            OTHER | {"signals": {"loss": np.ones((1, 3), np.float32)}},
            "dtypes differ: 'loss' is float64 in a.npz, float32 in b.npz",
        ),
        ({}, OTHER | {"member": np.ones((1, 3), bool)}, "member is in b.npz, but not in a.npz"),
        ({"member": np.ones((1, 3), bool)}, OTHER, "member is in a.npz, but not in b.npz"),
        (
            {"member": np.ones((1, 3), bool)},
            {"step": np.array([2.0]), "member": np.eye(1, 3, dtype=bool), "source": "b.npz"},
            "member of run '0' differs between a.npz and b.npz",
        ),
        (
            {"calibration": np.ones((1, 1, 3), bool)},
            {"step": np.array([2.0]), "calibration": np.zeros((1, 1, 3), bool), "source": "b.npz"},
            "calibration of variant 'full', run '0' differs between a.npz and b.npz",
        ),
        (
            {"signals": {"loss": np.ones((1, 3)), "label": np.array([0, 1, 2])}},
            OTHER | {"signals": {"loss": np.ones((1, 3)), "label": np.array([0, 1, 3])}},
            "label differs between a.npz and b.npz",
        ),
    ],
)
def test_parts_that_do_not_fit_are_named(one: dict[str, Any], two: dict[str, Any], text: str) -> None:
    with pytest.raises(RecordError) as caught:
        merge_runs([part(**one), part(**two)])
    assert text in str(caught.value)


def test_samples_that_do_not_fit_are_named() -> None:
    with pytest.raises(RecordError, match=r"sample '2' is in a.npz and in b.npz"):
        merge_samples([part(), part(sample=np.array([3, 2, 4]), source="b.npz")])
    more = part(sample=np.array([3, 4, 5]), run=("1",), source="b.npz")
    with pytest.raises(
        RecordError, match=r"rows differ: variant 'full', run '0', step 1 is in a.npz, but not in b"
    ):
        merge_samples([part(), more])
    mixed = merge_samples([part(), part(sample=np.array(["x", "y", "z"]))])
    assert mixed.sample.tolist() == ["0", "1", "2", "x", "y", "z"]


def test_nothing_and_blind_records_do_not_merge() -> None:
    with pytest.raises(RecordError, match="nothing to merge"):
        merge_runs([])
    blind = part(member=np.ones((1, 3), bool)).blind("0")
    with pytest.raises(
        RecordError, match=r"a.npz: blind to run '0': merge records before they are made blind"
    ):
        merge_runs([blind])


def test_a_nan_stops_a_streaming_copy_and_leaves_no_file(tmp_path: Path) -> None:
    good = part().save(tmp_path / "a.safetensors")
    data = good.read_bytes()
    bad = tmp_path / "b.safetensors"
    bad.write_bytes(
        data.replace(np.ones(3).tobytes(), np.array([1, np.nan, 1]).tobytes()).replace(
            b'\\"runs\\":[\\"0\\"]', b'\\"runs\\":[\\"1\\"]'
        )
    )
    with pytest.raises(
        RecordError, match=r"b\.safetensors: loss of variant 'full', run '1', step 1 has 1 value"
    ):
        join([good, bad], tmp_path / "out.safetensors")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.safetensors", "b.safetensors"]


def test_facts_about_the_parts_are_all_kept() -> None:
    assert common([{"a": 1}, {"a": 1}]) == {"a": 1}
    assert common([{"a": 1}, {"b": [2]}]) == {"a": 1, "b": [2]}
    assert common([{"a": {"x": 1}}, {"a": {"x": 2, "y": 3}}]) == {"a": {"x": {"merged": [1, 2]}, "y": 3}}
    assert common([{"a": True}, {"a": 1}]) == {"a": {"merged": [True, 1]}}
    twice = common([common([{"a": 1}, {"a": 2}]), {"a": 3}])
    assert twice == common([{"a": 1}, common([{"a": 2}, {"a": 3}])]) == {"a": {"merged": [1, 2, 3]}}


def test_several_files_are_read_as_what_they_are(tmp_path: Path) -> None:
    record = whole(text=False)
    by_run = [record.take_rows(record.rows(run=r)).save(tmp_path / f"{r}.safetensors") for r in record.runs]
    assert read_all(by_run) == record
    assert read_all(by_run[:1]) == read(by_run[0])
    halves = [record.take_samples(range(a, 6, 2)).save(tmp_path / f"h{a}.safetensors") for a in (0, 1)]
    assert read_all(halves) == record
    uneven = [halves[0], record.take_samples([2, 3]).save(tmp_path / "u.safetensors")]
    with pytest.raises(
        RecordError, match=r"h0\.safetensors and .*u\.safetensors share some samples \('2'\), but not all"
    ):
        read_all(uneven)
    with pytest.raises(RecordError, match="no files"):
        read_all([])


def test_one_npz_a_variant(tmp_path: Path) -> None:
    losses = {name: np.random.default_rng(i).random((2, 3, 4)) for i, name in enumerate(("full", "sign"))}
    np.savez(tmp_path / "both.npz", **losses)
    for name, values in losses.items():
        np.savez(tmp_path / f"{name}.npz", **{name: values})
    assert read_all([tmp_path / "full.npz", tmp_path / "sign.npz"]) == read(tmp_path / "both.npz")
