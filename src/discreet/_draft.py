"""A file appears whole or not at all: it is written aside, synced to the disk, then renamed."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["draft", "regular", "sync_folder"]


@contextmanager
def draft(path: Path, folder: Path | None = None) -> Iterator[Path]:
    """Give a path to write to, and make what was written there ``path`` when the block ends well.

    A crash, a full disk or Ctrl-C inside the block leaves an older ``path`` as it was.

    Args:
        path: where the file is to appear; its folder must exist.
        folder: where the draft lies; on the same file system, by default beside ``path``.

    Yields:
        The path of the draft, with the suffix of ``path``. The block must write a file there.

    Raises:
        OSError: ``path`` is a device, pipe or folder, or the draft was not written, or cannot be synced or renamed.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "note.txt"
        >>> with draft(target) as aside:
        ...     _ = aside.write_text("whole")
        >>> target.read_text(), len(list(target.parent.iterdir()))
        ('whole', 1)
    """
    path = regular(path)
    aside = (folder or path.parent) / f".{os.getpid()}-{secrets.token_hex(6)}.part{path.suffix}"
    try:
        yield aside
        _sync(aside, os.O_RDWR)
        os.replace(aside, path)
    except BaseException:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def regular(path: Path) -> Path:
    """Follow links to the file that will be replaced, and refuse what is no file: a rename would destroy it.

    Raises:
        OSError: ``path`` is a device, a pipe, a socket or a folder.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "expected a file to write, got a folder, device or pipe", str(path))
    return path


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` outlive a power cut (POSIX; elsewhere a folder cannot be synced)."""
    if os.name == "posix":
        _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
