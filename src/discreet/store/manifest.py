"""When, where, by whom and with what versions a run directory was filled: nothing else holds these."""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from discreet._draft import draft

__all__ = ["SCHEMA", "read_manifest", "session", "write_manifest"]

SCHEMA = "discreet.manifest/1"
_PACKAGES = (
    "discreet",
    "numpy",
    "scipy",
    "pyarrow",
    "safetensors",
    "matplotlib",
    "torch",
    "rdkit",
    "qc-b3db",
)


def now() -> str:
    """The time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def session(folder: Path) -> dict[str, Any]:
    """Describe this process: a session of work on a run directory, not yet ended."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "started": now(),
        "ended": None,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
        "command": sys.argv,
        "from": os.getcwd(),
        "folder": str(folder.resolve()),
    }


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest, an empty one if there is none yet.

    Raises:
        ValueError: It is not JSON of this schema.
        OSError: It cannot be read.
    """
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {"schema": SCHEMA, "created": now(), "sessions": []}
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise ValueError(f"expected the schema {SCHEMA!r}")
    return manifest


def write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Replace the manifest in one step."""
    with draft(path) as aside:
        aside.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8")
