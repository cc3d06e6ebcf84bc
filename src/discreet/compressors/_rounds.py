"""Algorithm 1 of Zhu et al., "Safety and Performance, Why not Both?" (2022), for several runs side by side."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from discreet._code import code_of
from discreet._content import content_of
from discreet._types import Float
from discreet.bank.identity import identity
from discreet.compressors._candidates import Candidates, derive, with_rows
from discreet.compressors._course import Course, keep, kept
from discreet.compressors._judging import CHOICE, Judging
from discreet.model_seeds import stream
from discreet.outlasting import outlast
from discreet.phase import Defence, Phase, Progress, start_of
from discreet.safety import Found, SafetyTest
from discreet.selection_rules import Candidate, SelectionRule, choose
from discreet.sparse import (
    Maskable,
    Plan,
    close,
    counts,
    draw_masks,
    maskable,
)
from discreet.sparse.training import growth_of, sparse_start
from discreet.training import train
from discreet.training_inputs import key_of
from discreet.training_state import TrainingState
from discreet.trajectory import Trajectory

__all__ = ["Rounds", "times_of"]


@dataclass(frozen=True, eq=False)
class Rounds:
    """Train, derive candidates, attack them, choose one, go on.

    Attributes:
        phase: The training, defences included; its plan says how sparse, and when masks change.
        pairs: Names and plans of the candidates: a prune rule and a grow rule each.
        tune: Epochs for which candidates are trained before one is chosen.
        test: The safety test.
        rule: Which candidate goes on.
        growth: Samples whose gradient lets weights grow: ``fit``, ``held-out`` or ``gap``.
        patience: Rounds without a better selection score after which a run stops; None: never.
        tolerance: What is better: by so much; None: by two standard errors of the safety test.
        seed: Of everything.
        defences: What the phase's training was changed by; a course is taken up by a training with the same alone.
    """

    phase: Phase
    pairs: Mapping[str, Plan]
    tune: int
    test: SafetyTest
    rule: SelectionRule
    growth: str
    patience: int | None
    tolerance: float | None
    seed: int
    defences: Sequence[Defence] = ()

    def go(self, progress: Progress, scratch: Path | None) -> tuple[Course, str]:
        """Run all rounds; a note says which runs were cut short, if any were.

        Raises:
            SparseError: Nothing to mask, or a density that leaves a layer nothing.
            Diverged: In the first epoch, before which there is no good model to keep.
        """
        total, plan, times = self.phase.recipe.epochs, self._plan, self.times
        course = kept(scratch, self._key)
        if course is None:
            course = self._begin(times[0] if times else total, progress)
            keep(scratch, course, self._key)
        for number, epoch in enumerate(times):
            if epoch < course.state.epoch:
                continue
            if not len(course.state.active):
                break
            progress(f"round {number + 1} of {len(times)}", course.state.epoch / total)
            after = self._round(course, plan.schedule.rate(epoch, total))
            until = times[number + 1] if number + 1 < len(times) else total
            course = self._train_on(after, until)
            keep(scratch, course, self._key)
        course = self._train_on(course, total)
        self._judging.point(course)
        progress("done", 1.0)
        return course, "; ".join(course.lost)

    @property
    def times(self) -> list[int]:
        """Epochs after which there is a round."""
        return times_of(self._plan, self.tune, self.phase.recipe.epochs)

    @property
    def _plan(self) -> Plan:
        return next(iter(self.pairs.values()))

    @property
    def _runs(self) -> range:
        return range(self.phase.setting.runs)

    @property
    def _found(self) -> tuple[Maskable, dict[str, int]]:
        found = maskable(self.phase.model, self._plan.include, self._plan.exclude)
        return found, counts(found.shapes, self._plan.density, self._plan.allocation)

    def _begin(self, until: int, progress: Progress) -> Course:
        phase, (found, kept) = self.phase, self._found
        masks = draw_masks(found.shapes, kept, list(self._runs), seed=self.seed)
        given = start_of(phase)
        start = sparse_start(
            phase.model, phase.x, tuple(self._runs), self.seed, given, self._plan, found, kept
        )
        course = Course.start(len(self._runs))
        progress("first training", 0.0)
        return self._train(course, until, init=close(start, masks), masks=masks)

    def _train_on(self, course: Course, until: int) -> Course:
        if until <= course.state.epoch or not len(course.state.active):
            return course
        return self._train(course, until, resume=course.state)

    def _train(self, course: Course, until: int, **given: Any) -> Course:
        """Train to an epoch; every checkpoint's losses join the track of its run."""
        noted: dict[int, list[Any]] = {}  # by epoch: an epoch that is trained again is noted again

        def note(epoch: int, params: Mapping[str, Tensor]) -> None:
            noted[epoch] = self._judging.losses(params)

        state, lost = self._advance(until, note if self._tracks else None, **given)
        tracks = [
            [*track, *(each[run] for each in noted.values())] for run, track in enumerate(course.tracks)
        ]
        return replace(course, state=state, tracks=tracks, lost=[*course.lost, *lost])

    def _advance(
        self, until: int, note: Any, resume: TrainingState | None = None, **given: Any
    ) -> tuple[TrainingState, list[str]]:
        """Train to an epoch; runs that diverge stop at their last good one, and a sentence tells of each."""
        phase = self.phase

        def step(resume: TrainingState | None, keep: Callable[[TrainingState], None]) -> None:
            train(
                phase.model,
                phase.x,
                phase.y,
                phase.subsets,
                replace(phase.recipe, epochs=until, patience=None),
                seed=self.seed,
                gradients=phase.gradients,
                on_checkpoint=note,
                on_state=keep,
                resume=resume,
                **given,
            )

        _, state, lost = outlast(step, resume)
        if state is None:
            raise ValueError(f"epochs: expected some until {until}, there were none")
        return replace(state, epoch=until), list(lost)

    def _round(self, course: Course, rate: float) -> Course:
        """Derive candidates, train, attack and choose: one round."""
        base, active = course.state, course.state.active.tolist()
        found, kept = self._found
        before = self._judging.point(course)
        made = derive(
            self.pairs,
            base,
            rate,
            found,
            kept,
            seed=self.seed,
            slopes=self._slopes(base),
            tune=lambda state: self._advance(base.epoch + self.tune, None, resume=state)[0],
        )
        measured, tracks = self._measured(course, made, before)
        chosen: dict[int, str] = {}
        rounds, scores = list(course.rounds), [list(each) for each in course.scores]
        for run, candidates in measured.items():
            if not candidates:
                continue
            draw = stream(self.seed, run, CHOICE, base.epoch)
            at, told = choose(self.rule, candidates, draw)
            best = candidates[at]
            chosen[run] = best.name
            scores[run].append(_score(best))
            entry = {"run": run, "epoch": base.epoch, "rate": rate, "chosen": best.name, "difference": told}
            rounds.append(entry | _told(run, made, candidates, "leak" in self.rule.needs))
        extra = [
            many + (len(made.distinct(run)) - (run in chosen)) * self.tune if run in active else many
            for run, many in enumerate(course.extra)
        ]
        followed = [
            [*track, tracks[chosen[run]][run]] if self._tracks and run in chosen else list(track)
            for run, track in enumerate(course.tracks)
        ]
        lost = [
            *course.lost,
            *(
                f"stopped after epoch {base.epoch}, the last good one: model {run}: no candidate stayed finite"
                for run in active
                if run not in chosen
            ),
        ]
        stopped = base.stopped.clone()
        stopped[active] = base.epoch  # runs of which no candidate stayed finite stop as they were
        state = with_rows(
            replace(base, epoch=base.epoch + self.tune, stopped=stopped),
            {run: made.states[name] for run, name in chosen.items()},
        )
        after = replace(course, tracks=followed, rounds=rounds, extra=extra, scores=scores, lost=lost)
        return replace(after, state=self._patient(state, after))

    def _measured(
        self, course: Course, made: Candidates, before: Sequence[Found]
    ) -> tuple[dict[int, tuple[Candidate, ...]], dict[str, list[Float[np.ndarray, " sample"]]]]:
        """Of each active run its candidates that stayed finite, equal ones once; and the losses of all."""
        base, active, judging = course.state, course.state.active.tolist(), self._judging
        new = {name: set(made.own(name)) & set(active) for name in made.states}
        stacks = {name: judging.released(made.states[name].params) for name, runs in new.items() if runs}
        leaks = judging.attack(stacks, before, base.epoch, new) if "leak" in self.rule.needs else {}
        tasks = judging.tasks(stacks)
        tracks = {name: judging.losses(made.states[name].params) for name in stacks} if self._tracks else {}

        def candidate(name: str, run: int) -> Candidate:
            found = leaks[name][run] if leaks else before[run]
            r = self._indicator([*course.tracks[run], tracks[name][run]]) if self._tracks else None
            return Candidate(name, tasks[name][run], found.leak, found.error, r)

        told = {
            run: tuple(
                candidate(name, run) for name in made.distinct(run) if not made.states[name].stopped[run]
            )
            for run in active
        }
        return told, tracks

    def _slopes(self, base: TrainingState) -> dict[str, Tensor] | None:
        """Gradients of all weights on the samples that growth looks at: the same for all candidates of a round."""
        plan = next((each for each in self.pairs.values() if each.rules()[1].needs_gradient), None)
        if plan is None:
            return None
        growth = growth_of(
            self.phase.model,
            self.phase.x,
            self.phase.y,
            self.phase.subsets,
            self.phase.recipe,
            plan,
            tuple(self._runs),
            self.seed,
            "auto",
            self.phase.gradients,
            None,
        )
        if growth is None:
            return None
        names, rows = list(base.masks), base.active
        if self.growth == "fit":
            return growth.gradients(base.params, names, base.epoch, rows)
        if self.phase.subsets is not self.phase.setting.roles.fit:
            raise ValueError(
                f"growth: expected fit, as a defence trains on other samples than the setting's, got {self.growth!r}"
            )
        outside = replace(growth, subsets=self.phase.setting.roles.loop.known_out.astype(np.int64))
        held_out = outside.gradients(base.params, names, base.epoch, rows)
        if self.growth == "held-out":
            return held_out
        inside = growth.gradients(base.params, names, base.epoch, rows)
        return {name: _gap(inside[name], held_out[name]) for name in names}

    @staticmethod
    def _indicator(track: list[Float[np.ndarray, " sample"]]) -> float | None:
        """r along a trajectory; None where it is undefined."""
        ratios = Trajectory(np.stack(track)).ratios
        return None if np.isnan(ratios).all() else float(np.nanmin(ratios))

    @property
    def _tracks(self) -> bool:
        return "r" in self.rule.needs

    @property
    def _judging(self) -> Judging:
        return Judging(self.phase, self.test, self.seed)

    def _patient(self, state: TrainingState, course: Course) -> TrainingState:
        """Stop the runs whose selection score has not risen for long enough."""
        if self.patience is None:
            return state
        stopped = state.stopped.clone()
        for run in state.active.tolist():
            scores = course.scores[run]
            best = max(score for score, _ in scores)
            first = next(
                at
                for at, (score, error) in enumerate(scores)
                if score >= best - (2 * error if self.tolerance is None else self.tolerance)
            )
            if len(scores) - 1 - first >= self.patience:
                stopped[run] = state.epoch
        return replace(state, stopped=stopped)

    @cached_property
    def _key(self) -> str:
        """Hash of all that the rounds depend on: nothing else is compared with a course that is at its end."""
        phase, runs = self.phase, list(self._runs)
        setting, taught = phase.setting, phase.teacher
        plans = {name: plan.to_json() for name, plan in self.pairs.items()}
        models = phase.model, phase.released, taught and taught.model
        made_by = [self.test, self.rule, list(self.defences), setting.recipe.loss, setting.attribute]
        told = [
            content_of(json.dumps([plans, setting.metric], sort_keys=True)),
            [self.tune, self.growth, self.patience, self.tolerance],
            [setting.kind, phase.recipe.epochs, phase.notes],
            key_of(phase.recipe, self.seed, runs, "rounds", [phase.subsets, phase.x, phase.y]),
            [identity(each) for each in models if each is not None],
            code_of([*made_by, taught and dict(taught.params)]),
            {name: hashlib.sha256(rows.tobytes()).hexdigest() for name, rows in setting.roles.parts()},
        ]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def times_of(plan: Plan, tune: int, epochs: int) -> list[int]:
    """Updates of a plan's masks that leave time to tune candidates, in a training of so many epochs."""
    return [epoch for epoch in plan.times(epochs) if epoch + tune <= epochs]


