"""Multilayer perceptrons, many of one architecture at once.

A *stack* is a dict of tensors named as in the state dict of one ``nn.Sequential`` (``"0.weight"``, ``"0.bias"``,
``"2.weight"``, …), each with a leading axis for the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from discreet._types import Float

__all__ = ["ACTIVATIONS", "MLP", "Activation"]


@dataclass(frozen=True)
class Activation:
    """An elementwise function whose derivative can be told from its output.

    Attributes:
        module: The layer class of torch.
        forward_: Applies it in place.
        backward: ``(gradient, output) -> gradient`` with respect to the input.
    """

    module: type[nn.Module]
    forward_: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]


ACTIVATIONS: Mapping[str, Activation] = {
    "relu": Activation(nn.ReLU, Tensor.relu_, partial(torch.ops.aten.threshold_backward, threshold=0)),
    "tanh": Activation(nn.Tanh, Tensor.tanh_, torch.ops.aten.tanh_backward),
    "sigmoid": Activation(nn.Sigmoid, Tensor.sigmoid_, torch.ops.aten.sigmoid_backward),
}


@dataclass(frozen=True)
class MLP:
    """A fully connected network: linear layers with one activation between them.

    Attributes:
        widths: Features in, hidden widths, outputs (one output: a single logit).
        activation: ``"relu"``, ``"tanh"`` or ``"sigmoid"``.

    Raises:
        ValueError: Fewer than two widths, a width below 1, or an unknown activation.

    Example:
        >>> network = MLP((8, 4, 1))
        >>> {name: tuple(value.shape) for name, value in network.init([0, 1, 2]).items()}
        {'0.weight': (3, 4, 8), '0.bias': (3, 4), '2.weight': (3, 1, 4), '2.bias': (3, 1)}
    """

    widths: tuple[int, ...] = (2048, 128, 1)
    activation: str = "relu"

    def __post_init__(self) -> None:
        if len(self.widths) < 2 or min(self.widths) < 1:
            raise ValueError(f"widths: expected at least two positive widths, got {self.widths}")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation: expected one of {', '.join(ACTIVATIONS)}, got {self.activation!r}")

    @property
    def layers(self) -> tuple[tuple[str, str], ...]:
        """Names of weight and bias, layer by layer."""
        return tuple((f"{2 * i}.weight", f"{2 * i}.bias") for i in range(len(self.widths) - 1))

    @property
    def parameters(self) -> int:
        """How many numbers one model has.

        Example:
            >>> MLP((128, 128, 1)).parameters
            16641
        """
        return sum(out * (into + 1) for into, out in pairwise(self.widths))

    def module(self) -> nn.Sequential:
        """One model as plain PyTorch, freshly initialised from torch's global random state."""
        modules: list[nn.Module] = []
        for into, out in pairwise(self.widths):
            modules += [nn.Linear(into, out), ACTIVATIONS[self.activation].module()]
        return nn.Sequential(*modules[:-1])

    def init(self, seeds: Sequence[int], dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
        """Initialise a stack, one model for each seed.

        Model ``r`` has the values of ``torch.manual_seed(seeds[r]); self.module().to(dtype)``.

        Args:
            seeds: One seed a model, below 2**63.
            dtype: Floating type of the parameters.

        Returns:
            Tensors [model, out, in] and [model, out].
        """
        stack = self._empty(len(seeds))
        for row, seed in enumerate(seeds):
            generator = torch.Generator().manual_seed(int(seed))
            for weight, bias in self.layers:
                nn.init.kaiming_uniform_(stack[weight][row], a=math.sqrt(5), generator=generator)
                bound = 1 / math.sqrt(stack[weight].shape[2])
                nn.init.uniform_(stack[bias][row], -bound, bound, generator=generator)
        return {name: value.to(dtype) for name, value in stack.items()}

    def _empty(self, models: int) -> dict[str, Tensor]:
        stack = {}
        for (weight, bias), (into, out) in zip(self.layers, pairwise(self.widths), strict=True):
            stack[weight] = torch.empty(models, out, into)
            stack[bias] = torch.empty(models, out)
        return stack

    def forward(
        self, params: Mapping[str, Tensor], x: Float[Tensor, "rows features"]
    ) -> Float[Tensor, "model rows out"]:
        """Raw outputs of every model of a stack on the same rows."""
        models = len(params[self.layers[0][0]])
        return self.upper(params, self._linear(0, params, x.expand(models, -1, -1)))

    def upper(
        self, params: Mapping[str, Tensor], hidden: Float[Tensor, "model rows width"]
    ) -> Float[Tensor, "model rows out"]:
        """Raw outputs from what the first layer gives before its activation; overwrites ``hidden``."""
        for layer in range(1, len(self.layers)):
            hidden = self._linear(layer, params, ACTIVATIONS[self.activation].forward_(hidden))
        return hidden

    def _linear(
        self, layer: int, params: Mapping[str, Tensor], x: Float[Tensor, "model rows in"]
    ) -> Float[Tensor, "model rows out"]:
        weight, bias = self.layers[layer]
        return torch.baddbmm(params[bias][:, None], x, params[weight].mT)

    @classmethod
    def of(cls, module: nn.Module) -> MLP | None:
        """The same network as an ``MLP``, or None when ``module`` is anything but linear layers with biases and one
        kind of activation, in turn, whose parameters are all trained.

        Example:
            >>> MLP.of(nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 2)))
            MLP(widths=(8, 4, 2), activation='tanh')
        """
        names = {activation.module: name for name, activation in ACTIVATIONS.items()}
        parts = list(module) if type(module) is nn.Sequential else []
        linear, between = parts[::2], parts[1::2]
        kinds = {type(part) for part in between}
        fits = (
            len(parts) % 2 == 1
            and len(kinds) <= 1
            and kinds <= set(names)
            and all(type(part) is nn.Linear and part.bias is not None for part in linear)
            and all(parameter.requires_grad for parameter in module.parameters())
            and len(set(map(id, parts))) == len(parts)
        )
        if not fits:
            return None
        layers = [part for part in linear if isinstance(part, nn.Linear)]
        widths = (layers[0].in_features, *(layer.out_features for layer in layers))
        return cls(widths, names[kinds.pop()] if kinds else "relu")
