"""What is worked out from a tensor once: only while it is vouched for, and only what may be kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from discreet._once import once, unchanged
from discreet.forward import inputs_at
from discreet.methods import fit
from discreet.mlp import MLP
from discreet.sparse_inputs import SparseRows
from discreet.studies.compression_tasks import setting
from discreet.training_inputs import tensors


def test_only_while_somebody_vouches_for_the_tensor() -> None:
    x, made = torch.zeros(3), []

    def make() -> int:
        made.append(1)
        return len(made)

    assert [once(x, "a", make), once(x, "a", make)] == [1, 2]
    with unchanged(x):
        assert [once(x, "a", make), once(x, "a", make), once(x, "b", make)] == [3, 3, 4]
        with unchanged(x):
            assert once(x, "a", make) == 3
        assert once(x, "a", make) == 3, "the inner one ends nothing"
        assert once(x.clone(), "a", make) == 5, "another tensor of the same numbers"
        assert [once(x, "c", make, lambda n: False), once(x, "c", make, lambda n: False)] == [6, 7]
    assert once(x, "a", make) == 8
    with pytest.raises(ZeroDivisionError), unchanged(x):
        once(x, "a", lambda: 1 / 0)
    assert once(x, "a", make) == 9


def test_packed_rows_are_not_given_to_a_model_of_another_kind() -> None:
    x = torch.zeros(40, 2048)
    x[:, ::100] = 1
    rows = torch.tensor([3, 1, 7])
    module = torch.nn.Sequential(torch.nn.Linear(2048, 2), torch.nn.Dropout(0.0))
    with unchanged(x):
        packed = inputs_at(MLP((2048, 8, 1)), x, rows, torch.float32)
        assert isinstance(packed, SparseRows)
        assert inputs_at(MLP((2048, 8, 1)), x, rows, torch.float32) is packed
        assert inputs_at(MLP((2048, 8, 1)), x, rows[:2], torch.float32) is not packed
        dense = inputs_at(module, x, rows, torch.float32)
        assert isinstance(dense, torch.Tensor)
        assert torch.equal(dense, x[rows])


def test_inputs_that_are_changed_between_trainings_are_looked_at_anew() -> None:
    given = setting("tab20", runs=1, density=0.1)
    x = given.x.clone()
    tensors(MLP((x.shape[1], 4, 10)), x, given.y, given.recipe)
    x[5, 0] = np.nan
    with pytest.raises(ValueError, match="expected finite numbers, got others in sample 5"):
        tensors(MLP((x.shape[1], 4, 10)), x, given.y, given.recipe)


def test_a_method_vouches_for_its_data_and_for_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    given = setting("tab20", runs=1, density=0.1)
    looked = []
    real = torch.isfinite

    def isfinite(value: torch.Tensor) -> torch.Tensor:
        looked.append(value is given.x)
        return real(value)

    monkeypatch.setattr(torch, "isfinite", isfinite)
    short = replace(given, recipe=replace(given.recipe, epochs=4))
    fit("safecompress(rule='random', interval=1)", short)
    assert sum(looked) <= 3, "the data are not checked anew for every stretch"
    fit("dense", short)
    assert sum(looked) >= 2, "and are for another method"