def _score(candidate: Candidate) -> tuple[float, float]:
    """Task performance over leak, as patience compares it, and its standard error: higher is better.

    A performance below 0 is multiplied: divided by the leak it would be higher the more leaks.
    """
    task, leak = candidate.task.value, candidate.leak
    if task < 0:
        return task * leak, -task * candidate.error
    return task / leak, task * candidate.error / leak**2


def _told(run: int, made: Candidates, candidates: Sequence[Candidate], attacked: bool) -> dict[str, Any]:
    """The candidates of one run as plain data, those that equal an earlier one too."""
    by = {each.name: each for each in candidates}
    entries = [
        {
            "name": name,
            "same": None if own == name else own,
            "exchanged": made.exchanged[name][run],
            "task": by[own].task.to_json(),
            "leak": by[own].leak if attacked else None,
            "error": by[own].error if attacked else None,
            "r": r if (r := by[own].r) is None or np.isfinite(r) else None,
        }
        for name, first in made.first.items()
        if (own := first[run]) in by
    ]
    return {"distinct": len(by), "candidates": entries}


def _gap(inside: Tensor, outside: Tensor) -> Tensor:
    """How much more the loss of others depends on a weight than that of members; 0 where it does not."""
    return (outside.abs() - inside.abs()).clamp_min(0)
