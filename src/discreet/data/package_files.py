"""Files that installed packages ship, found without importing the package."""

from __future__ import annotations

from importlib import util
from pathlib import Path

from discreet.data.samples import DataError, read_checked

__all__ = ["package_folder", "read_shipped"]


def package_folder(package: str, what: str, advice: str) -> Path:
    """Folder of an installed package, which is not imported.

    Args:
        package: Name that would be imported.
        what: What it holds, for the message.
        advice: How to install it.

    Raises:
        DataError: It is not installed.
    """
    found = util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise DataError(f"the package {package}, which holds {what}, is not installed; {advice}")
    return Path(found.submodule_search_locations[0])


def read_shipped(package: str, path: str, sha256: str, advice: str) -> bytes:
    """Read a file of an installed package whose content is known.

    Args:
        package: Name that would be imported.
        path: The file below the package's folder.
        sha256: Its hash.
        advice: How to install the package.

    Raises:
        DataError: The package is not installed, or the file is another one.
    """
    return read_checked(package_folder(package, path, advice) / path, sha256, advice)
