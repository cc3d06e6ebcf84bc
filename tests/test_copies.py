"""Samples with the same inputs: never a member in one part and judged as a non-member in another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from discreet.compressing import compress
from discreet.compressing_roles import dealt
from discreet.copies import check_copies, digests, together
from discreet.linked import linked
from discreet.roles import Panel, Roles, Sizes, deal
from discreet.spec import CompressSpec, Loaded, SpecFileError, read
from tests.compress_specs import SPEC, TABLE, working

COPIED = f"""{TABLE}
def copied():
    x, y = data()
    x[300:340] = x[:40]
    x[340:350] = x[:10]
    return x, y

def mostly():
    x, y = data()
    x[:400] = 1
    return x, y
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from working(tmp_path, monkeypatch)


def by_hand() -> Roles:
    """One run over 20 samples: 0 to 9 train."""
    loop = Panel(*(np.array([each]) for each in ([0, 1], [10, 11], [2, 3], [12, 13])))
    audit = Panel(*(np.array([each]) for each in ([4, 5], [14, 15], [6, 7], [16, 17])))
    none = np.empty((1, 0), np.int64)
    return Roles(np.arange(10)[None], loop, audit, np.array([[18]]), np.array([[19]]), none)


@pytest.mark.parametrize(
    ("place", "part"),
    [(10, "loop.known_out"), (13, "loop.judged_out"), (14, "audit.known_out"), (17, "audit.judged_out"),
     (18, "validation"), (19, "test")],
)  # fmt: skip
def test_roles_of_ones_own_with_copies_of_members_are_refused_in_every_part(place: int, part: str) -> None:
    x = torch.arange(40.0).reshape(20, 2)
    check_copies(x, by_hand())
    x[place] = x[9]
    with pytest.raises(
        ValueError, match=rf"^x: 1 non-members of {part} in run 0 are copies .* sample {place};"
    ):
        check_copies(x, by_hand())


def test_copies_among_members_or_among_non_members_are_none_of_both() -> None:
    x = torch.arange(40.0).reshape(20, 2)
    x[9], x[19] = x[0], x[18]
    check_copies(x, by_hand())


def test_zeros_of_either_sign_are_the_same_input() -> None:
    first, second, other = digests(torch.tensor([[0.0, 1.0], [-0.0, 1.0], [0.0, -1.0]]))
    assert first == second != other
    assert len(set(digests(torch.tensor([[1], [0], [1]])))) == 2


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12),
)
def test_chains_of_shared_labels_are_linked(pairs: list[tuple[int, int]]) -> None:
    found = linked(*(np.array(each, dtype=np.int64) for each in zip(*pairs, strict=True)))
    label = list(range(len(pairs)))
    for _ in pairs:  # by hand: whoever shares a label takes the smaller name, until nothing changes
        for i, one in enumerate(pairs):
            for j, other in enumerate(pairs):
                if one[0] == other[0] or one[1] == other[1]:
                    label[i] = label[j] = min(label[i], label[j])
    same = np.equal.outer(label, label)
    assert np.array_equal(np.equal.outer(found, found), same)


def test_groups_hold_their_copies() -> None:
    x = torch.tensor([[1.0], [2.0], [1.0], [3.0], [2.0], [4.0]])
    group, many = together(x)
    assert group is not None
    assert many == 4
    assert group[0] == group[2] != group[1] == group[4]
    group, many = together(x, np.array([7, 7, 8, 8, 9, 9]))
    assert group is not None
    assert many == 4
    assert set(group.tolist()) == {0}  # 0 and 2 link the first two groups, 1 and 4 the first and the last
    assert together(x[:2]) == (None, 0)
    own = np.array([3, 3])
    assert together(x[:2], own)[0] is own


def test_dealt_by_those_groups_no_copy_is_judged() -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(0, 4, (300, 4), generator=draw).float()  # 256 inputs: most have copies
    group, _ = together(x)
    sizes = Sizes(fit=120, loop=24, audit=60, validation=30, test=30)
    with pytest.raises(ValueError, match="are copies of members"):
        check_copies(x, deal(300, 3, sizes))
    check_copies(x, deal(300, 3, sizes, group=group))


def test_copies_in_a_spec_are_told_and_never_judged(folder: Path) -> None:
    (folder / "own_table.py").write_text(COPIED)
    text = SPEC.replace("own_table:data", "own_table:copied").replace('["dense", "kd"]', "[]")
    (folder / "my.toml").write_text(text.replace("[0.3, 0.5]", "[0.3]"))
    spec, source = read("my.toml", CompressSpec)
    told = compress(spec, source, folder / "my")
    note = "90 of 600 samples have the same inputs as another one. In each run such copies play one part together"
    assert any(each.startswith(note) for each in told["notes"])
    assert note in (folder / "my" / "report.html").read_text()
    assert any(
        each.startswith(note) for each in json.loads((folder / "my" / "audit.json").read_text())["notes"]
    )
    (folder / "my.toml").write_text(SPEC)
    assert compress(*read("my.toml", CompressSpec), folder / "my")["notes"] == []


def test_copies_that_fill_no_part_are_refused_with_their_number(folder: Path) -> None:
    (folder / "own_table.py").write_text(COPIED)
    (folder / "my.toml").write_text(SPEC.replace("own_table:data", "own_table:mostly"))
    spec, source = read("my.toml", CompressSpec)
    with pytest.raises(
        SpecFileError,
        match=r"\[roles\]: group: groups do not fill .* \(400 samples are copies, which make one group",
    ):
        compress(spec, source, folder / "my")


def test_samples_without_copies_are_dealt_as_ever(folder: Path) -> None:
    (folder / "my.toml").write_text(SPEC)
    spec, source = read("my.toml", CompressSpec)
    x = torch.arange(600.0)[:, None]
    sizes, roles, notes = dealt(spec, source, Loaded(x, torch.zeros(600, dtype=torch.int64)))
    plain = deal(600, 2, sizes, seed=spec.compress.seed)
    assert notes == ()
    assert np.array_equal(roles.fit, plain.fit)
    assert np.array_equal(roles.test, plain.test)
