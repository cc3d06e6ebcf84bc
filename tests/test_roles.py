"""Roles: sizes, disjointness, groups, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.roles import Panel, Sizes, deal

SIZES = Sizes(fit=40, loop=8, audit=20, validation=10, test=12, reference=6)


@given(seed=st.integers(0, 2**31), runs=st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_no_sample_plays_two_parts(seed: int, runs: int) -> None:
    roles = deal(110, runs, SIZES, seed=seed)
    for run in range(runs):
        outside = [places[run] for name, places in roles.parts() if not name.endswith("_in")]
        every = np.concatenate([roles.fit[run], *outside])
        assert len(np.unique(every)) == len(every) == SIZES.total
        inside = [places[run] for name, places in roles.parts() if name.endswith("_in")]
        attacked = np.concatenate(inside)
        assert len(np.unique(attacked)) == len(attacked) == 28
        assert np.isin(attacked, roles.fit[run]).all()
    assert roles.loop.known.shape == (runs, 8)
    assert roles.audit.judged.shape == (runs, 20)


def test_a_run_is_dealt_alike_among_few_and_many() -> None:
    few, many = deal(110, 2, SIZES, seed=3), deal(110, 5, SIZES, seed=3)
    for (_, one), (_, other) in zip(few.parts(), many.parts(), strict=True):
        assert np.array_equal(one, other[:2])
    assert not np.array_equal(many.fit[0], many.fit[1])


def test_groups_are_not_cut() -> None:
    group = np.repeat(np.arange(60), 2)
    roles = deal(120, 2, replace(SIZES, fit=42), seed=1, group=group)
    for run in range(2):
        owner: dict[int, str] = {}
        for name, places in roles.parts():
            kind = "fit" if name.endswith("_in") else name
            for each in group[places[run]].tolist():
                assert owner.setdefault(each, kind) == kind


def test_groups_that_do_not_fit() -> None:
    with pytest.raises(
        ValueError, match=r"group: groups do not fill loop.known_in, 1 of 4 samples are missing"
    ):
        deal(111, 1, SIZES, group=np.repeat(np.arange(37), 3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loop": 7}, r"loop: expected an even number \(halves teach and judge\), got 7"),
        ({"loop": 2}, "loop: expected at least 4, got 2"),
        ({"audit": 36}, "loop, audit: expected at most 40 members together, as many as fit, got 8 \\+ 36"),
        ({"test": 0}, "test: expected at least 1, got 0"),
    ],
)
def test_sizes_that_do_not_fit(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SIZES, **changes)


def test_too_few_samples_or_runs() -> None:
    with pytest.raises(ValueError, match="sizes: expected at most 95 samples in all, got 96"):
        deal(95, 1, SIZES)
    with pytest.raises(ValueError, match="runs: expected at least 1, got 0"):
        deal(110, 0, SIZES)


def test_overlap_is_refused_by_name() -> None:
    roles = deal(110, 2, SIZES)
    member = int(roles.fit[1, 0])
    outside = roles.audit.known_out.copy()
    outside[1, 3] = member
    with pytest.raises(ValueError, match=rf"audit.known_out: sample {member} of run 1 is in .* already"):
        replace(roles, audit=replace(roles.audit, known_out=outside))
    stranger = roles.loop.known_in.copy()
    stranger[0, 0] = roles.test[0, 0]
    with pytest.raises(
        ValueError, match=r"loop.known_in: expected members, got sample \d+, which run 0 does not"
    ):
        replace(roles, loop=replace(roles.loop, known_in=stranger))
    with pytest.raises(ValueError, match=r"fit: expected distinct samples, run 0 has one twice"):
        replace(roles, fit=np.concatenate([roles.fit, roles.fit[:, :1]], axis=1))
    with pytest.raises(ValueError, match=r"test: expected one row for each of 2 runs, got shape \[1, 12\]"):
        replace(roles, test=roles.test[:1])


def test_a_panel_puts_members_first() -> None:
    panel = Panel(*(np.array([[i, i + 10]]) for i in range(4)))
    assert panel.known.tolist() == [[0, 10, 1, 11]]
    assert panel.judged.tolist() == [[2, 12, 3, 13]]
