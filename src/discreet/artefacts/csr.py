"""Linear layers that skip their zeros, where that is faster on this machine.

PyTorch's product with a compressed-sparse-row matrix pays below a density of about 10 to 20 % for single records,
below about 30 % for batches of 64; how far differs from machine to machine, so each layer is measured.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from discreet._spread import one_torch_thread
from discreet._types import Float
from discreet.artefacts._errors import ArtefactError
from discreet.artefacts._timing import Middle, in_turns, middle

__all__ = ["CsrLinear", "Swap", "Swapped", "csr_linears"]


class CsrLinear(nn.Module):
    """A linear layer whose weight is stored by rows, without its zeros; for inference.

    Args:
        linear: The layer to stand for.
        mask: Which weights are in use; None: those that are not 0.
    """

    def __init__(self, linear: nn.Linear, mask: Tensor | None = None) -> None:
        super().__init__()
        weight = linear.weight.detach()
        used = weight != 0 if mask is None else mask
        rows, columns = used.nonzero(as_tuple=True)
        starts = torch.zeros(len(weight) + 1, dtype=torch.int32)
        starts[1:] = torch.bincount(rows, minlength=len(weight)).cumsum(0)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            self.weight = torch.sparse_csr_tensor(
                starts, columns.int(), weight[used], size=weight.shape, check_invariants=True
            )
        self.bias = weight.new_zeros(len(weight)) if linear.bias is None else linear.bias.detach().clone()
        self.in_features, self.out_features = linear.in_features, linear.out_features

    def forward(self, x: Float[Tensor, "*batch into"]) -> Float[Tensor, "*batch out"]:
        """The products, as ``nn.Linear`` gives them, up to rounding."""
        flat = x.reshape(-1, self.in_features)
        if len(flat) == 1:  # a product with a vector takes two thirds of the time of one with a column
            out = torch.addmv(self.bias, self.weight, flat[0])
        else:
            out = torch.addmm(self.bias[:, None], self.weight, flat.T).T
        return out.reshape(*x.shape[:-1], self.out_features)


@dataclass(frozen=True)
class Swap:
    """What one layer gains.

    Attributes:
        layer: Its name.
        density: Share of its weights in use.
        faster: For each batch size how many times faster it is without its zeros.
        kept: Whether it was replaced: the whole interval lies at or above ``at_least`` for every batch size.
        difference: Largest difference of an output on random inputs.
    """

    layer: str
    density: float
    faster: Mapping[int, Middle]
    kept: bool
    difference: float


@dataclass(frozen=True, eq=False)
class Swapped:
    """A copy of a module in which some linear layers skip their zeros.

    Attributes:
        module: The copy, in eval mode.
        swaps: Every linear layer that was tried.
    """

    module: nn.Module
    swaps: tuple[Swap, ...]

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the layers that were replaced."""
        return tuple(swap.layer for swap in self.swaps if swap.kept)


def csr_linears(
    module: nn.Module,
    masks: Mapping[str, Tensor] | None = None,
    *,
    batch_sizes: Sequence[int] = (1, 64),
    at_least: float = 1.1,
    turns: int = 21,
) -> Swapped:
    """Replace linear layers by ones that skip zeros, each only if it is faster here, on one thread.

    Args:
        module: Stays as it is.
        masks: Which weights are in use, by name of the tensor; None: those that are not 0.
        batch_sizes: At which it must be faster.
        at_least: How many times.
        turns: Measurements, dense and sparse in turns.

    Raises:
        ArtefactError: No linear layer, a mask of another shape, or an argument out of its range.

    Example:
        >>> layer = nn.Linear(64, 64)
        >>> _ = layer.weight.data.masked_fill_(torch.rand(64, 64) > 0.05, 0)
        >>> found = csr_linears(nn.Sequential(layer), turns=6)
        >>> found.swaps[0].layer, found.swaps[0].difference < 1e-5
        ('0', True)
    """
    if not batch_sizes or min(batch_sizes) < 1:
        raise ArtefactError(f"batch_sizes: expected at least one, each at least 1, got {list(batch_sizes)}")
    if turns < 6:
        raise ArtefactError(f"turns: expected at least 6, below which a median has no interval, got {turns}")
    swapped = copy.deepcopy(module).eval()
    layers = {name: layer for name, layer in swapped.named_modules() if type(layer) is nn.Linear}
    if not layers:
        raise ArtefactError("module: expected at least one linear layer (nn.Linear itself), got none")
    swaps = []
    with one_torch_thread(), torch.no_grad():
        for name, layer in layers.items():
            mask = None if masks is None else masks.get(f"{name}.weight".lstrip("."))
            if mask is not None and mask.shape != layer.weight.shape:
                raise ArtefactError(
                    f"masks: expected shape {list(layer.weight.shape)} for {name!r}, got {list(mask.shape)}"
                )
            sparse = CsrLinear(layer, mask)
            swap = _tried(name, layer, sparse, batch_sizes, at_least, turns)
            swaps.append(swap)
            if swap.kept:
                if not name:
                    swapped = sparse
                else:
                    owner, _, leaf = name.rpartition(".")
                    setattr(swapped.get_submodule(owner), leaf, sparse)
    return Swapped(swapped, tuple(swaps))


def _tried(
    name: str, layer: nn.Linear, sparse: CsrLinear, batch_sizes: Sequence[int], at_least: float, turns: int
) -> Swap:
    generator = torch.Generator().manual_seed(0)
    faster, difference = {}, 0.0
    for size in batch_sizes:
        x = torch.randn(size, layer.in_features, generator=generator).to(layer.weight.dtype)
        difference = max(difference, float((layer(x) - sparse(x)).abs().max()))
        spent = in_turns({"dense": lambda x=x: layer(x), "sparse": lambda x=x: sparse(x)}, turns)
        faster[size] = middle(spent["dense"] / spent["sparse"])
    density = sparse.weight.values().numel() / layer.weight.numel()
    return Swap(name, density, faster, pays(faster, at_least), difference)


def pays(faster: Mapping[int, Middle], at_least: float) -> bool:
    """Whether the whole interval lies at or above ``at_least`` for every batch size.

    Example:
        >>> pays({1: Middle(1.2, 1.1, 1.3, 21)}, 1.1), pays({1: Middle(1.2, 1.0, 1.3, 21)}, 1.1)
        (True, False)
    """
    return all(each.low is not None and each.low >= at_least for each in faster.values())
