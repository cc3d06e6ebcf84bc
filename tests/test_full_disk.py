"""A disk that is really full: a small file system in memory, where one may mount it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

COMMAND = (sys.executable, "-m", "discreet")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    where = tmp_path / "disk"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(where)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield where
    subprocess.run(["umount", str(where)], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="needs tmpfs")
def test_a_full_disk_is_one_clear_error_and_leaves_nothing_half_written(
    small_disk: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    losses = tmp_path / "losses.npz"
    np.savez(losses, sign=rng.exponential(size=(3, 4, 60)), full=rng.exponential(size=(3, 4, 60)))
    page, older = small_disk / "page.html", small_disk / "table.json"
    older.write_text("an older result")
    done = subprocess.run(
        [*COMMAND, "rank", losses, "--report", page], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == f"discreet: {page}: cannot write: No space left on device\n"
    assert [path.name for path in small_disk.iterdir()] == ["table.json"]
    (small_disk / "filler").write_bytes(bytes(8192))
    done = subprocess.run([*COMMAND, "demo", small_disk / "run"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert older.read_text() == "an older result"
