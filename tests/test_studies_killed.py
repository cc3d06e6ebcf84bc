"""The studies of bias, candidates and predictors, killed in the middle of a file: the same JSON as undisturbed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.cli import entry

pytestmark = pytest.mark.slow  # each kill is a process of its own, which imports torch

DYING = """
import itertools, os, signal, sys
from discreet.cli import entry
from discreet.store import Store

make, count, last = Store.make, itertools.count(1), int(sys.argv[1])

def dying(store, key, write):
    def half(aside):
        write(aside)
        if next(count) == last:
            aside.write_bytes(aside.read_bytes()[:9])
            os.kill(os.getpid(), signal.SIGKILL)
    return make(store, key, half)

Store.make = dying
entry.run(sys.argv[2:])
"""


def kept(folder: Path) -> dict[str, tuple[bytes, int]]:
    """What is finished, and when it was."""
    files = [path for path in folder.rglob("*-*.*") if path.is_file() and ".parts" not in path.parts]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.mark.parametrize(
    ("name", "sizes", "last"),
    [
        ("bias", "n=40 runs=2 repeats=2 draws=5", 5),  # of eleven files
        (
            "candidates",
            "sets=8x2,6x3 width=24 runs=4 pooled=2 steps=2 epochs=3 evaluation=64 attacked=8",
            2,  # of two
        ),
        (
            "predictors",
            "sets=8x2,6x3 budgets=1 ratio=3 judged=4 references=2 width=8 epochs=3 n=24 evaluation=64",
            4,  # of eight, and the costs
        ),
    ],
)
def test_a_study_that_is_killed_and_started_again_says_the_same(
    name: str, sizes: str, last: int, tmp_path: Path
) -> None:
    options = ["study", name, *(part for size in sizes.split() for part in ("--set", size)), "--folder"]
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    child = [sys.executable, "-c", DYING, str(last), *options, str(folder)]
    done = subprocess.run(child, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(list((folder / ".parts").iterdir())) == 1  # the half of a file
    assert not (folder / "study.json").exists()
    finished = kept(folder)
    assert len(finished) == 2 * (last - 1)  # and checksums
    for each in (folder, whole):
        assert entry.run([*options, str(each)]) == 0
    assert finished.items() <= kept(folder).items()  # nothing was made twice
    assert (folder / "study.json").read_bytes() == (whole / "study.json").read_bytes()
    made = [
        {key: data for key, (data, _) in kept(each).items() if "cost" not in key} for each in (folder, whole)
    ]
    assert made[0] == made[1]
