"""Work that is sent to backends; a worker imports it by name or is sent it, so it lies in a file of its own."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from discreet.store import Store

__all__ = ["add", "asked_for", "die", "fails", "marked", "slowly", "threads", "write"]


def add(shared: int, item: int) -> int:
    return shared + item


def fails(shared: Any, item: int) -> int:
    if item == 2:
        raise ValueError("item 2 is no good")
    return item


def marked(shared: str, item: int) -> int:
    """Say who does it, and take so long that somebody can end the process."""
    Path(shared, f"{item}-{os.getpid()}").touch()
    time.sleep(1.0)
    return item * item


def die(shared: str, item: int) -> int:
    Path(shared, f"{item}-{time.time_ns()}").touch()
    os._exit(1)


def slowly(shared: float, item: int) -> int:
    time.sleep(shared)
    return item


def threads(shared: None, item: int) -> tuple[int, str | None]:
    """Threads of torch and of the libraries below it."""
    import torch

    return torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")


def asked_for(shared: None, item: int) -> dict[str, float]:
    import ray

    return dict(ray.get_runtime_context().get_assigned_resources())


def write(shared: str, item: int, store: Store) -> None:
    """Two artefacts; the second is made of the first."""
    first = store.make(store.key("first.txt", item=item), lambda aside: aside.write_text(f"{shared} {item}"))
    store.make(store.key("second.txt", item=item), lambda aside: aside.write_text(first.read_text() * 2))
