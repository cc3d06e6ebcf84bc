"""Threads of this process, each with one torch thread."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from discreet.backends._cores import available, one_thread
from discreet.backends._protocol import Work

__all__ = ["Threads"]


@dataclass(frozen=True)
class Threads:
    """Pieces of work side by side. See ``Backend``.

    Attributes:
        workers: How many at a time; None: one a core.

    Example:
        >>> sorted(Threads(2).each(pow, 2, [1, 2, 3]))
        [(0, 2), (1, 4), (2, 8)]
    """

    workers: int | None = None

    def each(
        self, work: Work, shared: Any, items: Sequence[Any], *, until: float = float("inf")
    ) -> Iterator[tuple[int, Any]]:
        """See ``Backend.each``."""
        count, begun = self.workers or available(), 0
        running: dict[Future, int] = {}
        with one_thread(), ThreadPoolExecutor(count) as pool:
            while running or begun < len(items):
                while (
                    len(running) < count and begun < len(items) and (not begun or time.monotonic() <= until)
                ):
                    running[pool.submit(work, shared, items[begun])] = begun
                    begun += 1
                if not running:
                    return
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(done), done.result()
