"""What a run directory is, and its audit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discreet.audit import Audit

__all__ = ["audit_in", "is_compression"]


def is_compression(run_dir: Path) -> bool:
    """Whether ``discreet compress`` works on the folder."""
    from discreet.planned import planned_by

    return planned_by(run_dir) == "compress" or (run_dir / "compress.json").is_file()


def audit_in(run_dir: Path) -> Audit:
    """The audit of a run directory.

    Raises:
        AuditError: It is none.
        OSError: It is not there, or cannot be read.
    """
    from discreet.audit import Audit

    path = run_dir / "audit.json"
    if not path.exists() and is_compression(run_dir):
        raise FileNotFoundError(
            2,
            "discreet compress has no finished model in it yet, so there is no audit; call it again, it goes on where"
            " it stopped (discreet status says what is left)",
            str(run_dir),
        )
    return Audit.load(path)
