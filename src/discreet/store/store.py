"""The run directory: finished work kept by content, so that a killed run goes on where it stopped."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from discreet._draft import draft
from discreet.store import manifest as manifests
from discreet.store.content import content_hash
from discreet.store.lock import Busy, alive, locked

__all__ = ["SCHEMA", "Store", "StoreError"]

SCHEMA = "discreet.store/1"
_UNSAFE = re.compile(r"[^A-Za-z0-9._()=,+-]")
_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,11}")
_KEY = re.compile(
    r"([A-Za-z0-9_()=,+-][A-Za-z0-9._()=,+-]*/)*[A-Za-z0-9_()=,+-][A-Za-z0-9._()=,+-]*-[0-9a-f]{32}(\.\w+)?"
)


class StoreError(RuntimeError):
    """A run directory cannot be used, read or written; the message says which and why."""


class Store:
    """A run directory of artefacts, each one file found by the content it was made from.

    A key is the path of its artefact below the directory: words for people, then a hash of everything
    the artefact depends on. What is there and sound is never made again; what is missing, truncated or
    altered is. Each artefact has its own checksum file (in the format of ``sha256sum``, below
    ``.checksums/``), so keeping one more costs the same whether there are ten or tens of thousands.
    Several threads or worker processes may make artefacts at once.

    Args:
        folder: The run directory. It is created by the first :meth:`make` or :meth:`lock`.

    Example:
        >>> import tempfile
        >>> store = Store(Path(tempfile.mkdtemp()) / "run")
        >>> with store.lock():
        ...     key = store.key("trajectory/run 3.txt", seed=1, widths=[2, 3])
        ...     path = store.make(key, lambda aside: aside.write_text("losses"))
        >>> key
        'trajectory/run_3-2af08d3b3724a015a7d628613e341662.txt'
        >>> store.has(key), path.read_text()
        (True, 'losses')
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._sound: dict[str, tuple[tuple[int, ...], str]] = {}
        self._session: dict[str, Any] | None = None
        self._number = 0

    def key(self, kind: str, /, **content: Any) -> str:
        """Return the key of the artefact of some kind that is made from some content.

        Args:
            kind: Words for people with ``/`` between folders, such as ``"trajectory/run-3.safetensors"``:
                the folder, the first part of the file name, and its suffix. Whatever a file name cannot
                hold becomes ``_``; the hash tells apart what then looks alike.
            content: All that the artefact depends on: dicts, lists, NumPy arrays, text, numbers, … The
                order of keys does not matter.

        Raises:
            StoreError: The content has a value that cannot be hashed.
        """
        try:
            digest = content_hash({"schema": SCHEMA, "kind": kind, "content": content})
        except TypeError as error:
            raise StoreError(f"key of {kind[:60]!r}: {error}") from None
        *folders, name = kind.split("/")
        suffix = _SUFFIX.fullmatch(name[name.rfind(".") :]) if "." in name[1:] else None
        ending = suffix.group() if suffix else ""
        return "/".join([*map(_safe, folders), f"{_safe(name.removesuffix(ending))}-{digest}{ending}"])

    def path(self, key: str) -> Path:
        """Return where the artefact of ``key`` lies, whether it is there or not.

        Raises:
            StoreError: It is no key.
        """
        if not _KEY.fullmatch(key):
            raise StoreError(f"{key[:100]!r} is no key of a store")
        return self.folder / key

    def has(self, key: str) -> bool:
        """Whether the artefact is there with the bytes it was made with.

        A file that has not changed since this process last read it is not read again.

        Raises:
            StoreError: It is no key, or the file is there and cannot be read.
        """
        path = self.path(key)
        try:
            noted, signature = self._checksum_file(key).read_text("utf-8"), _signature(path)
            if self._sound.get(key) == (signature, noted):
                return True
            sound = noted == _checksum_line(_checksum(path), key)
        except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
            return False
        except OSError as error:
            raise StoreError(f"{path}: cannot read: {error.strerror or error}") from error
        if sound:
            self._sound[key] = (signature, noted)
        return sound

    def make(self, key: str, write: Callable[[Path], object]) -> Path:
        """Return the path of the artefact, after making it if it is not there or not sound.

        Args:
            key: A key from :meth:`key`.
            write: Writes the file at the path it is given, which lies aside. It is synced to the disk,
                its checksum is noted, and it is renamed: a kill at any moment leaves no half artefact.

        Raises:
            StoreError: The disk is full, the folder is read-only, or ``write`` wrote no file. Other
                errors of ``write`` pass; nothing half-written is left.
        """
        path, parts = self.path(key), self.folder / ".parts"
        if self.has(key):
            return path
        self._make_folders(path.parent, self._checksum_file(key).parent, parts)
        aside = path
        try:
            with draft(path, parts) as aside:
                write(aside)
                if not aside.is_file():
                    raise StoreError(f"{key}: nothing was written at the path that was given")
                noted = _checksum_line(_checksum(aside), key)
                # Before the rename: a checksum without its artefact is harmless, the reverse would redo work.
                with draft(self._checksum_file(key), parts) as note:
                    note.write_text(noted, "utf-8", newline="\n")
        except OSError as error:
            if error.filename not in (None, str(aside)) and not str(error.filename).startswith(
                str(self.folder)
            ):
                raise  # about a file of the caller's
            raise StoreError(
                f"{path}: cannot write: {_reason(error)}; nothing half-written is left"
            ) from error
        self._sound[key] = (_signature(path), noted)
        return path

    @contextmanager
    def lock(self) -> Iterator[Store]:
        """Hold the directory for this process, and note the session in ``manifest.json``.

        Also clears away what killed processes had half-written. The lock of a process that ended,
        however it ended, is free.

        Raises:
            StoreError: Another process works on this directory (the message names it), or the directory
                cannot be written.
        """
        self._make_folders(self.folder)
        path = self.folder / ".lock"
        with ExitStack() as held:
            try:
                held.enter_context(locked(path))
            except Busy as busy:
                raise StoreError(f"{self.folder}: in use by {busy}") from None
            except OSError as error:
                raise StoreError(f"{path}: cannot lock: {_reason(error)}") from error
            self._clear_parts()
            self._session, self._number = manifests.session(self.folder), len(self.manifest["sessions"])
            self.note()
            try:
                yield self
            finally:
                if self._session["pid"] == os.getpid():  # not in a forked child
                    self.note(ended=manifests.now())
                    self._session = None

    @property
    def manifest(self) -> dict[str, Any]:
        """What ``manifest.json`` says: when, where and with which versions the directory was filled.

        Raises:
            StoreError: The file cannot be read or is no manifest.
        """
        path = self.folder / "manifest.json"
        try:
            return manifests.read_manifest(path)
        except (OSError, ValueError) as error:
            raise StoreError(f"{path}: cannot read the manifest: {error}") from error

    def note(self, **facts: Any) -> None:
        """Add facts to the manifest's entry for this session, such as paths of input files.

        Raises:
            StoreError: The directory is not locked by this object, or the manifest cannot be written.
        """
        if self._session is None:
            raise StoreError(f"{self.folder}: only a session that holds the lock can be noted")
        path, session = self.folder / "manifest.json", self._session | facts
        manifest = self.manifest
        manifest["sessions"][self._number :] = [session]
        try:
            manifests.write_manifest(path, manifest)
        except (OSError, TypeError, ValueError) as error:
            raise StoreError(f"{path}: cannot write: {_reason(error)}") from error
        self._session = session

    def _checksum_file(self, key: str) -> Path:
        return self.folder / ".checksums" / f"{key}.sha256"

    def _make_folders(self, *folders: Path) -> None:
        for folder in folders:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"{folder}: cannot create the folder: {error.strerror or error}") from error

    def _clear_parts(self) -> None:
        """Remove drafts of processes that are gone; their names begin with the process id."""
        for aside in (self.folder / ".parts").glob(".*"):
            pid = aside.name[1:].partition("-")[0]
            if not (pid.isdigit() and alive(int(pid))):
                with suppress(OSError):
                    aside.unlink()


def _safe(name: str) -> str:
    """Return a part of a path that any file system takes."""
    safe = _UNSAFE.sub("_", name)[:60]
    return re.sub(r"^\.+", lambda dots: "_" * len(dots.group()), safe) or "_"


def _signature(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum_line(digest: str, key: str) -> str:
    return f"{digest}  {key}\n"


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
