"""Code that a user might write beside a spec, as text: tests write it to a file, rewrite it, and import it anew."""

from __future__ import annotations

__all__ = ["QUANTIZER"]

QUANTIZER = """
from dataclasses import dataclass

from discreet.quantizers import Multiples
from discreet.quantizers._fields import Scaled


@dataclass(frozen=True)
class Mine(Scaled):
    @property
    def levels(self):
        return 3

    def encode(self, groups):
        return Multiples((2 * groups).round().clamp(-1, 1), 1, zero=True)

"""
