"""The attack networks by themselves: inputs against oracles, batches, what is learnt and what is not."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from discreet._find import SpecError
from discreet.learners import parse, quantile_learner
from discreet.learners._balanced import balanced, held_out
from discreet.learners._evidence import Evidence, log_odds, posteriors, residual
from discreet.learners._outer import OuterConvolution, outer
from discreet.learners._streams import posterior_stream
from discreet.learners.neural_blackbox import NeuralBlackbox
from discreet.learners.neural_whitebox import NeuralWhitebox
from discreet.stats import auc

BLACK = NeuralBlackbox(posterior=(32,), label=(8,), fusion=(16,), epochs=25, lr=5e-3)
WHITE = NeuralWhitebox(
    posterior=(16,), loss=(8,), gradient=(16,), label=(8,), fusion=(16,), epochs=25, lr=5e-3
)
LEARNERS = [BLACK, WHITE]


def evidence(
    seed: int, shift: float, n: int = 600, classes: int = 3, share: float = 0.5
) -> tuple[Evidence, np.ndarray]:
    """Members' true logit is higher by ``shift``; every other sample is known."""
    rng = np.random.default_rng(seed)
    member = rng.random(n) < share
    label = rng.integers(0, classes, n)
    outputs = rng.normal(size=(n, classes))
    outputs[np.arange(n), label] += 1 + shift * member
    return Evidence(outputs, label, np.abs(rng.normal(size=(n, 5))), np.arange(n)), member


def half(seen: Evidence, member: np.ndarray) -> tuple[Evidence, np.ndarray]:
    known = np.arange(0, len(seen), 2)
    return seen.take(known), member[known]


def strength(scores: np.ndarray, member: np.ndarray) -> float:
    return auc(scores, member).value


@pytest.mark.parametrize("classes", [1, 2, 3, 7])
def test_log_odds_against_the_definition(classes: int) -> None:
    z = np.random.default_rng(0).normal(0, 3, (50, classes))
    wide = np.hstack([np.zeros((50, 1)), z]) if classes == 1 else z
    p = np.exp(wide) / np.exp(wide).sum(axis=1, keepdims=True)
    assert posteriors(z) == pytest.approx(p, rel=1e-12)
    assert log_odds(z) == pytest.approx(np.log(p / (1 - p)), abs=1e-9)


def test_log_odds_of_huge_ties_and_close_logits() -> None:
    assert log_odds(np.array([[1e6, 0.0]])).tolist() == [[1e6, -1e6]]
    assert log_odds(np.array([[-40.0]])).tolist() == [[40.0, -40.0]]
    assert log_odds(np.array([[5.0, 5.0]]))[0] == pytest.approx([0.0, 0.0], abs=1e-15)
    assert log_odds(np.zeros((1, 4)))[0] == pytest.approx([np.log(1 / 3)] * 4)
    assert log_odds(np.array([[1.0, 1.0 - 1e-16, -1e6]]))[0, :2] == pytest.approx([0.0, 0.0], abs=1e-15)


def test_views_of_an_answer() -> None:
    seen = Evidence(np.log([[0.2, 0.5, 0.3]]), np.array([2]))
    assert posterior_stream(seen, "plain")[0].tolist() == pytest.approx([0.2, 0.5, 0.3])
    assert posterior_stream(seen, "ranked")[0].tolist() == pytest.approx([0.5, 0.3, 0.2])
    odds = np.arcsinh(np.log([0.3 / 0.7, 0.5 / 0.5, 0.2 / 0.8]))
    assert posterior_stream(seen, "odds")[0].tolist() == pytest.approx(odds.tolist(), abs=1e-12)


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_gradient_stream_is_the_gradient_of_the_last_layer(classes: int) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, classes)).double()
    x, label = torch.randn(9, 6).double(), torch.randint(0, max(2, classes), (9,))
    hidden = net[:2](x)
    seen = Evidence(net[2](hidden), label, hidden)
    streams, scale = NeuralWhitebox().streams(seen, None)
    found = scale * outer(streams["error"], streams["hidden"])
    for row in range(9):
        logits = net(x[row : row + 1])
        if classes == 1:
            loss = binary_cross_entropy_with_logits(logits[:, 0], label[row : row + 1].double())
        else:
            loss = cross_entropy(logits, label[row : row + 1])
        expected = torch.autograd.grad(loss, net[2].weight)[0]
        torch.testing.assert_close(found[row], expected, rtol=1e-9, atol=1e-12)
    assert float(outer(streams["error"], streams["hidden"]).square().mean()) == pytest.approx(1)


