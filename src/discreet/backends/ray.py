"""A Ray cluster: data placed once in its object store, work as its tasks, scheduled and retried by Ray.

Ray carries what it sends by pickling it: between processes of one's own cluster, which run one's own code anyway.
"""

from __future__ import annotations

import os
import socket
import sys
import sysconfig
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from pickle import PicklingError
from types import ModuleType, TracebackType
from typing import Any

import ray
from ray import cloudpickle, exceptions

from discreet.backends._cores import available, one_thread
from discreet.backends._protocol import BackendError, Work

__all__ = ["Ray"]

_RETRIES = 3  # of a task whose worker dies; an error of the task itself is none
_PER_CORE = 2  # tasks that are submitted ahead, so that no core waits for the driver
_PATIENCE = 10.0  # seconds for a first connection
_given: OrderedDict[str, Any] = OrderedDict()
"""In a worker: what was shared last, so that it is read once a process."""


class Ray:
    """Tasks of a Ray cluster. See ``Backend``.

    Args:
        address: Of a cluster, as ``ray.init`` takes it; None: what ``RAY_ADDRESS`` names, else a cluster on this
            machine that ends with this object.
        workers: Tasks at a time; None: as many as there are cores. A cluster that is started has so many cores.
        gpus: GPUs that a task asks for; None: one if the cluster has any, else none.
        modules: Modules that the cluster does not have, such as a user's own; they are sent with the work.

    Raises:
        BackendError: The cluster cannot be reached.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        gpus: int | float | None = None,
        modules: Sequence[ModuleType] = (),
    ) -> None:
        self.workers, self.gpus, self.modules = workers, gpus, tuple(modules)
        self._ours = not ray.is_initialized()
        if self._ours:
            _connect(address or os.environ.get("RAY_ADDRESS"), workers)

    def __enter__(self) -> Ray:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; one that was started ends."""
        if self._ours and ray.is_initialized():
            ray.shutdown()

    def each(
        self, work: Work, shared: Any, items: Sequence[Any], *, until: float = float("inf")
    ) -> Iterator[tuple[int, Any]]:
        """See ``Backend.each``."""
        with _by_value((*self.modules, *_own_modules())):
            placed = _put((work, shared))
            task = ray.remote(_do).options(
                num_cpus=1,
                num_gpus=self._gpus(),
                max_retries=_RETRIES,
                name=getattr(work, "__name__", "work"),
            )
            running: dict[Any, int] = {}
            begun = 0
            try:
                while running or begun < len(items):
                    while (
                        len(running) < self._at_once()
                        and begun < len(items)
                        and (not begun or time.monotonic() <= until)
                    ):
                        running[task.remote([placed], items[begun])] = begun
                        begun += 1
                    if not running:
                        return
                    (done, *_), _ = ray.wait(list(running), num_returns=1)
                    number = running.pop(done)
                    yield number, _result(done, number)
            finally:
                for left in running:
                    ray.cancel(left, force=True)

    def _at_once(self) -> int:
        """Asked anew each time: a cluster may grow."""
        cores = int(ray.cluster_resources().get("CPU", 1))
        return self.workers or max(1, _PER_CORE * cores)

    def _gpus(self) -> int | float:
        if self.gpus is not None:
            return self.gpus
        return 1 if ray.cluster_resources().get("GPU", 0) >= 1 else 0


def _reach(address: str) -> None:
    """Ray itself waits for minutes for a cluster that is not there."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise BackendError(f"ray: no cluster {address}: {error}") from error


def _connect(address: str | None, workers: int | None) -> None:
    if address is not None:
        _reach(address)
    os.environ.setdefault(
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0"
    )  # asking for no GPU hides none, and warns not
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if address is None or address == "local":
                ray.init("local", num_cpus=workers or available(), include_dashboard=False, **quiet)
            else:
                _join(address, quiet)
    except (ConnectionError, RuntimeError, ValueError, exceptions.RayError) as error:
        where = address or "on this machine"
        raise BackendError(f"ray: no cluster {where}: {' '.join(str(error).split())[:300]}") from error


def _join(address: str, how: dict[str, Any]) -> None:
    """Join a cluster; the server that a busy one starts for a client may miss its time: it is asked for twice."""
    try:
        ray.init(address, **how)
    except ConnectionAbortedError:
        ray.init(address, **how)


def _put(value: Any) -> Any:
    try:
        return ray.put(value)
    except (TypeError, PicklingError) as error:  # its own message shows the whole value
        why = str(error.__cause__ or type(error).__name__)
        raise BackendError(
            f"ray: what the work needs cannot be sent to another process: {why[:300]}"
        ) from error


def _do(placed: list[Any], item: Any) -> Any:
    """One task, in a worker."""
    (reference,) = placed
    key = reference.hex()
    if key not in _given:
        _given.clear()  # before the next is read: two at a time may not fit
        _given[key] = ray.get(reference)
    work, shared = _given[key]
    with one_thread():
        return work(shared, item)


def _result(reference: Any, number: int) -> Any:
    try:
        return ray.get(reference)
    except exceptions.RayTaskError as error:
        cause = error.cause
        raise (
            cause if isinstance(cause, Exception) else BackendError(f"ray: task {number}: {error}")
        ) from None
    except exceptions.RayError as error:
        raise BackendError(
            f"ray: the worker of task {number} died, {_RETRIES + 1} times in all ({type(error).__name__}); is there "
            f"enough memory? {' '.join(str(error).split())[:300]}"
        ) from error


def _own_modules() -> list[ModuleType]:
    """Modules that no installation holds, such as those beside a spec: a worker cannot import them."""
    kept = tuple({str(Path(path)) for path in (*sysconfig.get_paths().values(), sys.base_prefix, sys.prefix)})
    outside = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if (
            file is None
            or not Path(file).is_absolute()
            or name in ("__main__", "discreet")
            or name.startswith("discreet.")
        ):
            continue
        if not str(file).startswith(kept) and getattr(module, "__name__", None) == name:
            outside.append(module)
    return outside


class _by_value:
    """Send these modules along, instead of their names."""

    def __init__(self, modules: Sequence[ModuleType]) -> None:
        self.modules = modules

    def __enter__(self) -> None:
        for module in self.modules:
            cloudpickle.register_pickle_by_value(module)

    def __exit__(self, *_: object) -> None:
        for module in self.modules:
            cloudpickle.unregister_pickle_by_value(module)
