"""Runs whose weights stop being finite stay at their last good epoch, whatever trains them, and a note says so."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from discreet.compressors import parse
from discreet.ensemble import Diverged
from discreet.phase import Outcome
from tests.compression import Fuse, setting

BLOWN = {"epochs": 6, "milestones": (4,), "gamma": 1e30}


def fit(spec: str, fuse: Fuse, **recipe: Any) -> Outcome:
    given = setting(3, recipe={"epochs": 6} | recipe)
    return parse(spec)(given, [fuse], lambda doing, share: None)


@pytest.mark.parametrize(
    "spec", ["dense", "static", "set", "rigl", "prune(epochs=6)", "quantize(aware=True)"]
)
def test_a_run_stops_alone_at_its_last_good_epoch(spec: str) -> None:
    whole, found = fit(spec, Fuse(9, 1, 1)), fit(spec, Fuse(1, 4, 99))
    assert found.notes[-1].startswith("stopped after epoch 3, the last good one: model 1: ")
    assert len(found.notes) == len(whole.notes) + 1
    for name, value in found.params.items():
        assert torch.equal(value[[0, 2]], whole.params[name][[0, 2]]), name
        assert bool(value.isfinite().all())
    assert any(not torch.equal(value[1], whole.params[name][1]) for name, value in found.params.items())
    assert found.epochs == pytest.approx(whole.epochs - 1)
    assert found.spent == pytest.approx(whole.spent - 1)


@pytest.mark.parametrize("spec", ["dense", "static"])
def test_it_is_the_model_of_a_shorter_training(spec: str) -> None:
    short, found = fit(spec, Fuse(9, 1, 1), epochs=3), fit(spec, Fuse(1, 4, 99))
    assert all(torch.equal(value[1], short.params[name][1]) for name, value in found.params.items())


def test_the_best_epoch_is_looked_for_among_the_good_ones() -> None:
    found = fit("early", Fuse(1, 4, 99))
    assert np.shape(found.history["worth"]) == (6, 3)  # every epoch is judged once
    assert found.history["epoch"][1] <= 3


def test_teachers_and_big_models_are_told_too() -> None:
    nothing = Fuse(9, 1, 1)
    assert fit("prune", nothing, **BLOWN).notes[0].startswith("stopped after epoch 4")
    assert fit("mia_prune", nothing, **BLOWN).notes[1].startswith("stopped after epoch 4")
    assert fit("kd", nothing, **BLOWN).notes[0].startswith("teacher stopped after epoch 4")


def test_every_run_that_stops_is_named_in_order() -> None:
    given = setting(6, recipe=BLOWN)
    notes = parse("dense")(given, [], lambda doing, share: None).notes
    named = [re.findall(r"model (\d)", note) for note in notes]
    assert [int(each) for some in named for each in some] == [*range(6)]
    assert all(note.startswith("stopped after epoch 4, ") for note in notes)


def test_without_a_good_epoch_there_is_no_model() -> None:
    with pytest.raises(Diverged, match=r"model 1: .* after epoch 1"):
        fit("static", Fuse(1, 1, 1))
