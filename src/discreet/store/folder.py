"""Artefacts that other libraries want as a folder of files, such as a saved model: kept like any other."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from discreet.store.lock import alive
from discreet.store.store import Store, StoreError

__all__ = ["is_there", "make_folder"]


def make_folder(store: Store, key: str, write: Callable[[Path], object]) -> Path:
    """Return the folder of an artefact, after making it if it is not there with the bytes it was made with.

    The artefact of ``key`` is a list of its files with their SHA-256; the folder lies beside it, named without
    ``.json``. It is written aside and renamed before the list is, so that a kill leaves no half folder.

    Args:
        store: The run directory.
        key: A key of the store that ends in ``.json``.
        write: Writes files into the empty folder that it is given.

    Raises:
        StoreError: The key does not end in ``.json``, nothing was written, or the disk refused.

    Example:
        >>> import tempfile
        >>> store = Store(Path(tempfile.mkdtemp()) / "run")
        >>> key = store.key("models/tiny.json", seed=1)
        >>> folder = make_folder(store, key, lambda aside: (aside / "config.json").write_text("{}"))
        >>> sorted(path.name for path in folder.iterdir())
        ['config.json']
    """
    folder = store.path(key).with_suffix("")
    if is_there(store, key):
        return folder
    aside = folder.with_name(f".{folder.name}-{os.getpid()}")
    try:
        for left in folder.parent.glob(f".{folder.name}-*"):  # by a killed process, or our own earlier try
            if left == aside or not alive(int(left.name.rpartition("-")[2])):
                shutil.rmtree(left, ignore_errors=True)
        aside.mkdir(parents=True)
        write(aside)
        found = _files(aside)
        if not found:
            raise StoreError(f"{key}: nothing was written into the folder that was given")
        shutil.rmtree(folder, ignore_errors=True)
        store.path(key).unlink(missing_ok=True)
        aside.rename(folder)
        store.make(key, lambda path: path.write_text(json.dumps(found, indent=1), "utf-8"))
    except OSError as error:
        raise StoreError(f"{folder}: cannot write: {error.strerror or error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return folder


def is_there(store: Store, key: str) -> bool:
    """Whether the folder of an artefact is there with the bytes it was made with.

    Raises:
        StoreError: The key does not end in ``.json``.
    """
    if not key.endswith(".json"):
        raise StoreError(f"{key}: expected the key of a folder to end in .json")
    folder = store.path(key).with_suffix("")
    return store.has(key) and _files(folder) == json.loads(store.path(key).read_text("utf-8"))


def _files(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder, by its path; none of a folder that is not there."""
    return {
        path.relative_to(folder).as_posix(): _sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