@pytest.mark.parametrize(("rows", "columns", "kernel"), [(1, 6, 5), (2, 7, 3), (5, 4, 5), (8, 9, 1)])
def test_convolution_of_an_outer_product(rows: int, columns: int, kernel: int) -> None:
    torch.manual_seed(1)
    ours, u, h = (
        OuterConvolution(kernel).double(),
        torch.randn(4, rows).double(),
        torch.randn(4, columns).double(),
    )
    conv = nn.Conv2d(1, 1, kernel, padding=kernel // 2).double()
    ours.load_state_dict(conv.state_dict())
    expected = nn.MaxPool2d(2, ceil_mode=True)(conv(outer(u, h)[:, None]).relu()).flatten(1)
    found = ours(u, h)
    torch.testing.assert_close(found, expected)
    found.square().sum().backward()
    expected.square().sum().backward()
    for mine, theirs in zip(ours.parameters(), conv.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.parametrize(("members", "others"), [(500, 50), (50, 500), (37, 37), (1, 9), (1, 1)])
def test_batches_are_balanced_and_use_everything(members: int, others: int) -> None:
    member = np.arange(members + others) < members
    batches = list(balanced(member, 16, np.random.default_rng(0)))
    assert all(member[batch].sum() * 2 == len(batch) <= 16 for batch in batches)
    counts = np.bincount(np.concatenate(batches), minlength=len(member))
    larger, smaller = sorted((counts[member], counts[~member]), key=len, reverse=True)
    assert (larger == 1).all()
    assert smaller.sum() == len(larger)
    assert np.ptp(smaller) <= 1
    assert smaller.min() >= 1


def test_held_out_part_keeps_both_kinds_or_is_empty() -> None:
    member = np.arange(110) < 100
    out = held_out(member, 0.2, np.random.default_rng(0))
    assert (out[member].sum(), out[~member].sum()) == (20, 2)
    assert not held_out(np.arange(104) < 100, 0.2, np.random.default_rng(0)).any()


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("sign", [1, -1])
def test_learns_a_leak_of_either_sign(learner: NeuralBlackbox | NeuralWhitebox, sign: int) -> None:
    seen, member = evidence(0, shift=2.5 * sign)
    scores = learner.fit(*half(seen, member), seed=0).score(seen)
    loss_only = log_odds(seen.outputs)[np.arange(len(seen)), seen.label]
    judged = np.arange(len(seen)) % 2 == 1
    assert scores.dtype == np.float64
    best = strength(sign * loss_only[judged], member[judged])
    assert strength(scores[judged], member[judged]) > best - 0.03 > 0.8


def test_learns_a_rule_that_needs_the_label() -> None:
    """Members of class 0 fit better, those of class 1 worse: no attack on the loss alone sees it."""
    rng = np.random.default_rng(1)
    member, label = rng.random(800) < 0.5, rng.integers(0, 2, 800)
    z = rng.normal(size=800) + 2 * np.where(label == 0, 1, -1) * member
    seen = Evidence(np.where(label == 1, z, -z)[:, None], label)
    judged = np.arange(800) % 2 == 1
    scores = BLACK.fit(*half(seen, member), seed=0).score(seen)
    assert abs(strength(z[judged], member[judged]) - 0.5) < 0.06
    assert strength(scores[judged], member[judged]) > 0.85


def test_white_box_learns_what_only_the_gradient_shows() -> None:
    rng = np.random.default_rng(2)
    member, hidden = rng.random(1200) < 0.5, rng.normal(size=(1200, 4))
    hidden[:, 0] += 3 * member
    seen = Evidence(rng.normal(0, 0.3, (1200, 1)), rng.integers(0, 2, 1200), hidden)
    judged = np.arange(1200) % 2 == 1
    found = {
        learner: strength(learner.fit(*half(seen, member), seed=0).score(seen)[judged], member[judged])
        for learner in LEARNERS
    }
    assert found[WHITE] > 0.8
    assert abs(found[BLACK] - 0.5) < 0.08


@pytest.mark.parametrize("learner", LEARNERS)
def test_no_leak_is_found_where_it_was_not_trained_only(
    learner: NeuralBlackbox | NeuralWhitebox,
) -> None:
    """On the samples it learnt by heart the attacker looks strong, which is why they are never judged."""
    seen, member = evidence(3, shift=0.0, n=400)
    by_heart = replace(learner, held_out=0.0, epochs=100, lr=1e-2)
    scores = by_heart.fit(*half(seen, member), seed=0).score(seen)
    judged = np.arange(len(seen)) % 2 == 1
    assert auc(scores[judged], member[judged], level=0.999).covers(0.5)
    assert auc(scores[~judged], member[~judged], level=0.999).low > 0.6


def test_unbalanced_knowledge_leans_to_neither_side() -> None:
    seen, member = evidence(4, shift=3.0, n=1100, share=10 / 11)
    attacker = BLACK.fit(*half(seen, member), seed=0)
    judged = np.arange(len(seen)) % 2 == 1
    guess = attacker.score(seen)[judged] > 0
    hit, alarm = guess[member[judged]].mean(), guess[~member[judged]].mean()
    assert hit > 0.75
    assert alarm < 0.3


@pytest.mark.parametrize("learner", LEARNERS)
def test_same_seed_same_bits_in_any_order_and_on_any_threads(
    learner: NeuralBlackbox | NeuralWhitebox,
) -> None:
    quick = replace(learner, epochs=3)
    seen, member = evidence(5, shift=1.0, n=120)
    first = quick.fit(seen, member, seed=7).score(seen)
    order = np.random.default_rng(0).permutation(120)
    threads = torch.get_num_threads()
    torch.manual_seed(99)
    torch.set_num_threads(2)
    try:
        moved = quick.fit(seen.take(order), member[order], seed=7)
    finally:
        torch.set_num_threads(threads)
    assert np.array_equal(moved.score(seen), first)
    assert moved.score(seen.take(order)) == pytest.approx(first[order], rel=1e-12, abs=1e-12)
    assert moved.score(seen.take(np.array([17]))) == pytest.approx(first[[17]], rel=1e-12, abs=1e-12)
    assert not np.array_equal(quick.fit(seen, member, seed=8).score(seen), first)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("classes", [1, 3])
def test_huge_logits_and_activations_give_finite_scores(
    learner: NeuralBlackbox | NeuralWhitebox, classes: int
) -> None:
    rng = np.random.default_rng(6)
    member = np.arange(80) < 40
    outputs = rng.normal(size=(80, classes)) * 10.0 ** rng.integers(-3, 7, (80, 1))
    hidden = 1e20 * rng.random((80, 4))
    seen = Evidence(
        outputs.astype(np.float32), rng.integers(0, max(2, classes), 80), hidden.astype(np.float32)
    )
    scores = replace(learner, epochs=4).fit(seen, member, seed=0).score(seen)
    assert np.isfinite(scores).all()
    assert len(np.unique(scores)) == 80


@pytest.mark.parametrize("learner", LEARNERS)
def test_ten_records(learner: NeuralBlackbox | NeuralWhitebox) -> None:
    seen, member = evidence(8, shift=5.0, n=10)
    member = np.arange(10) % 4 < 2
    attacker = learner.fit(*half(seen, member), seed=0)
    assert attacker.history == ()
    assert attacker.epoch == learner.epochs
    assert np.isfinite(attacker.score(seen)).all()
    assert learner.fit(seen.take(np.array([0, 2])), member[[0, 2]], seed=0).score(seen).shape == (10,)
    assert attacker.score(seen.take(np.arange(0))).shape == (0,)


def test_constant_inputs_say_nothing() -> None:
    seen = Evidence(np.zeros((40, 2)), np.zeros(40, int), np.zeros((40, 3)))
    for learner in LEARNERS:
        scores = replace(learner, epochs=3).fit(seen, np.arange(40) < 10, seed=0).score(seen)
        assert np.ptp(scores) == 0
        assert abs(scores[0]) < 0.1


def test_a_class_that_was_not_known_is_still_scored() -> None:
    seen, member = evidence(9, shift=2.0, n=300)
    known = np.flatnonzero(seen.label != 2)
    scores = BLACK.fit(seen.take(known), member[known], seed=0).score(seen)
    unseen = seen.label == 2
    assert strength(scores[unseen], member[unseen]) > 0.7


def test_the_epoch_is_chosen_by_the_held_out_part() -> None:
    seen, member = evidence(10, shift=1.0, n=300)
    attacker = BLACK.fit(seen, member, seed=0)
    assert attacker.epoch == 1 + int(np.argmin(attacker.history))
    stopped = replace(BLACK, patience=2, epochs=100, lr=0.03).fit(seen, member, seed=0)
    assert len(stopped.history) == stopped.epoch + 2 < 100
    short = replace(BLACK, epochs=stopped.epoch, lr=0.03).fit(seen, member, seed=0)
    assert np.array_equal(short.score(seen), stopped.score(seen))


def trained(seed: int) -> tuple[nn.Sequential, torch.Tensor, torch.Tensor, np.ndarray]:
    """A network that has learnt 500 of 1,000 noisy samples by heart."""
    generator = torch.Generator().manual_seed(seed)
    x, noise = torch.randn(1000, 20, generator=generator), torch.randn(1000, generator=generator)
    y = (x[:, 0] + noise > 0).long() + (x[:, 1] > 0).long()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 3))
        own = list(net.parameters())
        for _ in range(60):
            for rows in torch.randperm(500).split(50):
                gradients = torch.autograd.grad(cross_entropy(net(x[rows]), y[rows]), own)
                with torch.no_grad():
                    for value, gradient in zip(own, gradients, strict=True):
                        value -= 0.2 * gradient
    return net.requires_grad_(False), x, y, np.arange(1000) < 500


