"""SafeCompress where candidates are equal: they are trained and attacked once, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from discreet.compressors import _candidates
from discreet.phase import Outcome
from tests.test_safecompress import fit, setting

TWICE = "safecompress(rule='tm', test='{}', prune=('magnitude', 'threshold(below={})'), grow={}, interval=3)"
BOTH = ("gradient", "random")


def rounds(found: Outcome) -> list[dict[str, Any]]:
    return list(found.history["rounds"])


@pytest.mark.parametrize("interval", [1, 3, 4])
def test_no_round_exchanges_nothing(interval: int) -> None:
    found = fit(f"safecompress(test='loss', interval={interval})")
    assert rounds(found)
    assert all(each["rate"] > 0 for each in rounds(found))


def test_two_names_of_one_candidate_are_no_difference() -> None:
    found = fit(TWICE.format("odds", 100.0, ("random",)))
    alone = fit("safecompress(rule='tm', test='odds', prune=('magnitude',), grow=('random',), interval=3)")
    for each in rounds(found):
        first, second = each["candidates"]
        assert (first["name"], second["name"]) == ("magnitude+random", "threshold(below=100.0)+random")
        assert (each["distinct"], each["difference"], each["chosen"]) == (1, False, "magnitude+random")
        assert (first["same"], second["same"]) == (None, "magnitude+random")
        assert first["exchanged"] > 0
        assert {name: value for name, value in first.items() if name not in ("name", "same")} == {
            name: value for name, value in second.items() if name not in ("name", "same")
        }
    assert found.history["extra"] == [0, 0, 0]
    assert (found.epochs, found.spent) == (12, 12)
    for name, value in alone.params.items():
        assert torch.equal(found.params[name], value)


def test_weights_in_use_and_weights_that_begin_anew_tell_candidates_apart() -> None:
    found = fit(TWICE.format("loss", 0.15, BOTH))
    for each in rounds(found):
        by = {one["name"]: one for one in each["candidates"]}
        assert by["magnitude+gradient"]["same"] is by["magnitude+random"]["same"] is None
        assert each["distinct"] == sum(one["same"] is None for one in each["candidates"])
        for one in each["candidates"]:
            if one["same"]:
                assert one["exchanged"] == by[one["same"]]["exchanged"]


@pytest.mark.parametrize("test", ["basket", "attack"])
def test_what_is_reused_is_what_would_have_come_again(test: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of some runs and not of others: the figures and the models are those without reuse."""
    spec = TWICE.format(test, 0.15, BOTH)
    found = fit(spec)
    mixed = {(each["epoch"], each["distinct"]) for each in rounds(found)}
    assert len(mixed) > len({epoch for epoch, _ in mixed}), (
        "expected runs that differ in how many are distinct"
    )
    monkeypatch.setattr(_candidates, "_equal", lambda one, other, run: False)
    again = fit(spec)
    for name, value in again.params.items():
        assert torch.equal(found.params[name], value)
    for name, mask in again.masks.items():
        assert torch.equal(found.masks[name], mask)
    assert found.history["points"] == again.history["points"]
    for one, other in zip(rounds(found), rounds(again), strict=True):
        assert one["chosen"] == other["chosen"]
        for mine, theirs in zip(one["candidates"], other["candidates"], strict=True):
            assert mine | {"same": None} == theirs
    assert sum(found.history["extra"]) < sum(again.history["extra"])


def test_a_run_alone_reuses_what_it_does_among_others() -> None:
    spec = TWICE.format("odds", 0.15, BOTH)
    together, alone = fit(spec, setting(3)), fit(spec, setting(1))
    assert [each for each in rounds(together) if each["run"] == 0] == rounds(alone)
    for name, value in alone.params.items():
        assert torch.equal(together.params[name][0], value[0])


def test_what_is_dropped_and_taken_back_is_no_equal() -> None:
    """With regrowth two rules may leave the same weights in use, of which other ones begin anew."""
    masks = {"w": torch.tensor([[True, True, False]])}
    grown = [{"w": torch.tensor([[True, False, False]])}, {"w": torch.tensor([[False, True, False]])}]
    one, other = (_candidates.Rewired(masks, each, {"w": torch.tensor([1])}) for each in grown)
    assert not _candidates._equal(one, other, 0)
    assert _candidates._equal(one, one, 0)
