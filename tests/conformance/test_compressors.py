"""What every compressor must do, found by file name: a new one needs no edit here."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tests.compression import Drifting, setting

from discreet import _find, compressors
from discreet.compressors import Compressor
from discreet.forward import check_names
from discreet.initial import as_model
from discreet.measure import logits
from discreet.methods import fit
from discreet.phase import Outcome
from discreet.sparse import maskable
from discreet.sparse.counts import portion

every = pytest.mark.parametrize("name", compressors.names())
DENSE = ("dense", "early", "matched", "quantize")
PRIVATE = ("dense", "early", "static", "quantize")  # what sees nothing but noisy gradients of members


@cache
def made(method: str, runs: int = 2, seed: int = 0) -> Outcome:
    return fit(method, setting(runs, dtype=torch.float64, seed=seed))


def same(one: Any, other: Any) -> None:
    assert set(one) == set(other)
    for name, value in one.items():
        assert value.contiguous().numpy().tobytes() == other[name].contiguous().numpy().tobytes(), name


@every
def test_the_spec_round_trips_and_the_file_says_what_it_is(name: str) -> None:
    compressor = compressors.parse(name)
    assert isinstance(compressor, Compressor)
    assert _find.parse(_find.spec(compressor, compressors.__name__), compressors.__name__) == compressor
    assert hash(compressor) == hash(compressors.parse(name))
    assert len(_find.about(compressors.__name__)[name]) > 10
    assert made(name).method == _find.spec(compressor, compressors.__name__)


@every
@pytest.mark.parametrize(
    "defence",
    [
        "",
        pytest.param("+advreg(warmup=1)", marks=pytest.mark.slow),
        pytest.param("+dmp", marks=pytest.mark.slow),
    ],
)
def test_models_fit_the_budget(name: str, defence: str) -> None:
    done = made(name + defence)
    task = setting(2, dtype=torch.float64)
    built = as_model(done.model)
    check_names(built, done.params)
    assert all(bool(value.isfinite().all()) for value in done.params.values())
    assert logits(built, done.params, task.x[:5]).isfinite().all()
    assert 0 < done.epochs <= done.spent + 1e-9
    whole = sum(int(np.prod(shape)) for shape in maskable(task.model).shapes.values())
    own = sum(int(np.prod(shape)) for shape in maskable(done.model).shapes.values())
    budget = portion(task.density, whole)
    if done.masks:
        for row in range(2):
            assert sum(int(mask[row].sum()) for mask in done.masks.values()) == budget
        for tensor, mask in done.masks.items():
            assert mask.dtype == torch.bool
            assert (done.params[tensor][~mask] == 0).all()
            assert int(mask.flatten(1).sum(1).min()) > 0
    else:
        assert name in DENSE or own <= budget
        assert name not in DENSE or own == whole


@pytest.mark.slow
@every
def test_same_seed_same_bytes(name: str) -> None:
    one, again = made(name), made.__wrapped__(name)
    same(one.params, again.params)
    same(one.masks, again.masks)
    assert one.history == again.history
    assert one.spent == again.spent
    other = made(name, seed=1)
    first = next(iter(one.params))
    assert not torch.equal(one.params[first], other.params[first])


@pytest.mark.slow
@every
def test_a_run_does_not_depend_on_the_others(name: str) -> None:
    two, three = made(name), made(name, runs=3)
    for key, value in two.params.items():
        torch.testing.assert_close(value, three.params[key][:2], rtol=1e-7, atol=1e-7)
    for key, mask in two.masks.items():
        assert torch.equal(mask, three.masks[key][:2])


@every
def test_no_privacy_is_claimed_where_there_is_none(name: str) -> None:
    assert made(name).epsilon is None
    try:
        done = made(f"{name}+dpsgd")
    except ValueError as error:
        assert str(error).startswith("dpsgd: growth by")  # noqa: PT017
        return
    assert (done.epsilon is not None) == (name in PRIVATE)
    said = [note for note in done.notes if "private" in note]
    assert bool(said) != (name in PRIVATE)
    assert all(note.startswith("not differentially private: ") for note in said)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.parametrize("teaching", ["bigpara", "distil", "dmp"])
def test_nor_where_a_teacher_saw_the_members(name: str, teaching: str) -> None:
    assert made(f"{name}+{teaching}+dpsgd").epsilon is None


@pytest.mark.slow
@every
def test_a_teacher_counts(name: str) -> None:
    assert made(f"{name}+dmp").spent > made(name).epochs


@pytest.mark.slow
@every
def test_modules_with_running_statistics(name: str) -> None:
    task = setting(model=Drifting, recipe={"epochs": 2}, narrow=None)
    if name == "kd":
        with pytest.raises(ValueError, match="narrow: expected a function"):
            fit(name, task)
        return
    done = fit(name, task)
    check_names(as_model(done.model), done.params)
    assert all(bool(value.isfinite().all()) for value in done.params.values() if value.is_floating_point())
    assert int(done.params["norm.num_batches_tracked"][0]) > 0
