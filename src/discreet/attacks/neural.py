"""Zhu et al., "Safety and Performance, Why not Both?" (2022), Figures 2 and 6: a network that learns to tell.

It learns either from the half of the target's samples that the attacker knows (the paper's Table 1), or from models
of other runs, whose training samples are known (Shokri et al., "Membership Inference Attacks Against Machine
Learning Models" (2017)). The networks are :mod:`discreet.learners.neural_blackbox` and ``neural_whitebox``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._find import SpecError, near
from discreet._types import Bool, Float, Int
from discreet.attacks._public import known_answers, public_samples
from discreet.attacks._references import references
from discreet.records import Record, RecordError
from discreet.records.laws import quoted

if TYPE_CHECKING:
    from discreet.learners._evidence import Evidence

__all__ = ["Neural"]

_KINDS = ("blackbox", "whitebox")


@dataclass(frozen=True)
class Neural:
    """Attack network on raw outputs and labels, or also on losses and last-layer gradients.

    It reads the signals ``outputs`` [row, sample, class], ``label`` [sample] and, as a white box, ``hidden``
    [row, sample, unit]. If the signal ``known`` tells something about the target, the network learns from
    that and nothing else; otherwise from all other runs that have the target's variant. Public samples are
    never learnt from.

    Attributes:
        kind: ``"blackbox"`` or ``"whitebox"``, with settings of the network if any: ``"blackbox(epochs=20)"``.
        start: A variant, such as ``"full"``, on which the network is trained first; it is then only
            fine-tuned on the target's own.
        most: Other runs only: most answers that are learnt from, half of them of members.
        seed: Of everything drawn.
    """

    kind: str = "blackbox"
    start: str = ""
    most: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        name, has_settings, _ = self.kind.partition("(")
        if name not in _KINDS:
            raise ValueError(
                f"kind: expected one of {', '.join(_KINDS)}, got {self.kind!r}{near(self.kind, _KINDS)}"
            )
        if has_settings:
            self._learner()
        if self.most < 2:
            raise ValueError(f"most: expected at least 2, got {self.most}")
        if self.seed < 0:
            raise ValueError(f"seed: expected at least 0, got {self.seed}")

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        learner: Any = self._learner()
        attacker: Any = None
        known = _told(blind, row)
        try:
            for each in self._lessons(blind, row):
                evidence, member = self._lesson(blind, each, known)
                attacker = learner.fit(evidence, member, seed=self.seed, init=attacker)
            return attacker.score(_evidence(blind, row, self._reads_hidden))
        except RecordError:
            raise
        except ValueError as error:
            raise blind.error(str(error)) from error

    def untouched(self, blind: Record, row: int) -> Bool[np.ndarray, " sample"]:
        """Public samples that the network does not learn from.

        When it learns from other runs, that takes the signal ``public``: without it, samples that these runs
        did not train on are what it learns from, and none is left.
        """
        known = _told(blind, row)
        if known is not None:
            return public_samples(blind) & (known < 0)
        return public_samples(blind) if "public" in blind.signals else np.zeros(blind.n_samples, dtype=bool)

    @property
    def _reads_hidden(self) -> bool:
        return self.kind.startswith("whitebox")

    def _learner(self) -> Any:
        from discreet import learners

        try:
            return learners.parse(f"neural_{self.kind}")
        except SpecError as error:
            raise SpecError(f"kind: {error}") from error

    def _lessons(self, blind: Record, row: int) -> list[int]:
        """Rows of the target's run whose variants are learnt from, one after the other."""
        if not self.start or self.start == blind.variant[row]:
            return [row]
        own = blind.rows(self.start, blind.run[row])
        same = own[blind.step[own] == blind.step[row]]
        found = same if same.size else own
        if found.size != 1:
            raise blind.error(
                f"start: expected one row of variant {quoted(self.start)} of run {quoted(blind.run[row])}, at "
                f"step {blind.step[row]:g} or at all, got {found.size}"
            )
        return [int(found[0]), row]

    def _lesson(
        self, blind: Record, row: int, known: Int[np.ndarray, " sample"] | None
    ) -> tuple[Evidence, Bool[np.ndarray, " row"]]:
        """Answers and memberships to learn from: of this row where it is known, else of other runs."""
        if known is not None:
            chosen = np.flatnonzero((known >= 0) & ~_public(blind))
            member = known[chosen] == 1
            _check_both(blind, member, f"known: run {quoted(blind.run[row])}")
            return _evidence(blind, row, self._reads_hidden, chosen), member
        drawn = [(at, own, member) for at, own, member in self._drawn(blind, row) if own.size]
        parts = [_evidence(blind, at, self._reads_hidden, own) for at, own, _ in drawn]
        return _joined(parts), np.concatenate([member for _, _, member in drawn])

    def _drawn(
        self, blind: Record, row: int
    ) -> list[tuple[int, Int[np.ndarray, " own"], Bool[np.ndarray, " own"]]]:
        """For each reference its row, samples and their membership: drawn evenly from all that is known."""
        refs = references(blind, row)
        lines = sorted(range(len(refs.rows)), key=lambda line: blind.run[refs.rows[line]])
        order = np.argsort(blind.sample, kind="stable")
        order = order[~_public(blind)[order]]
        inside, outside = (
            flags[lines][:, order] for flags in (refs.inside & ~_calibrated(blind, refs.rows), refs.outside)
        )
        rng = np.random.default_rng(self.seed)
        chosen = np.zeros_like(inside)
        for flags in (inside, outside):
            chosen.flat[rng.permutation(np.flatnonzero(flags))[: self.most // 2]] = True
        _check_both(blind, inside[chosen], f"the other runs of variant {quoted(blind.variant[row])}")
        found = []
        for place, line in enumerate(lines):
            here = chosen[place]
            found.append((int(refs.rows[line]), order[here], inside[place, here]))
        return found


def _told(blind: Record, row: int) -> Int[np.ndarray, " sample"] | None:
    """What the attacker knows of the target: 1, 0, or -1 for unknown; None if that is nothing."""
    if "known" not in blind.signals:
        return None
    known = known_answers(blind, np.array([row]))[0]
    return known if (known >= 0).any() else None


def _public(blind: Record) -> Bool[np.ndarray, " sample"]:
    return public_samples(blind) if "public" in blind.signals else np.zeros(blind.n_samples, dtype=bool)


def _calibrated(blind: Record, rows: Int[np.ndarray, " row"]) -> Bool[np.ndarray, "row sample"]:
    """Samples that calibrated a row's quantizer: neither members nor non-members of it."""
    if blind.calibration is None:
        return np.zeros((len(rows), blind.n_samples), dtype=bool)
    lines = [blind.member_runs.index(blind.run[row]) for row in rows]
    columns = [blind.variants.index(blind.variant[row]) for row in rows]
    return blind.calibration[lines, columns]


def _check_both(blind: Record, member: Bool[np.ndarray, " row"], whose: str) -> None:
    if member.all() or not member.any():
        raise blind.error(
            f"{whose}: expected members and non-members to learn from, got {int(member.sum())} members and "
            f"{int((~member).sum())} non-members"
        )


def _evidence(
    blind: Record, row: int, hidden: bool, samples: Int[np.ndarray, " own"] | None = None
) -> Evidence:
    """What one model says about some samples, all by default."""
    from discreet.learners._evidence import Evidence

    for name in ("outputs", "hidden") if hidden else ("outputs",):
        if (
            name not in blind.signals
            or blind.signal(name).ndim != 3
            or blind.axes[name][:2] != ("row", "sample")
        ):
            axes = f"axes {', '.join(blind.axes[name])}" if name in blind.signals else "no such signal"
            third = "class] of raw logits" if name == "outputs" else "unit], what the last layer takes in"
            raise blind.error(f"{name}: this attack needs the signal [row, sample, {third}; got {axes}")
    if blind.axes.get("label") != ("sample",):
        raise blind.error("label: this attack needs the signal [sample], the true classes; got none such")
    everything = Evidence(
        blind.signal("outputs")[row],
        blind.signal("label"),
        blind.signal("hidden")[row] if hidden else None,
        blind.sample,
    )
    return everything if samples is None else everything.take(samples)


def _joined(parts: Sequence[Evidence]) -> Evidence:
    """Several models' answers as one, in the order given."""
    from discreet.learners._evidence import Evidence

    hidden = [part.hidden for part in parts if part.hidden is not None]
    return Evidence(
        np.concatenate([part.outputs for part in parts]),
        np.concatenate([part.label for part in parts]),
        np.concatenate(hidden) if hidden else None,
    )
