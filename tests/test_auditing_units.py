"""What one attack found is found again by all that it depends on: its code and the libraries that it may use, too."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from discreet import _content
from discreet.auditing import audit_attacks
from discreet.auditing_units import Units
from discreet.store import Store
from tests.test_cli_audit import make, release

OWN = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Mine:
    def __call__(self, blind, row):
        return -blind.signal("loss")[row]
"""
AUDIT = """
import sys
import discreet.report
from discreet.auditing import audit_attacks
discreet.report.write = lambda *_: None
audit_attacks(sys.argv[1], ["mine:Mine"])
"""


def found(folder: Path) -> list[float]:
    """Figures of the own attack, as a new process finds them."""
    command = [sys.executable, "-c", AUDIT, str(folder)]
    subprocess.run(command, check=True, cwd=folder.parent, capture_output=True)
    (analysis,) = json.loads((folder / "audit.json").read_text("utf-8"))["analyses"]
    return [row["value"] for row in analysis["attacks"] if row["attack"] == "mine:Mine"]


def test_an_attack_of_ones_own_that_was_rewritten_is_done_anew(tmp_path: Path) -> None:
    folder = make(tmp_path / "run")
    (tmp_path / "mine.py").write_text(OWN)
    first = found(folder)
    assert found(folder) == first != []
    (tmp_path / "mine.py").write_text(OWN.replace("return -blind", "return blind"))
    assert found(folder) != first


def test_what_is_made_of_an_attack_is_kept_as_long_as_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    units = Units(Store(tmp_path / "run"), release(), ("sha",), 0.95, 0)

    def kept(code: str, value: int) -> int:
        sys.modules.pop("mine", None)
        (tmp_path / "mine.py").write_text(code)
        importlib.invalidate_caches()
        return units.kept("classes", lambda: value, attack="mine:Mine")

    assert kept(OWN, 1) == kept(OWN, 2) == 1
    assert kept(OWN.replace("return -blind", "return blind"), 3) == 3
    sys.modules.pop("mine")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Attacks as they are done; versions are forgotten before and after."""
    from discreet import auditing_units

    done: list[str] = []
    attack = auditing_units.expose_one
    monkeypatch.setattr(
        auditing_units,
        "expose_one",
        lambda record, spec, *more: done.append(spec) or attack(record, spec, *more),
    )
    monkeypatch.setattr("discreet.report.write", lambda *_: ())
    yield done
    _content._version.cache_clear()


def test_attacks_are_done_anew_with_other_releases(
    tmp_path: Path, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path / "run")
    audit_attacks(folder, ["loss"])
    audit_attacks(folder, ["loss"])
    assert len(counted) == 3
    known = _content.metadata.version
    packages = ("torch", "lightgbm", "catboost", "optuna", "scikit-learn")
    for number, package in enumerate(packages, start=2):
        monkeypatch.setattr(
            _content.metadata, "version", lambda name, new=package: "99" if name == new else known(name)
        )
        _content._version.cache_clear()
        audit_attacks(folder, ["loss"])
        assert len(counted) == 3 * number, package
