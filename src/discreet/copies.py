"""Samples that have the same input."""

from __future__ import annotations

import hashlib

import numpy as np
from torch import Tensor

from discreet._types import Int, Num
from discreet.roles import Roles

__all__ = ["check_copies", "digests", "told_apart"]


def digests(x: Num[Tensor, " sample *rest"]) -> list[bytes]:
    """For each sample a short name of its input: copies have the same."""
    rows = x.reshape(len(x), -1).contiguous().numpy(force=True)
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]


def check_copies(x: Num[Tensor, " sample *rest"], roles: Roles) -> None:
    """Refuse non-members that are copies of members: no attack can tell them apart.

    Raises:
        ValueError: Naming the first.
    """
    digest = digests(x)
    for number in range(roles.runs):
        members = {digest[place] for place in roles.fit[number].tolist()}
        for name, places in roles.parts():
            if name.endswith("_in") or name in ("test", "validation"):
                continue
            copies = [place for place in places[number].tolist() if digest[place] in members]
            if copies:
                raise ValueError(
                    f"x: {len(copies)} non-members of {name} in run {number} are copies of members, first sample"
                    f" {copies[0]}; drop duplicates, or give copies one group when roles are dealt"
                )


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
