"""Where forward passes run, and how precisely; losses and signals are computed in float64 on the processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Device"]

_KINDS = ("cpu", "cuda", "mps")
_PRECISIONS = ("full", "mixed")


@dataclass(frozen=True)
class Device:
    """Where models are measured, and how precisely.

    Attributes:
        name: "cpu", "cuda", "cuda:1" or "mps"; empty: where the parameters are. Devices round differently: measure
            runs that are compared on one.
        precision: "full": the parameters' own type; "mixed": products in bfloat16 where PyTorch thinks that safe,
            which is faster on new hardware and changes losses in the third digit.

    Raises:
        ValueError: No such device here, or no such precision.

    Example:
        >>> Device("cpu").of([{"w": torch.zeros(2)}])
        device(type='cpu')
    """

    name: str = ""
    precision: str = "full"

    def __post_init__(self) -> None:
        if self.precision not in _PRECISIONS:
            raise ValueError(f"precision: expected {' or '.join(_PRECISIONS)}, got {self.precision!r}")
        kind, _, number = self.name.partition(":")
        if self.name and (kind not in _KINDS or (number and not number.isdigit())):
            raise ValueError(f"name: expected {', '.join(_KINDS)} or cuda:N, got {self.name!r}")
        there = {"cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
        many = there.get(kind, 1)
        if self.name and int(number or 0) >= many:
            found = f"{many} of that kind" if many else "none of that kind"
            raise ValueError(f"name: {self.name!r} is not there; PyTorch sees {found} on this machine")

    def to_json(self) -> dict[str, str]:
        """What differs from the default: nothing there means the models' own device and type.

        Example:
            >>> Device().to_json(), Device(precision="mixed").to_json()
            ({}, {'device': '', 'precision': 'mixed'})
        """
        return {} if self == Device() else {"device": self.name, "precision": self.precision}

    def of(self, stacks: Sequence[Mapping[str, Tensor]]) -> torch.device:
        """The device itself; without a name that of the first parameter."""
        return torch.device(self.name) if self.name else next(iter(stacks[0].values())).device

    def context(self, place: torch.device) -> AbstractContextManager[object]:
        """In which forward passes run."""
        return torch.autocast(place.type, torch.bfloat16, enabled=self.precision == "mixed")
