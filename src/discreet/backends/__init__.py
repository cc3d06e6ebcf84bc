"""Where work runs: in threads, in processes of this machine, or as tasks of a Ray cluster. Never changes results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from discreet.backends._protocol import Backend, BackendError
from discreet.backends.processes import Processes
from discreet.backends.threads import Threads

__all__ = ["Backend", "BackendError", "Processes", "Threads", "backend_named"]


@contextmanager
def backend_named(name: str, workers: int | None = None) -> Iterator[Backend | None]:
    """Open a backend, and close it afterwards.

    Args:
        name: ``"local"``: this process, which is None: work is done as it is without backends. ``"processes"``: fresh
            processes of this machine, for models so small that Python is what takes time. ``"ray"``: the cluster
            that ``RAY_ADDRESS`` names, else one on this machine for as long as this lasts. ``"ray://HOST:PORT"``: a
            cluster, through Ray's client. ``"ray:HOST:PORT"``: a cluster that this machine belongs to.
        workers: Tasks at a time; None: as many as there are cores.

    Raises:
        ValueError: Another name, or ``workers`` below 1.
        BackendError: The cluster cannot be reached.
        ModuleNotFoundError: Ray is missing (the extra ``ray``).
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers: expected at least 1, got {workers}")
    if name == "local":
        yield None
        return
    if name == "processes":
        yield Processes(workers)
        return
    kind, _, rest = name.partition(":")
    if kind != "ray" or (":" in name and not rest):
        raise ValueError(
            f"backend: expected local, processes, ray, ray:HOST:PORT or ray://HOST:PORT, got {name!r}"
        )
    from discreet.backends.ray import Ray

    address = name if rest.startswith("//") else rest or None
    with Ray(address, workers=workers) as opened:
        yield opened
