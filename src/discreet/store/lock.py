"""One process at a time: a lock on a file, free again when its process ends, however it ends."""

from __future__ import annotations

import errno
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["Busy", "alive", "locked", "locked_by_pid"]

_NO_LOCKS_HERE = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_held: set[int] = set()


class Busy(Exception):
    """The lock is held; the message says by whom, as far as that can be read."""

    def __init__(self, owner: dict[str, Any], hint: str = "") -> None:
        pid = owner.get("pid")
        who = "another process" if pid is None else f"process {pid} on {owner.get('host', 'an unknown host')}"
        super().__init__((f"this process ({pid})" if pid == os.getpid() else who) + hint)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file ``path`` locked, by ``flock`` where the system and the file system have it.

    The kernel frees such a lock when its process dies. Forked children do not inherit it. Elsewhere
    a file with the process id is the lock, see :func:`locked_by_pid`.

    Raises:
        Busy: Another process, or this one, holds it.
        OSError: The file cannot be written.
    """
    try:
        import fcntl
    except ImportError:  # not POSIX
        with locked_by_pid(path.with_name(f"{path.name}.pid")):
            yield
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    _held.add(descriptor)
    owner = os.getpid()
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(_owner(path)) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
            with locked_by_pid(path.with_name(f"{path.name}.pid")):
                yield
            return
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, _me(), 0)
        yield
        if os.getpid() == owner:
            os.ftruncate(descriptor, 0)
    finally:
        if os.getpid() == owner:  # a forked child that leaves the block holds nothing
            _held.discard(descriptor)
            os.close(descriptor)


def _let_go() -> None:
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


@contextmanager
def locked_by_pid(path: Path) -> Iterator[None]:
    """Hold a lock that is a file with a process id; that of a dead process is taken over.

    Raises:
        Busy: A living process holds it, or one on another machine (then only a person can tell).
        OSError: The file cannot be written.
    """
    _claim(path)
    owner = os.getpid()
    try:
        yield
    finally:
        if os.getpid() == owner:
            path.unlink(missing_ok=True)


def _claim(path: Path) -> None:
    for _ in range(3):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            owner = _owner(path)
            if not owner or owner.get("host") != socket.gethostname() or alive(owner["pid"]):
                raise Busy(owner, f"; if that is gone, delete {path}") from None
            stale = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
            with suppress(FileNotFoundError):
                os.rename(path, stale)  # of several who try, one succeeds
                if _owner(stale) != owner:  # and it must not be the lock of one who was faster
                    os.rename(stale, path)
                stale.unlink(missing_ok=True)
            continue
        os.write(descriptor, _me())
        os.close(descriptor)
        return
    raise Busy(_owner(path))


def _me() -> bytes:
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()


def _owner(path: Path) -> dict[str, Any]:
    """Read who holds a lock; the holder may be about to write it."""
    for _ in range(20):
        with suppress(OSError, ValueError):
            owner = json.loads(path.read_bytes())
            if isinstance(owner, dict) and isinstance(owner.get("pid"), int):
                return owner
        time.sleep(0.01)
    return {}


def alive(pid: int) -> bool:
    """Whether a process of this machine lives (where that cannot be asked: yes)."""
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
