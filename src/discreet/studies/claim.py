"""One claim of a paper, judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Claim", "Verdict"]

Verdict = Literal["holds", "does not", "cannot tell"]


@dataclass(frozen=True)
class Claim:
    """One claim and what was found.

    Attributes:
        says: The claim, in our words.
        where: Where it is made.
        verdict: ``"holds"``, ``"does not"`` or ``"cannot tell"``.
        numbers: What the verdict rests on.
        needs: What would tell, when it cannot be told.
    """

    says: str
    where: str
    verdict: Verdict
    numbers: str
    needs: str = ""
