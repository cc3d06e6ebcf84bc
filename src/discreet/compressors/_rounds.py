"""Algorithm 1 of Zhu et al., "Safety and Performance, Why not Both?" (2022), for several runs side by side."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from discreet._types import Float
from discreet.compressors._course import Course, keep, kept
from discreet.compressors._performance import losses
from discreet.ensemble import Diverged
from discreet.initial import Architecture
from discreet.model_seeds import stream
from discreet.performance import performance
from discreet.phase import Phase, Progress, finished, start_of
from discreet.safety import Found, SafetyTest
from discreet.seen import cases, outputs_on
from discreet.selection_rules import Candidate, SelectionRule, choose
from discreet.sparse import (
    Maskable,
    Plan,
    check_masks,
    check_zeros,
    close,
    counts,
    draw_masks,
    maskable,
    rewire,
)
from discreet.sparse.training import growth_of, sparse_start
from discreet.training import train
from discreet.training_state import TrainingState
from discreet.trajectory import Trajectory

__all__ = ["Rounds"]

CHOICE = 6  # what ``stream`` draws for here

Stack = Mapping[str, Tensor]


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

    def go(self, progress: Progress, scratch: Path | None) -> tuple[Course, str]:
        """Run all rounds; a note says what cut them short, if anything did.

        Raises:
            SparseError: Nothing to mask, or a density that leaves a layer nothing.
            Diverged: Before the first update.
        """
        total, plan = self.phase.recipe.epochs, self._plan
        times = [epoch for epoch in plan.times(total) if epoch + self.tune <= total]
        course = kept(scratch, self._key())
        if course is None:
            course = self._begin(times[0] if times else total, progress)
            keep(scratch, course, self._key())
        try:
            for number, epoch in enumerate(times):
                if epoch < course.state.epoch:
                    continue
                if not len(course.state.active):
                    break
                progress(f"round {number + 1} of {len(times)}", course.state.epoch / total)
                after = self._round(course, plan.schedule.rate(epoch, total))
                until = times[number + 1] if number + 1 < len(times) else total
                course = self._train_on(after, until)
                keep(scratch, course, self._key())
            course = self._train_on(course, total)
        except Diverged as error:
            return course, f"stopped after epoch {course.state.epoch}, the last good one: {error}"
        self._point(course)
        progress("done", 1.0)
        return course, ""

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
        tracks = [list(each) for each in course.tracks]

        def note(epoch: int, params: Stack) -> None:
            for track, told in zip(tracks, self._losses(params), strict=True):
                track.append(told)

        state = self._advance(until, note if self._tracks else None, **given)
        return replace(course, state=state, tracks=tracks)

    def _advance(self, until: int, note: Any, **given: Any) -> TrainingState:
        last: list[TrainingState] = []
        phase = self.phase
        train(
            phase.model,
            phase.x,
            phase.y,
            phase.subsets,
            replace(phase.recipe, epochs=until, patience=None),
            seed=self.seed,
            gradients=phase.gradients,
            on_checkpoint=note,
            on_state=lambda state: last.__setitem__(slice(None), [state]),
            **given,
        )
        return last[0]

    def _round(self, course: Course, rate: float) -> Course:
        """Derive candidates, train, attack and choose: one round."""
        base, active = course.state, course.state.active.tolist()
        before = self._point(course)
        slopes = self._slopes(base)
        made = {name: self._candidate(plan, base, rate, slopes) for name, plan in self.pairs.items()}
        stacks = {name: self._released(state.params) for name, state in made.items()}
        leaks = self._attack(stacks, before, base.epoch) if "leak" in self.rule.needs else {}
        tasks = self._tasks(stacks)
        tracks = {name: self._losses(state.params) for name, state in made.items()} if self._tracks else {}
        names, chosen = list(made), [0] * len(self._runs)
        rounds, scores = list(course.rounds), [list(each) for each in course.scores]
        for run in active:
            candidates = tuple(
                Candidate(
                    name,
                    tasks[name][run],
                    leaks[name][run].leak if leaks else before[run].leak,
                    leaks[name][run].error if leaks else before[run].error,
                    self._indicator([*course.tracks[run], tracks[name][run]]) if self._tracks else None,
                )
                for name in names
            )
            draw = stream(self.seed, run, CHOICE, base.epoch)
            chosen[run], told = choose(self.rule, candidates, draw)
            best = candidates[chosen[run]]
            scores[run].append((best.task.value / best.leak, best.task.value * best.error / best.leak**2))
            rounds.append(_told(run, base.epoch, rate, candidates, best.name, told, bool(leaks)))
        state = _pick(base, [made[name] for name in names], chosen, active)
        extra = [
            many + (len(names) - 1) * self.tune * (run in active) for run, many in enumerate(course.extra)
        ]
        followed = [
            [*track, tracks[names[chosen[run]]][run]] if self._tracks and run in active else list(track)
            for run, track in enumerate(course.tracks)
        ]
        after = replace(course, tracks=followed, rounds=rounds, extra=extra, scores=scores)
        return replace(after, state=self._patient(state, after))

    def _candidate(
        self, plan: Plan, base: TrainingState, rate: float, slopes: Mapping[str, Tensor] | None
    ) -> TrainingState:
        """Exchange weights by one pair of rules, and train for a while."""
        found, kept = self._found
        prune, grow = plan.rules()
        active, ids = base.active, list(self._runs)
        done = rewire(
            base.masks,
            base.params,
            prune,
            grow,
            rate,
            models=ids,
            time=base.epoch,
            seed=self.seed,
            gradients=slopes if grow.needs_gradient else None,
            regrow=plan.regrow,
            rows=active.tolist(),
        )
        check_masks(done.masks, found.shapes, kept, ids)
        state = replace(
            base,
            params=done.settle(base.params),
            moments={slot: done.settle(stack) for slot, stack in base.moments.items()},
            masks=done.masks,
        )
        state = self._advance(base.epoch + self.tune, None, resume=state)
        check_zeros(state.params, state.masks, ids)
        return state

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

    def _point(self, course: Course) -> list[Found]:
        """Measure the models that went on, note it, and return what the test found."""
        params, name = self._released(course.state.params), "chosen"
        found = self._attack({name: params}, None, course.state.epoch)[name]
        setting = self.phase.setting
        tasks = self._tasks({name: params})[name]
        fits = losses(setting, self._model, params, setting.roles.loop.judged_in).mean(axis=1)
        for run in self._runs:
            course.points.append(
                {
                    "run": run,
                    "epoch": course.state.epoch,
                    "loss": float(fits[run]),
                    "task": tasks[run].to_json(),
                    "leak": found[run].value.to_json(),
                    "metric": found[run].metric,
                }
            )
        return found

    def _attack(
        self, stacks: Mapping[str, Stack], init: Sequence[Found] | None, epoch: int
    ) -> dict[str, list[Found]]:
        """Test every model; attackers of candidates are tuned from those of the model that they come from."""
        setting = self.phase.setting
        shown = cases(setting, self._model, stacks, setting.roles.loop, self.test.needs)
        seeds = [int(stream(self.seed, run, CHOICE, epoch, 1).integers(2**62)) for run in self._runs]
        names = list(shown)
        found = self.test(
            [case for name in names for case in shown[name]],
            seeds=seeds * len(names),
            init=None if init is None else list(init) * len(names),
        )
        many = len(self._runs)
        return {name: found[at * many : (at + 1) * many] for at, name in enumerate(names)}

    def _tasks(self, stacks: Mapping[str, Stack]) -> dict[str, list[Any]]:
        setting = self.phase.setting
        told = outputs_on(setting, self._model, stacks, setting.roles.validation)
        label = setting.y.numpy()
        return {
            name: [
                performance(
                    answers[run]["outputs"],
                    label[setting.roles.validation[run]],
                    setting.kind,
                    setting.metric,
                )
                for run in self._runs
            ]
            for name, answers in told.items()
        }

    def _losses(self, params: Stack) -> list[Float[np.ndarray, " sample"]]:
        """Losses of each run's model on its validation samples."""
        setting = self.phase.setting
        return list(losses(setting, self._model, self._released(params), setting.roles.validation))

    @staticmethod
    def _indicator(track: list[Float[np.ndarray, " sample"]]) -> float | None:
        """r along a trajectory; None where it is undefined."""
        ratios = Trajectory(np.stack(track)).ratios
        return None if np.isnan(ratios).all() else float(np.nanmin(ratios))

    @property
    def _tracks(self) -> bool:
        return "r" in self.rule.needs

    @property
    def _model(self) -> Architecture:
        return self.phase.model if self.phase.released is None else self.phase.released

    def _released(self, params: Stack) -> dict[str, Tensor]:
        return finished(self.phase, params)

    def _patient(self, state: TrainingState, course: Course) -> TrainingState:
        """Stop the runs whose selection score has not risen for long enough."""
        if self.patience is None:
            return state
        stopped = state.stopped.clone()
        for run in state.active.tolist():
            scores = course.scores[run]
            best = max(range(len(scores)), key=lambda at: scores[at][0])
            first = next(
                at
                for at, (score, error) in enumerate(scores)
                if score >= scores[best][0] - (2 * error if self.tolerance is None else self.tolerance)
            )
            if len(scores) - 1 - first >= self.patience:
                stopped[run] = state.epoch
        return replace(state, stopped=stopped)

    def _key(self) -> str:
        """Hash of all that the rounds depend on but the training itself, whose state has a key of its own."""
        setting = self.phase.setting
        told = [
            {name: plan.to_json() for name, plan in self.pairs.items()},
            [self.tune, repr(self.test), repr(self.rule), self.growth, self.patience, self.tolerance],
            [self.seed, self.phase.recipe.epochs, setting.metric, setting.kind, repr(self.phase.notes)],
            {name: hashlib.sha256(rows.tobytes()).hexdigest() for name, rows in setting.roles.parts()},
        ]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _told(
    run: int,
    epoch: int,
    rate: float,
    candidates: Sequence[Candidate],
    chosen: str,
    told: bool,
    attacked: bool,
) -> dict[str, Any]:
    """One round of one run as plain data."""
    return {
        "run": run,
        "epoch": epoch,
        "rate": rate,
        "chosen": chosen,
        "difference": told,
        "candidates": [
            {
                "name": each.name,
                "task": each.task.to_json(),
                "leak": each.leak if attacked else None,
                "error": each.error if attacked else None,
                "r": each.r if each.r is None or np.isfinite(each.r) else None,
            }
            for each in candidates
        ],
    }


def _pick(
    base: TrainingState, made: Sequence[TrainingState], chosen: Sequence[int], active: Sequence[int]
) -> TrainingState:
    """The state whose runs are those of the candidates that were chosen; losers leave no trace."""

    def gather(read: Any) -> dict[str, Tensor]:
        stacks = [read(state) for state in made]
        picked = {name: value.clone() for name, value in read(base).items()}
        for name, value in picked.items():
            for run in active:
                value[run] = stacks[chosen[run]][name][run]
        return picked

    return replace(
        made[0],
        params=gather(lambda state: state.params),
        moments={slot: gather(lambda state, slot=slot: state.moments[slot]) for slot in base.moments},
        masks=gather(lambda state: state.masks),
        stopped=base.stopped,
    )


def _gap(inside: Tensor, outside: Tensor) -> Tensor:
    """How much more the loss of others depends on a weight than that of members; 0 where it does not."""
    return (outside.abs() - inside.abs()).clamp_min(0)
