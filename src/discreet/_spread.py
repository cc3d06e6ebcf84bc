"""Spread independent pieces of work over threads that each compute with one torch thread.

Torch leaves Python while it computes, so such threads run side by side; its own threads wait for each other after
every small operation and are far slower on small models.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TypeVar

import torch

__all__ = ["Stopped", "available", "one_torch_thread", "spread"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class Stopped(Exception):
    """Raised by a piece of work that ends early because another one failed, whose error then counts."""


def available() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int | None = None,
    done: Callable[[Item], None] | None = None,
) -> list[Result]:
    """Apply ``work`` to every item, without gradients.

    Args:
        work: Must not touch what another item's work touches.
        items: In order.
        workers: Threads; None: one a core.
        done: Called in the caller's thread after each item.

    Returns:
        Results in the order of ``items``.

    Raises:
        ValueError: ``workers`` below 1.

    Example:
        >>> spread(lambda number: number**2, [1, 2, 3], workers=2)
        [1, 4, 9]
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers: expected at least 1, got {workers}")
    items = list(items)
    threads = min(workers or available(), len(items))

    def quietly(item: Item) -> Result:
        with torch.no_grad():  # a new thread starts with gradients on
            return work(item)

    with one_torch_thread():
        if threads <= 1:
            return [_then(done, item, quietly(item)) for item in items]
        with ThreadPoolExecutor(threads) as pool:
            futures = {pool.submit(quietly, item): item for item in items}
            try:
                for future in as_completed(futures):
                    _then(done, futures[future], future.result())
            except BaseException as error:
                pool.shutdown(cancel_futures=True)
                others = [future.exception() for future in futures if not future.cancelled()]
                raise next((e for e in (error, *others) if e and not isinstance(e, Stopped)), error) from None
            return [future.result() for future in futures]


def _then(done: Callable[[Item], None] | None, item: Item, result: Result) -> Result:
    if done is not None:
        done(item)
    return result


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Keep PyTorch on one thread meanwhile: on small tensors more are slower, and they round differently."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
