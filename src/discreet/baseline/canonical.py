"""Flattened parameters, and an order of hidden units that does not depend on how they were numbered.

Renumbering the hidden units of a network changes its flattened parameters and not what it computes, a drawback of the
discriminator ("An Indicator of Membership Inference Security in Post-Training Quantized Models", section 11).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from discreet._types import Float
from discreet.mlp import MLP

__all__ = ["canonical", "flat"]


def flat(params: Mapping[str, Tensor]) -> Float[np.ndarray, "model parameter"]:
    """All parameters of each model of a stack in one row, tensor by tensor.

    Example:
        >>> flat(MLP((8, 4, 1)).init([0, 1])).shape
        (2, 41)
    """
    return torch.cat([value.reshape(len(value), -1) for value in params.values()], dim=1).numpy()


def canonical(network: MLP, params: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same networks with the units of each hidden layer in one order, whatever it was.

    By the norm of a unit's incoming weights; units of one norm (all of a sign network have it) by the weights
    themselves, their bias and then their outgoing weights. Units alike in all of these are exchangeable.

    Args:
        network: The architecture.
        params: A stack; not changed.

    Returns:
        A stack of networks that compute the same, with bytes that no renumbering of hidden units changes.

    Example:
        >>> network = MLP((2, 3, 1))
        >>> params = network.init([0])
        >>> turned = {"0.weight": params["0.weight"][:, [2, 0, 1]], "0.bias": params["0.bias"][:, [2, 0, 1]]}
        >>> turned |= {"2.weight": params["2.weight"][:, :, [2, 0, 1]], "2.bias": params["2.bias"]}
        >>> bool((flat(canonical(network, turned)) == flat(canonical(network, params))).all())
        True
    """
    done = {name: value.numpy().copy() for name, value in params.items()}
    for (weight, bias), (after, _) in zip(network.layers, network.layers[1:], strict=False):
        for model in range(len(done[weight])):
            into, own, out = done[weight][model], done[bias][model], done[after][model]
            norm = np.square(into.astype(np.float64)).sum(axis=1)
            # lexsort takes the most important key last
            order = np.lexsort((*out[::-1], own, *into.T[::-1], norm))
            done[weight][model], done[bias][model] = into[order], own[order]
            done[after][model] = out[:, order]
    return {name: torch.from_numpy(value) for name, value in done.items()}