def test_fine_tuning_reaches_what_training_from_scratch_does_in_fewer_epochs() -> None:
    net, x, y, member = trained(0)
    full = Evidence(net(x), y, net[:2](x), np.arange(1000))
    coarse = copy.deepcopy(net)
    for layer in (coarse[0], coarse[2]):  # five bits a weight
        step = layer.weight.abs().max() / 15
        layer.weight = nn.Parameter((layer.weight / step).round() * step, requires_grad=False)
    rounded = Evidence(coarse(x), y, coarse[:2](x), np.arange(1000))
    judged = np.arange(1000) % 2 == 1
    for learner in (replace(BLACK, epochs=50, tune=10), replace(WHITE, epochs=20, tune=10)):
        learner = replace(learner, lr=1e-3, patience=0)
        before = learner.fit(*half(full, member), seed=0)
        scratch, tuned = (learner.fit(*half(rounded, member), seed=0, init=init) for init in (None, before))
        enough = min(scratch.history) + 0.01
        from_scratch = 1 + int(np.argmax(np.array(scratch.history) <= enough))
        fine_tuned = int(np.argmax(np.array(tuned.history) <= enough))
        assert min(tuned.history) <= enough
        assert 3 * fine_tuned < from_scratch
        one, other = (strength(a.score(rounded)[judged], member[judged]) for a in (tuned, scratch))
        assert one > other - 0.03 > 0.6


