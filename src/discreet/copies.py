"""Samples that have the same input."""

from __future__ import annotations

import hashlib

from torch import Tensor

from discreet._types import Num
from discreet.roles import Roles

__all__ = ["check_copies", "digests"]


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
