"""The candidates of one round of SafeCompress: each exchanges weights by its own rules; equal ones are made once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from discreet.sparse import Maskable, Plan, Rewired, check_masks, check_zeros, rewire
from discreet.training_state import TrainingState

__all__ = ["Candidates", "derive", "with_rows"]


@dataclass(frozen=True, eq=False)
class Candidates:
    """What came of the candidates of a round.

    Attributes:
        states: For each candidate all runs after its tuning; weights that stopped being finite have stopped.
        first: For each candidate and run the first candidate with the same weights, which may be itself.
        exchanged: For each candidate and run how many weights were exchanged.
    """

    states: Mapping[str, TrainingState]
    first: Mapping[str, tuple[str, ...]]
    exchanged: Mapping[str, tuple[int, ...]]

    def own(self, name: str) -> list[int]:
        """Runs in which a candidate is none of those before it."""
        return [run for run, first in enumerate(self.first[name]) if first == name]

    def distinct(self, run: int) -> list[str]:
        """Candidates of a run that differ from each other."""
        return [name for name, first in self.first.items() if first[run] == name]


def derive(
    pairs: Mapping[str, Plan],
    base: TrainingState,
    rate: float,
    found: Maskable,
    kept: Mapping[str, int],
    *,
    seed: int,
    slopes: Mapping[str, Tensor] | None,
    tune: Callable[[TrainingState], TrainingState],
) -> Candidates:
    """Exchange weights by each pair of rules, and train for a while what comes of it, equal masks of a run once.

    Two rules often agree: the threshold's are the smallest weights too, and no more of them than the schedule says.

    Args:
        pairs: Names and plans of the candidates.
        base: What they come from.
        rate: Share of the weights in use that is exchanged.
        found: What is masked.
        kept: How many weights of each tensor are in use.
        seed: Of everything.
        slopes: Gradients of all weights, if a plan needs them.
        tune: Trains the runs that are active; nothing of one depends on which others are.
    """
    ids, active = list(range(len(base.stopped))), base.active.tolist()
    done: dict[str, Rewired] = {}
    states: dict[str, TrainingState] = {}
    firsts: dict[str, tuple[str, ...]] = {}
    for name, plan in pairs.items():
        prune, grow = plan.rules()
        new = rewire(
            base.masks,
            base.params,
            prune,
            grow,
            rate,
            models=ids,
            time=base.epoch,
            seed=seed,
            gradients=slopes if grow.needs_gradient else None,
            regrow=plan.regrow,
            rows=active,
        )
        check_masks(new.masks, found.shapes, kept, ids)
        firsts[name] = tuple(
            next((each for each, old in done.items() if _equal(old, new, run)), name) for run in ids
        )
        done[name] = new
        others = {run: states[each] for run, each in enumerate(firsts[name]) if each != name}
        states[name] = with_rows(_tuned(base, new, others, tune), others)
        check_zeros(states[name].params, states[name].masks, ids)
    exchanged = {
        name: tuple(int(each) for each in torch.stack(list(new.exchanged.values())).sum(0))
        for name, new in done.items()
    }
    return Candidates(states, firsts, exchanged)


def _equal(one: Rewired, other: Rewired, run: int) -> bool:
    """Whether the same weights of a run are in use and begin anew."""
    return all(
        torch.equal(mine[name][run], theirs[name][run])
        for mine, theirs in ((one.masks, other.masks), (one.grown, other.grown))
        for name in mine
    )


def _tuned(
    base: TrainingState,
    new: Rewired,
    others: Mapping[int, TrainingState],
    tune: Callable[[TrainingState], TrainingState],
) -> TrainingState:
    """The state after the exchange and the training of the runs that are not taken from others."""
    if others and not set(base.active.tolist()) - set(others):
        return next(iter(others.values()))
    stopped = base.stopped.clone()
    stopped[list(others)] = base.epoch
    return tune(
        replace(
            base,
            params=new.settle(base.params),
            moments={slot: new.settle(stack) for slot, stack in base.moments.items()},
            masks=new.masks,
            stopped=stopped,
        )
    )


def with_rows(state: TrainingState, others: Mapping[int, TrainingState]) -> TrainingState:
    """A copy of a state with some runs as they are in other states."""

    def gather(read: Any) -> dict[str, Tensor]:
        gathered = {name: value.clone() for name, value in read(state).items()}
        for run, other in others.items():
            for name, value in read(other).items():
                gathered[name][run] = value[run]
        return gathered

    stopped = state.stopped.clone()
    for run, other in others.items():
        stopped[run] = other.stopped[run]
    return replace(
        state,
        params=gather(lambda each: each.params),
        moments={slot: gather(lambda each, slot=slot: each.moments[slot]) for slot in state.moments},
        masks=gather(lambda each: each.masks),
        stopped=stopped,
    )
