"""Who plays which part: training samples, attackers' samples, validation, test; no sample plays two parts.

Zhu et al., "Safety and Performance, Why not Both?" (2022), Table 1, splits the data in two halves for the attacker.
There the samples that select a model are those it is judged on; here they are others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from discreet._types import Int

__all__ = ["Panel", "Roles", "Sizes", "deal"]


@dataclass(frozen=True)
class Sizes:
    """How many samples play each part in one run.

    Attributes:
        fit: Training samples, the members.
        loop: Members, and as many non-members, on whom candidates are attacked while the model trains; half of
            each teach the attacker, half judge it.
        audit: The same for the final audit.
        validation: Non-members on whom candidates' task performance is compared.
        test: Non-members on whom the final task performance is measured.
        reference: Non-members that no other part uses, for defences.

    Raises:
        ValueError: A size that is too small, or more members attacked than there are.
    """

    fit: int
    loop: int
    audit: int
    validation: int
    test: int
    reference: int = 0

    def __post_init__(self) -> None:
        least = {"fit": 1, "loop": 4, "audit": 4, "validation": 1, "test": 1, "reference": 0}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise ValueError(f"{name}: expected at least {low}, got {getattr(self, name)}")
        for name in ("loop", "audit"):
            if getattr(self, name) % 2:
                raise ValueError(
                    f"{name}: expected an even number (halves teach and judge), got {getattr(self, name)}"
                )
        if self.loop + self.audit > self.fit:
            raise ValueError(
                f"loop, audit: expected at most {self.fit} members together, as many as fit, got"
                f" {self.loop} + {self.audit}"
            )

    @property
    def total(self) -> int:
        """All samples of one run."""
        return self.fit + self.loop + self.audit + self.validation + self.test + self.reference


@dataclass(frozen=True, eq=False)
class Panel:
    """Samples of one attack: those whose membership the attacker is told, and those it is judged on.

    Attributes:
        known_in, known_out: Members and non-members that teach the attacker.
        judged_in, judged_out: Members and non-members that it is judged on.
    """

    known_in: Int[np.ndarray, "run known"]
    known_out: Int[np.ndarray, "run known"]
    judged_in: Int[np.ndarray, "run judged"]
    judged_out: Int[np.ndarray, "run judged"]

    @property
    def known(self) -> Int[np.ndarray, "run known2"]:
        """Members, then non-members, that teach."""
        return np.concatenate([self.known_in, self.known_out], axis=1)

    @property
    def judged(self) -> Int[np.ndarray, "run judged2"]:
        """Members, then non-members, that judge."""
        return np.concatenate([self.judged_in, self.judged_out], axis=1)


@dataclass(frozen=True, eq=False)
class Roles:
    """Positions of the samples that play each part, for each run.

    Attributes:
        fit: Training samples.
        loop: Of the attack on candidates while the model trains. Its non-members are spent: they chose the model.
        audit: Of the final attack; nothing else sees its non-members, and its members only train.
        validation: Task performance of candidates.
        test: Task performance at the end.
        reference: Samples for defences; [run, 0] if there are none.
        labelled: Whether the labels of ``reference`` are known; if not, nothing may read them.

    Raises:
        ValueError: Runs differ in number, a sample plays two parts of one run, or an attacked member is none.
    """

    fit: Int[np.ndarray, "run fit"]
    loop: Panel
    audit: Panel
    validation: Int[np.ndarray, "_run validation"]
    test: Int[np.ndarray, "_run test"]
    reference: Int[np.ndarray, "_run reference"]
    labelled: bool = True

    def __post_init__(self) -> None:
        for name, places in self.parts():
            if places.ndim != 2 or len(places) != len(self.fit):
                raise ValueError(
                    f"{name}: expected one row for each of {len(self.fit)} runs, got shape {list(places.shape)}"
                )
        for run in range(self.runs):
            self._check(run)

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.fit)

    def of(self, run: int) -> Roles:
        """Those of one run."""
        at = slice(run, run + 1)

        def panel(which: Panel) -> Panel:
            return Panel(*(getattr(which, part)[at] for part in PARTS))

        return Roles(
            self.fit[at],
            panel(self.loop),
            panel(self.audit),
            self.validation[at],
            self.test[at],
            self.reference[at],
            self.labelled,
        )

    def parts(self) -> Iterator[tuple[str, np.ndarray]]:
        """All parts but ``fit``, by name; those with ``_in`` in their name are parts of it."""
        for panel in ("loop", "audit"):
            for part in ("known_in", "judged_in", "known_out", "judged_out"):
                yield f"{panel}.{part}", getattr(getattr(self, panel), part)
        for name in ("validation", "test", "reference"):
            yield name, getattr(self, name)

    def _check(self, run: int) -> None:
        owner = dict.fromkeys(self.fit[run].tolist(), "fit")
        if len(owner) < self.fit.shape[1]:
            raise ValueError(f"fit: expected distinct samples, run {run} has one twice")
        for name, places in self.parts():
            inside = name.endswith("_in")
            for place in places[run].tolist():
                other = owner.get(place)
                if inside and other is None:
                    raise ValueError(
                        f"{name}: expected members, got sample {place}, which run {run} does not train on"
                    )
                if other is not None and not (inside and other == "fit"):
                    raise ValueError(f"{name}: sample {place} of run {run} is in {other} already")
                owner[place] = name


def deal(
    samples: int, runs: int, sizes: Sizes, *, seed: int = 0, group: Int[np.ndarray, " sample"] | None = None
) -> Roles:
    """Deal samples out at random, anew for each run.

    Args:
        samples: How many there are.
        runs: How many runs.
        sizes: How many play each part.
        seed: Of the draw; run 3 of 5 is dealt as run 3 of 10.
        group: Samples of one group (near copies, one person's records) play the same part.

    Raises:
        ValueError: Too few samples, or groups that do not fit.

    Example:
        >>> roles = deal(100, 2, Sizes(fit=40, loop=8, audit=20, validation=10, test=20))
        >>> roles.fit.shape, roles.audit.judged.shape, bool(np.isin(roles.audit.known_in, roles.fit).all())
        ((2, 40), (2, 20), True)
    """
    if sizes.total > samples:
        raise ValueError(f"sizes: expected at most {samples} samples in all, got {sizes.total} ({sizes})")
    if runs < 1:
        raise ValueError(f"runs: expected at least 1, got {runs}")
    half = {"loop": sizes.loop // 2, "audit": sizes.audit // 2}
    counts = {f"{panel}.{part}": half[panel] for panel in half for part in PARTS}
    counts["rest"] = sizes.fit - sizes.loop - sizes.audit
    counts |= {name: getattr(sizes, name) for name in ("validation", "test", "reference")}
    dealt = [_deal_one(samples, counts, np.random.default_rng([seed, run]), group) for run in range(runs)]
    parts = {name: np.stack([each[name] for each in dealt]) for name in counts}
    inside = [parts[f"{panel}.{part}"] for panel in half for part in ("known_in", "judged_in")]
    panels = {panel: Panel(*(parts[f"{panel}.{part}"] for part in PARTS)) for panel in half}
    fit = np.concatenate([*inside, parts["rest"]], axis=1)
    return Roles(fit, panels["loop"], panels["audit"], parts["validation"], parts["test"], parts["reference"])


PARTS = ("known_in", "known_out", "judged_in", "judged_out")


def _deal_one(
    samples: int,
    counts: dict[str, int],
    rng: np.random.Generator,
    group: Int[np.ndarray, " sample"] | None,
) -> dict[str, np.ndarray]:
    if group is None:
        order = rng.permutation(samples)
        ends = np.cumsum(list(counts.values()))
        return dict(zip(counts, np.split(order, ends)[:-1], strict=True))
    if len(group) != samples:
        raise ValueError(f"group: expected {samples} groups, one a sample, got {len(group)}")
    place = np.unique(group, return_inverse=True)[1]
    by_group = np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place))[:-1])
    left = [by_group[each] for each in rng.permutation(len(by_group))]
    found = {}
    for name, wanted in counts.items():
        taken, passed = [], []
        for members in left:
            fits = len(members) <= wanted
            (taken if fits else passed).append(members)
            wanted -= len(members) if fits else 0
        if wanted:
            raise ValueError(
                f"group: groups do not fill {name}, {wanted} of {counts[name]} samples are missing"
            )
        found[name], left = np.concatenate(taken or [np.empty(0, np.int64)]), passed
    return found
