"""SafeCompress: sparse training in which, whenever masks change, the candidate goes on that does best in tests.

Zhu et al., "Safety and Performance, Why not Both?" (2022), Algorithm 1 and section 4.3. Where the paper is silent:
candidates are fine-tuned for ``tune`` of the epochs until the next update, which count in the budget of epochs for
the one that goes on and are spent for the others; the attacked samples are no validation or test samples, and are
never attacked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch

from discreet import _find
from discreet.compressors._masked import check_masks
from discreet.compressors._rounds import Rounds, times_of
from discreet.phase import Defence, Outcome, Progress, Setting, defended, finished, fresh_phase
from discreet.safety import parse as parse_test
from discreet.selection_rules import parse as parse_rule
from discreet.sparse import Plan, Schedule
from discreet.tried import tried

__all__ = ["Safecompress"]


@dataclass(frozen=True)
class Safecompress:
    """Test-driven sparse training.

    Attributes:
        rule: Which candidate goes on, of ``selection_rules``: ``tm`` is the paper's, ``random`` the control.
        test: The safety test, of ``safety``; ``blackbox`` is the paper's.
        prune: Prune rules; every pair of a prune rule and a grow rule gives a candidate.
        grow: Grow rules.
        interval: Epochs between updates; None: a twentieth of all epochs, as in the paper, at least ``tune`` + 1.
        tune: Epochs for which candidates are fine-tuned, of those until the next update.
        fraction: Share of a layer's weights that an update at the start would exchange.
        stop: Share of the training after which masks stay.
        growth: Samples whose gradient lets weights grow: ``fit`` (members, the paper's), ``held-out`` (the attacker's
            non-members) or ``gap`` (weights that matter more to the latter than to the former).
        patience: Rounds without a better score, task performance over leak (times leak, where it is below 0), after
            which a run stops; None: never.
        tolerance: By how much a score must be better; None: by two standard errors.

    Raises:
        ValueError: A field out of its range.
        SpecError: A rule or a test that there is not.
    """

    rule: str = "constrained"
    test: str = "basket"
    prune: tuple[str, ...] = ("magnitude", "threshold")
    grow: tuple[str, ...] = ("gradient", "random")
    interval: int | None = None
    tune: int = 1
    fraction: float = 0.5
    stop: float = 0.75
    growth: str = "fit"
    patience: int | None = None
    tolerance: float | None = None

    def __post_init__(self) -> None:
        parse_rule(self.rule)
        parse_test(self.test)
        if self.tune < 1:
            raise ValueError(f"tune: expected at least 1, got {self.tune}")
        if self.interval is not None and self.interval < self.tune:
            raise ValueError(
                f"interval: expected at least {self.tune}, as candidates are tuned so long, got {self.interval}"
            )
        if self.growth not in ("fit", "held-out", "gap"):
            raise ValueError(f"growth: expected fit, held-out or gap, got {self.growth!r}")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience: expected at least 1, got {self.patience}")
        if self.tolerance is not None and not self.tolerance >= 0:
            raise ValueError(f"tolerance: expected 0 or more, got {self.tolerance}")
        if not self.prune or not self.grow or isinstance(self.prune, str) or isinstance(self.grow, str):
            raise ValueError(f"prune, grow: expected tuples of rules, got {self.prune!r} and {self.grow!r}")
        self._plans(Plan(0.5), 100)

    def check(self, setting: Setting) -> None:
        """Refuse a model that cannot be masked, fields that leave no round, and what the safety test refuses.

        The test is run once on the model as it is before training.

        Raises:
            ValueError: Naming it.
        """
        check_masks(setting)
        self._check_rounds(setting.recipe.epochs)
        tried(setting, "loop", parse_test(self.test))

    def __call__(self, setting: Setting, defences: Sequence[Defence], progress: Progress) -> Outcome:
        """Train; see ``Compressor``.

        ``history`` has ``points`` (loss, task performance and leak of the models that went on, at each update and at
        the end), ``rounds`` (how many candidates were ``distinct``, and which went on; of every candidate how many
        weights it ``exchanged``, and which earlier one it is the ``same`` as, if any: equal ones are trained and
        attacked once) and ``extra`` (epochs spent on those that did not go on).
        """
        base = (
            Plan(setting.density) if setting.plan is None else replace(setting.plan, density=setting.density)
        )
        pairs = self._plans(base, setting.recipe.epochs)
        phase, spent = defended(fresh_phase(setting, plan=next(iter(pairs.values()))), defences, progress)
        pairs = {
            name: replace(plan, include=phase.plan.include, exclude=phase.plan.exclude)
            for name, plan in pairs.items()
            if phase.plan is not None
        }
        rounds = Rounds(
            phase,
            pairs,
            self.tune,
            parse_test(self.test),
            parse_rule(self.rule),
            self.growth,
            self.patience,
            self.tolerance,
            setting.seed,
            defences,
        )
        course, note = rounds.go(progress, setting.scratch)
        notes = [*phase.remarks, *([note] if note else [])]
        if not rounds.times:
            notes.append(
                f"No update falls before the masks stay, in {phase.recipe.epochs} epochs: no candidates were tested,"
                " and it was trained as with a static mask"
            )
        share = phase.subsets.shape[1] / setting.roles.fit.shape[1]
        extra = sum(course.extra) / len(course.extra)
        stopped = course.state.stopped.double()  # runs that lost patience trained less
        epochs = float(stopped.where(stopped > 0, torch.tensor(float(course.state.epoch)).double()).mean())
        return Outcome(
            _find.spec(self, "discreet.compressors"),
            setting.model if phase.released is None else phase.released,
            finished(phase, course.state.params),
            {name: mask.bool() for name, mask in course.state.masks.items()},
            epochs * share,
            spent + (epochs + extra) * share,
            tuple(notes),
            phase.epsilon,
            {"points": course.points, "rounds": course.rounds, "extra": course.extra},
        )

    def _check_rounds(self, epochs: int) -> None:
        """Refuse fields that leave no round in a training that has some by default; a shorter one has none at all.

        Raises:
            ValueError: Naming the fields.
        """

        def times(method: Safecompress) -> list[int]:
            return times_of(next(iter(method._plans(Plan(0.5), epochs).values())), method.tune, epochs)

        if times(Safecompress()) and not times(self):
            raise ValueError(
                "interval, tune, stop: expected an update before the masks stay, with time to tune candidates, in"
                f" {epochs} epochs, got interval={self.interval}, tune={self.tune}, stop={self.stop:g}"
            )

    def _plans(self, base: Plan, epochs: int) -> dict[str, Plan]:
        """The candidates' plans by name, in their fixed order."""
        interval = max(self.tune + 1, epochs // 20) if self.interval is None else self.interval
        schedule = Schedule(interval, self.fraction, self.stop)
        return {
            f"{prune}+{grow}": replace(base, prune=prune, grow=grow, schedule=schedule)
            for prune, grow in product(self.prune, self.grow)
        }
