"""The shadow bank: many models of one procedure, trained once, each a target and a reference for the others.

Full-precision models are trained once, in pairs on complementary halves of the samples, and compressed anew for every
variant, so that an attack on a 4-bit target sees 4-bit references. Every artefact lies in a store under a key of all
that it depends on: other data, settings or versions never meet a stale model, and the same ones are never trained
again.
"""

from __future__ import annotations

from discreet.bank.assignment import Assignment, assign
from discreet.bank.build import bank
from discreet.bank.compress import Calibrated, Compressor
from discreet.bank.settings import BankSettings

__all__ = ["Assignment", "BankSettings", "Calibrated", "Compressor", "assign", "bank"]
