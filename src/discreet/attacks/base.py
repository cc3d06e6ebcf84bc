"""Lassila et al., "Practical Bayes-Optimal Membership Inference Attacks" (2025), BASE."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.attacks._references import check_choice, read_statistic, references
from discreet.records import Record

__all__ = ["Base"]


@dataclass(frozen=True)
class Base:
    """Log-probability under the target, less the log of the mean probability under the references.

    Attributes:
        mode: ``"online"`` averages over the references that trained on the sample or are strangers to it, which is
            all of them unless some were dropped to make counts even (:func:`discreet.fixed_counts.evened`) or the
            sample calibrated their quantizer; ``"offline"`` over those that never saw the sample.
        temperature: Losses are divided by it before they become probabilities.
    """

    mode: str = "online"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, ("online", "offline"))
        if not self.temperature > 0:
            raise ValueError(f"temperature: expected a positive number, got {self.temperature}")

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        refs = references(blind, row)
        target = read_statistic(blind, np.array([row]), "loss")[0] / self.temperature
        logs = read_statistic(blind, refs.rows, "loss") / self.temperature
        if self.mode == "online":
            # A reference dropped from the mean must not set its scale either: the rest could round to 0.
            logs = np.where(refs.used[:, None], logs, -np.inf)
            top = logs.max(axis=0)
            mean = np.exp(logs - top).sum(axis=0) / refs.used.sum(axis=0)
            return (target - top - np.log(mean)).mean(axis=0)
        # exp of what is left stays in range: the largest log-probability of each sample goes in front.
        top = logs.max(axis=0)
        ratios = np.exp(logs - top)
        # Only a borrowed mean can reach 0 or less; the rarest the references can say is the floor then.
        outside = np.maximum(refs.mean_outside(ratios), ratios.min(axis=0))
        return (target - top - np.log(outside)).mean(axis=0)
