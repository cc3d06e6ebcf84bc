"""What a bank is made of: everything but the data and the place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from discreet.bank.compress import Compressor, named
from discreet.initial import Architecture
from discreet.queries import Query
from discreet.recipe import Recipe
from discreet.signals import check_names

__all__ = ["BankSettings"]


@dataclass(frozen=True)
class BankSettings:
    """A training procedure, and what is measured of its models.

    Attributes:
        model: An ``MLP``, a module, or a function that makes one.
        recipe: How each model is trained; the last epoch is what ships.
        models: How many, even; more models later keep the whole units there are.
        variants: Quantizers by name, or their specs; also functions that calibrate (see ``Calibrated``).
        which: Signals to measure, see ``signals.signals``, ``outputs`` and ``hidden`` besides; none given: ``loss``
            and, but for ``mse``, ``margin`` and ``confidence``.
        queries: Ways to ask about each sample (``queries.MIRRORED``); None: once, as it is.
        calibration: Samples that calibrate each compression, for variants that take them.
        calibrate_on: ``"members"`` (practice: training data) or ``"fresh"`` (samples the model did not train on).
        task: ``"bce"``, ``"ce"`` or ``"mse"``; the recipe's loss when None.
        unit: Models trained together and kept together: what a kill may lose.
        seed: Of everything.

    Raises:
        ValueError: A field out of its range; the message names it.
    """

    model: Architecture
    recipe: Recipe
    models: int = 16
    variants: Mapping[str, Any] | Sequence[str] = ("full",)
    which: tuple[str, ...] = ()
    queries: Mapping[str, Query] | None = None
    calibration: int = 0
    calibrate_on: str = "members"
    task: str | None = None
    unit: int = 8
    seed: int = 0
    compressors: Mapping[str, Compressor] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.models < 2 or self.models % 2:
            raise ValueError(f"models: expected an even number, at least 2, got {self.models}")
        if self.unit < 2 or self.unit % 2:
            raise ValueError(f"unit: expected an even number, at least 2, got {self.unit}")
        if self.calibration < 0:
            raise ValueError(f"calibration: expected 0 or more samples, got {self.calibration}")
        if self.calibrate_on not in ("members", "fresh"):
            raise ValueError(f'calibrate_on: expected "members" or "fresh", got {self.calibrate_on!r}')
        if self.task is None and not isinstance(self.recipe.loss, str):
            raise ValueError('task: expected "bce", "ce" or "mse" beside a loss of your own, got None')
        if not self.which:
            usual = ("loss",) if self.measured_as == "mse" else ("loss", "margin", "confidence")
            object.__setattr__(self, "which", usual)
        check_names(self.which, self.measured_as)
        object.__setattr__(self, "compressors", named(self.variants))

    @property
    def measured_as(self) -> str:
        """The task that signals are computed for."""
        return self.task or str(self.recipe.loss)
