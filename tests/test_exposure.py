"""What is judged and what attacks may compare with, by how runs share out the samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from discreet.attacked import attacked, expose_one
from discreet.attacks import attack
from discreet.exposure import expose
from discreet.fixed_counts import evened, may_tell_by_count, outside_pool, tells_by_count, unused_by_all
from discreet.records import Record, RecordError
from discreet.stats import auc


def record(
    member: np.ndarray, *, leak: float = 0.0, seed: int = 0, variants: tuple[str, ...] = ("v",)
) -> Record:
    """Losses that members have a lower logarithm of, by the leak."""
    runs, samples = member.shape
    noise = np.random.default_rng(seed).standard_normal((len(variants), runs, samples))
    return Record(
        run=tuple(f"{run}" for run in range(runs)) * len(variants),
        step=np.ones(runs * len(variants)),
        variant=tuple(name for name in variants for _ in range(runs)),
        sample=np.arange(samples),
        signals={"loss": np.exp(noise - leak * member).reshape(-1, samples)},
        member=member,
    )


def shards(count: int, size: int = 20, aside: int = 0) -> np.ndarray:
    return np.hstack([np.repeat(np.eye(count, dtype=bool), size, axis=1), np.zeros((count, aside), bool)])


def exactly(times: int, runs: int, samples: int, seed: int) -> np.ndarray:
    """Each sample in as many runs, which ones by lot."""
    return np.random.default_rng(seed).random((runs, samples)).argsort(axis=0) < times


@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("twice", [False, True])
def test_disjoint_shards_keep_their_members(count: int, twice: bool) -> None:
    member = np.vstack([shards(count, 60, aside=10)] * (1 + twice))
    found = expose(record(member, leak=1.0), "loss", "v")
    assert found.keep.all()
    assert auc(found.scores, found.member).low > 0.6
    # Models that trained on other shards serve, ones that trained on the sample are none of the same number.
    offline = expose(record(member, leak=1.0), "lira(mode='offline')", "v")
    assert auc(offline.scores, offline.member).low > 0.55
    for spec in ("lira", "joint"):
        with pytest.raises(RecordError, match="models of other runs that trained on a sample"):
            expose(record(member), spec, "v")


def test_what_disjoint_shards_leave_no_models_for_is_left_out_with_the_reason() -> None:
    left = {each.attack: each.reason for each in attacked(record(shards(3)), ["all"]).left_out}
    assert "disjoint shards leave lira" in left["lira"]
    assert not {"loss", "reference", "rmia", "base"} & set(left)


def test_uneven_shards_keep_their_members() -> None:
    """The large shard alone would cover most of the pool."""
    member = np.repeat(np.eye(5, dtype=bool), [10, 300, 10, 10, 10], axis=1)
    assert expose(record(member), "loss", "v").keep.all()


def test_few_records_of_many_keep_their_members() -> None:
    for seed in range(20):
        for runs in (3, 6):
            rng = np.random.default_rng(seed)
            member = np.array([rng.permutation(200) < 10 for _ in range(runs)])
            assert expose(record(member), "loss", "v").keep.all()


def test_folds_leave_no_model_that_did_not_train() -> None:
    data = record(~shards(4, 60), leak=1.0)
    for spec in ("lira", "lira(mode='offline')"):
        with pytest.raises(RecordError, match="models of other runs that did not train on a sample"):
            expose(data, spec, "v")
    found = expose(data, "reference", "v")
    assert found.keep.all()
    assert auc(found.scores, found.member).low > 0.5


@pytest.mark.parametrize("spec", ["lira", "lira(mode='offline', tail='both')", "reference", "base"])
@pytest.mark.parametrize("runs", [4, 8])
def test_the_number_of_references_tells_nothing(runs: int, spec: str) -> None:
    """Each sample in exactly half of the runs, no pairs, no leak: what counts runs would be right or wrong."""
    found = []
    for seed in range(40):
        e = expose(record(exactly(runs // 2, runs, 200, seed), seed=seed), spec, "v")
        assert e.keep.all()
        found.append(auc(e.scores, e.member).value)
    assert abs(np.mean(found) - 0.5) < 3 * np.std(found, ddof=1) / np.sqrt(len(found))


@pytest.mark.parametrize("spec", ["base", "base(mode='offline')", "rmia(mode='online')"])
@pytest.mark.parametrize(("runs", "times"), [(4, 2), (8, 4), (4, 1)])
def test_what_the_references_leak_tells_nothing_of_a_target_that_does_not(
    runs: int, times: int, spec: str
) -> None:
    """Of a member one reference fewer leaks: averaged over all of them, it would look like a member."""
    found = []
    for seed in range(40):
        data = record(exactly(times, runs, 200, seed), leak=2.0, seed=seed)
        loss = np.array(data.signal("loss"))
        member = np.asarray(data.member)
        loss[0] *= np.exp(2.0 * member[0])  # "0" does not leak
        e = expose(replace(data, signals={"loss": loss}), spec, "v")
        found.append(auc(e.scores[:1], e.member[:1]).value)
    assert abs(np.mean(found) - 0.5) < 3 * np.std(found, ddof=1) / np.sqrt(len(found))


def test_counts_that_a_blind_record_cannot_explain_otherwise_may_tell() -> None:
    def told(member: np.ndarray, answer: dict[int, int] | None = None) -> list[int] | None:
        given = np.full(member.shape[1], -1)
        for at, value in (answer or {}).items():
            given[at] = value
        found = may_tell_by_count(record(member).blind("0"), given)
        return None if found is None else np.flatnonzero(found).tolist()

    everybody = list(range(40))
    assert told(shards(4, 10)) == everybody
    assert told(~shards(4, 10)) == everybody
    assert told(exactly(3, 6, 40, 0)) == everybody
    # Samples in none of the others are the target's members or nobody's, if each is in one; else nobody's.
    assert told(shards(4, 10, aside=5)) == list(range(45))
    several = np.hstack([exactly(2, 6, 40, 0), np.zeros((6, 5), bool)])
    assert told(several) == everybody
    assert np.array_equal(unused_by_all(record(several).blind("0"), np.arange(45) < 40), np.arange(45) >= 40)
    assert not unused_by_all(record(shards(4, 10, aside=5)).blind("0"), np.arange(45) < 45).any()
    # A member that is in another shard, or a non-member that would be in none, is no part of such a design.
    assert told(shards(4, 10), {0: 1, 15: 0}) == [each for each in everybody if each not in (0, 15)]
    assert told(shards(4, 10), {15: 1}) is None
    rng = np.random.default_rng(0)
    halves = rng.random((6, 400)) < 0.5
    for member in (halves, halves[:4], halves[:3], halves[:2], np.vstack([halves[:3], ~halves[:3]])):
        assert told(member) is None


@pytest.mark.parametrize(("runs", "times"), [(4, 2), (8, 4), (6, 2)])
def test_a_leak_is_found_with_even_references(runs: int, times: int) -> None:
    e = expose(record(exactly(times, runs, 300, 0), leak=1.5), "lira", "v")
    assert auc(e.scores, e.member).low > 0.65


def test_references_are_even_on_both_sides() -> None:
    member = np.hstack([exactly(4, 8, 100, 0), np.zeros((8, 5), bool), np.ones((8, 5), bool)])
    data = record(member)
    dealt = tells_by_count(data, "3")
    assert dealt is not None
    assert np.array_equal(dealt, np.arange(110) < 100)
    blind = data.blind("3")
    even = evened(blind, dealt)
    assert even.member is not None
    assert even.calibration is not None
    inside, neither = np.asarray(even.member), np.asarray(even.calibration)[:, 0]
    assert not (inside & neither).any()
    assert (inside <= np.asarray(blind.member)).all()
    outside = ~inside & ~neither
    assert inside.sum(axis=0).tolist() == [3] * 100 + [0] * 5 + [3] * 5
    assert outside.sum(axis=0).tolist() == [3] * 100 + [3] * 5 + [0] * 5
    fewer = evened(blind, dealt, most=(2, 1))
    assert np.asarray(fewer.member).sum(axis=0)[:100].tolist() == [2] * 100
    assert (np.asarray(fewer.member) <= inside).all()
    with pytest.raises(RecordError, match="as many for members as for others, and this design leaves none"):
        attack(evened(blind, dealt, most=(0, 0)), "reference", run="3", variant="v")
    order, lines = np.random.default_rng(1).permutation(110), np.arange(8)[::-1]
    turned = evened(data.take_rows(lines).take_samples(order).blind("3"), dealt[order])
    assert np.array_equal(np.asarray(turned.member), inside[::-1][:, order])
    assert np.array_equal(np.asarray(turned.calibration)[:, 0], neither[::-1][:, order])


def test_a_design_is_that_of_all_runs_where_some_lack_the_variant() -> None:
    """Of six runs that hold each sample three times one lacks the variant: the others hold it two or three times."""
    counted = []
    for seed in range(40):
        whole = record(exactly(3, 6, 200, seed), seed=seed, variants=("v", "w"))
        data = whole.take_rows(np.flatnonzero(np.arange(12) != 8))  # the row of "w" of run "2"
        e = expose_one(data, "lira", "w")
        assert len(e.runs) == 5
        counted.append(auc(e.scores, e.member).value)
    assert abs(np.mean(counted) - 0.5) < 3 * np.std(counted, ddof=1) / np.sqrt(len(counted))


@dataclass(frozen=True)
class Sees:
    """Tells which variants it was shown."""

    start: str = ""

    def __call__(self, blind: Record, row: int) -> np.ndarray:
        assert blind.variant[row] == "v"
        return np.full(blind.n_samples, len(blind.variants))


def test_an_attack_sees_the_variant_that_it_starts_from() -> None:
    data = record(np.random.default_rng(0).random((2, 50)) < 0.5, variants=("u", "v", "w"))
    for start, shown in (("", 1), ("u", 2), ("v", 1)):
        assert (expose(data, Sees(start), "v").scores == shown).all()


def test_what_is_known_of_one_variant_is_judged_under_none() -> None:
    data = record(np.random.default_rng(0).random((2, 50)) < 0.5, variants=("v", "w"))
    known = np.full((4, 50), -1, np.int8)
    known[0, :10] = np.asarray(data.member)[0, :10]
    told = replace(data, signals={**data.signals, "known": known})
    assert expose_one(told, "loss", "w").keep.sum(axis=1).tolist() == [40, 50]


def test_designs_that_tell_nothing_stay_as_they_are() -> None:
    rng = np.random.default_rng(0)
    halves = rng.random((8, 100)) < 0.5
    pairs = np.vstack([halves[:4], ~halves[:4]])
    for member in (halves, pairs, pairs[[0, 4]], pairs[[0, 4, 1]], halves[:2], halves[:1], halves[[0, 0, 1]]):
        data = record(member)
        assert [tells_by_count(data, run) for run in data.runs] == [None] * len(member)


def test_samples_that_no_run_holds_are_outside_the_pool_of_a_fixed_design() -> None:
    member = np.hstack([exactly(2, 4, 100, 0), np.zeros((4, 30), bool)])
    assert np.array_equal(outside_pool(record(member), "0"), np.arange(130) >= 100)
    thirds = np.hstack([shards(3), np.zeros((3, 10), bool)])
    assert not outside_pool(record(thirds), "0").any()


def test_what_learns_from_samples_in_no_run_finds_them_in_a_fixed_design() -> None:
    """Surplus references of an even comparison count as having used all of their samples."""
    member = np.hstack([exactly(2, 4, 100, 0), np.zeros((4, 60), bool)])
    data = record(member, leak=3.0)
    features = np.random.default_rng(0).normal(size=(160, 3))
    data = replace(
        data,
        signals={**data.signals, "features": features, "margin": -np.log(data.signal("loss"))},
        axes={**data.axes, "features": ("sample", "feature")},
    )
    e = expose(data, "quantile(learner='ridge',label=False)", "v")
    found = auc(e.scores, e.member, keep=e.keep)
    assert found.low > 0.6
