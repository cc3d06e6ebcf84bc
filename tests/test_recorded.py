from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.recorded import evaluation_samples
from discreet.records import Record


def record(losses: np.ndarray, names: tuple[str, ...] = ("full", "sign"), **kwargs: Any) -> Record:
    """A record of losses [variant, run, checkpoint, sample]."""
    v, r, k, n = losses.shape
    signals = kwargs.pop("signals", {})
    return Record(
        axes={"params_hash": ("row",)} if "params_hash" in signals else {},
        run=tuple(str(i) for _ in range(v) for i in range(r) for _ in range(k)),
        step=np.tile(np.arange(1.0, k + 1), v * r),
        variant=tuple(name for name in names for _ in range(r * k)),
        sample=kwargs.pop("sample", np.arange(n)),
        signals={"loss": losses.reshape(-1, n)} | signals,
        **kwargs,
    )


def losses(n: int = 300) -> np.ndarray:
    rng = np.random.default_rng(0)
    gaps = np.array([0.3, 0.0, 0.1])[:, None]
    return (
        rng.exponential(size=n)
        + gaps * np.array([1.0, 2.0])[:, None, None, None]
        + 0.1 * rng.standard_normal((2, 4, 3, n))
    )


def same(a: Any, b: Any) -> bool:
    return json.dumps(a.to_json()) == json.dumps(b.to_json())


def test_a_record_ranks_as_its_arrays_do() -> None:
    x = losses()
    assert same(discreet.rank(record(x)), discreet.rank({"full": x[0], "sign": x[1]}))


def test_rows_and_samples_in_any_order_give_the_same_bytes() -> None:
    x = record(losses())
    rng = np.random.default_rng(1)
    turned = x.take_rows(rng.permutation(len(x.run))).take_samples(rng.permutation(x.n_samples))
    assert same(discreet.rank(x), discreet.rank(turned))


def test_samples_that_a_run_trained_on_are_left_out_and_counted() -> None:
    x = losses()
    member = np.zeros((4, 300), bool)
    member[2, :50] = True
    found = discreet.rank(record(x, member=member))
    assert found.notes[0].startswith("50 of 300 samples were left out")
    expected = discreet.rank({"full": x[0][..., 50:], "sign": x[1][..., 50:]})
    assert found["sign"].r == pytest.approx(expected["sign"].r, rel=1e-12)
    assert found["sign"].samples == 250


def test_calibration_rows_are_left_out_too() -> None:
    calibration = np.zeros((4, 2, 300), bool)
    calibration[0, 1, :10] = True
    assert evaluation_samples(record(losses(), calibration=calibration)).sum() == 290


def test_no_fresh_sample_is_an_error() -> None:
    with pytest.raises(ValueError, match="1 of 300 samples were in no run's training set; at least 2"):
        discreet.rank(record(losses(), member=np.ones((4, 300), bool) & (np.arange(300) > 0)))


def test_a_missing_run_is_noted_and_steps_that_differ_are_refused() -> None:
    x = record(losses())
    fewer = x.take_rows(
        np.flatnonzero([not (r == "3" and v == "sign") for r, v in zip(x.run, x.variant, strict=True)])
    )
    found = discreet.rank(fewer)
    assert "variant 'sign' has no run '3'" in found.notes
    assert found["sign"].runs == 3
    assert "runs-differ" in found["sign"].diagnostics
    assert "runs-differ" not in found["full"].diagnostics
    assert found.pairwise[0].runs == 3
    odd = x.take_rows(np.arange(len(x.run) - 1))
    with pytest.raises(ValueError, match="in run '3', 'full' and 'sign' differ at step 3"):
        discreet.rank(odd)


def test_equal_parameters_are_no_alternative() -> None:
    x = losses()
    twin = np.tile(np.array([1, 2, 2], np.int64), 8)
    found = discreet.rank(record(x, signals={"params_hash": twin}))
    assert found["sign"].candidates == 1
    assert discreet.rank(record(x))["sign"].candidates == 2


def test_n_train_and_the_constant_loss_come_from_the_record() -> None:
    x = losses() + 5.0  # far worse than ln 2
    label = (np.arange(300) % 2).astype(np.int64)
    found = discreet.rank(record(x, about={"n_train": 40, "task": "bce"}, signals={"label": label}))
    assert found["sign"].n_train_r == pytest.approx(40 * found["sign"].r)  # type: ignore[operator]
    assert "worse-than-constant" in found["sign"].diagnostics
    assert "worse-than-constant" not in discreet.rank(record(x)).indicators[0].diagnostics


def test_a_record_without_losses_says_what_it_has() -> None:
    x = record(losses())
    bare = Record(
        run=x.run, step=x.step, variant=x.variant, sample=x.sample, signals={"margin": x.signals["loss"]}
    )
    with pytest.raises(ValueError, match=r"expected a signal 'loss' \[row, sample\], found margin"):
        discreet.rank(bare)


def test_a_mapped_file_ranks_as_memory_does(tmp_path) -> None:
    x = record(losses().astype(np.float32))
    x.save(tmp_path / "x.safetensors")
    assert same(discreet.rank(x), discreet.rank(Record.open(tmp_path / "x.safetensors")))


def test_one_figure_a_row_survives_files_cuts_and_merges(tmp_path) -> None:
    from discreet.records import merge_runs, merge_samples

    x = record(losses(), signals={"params_hash": np.arange(24)})
    x.save(tmp_path / "x.safetensors")
    assert Record.open(tmp_path / "x.safetensors") == x
    assert x.take_rows([3, 1]).signals["params_hash"].tolist() == [3, 1]
    halves = [x.take_samples(np.arange(100)), x.take_samples(np.arange(100, 300))]
    assert merge_samples(halves).signals["params_hash"].tolist() == list(range(24))
    runs = [x.take_rows(np.flatnonzero([r in pick for r in x.run])) for pick in (("0", "1"), ("2", "3"))]
    assert sorted(merge_runs(runs).signals["params_hash"].tolist()) == list(range(24))


def test_runs_of_other_sizes_have_no_one_n_train() -> None:
    found = discreet.rank(record(losses(), about={"n_train": {"merged": [40, 50]}}))
    assert found["sign"].n_train_r is None
    assert "no one whole number" in found.notes[-1]


def test_exact_ties_are_ordered_by_name() -> None:
    x = losses()
    twice = np.stack([x[0], x[0]])
    assert [i.variant for i in discreet.rank(record(twice, ("b", "a"))).indicators] == ["a", "b"]


def test_runs_with_other_checkpoints_are_not_comparable() -> None:
    x = record(losses())
    shorter = x.take_rows(
        np.flatnonzero([not (r == "3" and k == 3) for r, k in zip(x.run, x.step, strict=True)])
    )
    assert all("not-comparable" in i.diagnostics for i in discreet.rank(shorter).indicators)
    assert all("not-comparable" not in i.diagnostics for i in discreet.rank(x).indicators)