def test_a_fine_tuned_attacker_never_falls_behind_its_start_on_the_held_out_part() -> None:
    seen, member = evidence(11, shift=2.0, n=300)
    start = BLACK.fit(seen, member, seed=0)
    scores = start.score(seen)
    wild = replace(BLACK, lr=10.0, tune=2)
    tuned = wild.fit(seen, member, seed=0, init=start)
    assert tuned.epoch == 0
    assert np.array_equal(tuned.score(seen), scores)
    assert replace(BLACK, tune=0).fit(seen, member, seed=0, init=start).epoch == 0
    replace(BLACK, tune=3).fit(seen, member, seed=1, init=start)
    assert np.array_equal(start.score(seen), scores)  # the start is left alone


def test_arrays_and_tensors_are_one() -> None:
    seen, member = evidence(12, shift=1.0, n=60)
    assert seen.hidden is not None
    tensors = Evidence(
        torch.from_numpy(seen.outputs),
        torch.from_numpy(seen.label),
        torch.from_numpy(seen.hidden),
        seen.sample,
    )
    quick = replace(WHITE, epochs=2)
    one, two = (quick.fit(each, member, seed=0).score(each) for each in (seen, tensors))
    assert np.array_equal(one, two)


def test_the_networks_of_the_paper() -> None:
    seen, _ = evidence(0, 0.0, n=4, classes=10)

    def shapes(module: object) -> list[int]:
        assert isinstance(module, nn.Sequential)
        linear = [layer for layer in module if isinstance(layer, nn.Linear)]
        assert all(isinstance(layer, nn.ReLU) for layer in list(module)[1::2])
        assert all(a.out_features == b.in_features for a, b in pairwise(linear))
        return [linear[0].in_features, *(layer.out_features for layer in linear)]

    black = NeuralBlackbox()
    network = black.network(black.streams(seen, None)[0])
    found = {name: shapes(getattr(network, name)) for name in ("posterior", "label", "fusion")}
    assert found == {"posterior": [10, 1024, 512, 64], "label": [10, 512, 64], "fusion": [128, 256, 64]}
    white = NeuralWhitebox()
    network = white.network(white.streams(seen, None)[0])
    names = ("posterior", "loss", "gradient", "label", "fusion")
    assert {name: shapes(getattr(network, name)) for name in names} == {
        "posterior": [10, 128, 64],
        "loss": [1, 128, 64],
        "gradient": [5 * 3, 256, 128, 64],
        "label": [10, 128, 64],
        "fusion": [256, 256, 128, 64],
    }


