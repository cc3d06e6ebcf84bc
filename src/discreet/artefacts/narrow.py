"""Units that do nothing are removed: the same function in a narrower network, which any runtime gains from.

A hidden unit without a weight in use is a constant, which the next layer's biases take over; one that no weight of
the next layer uses counts for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from discreet._types import Bool
from discreet.artefacts._errors import ArtefactError
from discreet.mlp import ACTIVATIONS, MLP

__all__ = ["Narrowed", "narrow"]


@dataclass(frozen=True, eq=False)
class Narrowed:
    """A perceptron without units that do nothing.

    Attributes:
        network: What is left.
        state: Its tensors.
        masks: Which of its weights are in use.
        constant, unused: For each hidden layer how many units were removed, and why.
    """

    network: MLP
    state: Mapping[str, Tensor]
    masks: Mapping[str, Bool[Tensor, "out into"]]
    constant: tuple[int, ...]
    unused: tuple[int, ...]

    @property
    def removed(self) -> int:
        """Units that were removed."""
        return sum(self.constant) + sum(self.unused)


def narrow(
    model: MLP | nn.Module, state: Mapping[str, Tensor], masks: Mapping[str, Tensor] | None = None
) -> Narrowed:
    """Remove hidden units that do nothing from one perceptron; at least one a layer stays.

    Outputs change by rounding alone.

    Args:
        model: An ``MLP`` or a module that is one; of other networks it is not known what follows a unit.
        state: Tensors of one model.
        masks: Which weights are in use; None: those that are not 0.

    Raises:
        ArtefactError: Another kind of network.

    Example:
        >>> state = {name: value[0] for name, value in MLP((4, 3, 2)).init([0]).items()}
        >>> state["0.weight"][1] = 0
        >>> narrow(MLP((4, 3, 2)), state).network.widths
        (4, 2, 2)
    """
    network = model if isinstance(model, MLP) else MLP.of(model)
    if network is None:
        raise ArtefactError(
            "model: expected a multilayer perceptron (linear layers and one kind of activation in turn), got another"
            " network; dead units of others are counted, not removed"
        )
    weights = [state[weight].detach().clone() for weight, _ in network.layers]
    biases = [state[bias].detach().clone() for _, bias in network.layers]
    used = [
        state[name] != 0 if masks is None or name not in masks else masks[name].clone()
        for name, _ in network.layers
    ]
    activate = ACTIVATIONS[network.activation].module()
    constant, unused = [0] * (len(weights) - 1), [0] * (len(weights) - 1)
    changed = True
    while changed:  # what is removed may leave a neighbour without use
        changed = False
        for layer in range(len(weights) - 1):
            still = ~used[layer].any(1)
            idle = ~used[layer + 1].any(0) & ~still
            gone = still | idle
            if bool(gone.all()):
                gone[0] = False
            if not bool(gone.any()):
                continue
            changed = True
            constant[layer] += int((still & gone).sum())
            unused[layer] += int((idle & gone).sum())
            given = activate(biases[layer][still & gone])
            biases[layer + 1] += weights[layer + 1][:, still & gone] @ given
            weights[layer], biases[layer] = weights[layer][~gone], biases[layer][~gone]
            used[layer], used[layer + 1] = used[layer][~gone], used[layer + 1][:, ~gone]
            weights[layer + 1] = weights[layer + 1][:, ~gone]
    widths = (weights[0].shape[1], *(len(bias) for bias in biases))
    left = MLP(widths, network.activation)
    tensors: dict[str, Tensor] = {}
    for (weight, bias), *values in zip(left.layers, weights, biases, strict=True):
        tensors |= {weight: values[0], bias: values[1]}
    kept = {weight: mask for (weight, _), mask in zip(left.layers, used, strict=True)}
    return Narrowed(left, tensors, kept, tuple(constant), tuple(unused))
