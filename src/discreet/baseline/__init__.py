"""The discriminator baseline of membership-inference security: how well a trained attacker tells members.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", section 11. The MIS is defined by
the best of all attacks; a trained one is at most as good, so what this room yields is an upper estimate of the MIS.
"""

from __future__ import annotations

from discreet.baseline.canonical import canonical, flat
from discreet.baseline.discriminator import Discriminator
from discreet.baseline.mis import BEST, CANONICAL, KINDS, Baseline, baseline
from discreet.baseline.prior import Prior
from discreet.baseline.runs import Runs
from discreet.baseline.security import Security, judge
from discreet.baseline.split import Split, split_runs
from discreet.baseline.threshold import threshold

__all__ = [
    "BEST",
    "CANONICAL",
    "KINDS",
    "Baseline",
    "Discriminator",
    "Prior",
    "Runs",
    "Security",
    "Split",
    "baseline",
    "canonical",
    "flat",
    "judge",
    "split_runs",
    "threshold",
]