def test_initial_weights() -> None:
    seen, _ = evidence(0, 0.0, n=20, classes=50)
    member = np.arange(20) < 10
    paper = replace(NeuralBlackbox(), weight_std=0.01, epochs=1, lr=1e-12, held_out=0.0)
    state = paper.fit(seen, member, seed=0).network.state_dict()
    for name, value in state.items():
        if name.endswith("bias"):
            assert value.abs().max() < 1e-9
        else:
            assert float(value.std()) == pytest.approx(0.01, rel=0.3)
    state = replace(paper, weight_std=None).fit(seen, member, seed=0).network.state_dict()
    assert float(state["posterior.0.weight"].std()) == pytest.approx((2 / 50) ** 0.5, rel=0.05)
    assert float(state["last.weight"].abs().max()) < 1e-9


def test_found_by_name() -> None:
    assert parse("neural_blackbox(epochs=3)") == NeuralBlackbox(epochs=3)
    assert parse("neural_whitebox(view='plain')").view == "plain"
    with pytest.raises(SpecError, match="does not predict quantiles"):
        quantile_learner("neural_blackbox")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epochs": 0}, "epochs: expected at least 1, got 0"),
        ({"tune": -1}, "tune: expected at least 0, got -1"),
        ({"lr": 0.0}, "lr: expected a positive number, got 0.0"),
        ({"batch_size": 1}, "batch_size: expected at least 2, got 1"),
        ({"held_out": 1.0}, "held_out: expected a share"),
        ({"patience": -1}, "patience: expected at least 0"),
        ({"weight_std": 0.0}, "weight_std: expected None or a positive number"),
        ({"view": "sorted"}, "view: expected one of odds, ranked, plain, got 'sorted'"),
        ({"fusion": ()}, "fusion: expected one positive width or more"),
        ({"label": (0,)}, "label: expected one positive width or more"),
    ],
)
def test_settings_out_of_range(fields: dict, message: str) -> None:
    for learner in (NeuralBlackbox, NeuralWhitebox):
        with pytest.raises(ValueError, match=message):
            learner(**fields)


