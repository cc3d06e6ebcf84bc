"""Search hyper-parameters with Optuna, seeded; which library proposes them is this file's affair alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from discreet._find import SpecError
from discreet.learners._protocol import QuantileLearner
from discreet.learners._space import Choice, Range

__all__ = ["search"]


def search(
    learners: Sequence[QuantileLearner], judge: Callable[[QuantileLearner], float], *, trials: int, seed: int
) -> None:
    """Try settings from the search spaces of ``learners``, guided by what was found so far.

    Args:
        learners: What to vary; all of their other fields stay.
        judge: Returns the loss of a learner; it keeps what it wants to know afterwards.
        trials: Number of settings, over all learners.
        seed: Of the proposals.

    Raises:
        SpecError: Optuna is not installed.
    """
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise SpecError(
            f"trials needs the module {error.name!r}, which is not installed (extra 'boost')"
        ) from None

    def objective(trial: Any) -> float:
        number = trial.suggest_categorical("learner", range(len(learners))) if len(learners) > 1 else 0
        learner = learners[number]
        fields = {name: _suggest(trial, f"{number}.{name}", where) for name, where in learner.space().items()}
        return judge(replace(learner, **fields))  # type: ignore[type-var]

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        study.optimize(objective, n_trials=trials, n_jobs=1)
    finally:
        optuna.logging.set_verbosity(before)


def _suggest(trial: Any, name: str, where: Range | Choice) -> Any:
    if isinstance(where, Choice):
        # By number: Optuna stores only plain values, and options may be tuples.
        return where.options[trial.suggest_categorical(name, range(len(where.options)))]
    if isinstance(where.low, int) and isinstance(where.high, int):
        return trial.suggest_int(name, where.low, where.high, log=where.log)
    return trial.suggest_float(name, where.low, where.high, log=where.log)
