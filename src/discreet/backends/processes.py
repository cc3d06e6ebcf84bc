"""Processes of this machine, each with one torch thread: for work that threads would do one after the other."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from discreet.backends._cores import available
from discreet.backends._protocol import BackendError, Work

__all__ = ["Processes"]

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_shared: Any = None


@dataclass(frozen=True)
class Processes:
    """Pieces of work side by side in fresh processes. See ``Backend``.

    A script that uses this needs the usual ``if __name__ == "__main__":``, as each process imports it anew.

    Attributes:
        workers: How many at a time; None: one a core.

    Example:
        >>> sorted(Processes(2).each(pow, 2, [1, 2, 3]))
        [(0, 2), (1, 4), (2, 8)]
    """

    workers: int | None = None

    def each(
        self, work: Work, shared: Any, items: Sequence[Any], *, until: float = float("inf")
    ) -> Iterator[tuple[int, Any]]:
        """See ``Backend.each``."""
        count, begun = min(self.workers or available(), max(1, len(items))), 0
        running: dict[Future, int] = {}
        fresh = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(
            count, mp_context=fresh, initializer=_begin, initargs=(shared, os.getpid())
        )
        try:
            while running or begun < len(items):
                while (
                    len(running) < count and begun < len(items) and (not begun or time.monotonic() <= until)
                ):
                    running[pool.submit(_do, work, items[begun])] = begun
                    begun += 1
                if not running:
                    return
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    number = running.pop(done)
                    try:
                        yield number, done.result()
                    except BrokenProcessPool as error:
                        raise BackendError(
                            f"a process ended while it did item {number} (memory? see the messages above); what was "
                            "finished is kept"
                        ) from error
        finally:
            if running:  # it is not wanted any more
                for process in list((pool._processes or {}).values()):
                    process.terminate()
            pool.shutdown(cancel_futures=True)


def _begin(shared: Any, parent: int) -> None:
    """Set up a process: one thread, Ctrl-C left to the parent, and an end when that is gone."""
    global _shared
    _shared = shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in _THREADS:
        os.environ[name] = "1"
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    """End with the parent, however it ends."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _do(work: Work, item: Any) -> Any:
    return work(_shared, item)