def test_an_even_window_is_refused() -> None:
    with pytest.raises(ValueError, match="kernel: expected an odd number of at least 1, got 4"):
        NeuralWhitebox(kernel=4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"outputs": np.zeros(4)}, r"outputs: expected numbers \[sample, column\], got float64 \[4\]"),
        ({"outputs": np.array([["a"]] * 4)}, "outputs: expected numbers"),
        (
            {"outputs": np.array([[0.0], [np.nan], [np.inf], [1.0]])},
            "outputs: sample number 1 has NaN or infinite values .2 such",
        ),
        ({"label": np.zeros(3, int)}, "label: expected 4 labels, one a row of outputs"),
        (
            {"label": np.array(["cat", "dog", "cat", "dog"])},
            "expected the classes 0 to 1, .*got <U3 such as .'cat'",
        ),
        (
            {"label": np.array([3, 7, 3, 7])},
            "expected the classes 0 to 1, as many as outputs has, got 3 for sample number 0",
        ),
        ({"label": np.array([0, 1, -1, 0])}, "got -1 for sample number 2"),
        ({"label": np.array([0, 0.5, 1, 0])}, "got 0.5 for sample number 1"),
        ({"hidden": np.zeros((3, 2))}, "hidden: expected 4 rows as in outputs, got 3"),
        ({"hidden": np.full((4, 2), np.nan)}, "hidden: sample number 0 has NaN or inf"),
        ({"sample": np.arange(3)}, "sample: expected 4 ids"),
    ],
)
def test_evidence_that_cannot_be_read(fields: dict, message: str) -> None:
    good = {"outputs": np.zeros((4, 1)), "label": np.array([0, 1, 0, 1])}
    with pytest.raises(ValueError, match=message):
        Evidence(**(good | fields))


def test_answers_that_cannot_be_learnt_from() -> None:
    seen, member = evidence(0, 1.0, n=20)
    with pytest.raises(ValueError, match="expected members and non-members, got 20 of 20 members"):
        BLACK.fit(seen, np.ones(20, bool), seed=0)
    with pytest.raises(ValueError, match="got 0 of 20 members"):
        BLACK.fit(seen, np.zeros(20, bool), seed=0)
    with pytest.raises(ValueError, match=r"member: expected 20 true or false values, got int64 \[20\]"):
        BLACK.fit(seen, member.astype(int), seed=0)
    with pytest.raises(ValueError, match="hidden: the white-box attacker needs"):
        WHITE.fit(Evidence(seen.outputs, seen.label), member, seed=0)
    attacker = replace(BLACK, epochs=1).fit(seen, member, seed=0)
    other = Evidence(np.zeros((2, 5)), np.array([0, 1]))
    with pytest.raises(ValueError, match="trained with 3 columns in its posterior stream, got 5"):
        attacker.score(other)
    with pytest.raises(ValueError, match="trained with 3 columns in its posterior stream, got 5"):
        BLACK.fit(other, np.array([True, False]), seed=0, init=attacker)


def test_one_logit_is_two() -> None:
    z = np.random.default_rng(0).normal(size=(5, 1))
    pair, label = np.hstack([np.zeros_like(z), z]), np.array([0, 1, 0, 1, 1])
    assert posteriors(z) == pytest.approx(posteriors(pair))
    assert residual(z, label)[:, 0] == pytest.approx(residual(pair, label)[:, 1])
