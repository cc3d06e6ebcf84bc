"""A blind record must not give the answer away, not even to someone who counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.records import Record, RecordError


def made(member: np.ndarray, per_run: int = 2) -> Record:
    runs, samples = member.shape
    rng = np.random.default_rng(0)
    return Record(
        run=tuple(str(r) for r in range(runs) for _ in range(per_run)),
        step=np.ones(runs * per_run),
        variant=tuple(f"v{v}" for _ in range(runs) for v in range(per_run)),
        sample=np.arange(samples),
        signals={"loss": rng.random((runs * per_run, samples))},
        member=member,
    )


def halves(pairs: int, samples: int, seed: int = 0) -> np.ndarray:
    """Each pair of runs shares the samples out between its two runs, at random and in halves."""
    rng = np.random.default_rng(seed)
    first = np.array([rng.permutation(samples) < samples // 2 for _ in range(pairs)])
    return np.concatenate([first, ~first])


def auc(score: np.ndarray, member: np.ndarray) -> float:
    """The share of (member, non-member) pairs ranked rightly, ties by half."""
    gap = score[member][:, None] - score[~member][None, :]
    return float((gap > 0).mean() + (gap == 0).mean() / 2)


def counting(record: Record) -> np.ndarray:
    """The attack: a sample of which the other runs hold fewer copies must be in this run."""
    assert record.member is not None
    return -record.member.sum(axis=0).astype(float)


def test_counting_the_other_memberships_finds_every_member() -> None:
    member = halves(8, 400)
    record = made(member)
    others = record.take_rows(record.rows()[2:])  # only the target's own rows left out
    assert auc(counting(others), member[0]) == 1.0


def test_counting_in_a_blind_record_finds_nothing() -> None:
    got = []
    for seed in range(20):
        member = halves(8, 400, seed)
        record = made(member)
        blind = record.blind("3")
        assert "11" not in blind.runs  # its partner
        got.append(auc(counting(blind), member[3]))
    assert got == [0.5] * 20  # complete pairs: the counts are constant


def test_without_pairs_counting_is_a_coin_toss() -> None:
    got = []
    for seed in range(30):
        member = np.random.default_rng(seed).random((9, 400)) < 0.5
        blind = made(member).blind("4")
        assert len(blind.runs) == 9
        got.append(auc(counting(blind), member[4]))
    assert abs(np.mean(got) - 0.5) < 4 * np.std(got) / np.sqrt(30)
    assert np.std(got) < 0.06


def test_the_hidden_membership_is_nowhere() -> None:
    member = halves(3, 10)
    record = made(member)
    flags = np.repeat(member[:, None], 2, axis=1)
    record = Record(
        run=record.run, step=record.step, variant=record.variant, sample=record.sample,
        signals=record.signals, member=member, calibration=flags,
    )  # fmt: skip
    blind = record.blind("1")
    assert blind.hidden == ("1",)
    assert blind.member_runs == ("0", "2", "3", "5")
    assert blind.member is not None
    assert blind.member.tolist() == member[[0, 2, 3, 5]].tolist()
    assert blind.calibration is not None
    assert blind.calibration.tolist() == flags[[0, 2, 3, 5]].tolist()
    assert blind.rows(run="1").size == 2  # its losses stay
    with pytest.raises(RecordError, match="the membership of run '1' is hidden: this record is blind to it"):
        blind.membership("1")
    assert blind.membership("5").tolist() == member[5].tolist()
    assert blind.blind("1") is blind


def test_a_blind_record_can_be_cut_and_blinded_further() -> None:
    member = halves(3, 60)
    blind = made(member).blind("1").take_samples(range(1, 40)).blind("0")
    assert blind.hidden == ("1", "0")
    assert blind.runs == ("0", "1", "2", "5")
    cut = blind.take_rows(blind.rows(run="2"))
    assert cut.hidden == ()
    assert cut.member is not None
    assert cut.member.tolist() == member[2:3, 1:40].tolist()


def test_samples_that_nobody_or_everybody_trained_on_do_not_hide_a_partner() -> None:
    member = halves(4, 12)
    aside = np.zeros((8, 5), bool)
    core = np.ones((8, 5), bool)
    assert made(np.hstack([member, aside])).partners("2") == ("6",)
    assert made(np.hstack([member, aside, core])).partners("2") == ("6",)


def test_a_twin_trained_on_the_same_samples_goes_too() -> None:
    member = halves(3, 12)
    assert made(np.vstack([member, member[1:2]])).partners("1") == ("4", "6")


def test_two_runs_alone_are_partners_only_if_they_share_no_sample() -> None:
    rng = np.random.default_rng(0)
    independent = rng.random((2, 50)) < 0.5
    assert made(independent).partners("0") == ()
    assert made(halves(1, 50)).partners("0") == ("1",)


def test_runs_that_all_hold_the_same_samples_leave_no_reference() -> None:
    same = np.tile(np.arange(10) < 5, (4, 1))
    blind = made(same).blind("2")
    assert blind.runs == ("2",)
    assert blind.member is not None
    assert blind.member.shape == (0, 10)


@given(st.integers(1, 4), st.integers(4, 30), st.integers(0, 100))
def test_blinding_never_touches_what_stays(pairs: int, samples: int, seed: int) -> None:
    member = halves(pairs, samples, seed)
    record = made(member)
    blind = record.blind("0")
    assert record.member is not None
    assert record.member.tolist() == member.tolist()
    kept = [row for row, run in enumerate(record.run) if run in blind.runs]
    assert np.array_equal(blind.signals["loss"], record.signals["loss"][kept])
    for run in blind.member_runs:
        assert blind.membership(run).tolist() == record.membership(run).tolist()


def test_unknown_runs_and_unknown_memberships() -> None:
    record = made(halves(2, 8))
    with pytest.raises(RecordError, match="no run 'x'; there are '0', '1', '2', '3'"):
        record.blind("x")
    bare = Record(
        run=record.run, step=record.step, variant=record.variant, sample=record.sample, signals=record.signals
    )
    assert bare.blind("0").hidden == ("0",)
    with pytest.raises(RecordError, match="no membership: the record does not say"):
        bare.membership("0")
