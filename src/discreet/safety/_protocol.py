"""What a safety test is shown of a model, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from discreet._types import Bool, Float, Int, Num
from discreet.estimate import Estimate

__all__ = ["Answers", "Case", "Found", "Reference", "SafetyTest"]


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says of some samples.

    Attributes:
        outputs: Raw outputs; one logit z stands for the two logits (0, z).
        label: True classes from 0, or targets.
        sample: Ids, which settle the order of samples before anything is drawn.
        task: ``"bce"``, ``"ce"`` or ``"mse"``.
        hidden: What the last layer takes in, if it was asked for.
        attribute: A private attribute of each sample, if there is one.
        also: Outputs of other versions of the model that the attacker holds as well; ``odds`` reads them.
    """

    outputs: Float[np.ndarray, "sample out"]
    label: Num[np.ndarray, " sample *target"]
    sample: Int[np.ndarray, " sample"]
    task: str
    hidden: Float[np.ndarray, "sample unit"] | None = None
    attribute: Num[np.ndarray, " sample"] | None = None
    also: tuple[Float[np.ndarray, "sample out"], ...] = ()

    def __len__(self) -> int:
        return len(self.outputs)

    def take(self, rows: np.ndarray) -> Answers:
        """Some of the samples, in the order given."""
        parts = {
            name: None if (values := getattr(self, name)) is None else values[rows]
            for name in ("outputs", "label", "sample", "hidden", "attribute")
        }
        return replace(self, **parts, also=tuple(each[rows] for each in self.also))


@dataclass(frozen=True, eq=False)
class Reference:
    """Another model's outputs on the same samples, and which of them it trained on."""

    known: Float[np.ndarray, "known out"]
    judged: Float[np.ndarray, "judged out"]
    known_member: Bool[np.ndarray, " known"]
    judged_member: Bool[np.ndarray, " judged"]


@dataclass(frozen=True, eq=False)
class Case:
    """One model under test.

    Attributes:
        known: Answers on samples whose membership the attacker is told.
        known_member: The membership.
        judged: Answers on samples that it is judged on.
        judged_member: Their membership, which no attacker is shown.
        references: Models of other runs of the same kind.
    """

    known: Answers
    known_member: Bool[np.ndarray, " known"]
    judged: Answers
    judged_member: Bool[np.ndarray, " judged"]
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, eq=False)
class Found:
    """Outcome of a test.

    Attributes:
        leak: What selection compares: higher leaks more, never below what no attack could go under.
        value: The metric as it was measured, with its interval.
        metric: Its name: ``accuracy``, ``auc``, ``tpr@0.01``, ``mae``.
        scores: Of the judged samples, higher = more likely member; None for what is no membership attack.
        attacker: What may be fine-tuned for a model that differs little; None: it begins anew each time.
        parts: Outcomes of the tests that this one consists of.
    """

    leak: float
    value: Estimate
    metric: str
    scores: Float[np.ndarray, " judged"] | None = None
    attacker: Any = None
    parts: Mapping[str, Found] = field(default_factory=dict)

    @property
    def error(self) -> float:
        """Half of the width of the interval, scaled to one standard error."""
        from scipy import special

        error = float((self.value.high - self.value.low) / 2 / special.ndtri((1 + self.value.level) / 2))
        # The leak of an error is one over it, up to a factor: the relative sizes are the same.
        return (
            error * self.leak / self.value.value if self.metric == "mae" and self.value.value > 0 else error
        )


@runtime_checkable
class SafetyTest(Protocol):
    """An attack that a model is put to while it is made: one frozen dataclass a file."""

    @property
    def needs(self) -> frozenset[str]:
        """What it reads besides outputs and labels: of ``hidden``, ``attribute``, ``references``."""
        ...

    def __call__(
        self, cases: Sequence[Case], *, seeds: Sequence[int], init: Sequence[Found] | None = None
    ) -> list[Found]:
        """Attack models, each by itself: no outcome depends on the other cases.

        Args:
            cases: The models.
            seeds: One a case, for whatever is drawn.
            init: What this test found of models that these differ from only little: attackers are fine-tuned.

        Raises:
            ValueError: A case lacks what the test needs.
        """
        ...
