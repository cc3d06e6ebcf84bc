"""What every attack must do, found by listing the folder: a new file is under test at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from discreet._find import spec
from discreet.attacks import attack, names, parse
from discreet.exposure import expose
from discreet.records import Record
from discreet.selfcheck.texts import with_texts
from discreet.stats import auc

# Variations that take another path through the code, beside each attack's defaults.
VARIED = (
    "lira(mode='offline')",
    "lira(mode='offline', tail='both')",
    "lira(variance='sample')",
    "lira(variance='pooled', signal='margin')",
    "rmia(mode='online')",
    "rmia(score='paper', gamma=1.0)",
    "base(mode='offline')",
    "reference(signal='confidence')",
    "metric(kind='correctness')",
    "metric(kind='entropy')",
    "metric(kind='modified')",
    "metric(by_class=True)",
    "attack_p(signal='margin')",
    "marginal(signal='confidence')",
    "quantile(learner='ridge', signal='confidence', label=False, folds=2)",
    "lira(mode='offline', signal='loss', references=2)",
    "mink(k=1.0)",
    "minkpp(k=1.0)",
    "zlib(total='mean')",
    "combined(zlib=False, k=0.3)",
    "combined(reference=False)",
    "neural(kind='whitebox(gradient=(16,), epochs=3)', most=400)",
)
# A density falls on both sides of its centre, so a lower loss can look less like a member.
NOT_MONOTONE = {
    "lira": "compares two densities",
    "joint": "compares two densities",
    "neural": "learns its own rule",
}
# Attacks that learn go through every test with a quick learner, and through one with their default (neural: in
# tests/test_attacks_neural.py, on one target).
QUICK = {
    "quantile": "quantile(learner='ridge', folds=3)",
    "neural": "neural(kind='blackbox(posterior=(32,), label=(8,), fusion=(16,), epochs=15)', most=600)",
}
ATTACKS = (*(QUICK.get(name, name) for name in names()), *VARIED)


def bank(seed: int, leak: float, *, runs: int = 8, samples: int = 600, sign: int = 1) -> Record:
    """Complementary pairs of runs on samples of unequal difficulty; members' logits rise by ``leak``.

    Three samples in ten are public: in no run.
    """
    rng = np.random.default_rng(seed)
    member = rng.random((runs, samples)) < 0.5
    member[1::2] = ~member[::2]
    public = np.isin(np.arange(samples) % 10, (3, 7, 9))
    member[:, public] = False
    difficulty = rng.normal(1.0, 1.0, samples)
    logit = difficulty + 0.7 * rng.normal(size=member.shape) + sign * leak * member
    loss = np.logaddexp(0.0, -logit)
    p = np.exp(-loss)
    entropy = -(p * np.log(p) + (1 - p) * np.log1p(-p))
    modified = -(1 - p) * np.log(p)
    label = np.arange(samples) % 3
    outputs = np.full((runs, samples, 3), -40.0)  # three classes, one of them out of the question
    outputs[:, np.arange(samples), label] = logit
    outputs[:, np.arange(samples), (label + 1) % 3] = 0.0
    features = np.stack([difficulty, rng.normal(size=samples)], axis=1)
    made = Record(
        run=tuple(f"{i}" for i in range(runs)),
        step=np.ones(runs),
        variant=("sign",) * runs,
        sample=np.arange(samples),
        signals={
            "loss": loss,
            "margin": logit,
            "entropy": entropy,
            "modified_entropy": modified,
            "label": label,
            "features": features,
            "outputs": outputs,
            "hidden": np.tile(features, (runs, 1, 1)),
            "public": public.astype(np.int8),
        },
        axes={
            "features": ("sample", "feature"),
            "outputs": ("row", "sample", "class"),
            "hidden": ("row", "sample", "feature"),
        },
        member=member,
    )
    return with_texts(made, seed)


def estimate(method: str, record: Record):
    found = expose(record, method, "sign")
    return auc(found.scores, found.member, keep=found.keep, level=0.999)


@pytest.mark.parametrize("method", ATTACKS)
def test_null(method: str) -> None:
    assert estimate(method, bank(1, leak=0.0)).covers(0.5)


@pytest.mark.parametrize("method", ATTACKS)
def test_planted(method: str) -> None:
    assert estimate(method, bank(2, leak=1.5)).low > 0.5


def test_planted_with_the_default_learner() -> None:
    found = expose(bank(2, leak=1.5, runs=2, samples=400), "quantile", "sign", runs=["0"])
    assert auc(found.scores, found.member, keep=found.keep, level=0.999).low > 0.5


@pytest.mark.parametrize(
    "method", [m for m in ATTACKS if not m.startswith(("lira", "joint", "neural")) and "entropy" not in m]
)
def test_inverted_is_not_folded(method: str) -> None:
    """A model that fits its members worse must score them lower.

    Likelihood ratios and networks learn the direction from the references, and plain entropy does not know the
    label.
    """
    assert estimate(method, bank(3, leak=1.5, sign=-1)).high < 0.5


def test_one_sided_lira_is_not_folded() -> None:
    assert estimate("lira(mode='offline')", bank(3, leak=1.5, sign=-1)).high < 0.5


@pytest.mark.parametrize("method", ATTACKS)
def test_shape_determinism_and_order(method: str) -> None:
    record = bank(4, leak=1.0, runs=6, samples=120)
    got = attack(record, method, run="2", variant="sign")
    assert got.values.shape == (120,)
    assert got.values.dtype == np.float64
    assert np.isfinite(got.values).all()
    assert np.array_equal(attack(record, method, run="2", variant="sign").values, got.values)
    order = np.random.default_rng(0).permutation(120)
    moved = attack(record.take_samples(order), method, run="2", variant="sign").values
    assert moved == pytest.approx(got.values[order], rel=1e-9, abs=1e-9)
    rows = np.random.default_rng(1).permutation(6)
    assert attack(record.take_rows(rows), method, run="2", variant="sign").values == pytest.approx(
        got.values, rel=1e-9, abs=1e-9
    )


@pytest.mark.parametrize("method", [m for m in ATTACKS if m.split("(")[0] not in NOT_MONOTONE])
def test_a_lower_own_loss_never_lowers_the_score(method: str) -> None:
    record = bank(5, leak=1.0, runs=6, samples=150)
    before = attack(record, method, run="2", variant="sign").values
    better = {name: np.array(values) for name, values in record.signals.items()}
    row = int(record.rows(run="2")[0])
    for at in range(0, 150, 10):
        better["loss"][row, at] *= 0.5
        better["margin"][row, at] = -np.log(np.expm1(better["loss"][row, at]))
        better["entropy"][row, at] *= 0.5
        better["modified_entropy"][row, at] *= 0.5
        better["logp"][row, slice(*better["offsets"][at : at + 2])] *= 0.5
    # None of the samples changed is public, so no learner learns from the change.
    after = attack(replace(record, signals=better), method, run="2", variant="sign").values
    if "paper" in method:
        return  # its population holds the changed samples too
    assert (after[::10] >= before[::10] - 1e-12).all()


@pytest.mark.parametrize("method", ATTACKS)
def test_the_answer_is_hidden(method: str) -> None:
    """Turning the target's own membership round changes nothing that an attack can see."""
    record = bank(6, leak=1.0, runs=6, samples=80)
    assert record.member is not None
    member = np.array(record.member)
    member[:2] ^= record.signal("public") == 0
    turned = replace(record, member=member)
    one, two = (attack(data, method, run="0", variant="sign").values for data in (record, turned))
    assert np.array_equal(one, two)


def test_counting_the_others_memberships_tells_nothing() -> None:
    record = bank(7, leak=1.0)
    counts = []
    for run in record.runs:
        blind = record.blind(run)
        assert run not in blind.member_runs
        counts.append(-np.asarray(blind.member).sum(axis=0))
    assert record.member is not None
    keep = np.broadcast_to(record.signal("public") == 0, record.member.shape)
    assert auc(np.array(counts, float), np.asarray(record.member), keep=keep).value == 0.5


@pytest.mark.parametrize("name", names())
def test_source_and_round_trip(name: str) -> None:
    method = parse(name)
    assert parse(spec(method, "discreet.attacks")) == method
    module = __import__(f"discreet.attacks.{name}", fromlist=["__doc__"])
    assert '"' in module.__doc__.splitlines()[0] or "(20" in module.__doc__, (
        "the paper is named on the first line"
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ATTACKS)
def test_null_over_seeds(method: str) -> None:
    values = [estimate(method, bank(100 + seed, leak=0.0, runs=4, samples=200)).value for seed in range(30)]
    assert abs(np.mean(values) - 0.5) < 4 * np.std(values) / np.sqrt(30) + 1e-9
