"""Samples that have the same input: a non-member that is a copy of a member was trained on after all."""

from __future__ import annotations

import hashlib

import numpy as np
from torch import Tensor

from discreet._types import Int, Num
from discreet.linked import linked
from discreet.roles import Roles

__all__ = ["check_copies", "digests", "together", "told_apart"]


def digests(x: Num[Tensor, " sample *rest"]) -> list[bytes]:
    """For each sample a short name of its input: copies have the same, whatever the sign of their zeros."""
    rows = x.reshape(len(x), -1).contiguous().numpy(force=True)
    zero = 0 if rows.dtype.kind == "f" else None  # -0 + 0 is 0
    plain = (row if zero is None else row + zero for row in rows)
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in plain]


def check_copies(x: Num[Tensor, " sample *rest"], roles: Roles) -> None:
    """Refuse non-members that are copies of members: no attack can tell them apart, and tasks are no test of them.

    Raises:
        ValueError: Naming the first.
    """
    digest = digests(x)
    for number in range(roles.runs):
        members = {digest[place] for place in roles.fit[number].tolist()}
        for name, places in roles.parts():
            if name.endswith("_in"):
                continue
            copies = [place for place in places[number].tolist() if digest[place] in members]
            if copies:
                raise ValueError(
                    f"x: {len(copies)} non-members of {name} in run {number} are copies of members, first sample"
                    f" {copies[0]}; drop duplicates, or give copies one group when roles are dealt"
                )


def together(
    x: Num[Tensor, " sample *rest"], group: Int[np.ndarray, " sample"] | None = None
) -> tuple[Int[np.ndarray, " sample"] | None, int]:
    """Groups in which copies are together, so that none is dealt a part that another one does not play.

    Args:
        x: Inputs.
        group: What is together already; a copy links the groups it stands in.

    Returns:
        One group a sample, ``group`` itself if there are no copies; and how many samples have a copy.

    Example:
        >>> import torch
        >>> together(torch.tensor([[1.0], [2.0], [1.0], [3.0]]))
        (array([0, 1, 0, 2]), 2)
    """
    number: dict[bytes, int] = {}
    same = np.array([number.setdefault(name, len(number)) for name in digests(x)], dtype=np.int64)
    if len(number) == len(same):
        return group, 0
    many = int((np.bincount(same)[same] > 1).sum())
    if group is None:
        return same, many
    return linked(np.unique(group, return_inverse=True)[1].astype(np.int64), same), many


def told_apart(x: Num[Tensor, " sample *rest"], played: Int[np.ndarray, " sample"]) -> int:
    """How many samples have a copy that plays another part.

    Args:
        x: Inputs.
        played: A number for the part of each.

    Example:
        >>> import torch
        >>> told_apart(torch.tensor([[1.0], [1.0], [2.0], [2.0]]), np.array([0, 1, 2, 2]))
        2
    """
    names = digests(x)
    part: dict[bytes, int] = {}
    apart = {
        name for name, each in zip(names, played.tolist(), strict=True) if part.setdefault(name, each) != each
    }
    return sum(name in apart for name in names)
