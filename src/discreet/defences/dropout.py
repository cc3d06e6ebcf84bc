"""Dropout: Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting" (2014).

A trick of Zhu et al., "Safety and Performance, Why not Both?", Table 8.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from discreet.defences._check import check_range
from discreet.defences._modules import put_in
from discreet.phase import Phase

__all__ = ["Dropout"]

ACTIVATIONS = (nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Hardswish, nn.ReLU6)


@dataclass(frozen=True)
class Dropout:
    """Set some hidden units to 0 at random, after every activation; the model that comes out has none of it.

    Attributes:
        share: Of the units.
    """

    share: float | int = 0.2

    def __post_init__(self) -> None:
        check_range("share", self.share, 0)
        if self.share >= 1:
            raise ValueError(f"share: expected below 1, got {self.share}")

    @property
    def needs_teacher(self) -> bool:
        """No."""
        return False

    def apply(self, phase: Phase) -> Phase:
        """See ``Defence``.

        Raises:
            ValueError: The module has no activation layer.
        """
        return put_in(phase, self._insert)

    def _insert(self, module: nn.Module) -> None:
        places = [
            (parent, name)
            for parent in module.modules()
            for name, child in parent._modules.items()  # named_children lists a shared layer once
            if isinstance(child, ACTIVATIONS)
        ]
        if not places:
            raise ValueError(
                "dropout: expected a module with activation layers (such as nn.ReLU), which it comes after; found"
                f" none in {type(module).__name__}"
            )
        for parent, name in places:
            parent._modules[name] = nn.Sequential(parent.get_submodule(name), nn.Dropout(self.share))
