"""From densities to whole weights: exactly floor(density · all weights) stay, at least one in each tensor."""

from __future__ import annotations

import math
from fractions import Fraction

from discreet.sparse._errors import SparseError
from discreet.sparse.allocations import Allocation, Shapes, parse

__all__ = ["check_density", "counts", "portion"]


def counts(shapes: Shapes, density: float | int, allocation: Allocation | str = "erk") -> dict[str, int]:
    """How many weights of each tensor stay.

    Each tensor gets the whole part of what the allocation gives it, at least 1; what is then left of the total goes
    one by one to the largest fractions, of equal ones to the first.

    Args:
        shapes: Of the maskable tensors of one model.
        density: Share of all of them that stays, as the decimal it is written as.
        allocation: An allocation or its spec string.

    Raises:
        SparseError: A density outside (0, 1), less than one weight a tensor, or an allocation that breaks its
            promise.

    Example:
        >>> counts({"a": (300, 784), "b": (100, 300), "c": (10, 100)}, 0.05)
        {'a': 9051, 'b': 3340, 'c': 919}
    """
    check_density(density)
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    total = portion(density, sum(sizes.values()))
    if total < len(sizes) or not sizes:
        raise SparseError(
            f"density: {density} of {sum(sizes.values())} weights is {total}; expected at least one weight for"
            f" each of the {len(sizes)} masked tensors"
        )
    shares = _shares(sizes, parse(allocation).densities(shapes, density), allocation)
    kept = {name: max(1, min(sizes[name], math.floor(share + 1e-9))) for name, share in shares.items()}
    while sum(kept.values()) > total:  # tensors that were lifted to one weight
        kept[max(kept, key=lambda name: kept[name])] -= 1
    while sum(kept.values()) < total:
        open_ = [name for name in kept if kept[name] < sizes[name]]
        for name in sorted(open_, key=lambda name: kept[name] - shares[name])[: total - sum(kept.values())]:
            kept[name] += 1
    return kept


def check_density(density: float | int) -> None:
    """Refuse a density outside (0, 1).

    Raises:
        SparseError: Saying what it means.
    """
    if not 0 < density < 1:
        why = "; to train dense, train without masks" if density == 1 else ""
        raise SparseError(
            f"density: expected above 0 and below 1 (the share of weights in use), got {density}{why}"
        )


def portion(share: float, count: int) -> int:
    """floor(share · count), the share being the decimal it is written as.

    Example:
        >>> portion(0.29, 100), int(0.29 * 100)
        (29, 28)
    """
    return math.floor(Fraction(repr(float(share))) * count)


def _shares(
    sizes: dict[str, int], densities: dict[str, float], allocation: Allocation | str
) -> dict[str, float]:
    for name in sizes:
        if not 0 < densities.get(name, 0.0) <= 1 + 1e-9:
            raise SparseError(
                f"allocation: {allocation} gives {name!r} the density {densities.get(name)}, expected above 0, at"
                " most 1"
            )
    return {name: densities[name] * size for name, size in sizes.items()}
