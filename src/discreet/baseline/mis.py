"""The MIS of every variant against attacks that read more and more.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", sections 5 and 11.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet._spread import spread
from discreet.backends import Backend
from discreet.baseline.discriminator import Discriminator, Inputs, log_odds_of_loss, standardised
from discreet.baseline.prior import Prior
from discreet.baseline.projection import in_span
from discreet.baseline.runs import Runs
from discreet.baseline.security import Security, judge
from discreet.baseline.split import Split, split_runs
from discreet.estimate import Estimate

__all__ = ["BEST", "CANONICAL", "KINDS", "Baseline", "baseline"]

KINDS = ("full", "black-box", "loss-only")
"""What the discriminator reads: inputs, weights and losses; inputs and losses; losses."""
CANONICAL = "full, units in order"
"""The full attack on weights whose hidden units stand in canonical order."""
BEST = "best"
"""For each variant and split, the trained kind of least cross-entropy on the runs that stop the training."""


@dataclass(frozen=True, eq=False)
class Baseline:
    """The MIS of each variant against each kind of attack.

    The MIS against fewer attacks is never smaller (section 5), for the best ones of each kind. Trained ones may turn
    that round within their noise, and where they do so beyond it, the larger attack was not trained well enough.
    The kind ``"best"`` (with more than one trained) is then the lowest upper estimate that is not chosen by what
    judges it.

    Attributes:
        found: By kind of attack and variant.
        seeds: Discriminators trained for each.
        chosen: By variant, the kind that ``"best"`` took in each split.
    """

    found: dict[tuple[str, str], Security]
    seeds: int
    chosen: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of attack."""
        return tuple(dict.fromkeys(kind for kind, _ in self.found))

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the variants."""
        return tuple(dict.fromkeys(variant for _, variant in self.found))

    def mis(self, variant: str, kind: str = "full") -> Estimate:
        """Upper estimate of the MIS."""
        return self.found[kind, variant].mis

    def beyond_loss(self, variant: str, kind: str = "full") -> Estimate:
        """How much more than a loss attack this one finds: MIS by losses alone less MIS, paired by run."""
        return self.found["loss-only", variant].less(self.found[kind, variant])

    def to_json(self) -> list[dict[str, Any]]:
        """One entry a kind and variant."""
        return [{"kind": k, "variant": v} | each.to_json() for (k, v), each in self.found.items()]


def baseline(
    runs: Runs,
    *,
    kinds: Sequence[str] = KINDS,
    discriminator: Discriminator = Discriminator(),  # noqa: B008 (frozen)
    prior: Prior = Prior(),  # noqa: B008 (frozen)
    seeds: int = 2,
    folds: int = 1,
    level: float = 0.95,
    seed: int = 0,
    workers: int | None = None,
    backend: Backend | None = None,
) -> Baseline:
    """Train discriminators on some runs and judge them on others.

    What comes out is an *upper estimate* of the MIS: the supremum of Definition 2.3 needs the best attack, and this
    one learns from few runs (weights of a run it never saw say little to it).

    Args:
        runs: Members and fresh non-members of independent runs.
        kinds: Which of ``KINDS`` to train, or ``CANONICAL``.
        discriminator: How.
        prior: Share of members and weight of the true positive rate; rows are balanced whatever it is, and the
            decision is moved (section 11).
        seeds: Discriminators of each kind, from different starts and orders; their accuracies are averaged.
        folds: See ``split_runs``.
        level: Confidence level.
        seed: Of the split and of all discriminators.
        workers: Threads; None: one a core. Results do not depend on it.
        backend: Where discriminators are trained; None: here. Nor on that.

    Raises:
        ValueError: An unknown kind, no seed, too few runs, or a kind that reads weights without any.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> member = np.tile(np.arange(20) < 10, (30, 1))
        >>> loss = np.exp(rng.normal(size=member.shape) - 2 * member)
        >>> data = Runs(rng.normal(size=(30, 20, 3)), member, {"full": loss}, {})
        >>> found = baseline(data, kinds=["loss-only"], seeds=1)
        >>> found.mis("full", "loss-only").covers(0.317)  # 2 - 2 Phi(1)
        True
    """
    known = (*KINDS, CANONICAL)
    unknown = [kind for kind in kinds if kind not in known]
    if unknown or not kinds:
        raise ValueError(f"kinds: expected some of {', '.join(known)}, got {', '.join(unknown) or 'none'}")
    if seeds < 1:
        raise ValueError(f"seeds: expected at least 1, got {seeds}")
    if "full" in kinds and not runs.weights:
        raise ValueError("weights: the kind 'full' reads them, got none")
    if CANONICAL in kinds and not runs.ordered:
        raise ValueError(f"ordered: the kind {CANONICAL!r} reads them, got none")
    splits = split_runs(len(runs.member), folds=folds, seed=seed)
    member = torch.from_numpy(runs.member.astype(np.float32))
    kinds = sorted(dict.fromkeys(kinds), key=known.index)
    told = [*kinds, BEST] if len(kinds) > 1 else kinds
    accused = {(kind, v): np.zeros((seeds, *runs.member.shape), bool) for kind in told for v in runs.variants}
    chosen: dict[str, list[str]] = {variant: [] for variant in runs.variants if BEST in told}
    for number, split in enumerate(splits):
        inputs = _inputs(runs, split, kinds)
        jobs = list(product(kinds, range(seeds)))
        shared = _Shared(discriminator, prior.cut, inputs, member, split, number, seed)
        if backend is None:
            fitted = spread(partial(_fit, shared), jobs, workers)
        else:
            fitted = [found for _, found in sorted(backend.each(_fit, shared, jobs), key=itemgetter(0))]
        each = {kind: [one for (k, _), one in zip(jobs, fitted, strict=True) if k == kind] for kind in kinds}
        for at, variant in enumerate(runs.variants):
            for kind, fits in each.items():
                accused[kind, variant][:, split.test] = [accuses[at, split.test] for accuses, _ in fits]
            if BEST in told:
                best = _surest({kind: sum(float(off[at]) for _, off in fits) for kind, fits in each.items()})
                accused[BEST, variant][:, split.test] = accused[best, variant][:, split.test]
                chosen[variant].append(best)
    judged = np.sort(np.concatenate([split.test for split in splits]))
    return Baseline(
        {
            key: judge(each[:, judged], runs.member[judged], prior=prior, level=level, runs=judged)
            for key, each in accused.items()
        },
        seeds,
        {variant: tuple(each) for variant, each in chosen.items()},
    )


def _surest(off: dict[str, float]) -> str:
    """The kind of least cross-entropy on the stopping runs; of kinds alike the one that reads least.

    Cross-entropy and not accuracy, which as few runs hardly tell apart: variants would get attacks of different
    kinds by chance, and could not be compared.
    """
    return min(reversed([CANONICAL, *KINDS]), key=lambda kind: off.get(kind, math.inf))


@dataclass(frozen=True, eq=False)
class _Shared:
    """What all discriminators of a split need."""

    discriminator: Discriminator
    cut: float
    inputs: dict[str, Inputs]
    member: Tensor
    split: Split
    number: int
    seed: int


def _fit(shared: _Shared, job: tuple[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Train one discriminator; return whom it accuses, and each variant's cross-entropy on the stopping runs."""
    kind, start = job
    each = int(np.random.SeedSequence(shared.seed, spawn_key=(shared.number, start)).generate_state(1)[0])
    with torch.no_grad():
        logits = shared.discriminator.fit(shared.inputs[kind], shared.member, shared.split, seed=each)
    found, stop = logits.numpy(), shared.split.stop
    # -log of the probability of the truth
    off = np.logaddexp(0, np.where(shared.member.numpy()[stop] > 0, -found[:, stop], found[:, stop])).mean(
        axis=(1, 2)
    )
    return found >= shared.cut, off


def _inputs(runs: Runs, split: Split, kinds: Sequence[str]) -> dict[str, Inputs]:
    loss = torch.stack(
        [standardised(log_odds_of_loss(each), split.train) for each in runs.loss.values()]
    ).contiguous()
    x = standardised(runs.x.astype(np.float64), split.train) if set(kinds) != {"loss-only"} else None
    found = {"black-box": Inputs(loss, x), "loss-only": Inputs(loss)}
    for kind, weights in (("full", runs.weights), (CANONICAL, runs.ordered)):
        if kind in kinds:
            coordinates = [in_span(weights[variant], split.train) for variant in runs.variants]
            found[kind] = Inputs(loss, x, torch.from_numpy(np.stack(coordinates).astype(np.float32)))
    return {kind: found[kind] for kind in kinds}
