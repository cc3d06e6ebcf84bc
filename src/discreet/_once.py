"""What is worked out from a large tensor, kept while somebody vouches that the tensor does not change."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import Tensor

__all__ = ["once", "unchanged"]

T = TypeVar("T")

_KEPT: dict[int, tuple[Tensor, dict[Hashable, Any]]] = {}
"""By the tensor's id, which is its own as long as it is kept here."""


@contextmanager
def unchanged(x: Tensor) -> Iterator[None]:
    """Within, ``once`` keeps what it works out from this very tensor.

    Many short trainings on the same wide inputs would otherwise check and pack them anew for each.
    """
    if id(x) in _KEPT:
        yield
        return
    _KEPT[id(x)] = (x, {})
    try:
        yield
    finally:
        del _KEPT[id(x)]


def once(
    x: Tensor, what: Hashable, make: Callable[[], T], keep: Callable[[T], bool] = lambda made: True
) -> T:
    """What ``make`` gives; of a tensor that is ``unchanged`` it is made once, if it is to be kept.

    Args:
        x: The tensor that it is worked out from.
        what: Tells it from other things worked out from the same tensor; names all else that it depends on.
        make: Works it out.
        keep: Whether it is small enough to be kept.
    """
    _, kept = _KEPT.get(id(x), (x, {}))
    if what in kept:
        return kept[what]
    made = make()
    if keep(made):
        kept[what] = made
    return made
