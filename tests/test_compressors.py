"""What each compressor does that the others do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from discreet.compressors._magnitude import keep, largest
from discreet.compressors._narrow import narrowed, weights_of
from discreet.compressors._performance import losses, performance
from discreet.compressors.mia_prune import MIAPrune, attacked
from discreet.initial import Architecture
from discreet.measure import logits
from discreet.methods import fit
from discreet.mlp import MLP
from discreet.phase import Setting, Trained, fresh_phase, run
from discreet.sparse import SparseError
from tests.compression import NETWORK, setting

LONG = {"epochs": 6, "lr": 0.2}


def task(runs: int = 2, **changes: object) -> Setting:
    return setting(runs, dtype=torch.float64, recipe=LONG, **changes)


def checkpoints(given: Setting) -> list[dict[str, Tensor]]:
    seen: list[dict[str, Tensor]] = []
    run(fresh_phase(given), on_checkpoint=lambda epoch, params: seen.append(params))
    return seen


def test_dense_is_the_plain_training() -> None:
    done = fit("dense", task())
    wanted = checkpoints(task())[-1]
    assert all(torch.equal(done.params[name], value) for name, value in wanted.items())
    assert (done.epochs, done.spent, done.masks) == (6, 6, {})


@pytest.mark.parametrize("by", ["loss", "performance"])
def test_early_keeps_each_runs_best_epoch(by: str) -> None:
    given = task(3)
    seen = checkpoints(given)
    if by == "loss":
        worth = np.stack([-losses(given, NETWORK, each, given.roles.validation).mean(1) for each in seen])
    else:
        worth = np.stack([performance(given, NETWORK, each) for each in seen])
    best = worth.argmax(axis=0)
    done = fit(f"early(by='{by}')", given)
    assert done.history["epoch"] == (best + 1).tolist()
    assert done.history["worth"] == worth.tolist()
    for row, epoch in enumerate(best):
        assert torch.equal(done.params["0.weight"][row], seen[epoch]["0.weight"][row])
    assert (done.epochs, done.spent) == (float((best + 1).mean()), 6)


def test_early_may_be_told_when() -> None:
    done = fit("early(epochs=2)", task())
    assert torch.equal(done.params["0.weight"], checkpoints(task())[1]["0.weight"])
    assert (done.epochs, done.spent, done.method) == (2, 2, "early(epochs=2, by='loss')")


def test_matched_keeps_the_first_epoch_that_is_good_enough() -> None:
    given = task(3)
    seen = checkpoints(given)
    worth = np.stack([performance(given, NETWORK, each) for each in seen])
    target = float(np.median(worth))
    done = fit(f"matched(target={target!r})", given)
    for row in range(3):
        reached = np.flatnonzero(worth[:, row] >= target)
        epoch = int(reached[0]) if len(reached) else int(worth[:, row].argmax())
        assert done.history["epoch"][row] == epoch + 1
        assert torch.equal(done.params["0.weight"][row], seen[epoch]["0.weight"][row])
    never = fit("matched(target=2.0)", given)
    assert never.history["epoch"] == (worth.argmax(axis=0) + 1).tolist()
    assert never.notes == ("runs 0, 1, 2 never reached the target; they keep their best epoch",)


def test_matched_to_another_compressor_pays_for_it() -> None:
    given = task()
    other = fit("static", given)
    done = fit("matched(target='static')", given)
    assert done.history["target"] == performance(given, other.model, other.params).tolist()
    assert done.spent == 6 + other.spent


def test_pruning_keeps_the_largest_of_all_layers_and_empties_none() -> None:
    weights = np.array([5.0, 4.0, 3.0, 2.0, 0.1, 0.2, 0.2])
    assert keep(weights, [4, 3], 3).tolist() == [True, True, False, False, False, True, False]
    assert keep(weights, [4, 3], 5).tolist() == [True, True, True, True, False, True, False]
    assert keep(np.ones(4), [4], 2).tolist() == [True, True, False, False]
    stack = NETWORK.init([0, 1, 2])
    shapes = {"0.weight": (12, 6), "2.weight": (3, 12)}
    stack["2.weight"] *= 1e-9
    masks = largest(stack, shapes, 0.25)
    for row in range(3):
        assert sum(int(mask[row].sum()) for mask in masks.values()) == 27
        assert int(masks["2.weight"][row].sum()) == 1
        flat = stack["0.weight"][row].abs().flatten()
        assert flat[masks["0.weight"][row].flatten()].min() >= flat[~masks["0.weight"][row].flatten()].max()
    with pytest.raises(SparseError, match=r"density: 0.01 of 108 weights is 1; expected at least one weight"):
        largest(stack, shapes, 0.01)


def test_prune_fine_tunes_what_the_dense_model_left() -> None:
    given = task()
    dense = fit("dense", given)
    done = fit("prune(epochs=1, lr=1e-300)", given)
    wanted = largest(dense.params, {"0.weight": (12, 6), "2.weight": (3, 12)}, 0.3)
    for name, mask in wanted.items():
        assert torch.equal(done.masks[name], mask)
        torch.testing.assert_close(done.params[name], dense.params[name] * mask)
    assert (done.epochs, done.spent) == (7, 7)
    assert fit("prune", given).spent == 8


@pytest.mark.parametrize("density", [0.05, 0.1, 0.3, 0.77])
def test_students_are_as_wide_as_the_budget_allows(density: float) -> None:
    given = setting(1, model=MLP((6, 40, 20, 3)), density=density)
    student = narrowed(given)
    assert isinstance(student, MLP)
    budget = int(density * weights_of(given, given.model))
    assert weights_of(given, student) <= budget
    share = max(student.widths[1] / 40, student.widths[2] / 20)
    wider = MLP((6, *(min(most, int(most * share) + 1) for most in (40, 20)), 3))
    assert weights_of(given, wider) > budget


def test_other_modules_are_narrowed_by_their_owner() -> None:
    def wide(share: float) -> Architecture:
        width = max(1, int(64 * share))
        return nn.Sequential(nn.Linear(6, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 3))

    given = setting(1, model=wide(1.0), density=0.25)
    with pytest.raises(ValueError, match="narrow: expected a function that gives the model"):
        fit("kd", given)
    done = fit("kd", replace(given, narrow=wide))
    assert done.params["0.weight"].shape == (1, 16, 6)
    with pytest.raises(ValueError, match=r"density: 0.01 leaves 5 weights; the narrowest model has 9"):
        fit("kd", replace(given, narrow=wide, density=0.01))


def test_a_student_without_a_teacher_learns_from_labels() -> None:
    given = task()
    small = narrowed(given)
    done = fit("kd(weight=0)", given)
    wanted = run(fresh_phase(given, model=small))
    assert all(torch.equal(done.params[name], value) for name, value in wanted.params.items())
    assert done.spent == 6
    assert fit("kd", given).spent == 12


def test_growth_can_be_turned_round() -> None:
    given = task()
    plain, turned = (fit(f"rigl{more}", given) for more in ("", "(grow='least_gradient')"))
    assert not torch.equal(plain.masks["0.weight"], turned.masks["0.weight"])
    assert torch.equal(fit("set(grow='gradient')", given).params["0.weight"], plain.params["0.weight"])


def test_the_attack_in_the_loop_is_a_threshold_learnt_on_other_samples() -> None:
    given = task()
    panel = given.roles.loop
    done = fit("dense", given)
    found = attacked(given, done.model, done.params, panel)
    for row in range(2):
        own = {name: value[row : row + 1] for name, value in done.params.items()}

        def scores(places: np.ndarray, own: dict[str, Tensor] = own, row: int = row) -> list[float]:
            rows = torch.from_numpy(np.ascontiguousarray(places[row]))
            outputs = logits(NETWORK, own, given.x[rows])[0]
            return [float(o.log_softmax(0)[int(y)]) for o, y in zip(outputs, given.y[rows], strict=True)]

        known = scores(panel.known_in), scores(panel.known_out)
        points = sorted({*known[0], *known[1]})
        best = max(
            ((low + high) / 2 for low, high in zip(points, [*points[1:], points[-1]], strict=True)),
            key=lambda cut: np.mean(np.array(known[0]) > cut) - np.mean(np.array(known[1]) > cut),
        )
        hit = np.mean(np.array(scores(panel.judged_in)) > best) + np.mean(
            np.array(scores(panel.judged_out)) <= best
        )
        assert found[row] == pytest.approx(max(0.5, hit / 2))


def test_mia_prune_takes_what_is_safest_and_says_that_it_is_an_approximation() -> None:
    given = task(3)
    done = fit("mia_prune(rounds=2, epochs=1, tolerance=1.0)", given)
    assert done.notes == (
        "mia_prune approximates MIA-Pr, whose algorithm is not public: it prunes in rounds and keeps what is safest",
    )
    assert (done.epochs, done.spent) == (8, 6 + 2 * 3)
    for round_ in done.history["rounds"]:
        leaks = np.array(round_["attack"])
        chosen = [("global", "erk", "uniform").index(rule) for rule in round_["rule"]]
        assert chosen == leaks.argmin(axis=0).tolist()
    assert [round_["density"] for round_ in done.history["rounds"]] == [pytest.approx(0.3**0.5), 0.3]
    final = done.history["rounds"][-1]["attack"]
    own = attacked(given, done.model, done.params, given.roles.loop)
    assert own == pytest.approx(np.min(final, axis=0))


def test_mia_prune_gives_up_no_accuracy_beyond_its_tolerance() -> None:
    given = task(3)
    ways = [Trained(NETWORK, NETWORK.init([7, 8, 9], torch.float64), {}, 0.0), run(fresh_phase(given))]
    taken, seen = MIAPrune(tolerance=0.0)._safest(given, ways)
    leaks, worth = np.array(seen["attack"]), np.array(seen["worth"])
    tempted = (leaks[0] < leaks[1]) & (worth[0] < worth[1])
    assert tempted.any()  # an untrained model is safe and no good
    for row in range(3):
        best = [way for way in range(2) if worth[way, row] == worth[:, row].max()]
        wanted = min(best, key=lambda way: leaks[way, row])
        assert seen["rule"][row] == ("global", "erk")[wanted]
        assert torch.equal(taken.params["0.weight"][row], ways[wanted].params["0.weight"][row])
    careless = MIAPrune(tolerance=1.0)._safest(given, ways)[1]
    assert careless["rule"] == [("global", "erk")[way] for way in leaks.argmin(axis=0)]
