"""Answers in the form that attack networks read."""

from __future__ import annotations

from discreet.learners import Evidence
from discreet.safety._protocol import Answers

__all__ = ["check_classes", "evidence"]


def evidence(answers: Answers, *, hidden: bool = False) -> Evidence:
    """Outputs and labels of a classifier, with what its last layer takes in if that is wanted.

    Raises:
        ValueError: The task has no classes, or the hidden layer was not measured.
    """
    check_classes(answers, "this test")
    if hidden and answers.hidden is None:
        raise ValueError("hidden: expected what the last layer takes in, got nothing")
    return Evidence(answers.outputs, answers.label, answers.hidden if hidden else None, answers.sample)


def check_classes(answers: Answers, who: str) -> None:
    """Refuse a task without classes.

    Raises:
        ValueError: Naming the test.
    """
    if answers.task == "mse":
        raise ValueError(f"task: {who} reads classes, got a regression; use the test 'loss'")
