"""Units of work done side by side, each kept as it is done; Ctrl-C ends them between two checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import TypeVar

from discreet._spread import Stopped, one_torch_thread, spread

__all__ = ["Tick", "do_units"]

Unit = TypeVar("Unit")
Tick = Callable[..., None]
"""Counts one or more ticks of work; what it raises ends the unit."""


def do_units(
    units: Sequence[Unit],
    work: Callable[[Unit, Tick], object],
    total: int,
    *,
    workers: int | None,
    progress: Callable[[float], None],
    until: float = float("inf"),
) -> list[Unit]:
    """Do every unit, each on one core.

    Ctrl-C, or a unit that fails, stops the others at their next tick; finished units are kept.

    Args:
        units: In order.
        work: Does one, and ticks.
        total: Ticks of all.
        workers: How many units at a time, each with one torch thread; None: one a core. With 1 they run in the
            caller's thread.
        progress: Called with the share that is done, from several threads in turn.
        until: No further unit is begun after this time, by ``time.monotonic``.

    Returns:
        The units that were not begun.

    Example:
        >>> do_units([1, 2], lambda unit, tick: tick(), 2, workers=1, progress=lambda share: print(share))
        0.5
        1.0
        []
    """
    stop, lock = Event(), Lock()
    ticks, left = 0, []

    def tick(count: int = 1) -> None:
        nonlocal ticks
        if stop.is_set():
            raise Stopped
        with lock:
            ticks += count
            progress(min(1.0, ticks / total))

    def one(unit: Unit) -> None:
        if time.monotonic() > until:
            left.append(unit)
            return
        try:
            work(unit, tick)
        except BaseException:
            stop.set()
            raise

    if workers == 1:
        with one_torch_thread():  # as in the pool, or results would depend on the number of workers
            for unit in units:
                one(unit)
        return left
    # The pool is left to a thread of its own, so that Ctrl-C reaches this one while the pool waits.
    with ThreadPoolExecutor(1) as helper:
        done = helper.submit(spread, one, units, workers)
        try:
            done.result()
        except BaseException:
            stop.set()
            raise
    return [unit for unit in units if unit in left]
