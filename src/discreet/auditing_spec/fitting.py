"""Training by a function of the user: what it is given, what it must do, and what goes wrong."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet._types import Num
from discreet.forward import stack_of
from discreet.runs.following import Note
from discreet.spec import CalledError, Named

__all__ = ["apart", "check_fit", "fit_module", "seeded"]

_SHOWN = 6


def check_fit(fit: Named, options: Mapping[str, Any]) -> None:
    """Refuse, before any work, a function that cannot be called as it will be.

    Raises:
        CalledError: Its arguments are others.
    """
    try:
        inspect.signature(fit.function).bind(None, None, None, seed=0, checkpoint=print, **options)
    except TypeError as error:
        given = "".join(f", {name}" for name in options)
        raise CalledError(
            f"{fit.where}: {fit.path} is called as fit(model, x, y, seed=…, checkpoint=…{given}): {error}"
        ) from error


def fit_module(
    fit: Named,
    options: Mapping[str, Any],
    module: nn.Module,
    x: Num[Tensor, " sample *rest"],
    y: Num[Tensor, " sample *target"],
    *,
    run: str,
    seed: int,
    note: Note,
) -> None:
    """Let the user's function train one run.

    It is called as ``fit(module, x, y, seed=seed, checkpoint=checkpoint, **options)``. Each call of
    ``checkpoint(model)`` is one checkpoint, counted from 1; a model that is returned with other weights than the last
    one is one more.

    Args:
        fit: The function.
        options: More arguments.
        module: A fresh model.
        x: Inputs of the run's training samples.
        y: Their labels.
        run: Label of the run, for messages.
        seed: Of all that it draws; Python's, NumPy's and torch's global generators start from it as well.
        note: Takes each checkpoint.

    Raises:
        CalledError: It raised, called no checkpoint, or returned no model of the same parameters.
    """
    wanted = {name: value.shape for name, value in stack_of(module).items()}
    last: dict[str, Tensor] = {}
    steps = 0

    def checkpoint(model: Any) -> None:
        nonlocal steps, last
        stack = _taken(fit, model, wanted, f"run {run} after {steps} checkpoints", "call checkpoint with")
        steps, last = steps + 1, stack
        with torch.no_grad():
            note(float(steps), stack)

    def call() -> Any:
        with seeded(seed), torch.enable_grad():
            return fit.function(module.train(), x, y, seed=seed, checkpoint=checkpoint, **options)

    made = Named(call, fit.path, fit.where)(f"to train run {run}")
    if not steps:
        raise CalledError(
            f"{fit.where}: {fit.path} trained run {run} and called no checkpoint; expected checkpoint(model) after"
            " each epoch, so that the model can be measured as it trains"
        )
    final = _taken(fit, made, wanted, f"run {run} after {steps} checkpoints", "return")
    if any(not torch.equal(value, last[name]) for name, value in final.items()):
        with torch.no_grad():
            note(float(steps + 1), final)


def _taken(fit: Named, model: Any, wanted: Mapping[str, Any], when: str, doing: str) -> dict[str, Tensor]:
    """What the user's function shows or returns, as a stack of one model."""
    if not isinstance(model, nn.Module):
        got = type(model).__name__
        raise CalledError(
            f"{fit.where}: expected {fit.path} to {doing} the torch module that is trained, got {got}"
        )
    stack = {name: value.cpu() for name, value in stack_of(model).items()}
    told = apart(wanted, {name: value.shape for name, value in stack.items()})
    if told:
        raise CalledError(f"{fit.where}: {fit.path} trains another model than it is given: {told}")
    bad = [name for name, value in stack.items() if not bool(value.isfinite().all())]
    if bad:
        raise CalledError(
            f"{fit.where}: {fit.path} gave a model with NaN or infinite values in {bad[0]!r}: the training of {when}"
            " diverged"
        )
    return stack


def apart(wanted: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """In which tensors two models differ, in words; nothing if in none.

    Args:
        wanted: Shapes of the tensors that there should be.
        given: Shapes of those that there are.

    Example:
        >>> apart({"a": [2], "b": [3]}, {"b": [4], "c": [1]})
        "missing: 'a'; unexpected: 'c'; of another shape: 'b' (expected [3], got [4])"
    """
    shapes = [
        f"{name!r} (expected {list(wanted[name])}, got {list(given[name])})"
        for name in wanted
        if name in given and list(wanted[name]) != list(given[name])
    ]
    told = {
        "missing": [repr(name) for name in wanted if name not in given],
        "unexpected": [repr(name) for name in given if name not in wanted],
        "of another shape": shapes,
    }
    return "; ".join(f"{what}: {_some(names)}" for what, names in told.items() if names)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Python's, NumPy's and torch's global random numbers from one seed; put back afterwards."""
    before, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002 (a user's code may draw from it)
    with torch.random.fork_rng(devices=[]):
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(before)
            np.random.set_state(legacy)  # noqa: NPY002
