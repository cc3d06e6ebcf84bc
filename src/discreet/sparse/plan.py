"""How a model is made and kept sparse: everything but the data, the architecture and the seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from discreet import _find
from discreet.sparse import allocations, grow_rules, prune_rules
from discreet.sparse._errors import SparseError
from discreet.sparse.allocations import Allocation
from discreet.sparse.counts import check_density
from discreet.sparse.grow_rules import Grow
from discreet.sparse.prune_rules import Prune
from discreet.sparse.schedule import Schedule

__all__ = ["PRESETS", "Plan", "preset"]

PRESETS: Mapping[str, Mapping[str, str]] = {
    # Masks as drawn, to the end.
    "static": {},
    # Mocanu et al., "Scalable Training of Artificial Neural Networks with Adaptive Sparse Connectivity …".
    "set": {"prune": "magnitude", "grow": "random"},
    # Evci et al., "Rigging the Lottery: Making All Tickets Winners".
    "rigl": {"prune": "magnitude", "grow": "gradient"},
}


@dataclass(frozen=True)
class Plan:
    """A sparse model from start to end.

    Attributes:
        density: Share of the maskable weights that is in use at every moment.
        allocation: How it is shared out among layers: a rule of ``allocations`` or its spec string.
        prune: Which weights an update drops: a rule of ``prune_rules`` or its spec string; None: masks never change.
        grow: Which it takes into use instead, of ``grow_rules``; None if and only if ``prune`` is.
        schedule: When, and how many.
        include: Patterns of the tensors to mask; None: weights of linear and convolution layers. See ``maskable``.
        exclude: Patterns of tensors that stay dense.
        regrow: Whether a weight may grow in the update that dropped it; it begins at 0 like any other.
        rescale: Whether fresh weights are divided by the root of their layer's density; None: unless the model has
            normalisation layers, which do as much.
        batches: Over how many batches the gradient is averaged, where growth needs one; None: a fiftieth of those
            between two updates, at least 1.

    Raises:
        SparseError: A field out of its range.
        SpecError: A rule that there is not.

    Example:
        >>> Plan(0.1, prune="magnitude", grow="random").fixed
        False
    """

    density: float | int
    allocation: str | Allocation = "erk"
    prune: str | Prune | None = None
    grow: str | Grow | None = None
    schedule: Schedule = field(default_factory=Schedule)
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    regrow: bool = False
    rescale: bool | None = None
    batches: int | None = None

    def __post_init__(self) -> None:
        check_density(self.density)
        if (self.prune is None) != (self.grow is None):
            raise SparseError(f"prune, grow: expected both or neither, got {self.prune!r} and {self.grow!r}")
        if self.batches is not None and self.batches < 1:
            raise SparseError(f"batches: expected at least 1, got {self.batches}")
        self.to_json()

    @property
    def fixed(self) -> bool:
        """Whether masks stay as they are drawn."""
        return self.prune is None

    def rules(self) -> tuple[Prune, Grow]:
        """Both rules of a plan that is not fixed.

        Raises:
            SparseError: It is.
        """
        if self.prune is None or self.grow is None:
            raise SparseError("prune, grow: this plan keeps its masks and has neither")
        return prune_rules.parse(self.prune), grow_rules.parse(self.grow)

    def times(self, total: int) -> tuple[int, ...]:
        """When masks change in a training of this length; never, if they are fixed."""
        return () if self.fixed else self.schedule.times(total)

    def to_json(self) -> dict[str, Any]:
        """All fields as plain data, rules by their full spec strings."""
        rules = (allocations.parse(self.allocation), *((None, None) if self.fixed else self.rules()))
        rooms = (allocations, prune_rules, grow_rules)
        specs = [rule and _find.spec(rule, room.__name__) for rule, room in zip(rules, rooms, strict=True)]
        return {
            "density": self.density,
            **dict(zip(("allocation", "prune", "grow"), specs, strict=True)),
            "schedule": [self.schedule.interval, self.schedule.fraction, self.schedule.stop],
            "include": None if self.include is None else list(self.include),
            "exclude": list(self.exclude),
            "regrow": self.regrow,
            "rescale": self.rescale,
            "batches": self.batches,
        }


def preset(name: str, density: float, **changes: Any) -> Plan:
    """A plan by name: ``"static"``, ``"set"`` or ``"rigl"``.

    Args:
        name: Of the preset.
        density: Share of the weights in use.
        changes: Other fields of ``Plan``.

    Raises:
        SparseError: No such preset.

    Example:
        >>> preset("rigl", 0.05).grow
        'gradient'
    """
    if name not in PRESETS:
        raise SparseError(
            f"preset: expected one of {', '.join(PRESETS)}, got {name!r}{_find.near(name, PRESETS)}"
        )
    return Plan(density, **{**PRESETS[name], **changes})
