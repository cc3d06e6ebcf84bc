"""What attackers see of the models of a setting: their answers on the samples of a panel."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from discreet._types import Float, Int, Num
from discreet.forward import dtype_of, inputs_at
from discreet.initial import Architecture, as_model
from discreet.measure import measure_stack
from discreet.phase import Setting
from discreet.roles import Panel
from discreet.safety import Answers, Case, Reference

__all__ = ["Told", "cases", "cases_of", "check_needs", "outputs_on"]

Stack = Mapping[str, Tensor]
Told = Mapping[str, Num[np.ndarray, " sample *wide"]]
"""What a model said of some samples: ``outputs`` and perhaps ``hidden``."""


def outputs_on(
    setting: Setting,
    model: Architecture,
    stacks: Mapping[str, Stack],
    places: Int[np.ndarray, "run sample"],
    *,
    hidden: bool = False,
) -> dict[str, list[dict[str, np.ndarray]]]:
    """Answers of each run's model on that run's samples.

    Args:
        setting: The task.
        model: The models' architecture.
        stacks: Models by name, one a run.
        places: Positions of the samples.
        hidden: Also what the last layer takes in.

    Returns:
        For each name and run ``outputs`` [sample, out] and, if wanted, ``hidden`` [sample, unit].
    """
    built = as_model(model)
    which = ["outputs", "hidden"] if hidden else ["outputs"]
    found: dict[str, list[dict[str, np.ndarray]]] = {name: [] for name in stacks}
    for run, rows in enumerate(places):
        own = {name: {key: value[run : run + 1] for key, value in s.items()} for name, s in stacks.items()}
        at = torch.from_numpy(rows)
        x = inputs_at(built, setting.x, at, dtype_of(next(iter(own.values()))))
        told = measure_stack(built, own, x, setting.y[at], setting.kind, which=which)
        for number, name in enumerate(stacks):
            found[name].append({key: values[0, number] for key, values in told.items()})
    return found


def cases(
    setting: Setting,
    model: Architecture,
    stacks: Mapping[str, Stack],
    panel: Panel,
    needs: Collection[str] = (),
) -> dict[str, list[Case]]:
    """What a safety test is shown of some models.

    Args:
        setting: The task.
        model: The models' architecture.
        stacks: Models by name, one a run.
        panel: Whose answers teach and judge.
        needs: Of the test.

    Returns:
        For each name one case a run.

    Raises:
        ValueError: The test needs an attribute and the setting has none, or models of other runs and there is one.
    """
    check_needs(setting, needs)
    places = np.concatenate([panel.known, panel.judged], axis=1)
    told = outputs_on(setting, model, stacks, places, hidden="hidden" in needs)
    others = _references(setting, model, stacks, places) if "references" in needs else {}
    return {name: cases_of(setting, told[name], panel, others.get(name, ())) for name in stacks}


def check_needs(setting: Setting, needs: Collection[str]) -> None:
    """Refuse a safety test that needs what the setting lacks.

    Raises:
        ValueError: It needs an attribute and there is none, or models of other runs and there is one run.
    """
    if "attribute" in needs and setting.attribute is None:
        raise ValueError("attribute: this test infers an attribute, but the data have none")
    if "references" in needs and setting.runs < 2:
        raise ValueError("runs: this test compares the models of several runs, but there is one run")


def cases_of(
    setting: Setting,
    told: Sequence[Told],
    panel: Panel,
    others: Sequence[Sequence[Float[np.ndarray, "sample out"]]] = (),
) -> list[Case]:
    """What a safety test is shown of models that have answered already, wherever they ran.

    Args:
        setting: The task.
        told: For each run what its model said of the panel's samples, those that teach before those that judge.
        panel: Whose answers they are.
        others: For each run its model's outputs on the samples of every run, for tests that compare runs.

    Returns:
        One case a run.
    """
    cut, label = panel.known.shape[1], setting.y.numpy()
    found = []
    for run, rows in enumerate(np.concatenate([panel.known, panel.judged], axis=1)):
        member = np.isin(rows, setting.roles.fit[run])
        attribute = None if setting.attribute is None else np.asarray(setting.attribute)[rows]
        answers = told[run]
        whole = Answers(answers["outputs"], label[rows], rows, setting.kind, answers.get("hidden"), attribute)
        references = [
            Reference(outputs[run][:cut], outputs[run][cut:], inside[:cut], inside[cut:])
            for other, outputs in enumerate(others)
            if other != run
            for inside in [np.isin(rows, setting.roles.fit[other])]
        ]
        first, last = np.arange(cut), np.arange(cut, len(rows))
        found.append(Case(whole.take(first), member[:cut], whole.take(last), member[cut:], tuple(references)))
    return found


def _references(
    setting: Setting, model: Architecture, stacks: Mapping[str, Stack], places: Int[np.ndarray, "run sample"]
) -> dict[str, list[list[Float[np.ndarray, "sample out"]]]]:
    """For each name and run its model's outputs on the samples of every run."""
    built = as_model(model)
    found: dict[str, list[list[np.ndarray]]] = {name: [[] for _ in range(setting.runs)] for name in stacks}
    for rows in places:
        at = torch.from_numpy(rows)
        told = measure_stack(built, stacks, setting.x[at], setting.y[at], setting.kind, which=["outputs"])
        for number, name in enumerate(stacks):
            for other in range(setting.runs):
                found[name][other].append(told["outputs"][other, number])
    return found
