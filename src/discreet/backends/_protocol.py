"""What a backend is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

__all__ = ["Backend", "BackendError", "Work"]

Work = Callable[[Any, Any], Any]
"""``(shared, item) -> result``, a function of a module: what it is given decides the result, wherever it runs."""


class BackendError(RuntimeError):
    """Work could not be done where it was sent; the message says what, and what was tried."""


@runtime_checkable
class Backend(Protocol):
    """A place for independent pieces of work."""

    def each(
        self, work: Work, shared: Any, items: Sequence[Any], *, until: float = float("inf")
    ) -> Iterator[tuple[int, Any]]:
        """Do ``work(shared, item)`` for every item.

        Args:
            work: A function of a module.
            shared: What all items need; it is sent once.
            items: What each needs besides.
            until: None but the first is begun after this time, by ``time.monotonic``.

        Yields:
            The position of an item and its result, in the order in which they are done. When the caller stops, or
            something fails, what runs is stopped too.

        Raises:
            BackendError: An item could not be done.
            Exception: What ``work`` raised.
        """
        ...
