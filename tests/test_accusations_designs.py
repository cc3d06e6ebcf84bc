"""Accusations where runs share out the samples so that who counts the others knows the answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

from discreet._types import Float
from discreet.accusations import accuse
from discreet.attacks._references import references
from discreet.records import Record, RecordError


def dealt(member: np.ndarray, seed: int, *, leak: float = 0.0, aside: int = 0) -> Record:
    """A record of runs that share out the samples so, and of further samples in none."""
    member = np.hstack([member, np.zeros((len(member), aside), bool)])
    rng = np.random.default_rng([7, seed])
    logit = rng.normal(1, 1, member.shape[1]) + 0.7 * rng.normal(size=member.shape) + leak * member
    return Record(
        run=tuple(f"{i}" for i in range(len(member))),
        step=np.ones(len(member)),
        variant=("sign",) * len(member),
        sample=np.arange(member.shape[1]) + 1000,
        signals={"loss": np.logaddexp(0.0, -logit)},
        member=member,
    )


def shards(count: int, samples: int, seed: int) -> np.ndarray:
    return np.eye(count, dtype=bool)[:, np.random.default_rng(seed).permutation(samples) % count]


def exactly(times: int, runs: int, samples: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((runs, samples)).argsort(axis=0) < times


DESIGNS = {
    "shards": lambda seed: shards(4, 1200, seed),
    "half": lambda seed: exactly(3, 6, 1200, seed),
    "third": lambda seed: exactly(2, 6, 1200, seed),
    "most": lambda seed: exactly(4, 6, 1200, seed),
    "folds": lambda seed: ~shards(5, 1200, seed),
}


@pytest.mark.parametrize("aside", [0, 300])
@pytest.mark.parametrize("method", ["reference", "base", "lira(mode='offline')"])
@pytest.mark.parametrize("design", ["shards", "half"])
def test_the_number_of_references_accuses_nobody(design: str, method: str, aside: int) -> None:
    """No leak: p-values of members and non-members have one law, be there samples in no run or not."""
    theirs: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for seed in range(3):
        record = dealt(DESIGNS[design](seed), seed, aside=aside)
        for run in record.runs[:3]:
            found = accuse(record, method, run=run, variant="sign", alpha=0.1)
            assert found.source == "other runs"
            member = record.membership(run)[found.sample - 1000]
            assert member.sum() == record.membership(run).sum()
            for side in (True, False):
                theirs[side].append(found.p[member == side])
    members, others = (np.concatenate(theirs[side]) for side in (True, False))
    assert float(np.asarray(stats.ks_2samp(members, others))[1]) > 0.001
    assert abs(np.mean(members) - np.mean(others)) < 0.03
    assert np.mean(np.concatenate([members, others]) <= 0.1) == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("method", ["reference", "base", "lira"])
@pytest.mark.parametrize("design", ["shards", "half", "third", "most", "folds"])
def test_the_rate_holds_for_non_members_of_designs_that_fix_counts(design: str, method: str) -> None:
    """With a leak, in the references as in the target: their mixture must be that of the runs calibrated on."""
    rates, power = [], []
    for seed in range(4):
        record = dealt(DESIGNS[design](seed), seed, leak=2.0)
        for run in record.runs[:3]:
            try:
                found = accuse(record, method, run=run, variant="sign", alpha=0.1)
            except RecordError:
                assert method == "lira"
                assert design in ("shards", "most", "folds")
                return
            member = record.membership(run)[found.sample - 1000]
            rates.append((found.p[~member] <= 0.1).mean())
            power.append((found.p[member] <= 0.1).mean())
    assert np.mean(rates) == pytest.approx(0.1, abs=0.02)
    assert np.mean(power) > 0.3


@pytest.mark.parametrize("method", ["reference", "base"])
def test_known_non_members_calibrate_designs_that_fix_counts(method: str) -> None:
    rates = []
    for seed in range(4):
        record = dealt(DESIGNS["half"](seed), seed, leak=2.0)
        told = np.random.default_rng(seed).random((6, 1200)) < 0.5
        known = np.where(told, np.asarray(record.member), -1).astype(np.int8)
        record = replace(record, signals={**record.signals, "known": known})
        found = accuse(record, method, run="0", variant="sign", alpha=0.1)
        assert found.source == "known"
        rates.append((found.p[~record.membership("0")[found.sample - 1000]] <= 0.1).mean())
    assert np.mean(rates) == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize("design", ["shards", "half"])
def test_another_membership_of_the_target_leaves_the_list(design: str) -> None:
    record = dealt(DESIGNS[design](0), 0, leak=2.0)
    member = np.array(record.member)
    member[1] = np.random.default_rng(1).permutation(member[1])
    for method in ("loss", "reference", "base", "lira(mode='offline')"):
        one, two = (
            accuse(each, method, run="1", variant="sign", fdr=0.2)
            for each in (record, replace(record, member=member))
        )
        assert np.array_equal(one.p, two.p)
        assert one.accused.tolist() == two.accused.tolist()


@dataclass(frozen=True)
class Counts:
    """What an attack must not do: it says how many references trained on a sample, and how many did not."""

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        refs = references(blind, row)
        return refs.inside.sum(axis=0) + refs.outside.sum(axis=0) / 100


def half_lacking(lacking: tuple[int, ...]) -> Record:
    """Each sample in three of six runs, of which some lack the variant "sign"."""
    whole = dealt(DESIGNS["half"](0), 0)
    both = replace(
        whole,
        run=whole.run * 2,
        step=np.ones(12),
        variant=("full",) * 6 + ("sign",) * 6,
        signals={"loss": np.vstack([whole.signal("loss")] * 2)},
    )
    return both.take_rows([row for row in range(12) if row - 6 not in lacking])


@pytest.mark.parametrize(
    "record", [*(dealt(design(0), 0) for design in DESIGNS.values()), half_lacking((5,))]
)
def test_who_counts_references_accuses_nobody(record: Record) -> None:
    """Nor where a run lacks the variant: it is part of the design, and no reference."""
    found = accuse(record, Counts(), run="0", variant="sign", alpha=0.1)
    assert (found.source, len(found.sample)) == ("other runs", 1200)
    assert (found.p == 1).all()


def test_a_design_that_leaves_no_references_is_refused() -> None:
    """Some samples were in all of the three other runs that have the variant, some in none."""
    for method in ("reference", "base"):
        with pytest.raises(
            RecordError, match="as many for members as for others, and this design leaves none"
        ):
            accuse(half_lacking((1, 5)), method, run="0", variant="sign", alpha=0.1)


def test_members_of_a_shard_are_no_public_samples() -> None:
    """They are in no other run, and so are most members of small draws."""
    record = dealt(shards(4, 400, 0), 0, leak=3.0)
    found = accuse(record, "loss", run="0", variant="sign", fdr=0.2)
    assert (found.source, len(found.sample)) == ("other runs", 400)
    assert len(found.accused) > 30
    assert record.membership("0")[found.accused - 1000].mean() > 0.65
    few = dealt(np.random.default_rng(0).random((3, 400)) < 0.05, 0)
    assert len(accuse(few, "loss", run="0", variant="sign", alpha=0.1).sample) == 400
