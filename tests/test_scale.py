"""Records far larger than memory is meant to be: written part by part, joined and ranked in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 160
"""MiB that the process may use beside files that it maps: libraries, sample ids, and what is computed at a time."""
WORK = """
import json, resource, sys
from pathlib import Path
import numpy as np
import discreet
from discreet.records import Record, join

folder, checkpoints, n, limit = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]) << 20
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
parts = []
for k in range(checkpoints):  # as a recorder does, one step at a time
    draw = np.random.default_rng([0, k])
    loss = np.empty((1, n), np.float32)
    for at in range(0, n, 1 << 18):
        size = min(n - at, 1 << 18)
        loss[0, at : at + size] = draw.exponential(size=size) + 0.01 * abs(k - checkpoints // 2)
    parts.append(Record(("0",), np.array([float(k)]), ("sign",), np.arange(n), {"loss": loss}).save(
        folder / f"step-{k:02d}.safetensors"))
record = join(parts, folder / "whole.safetensors")
ranked = discreet.rank(record).ranked[0]
try:
    np.asarray(record.signals["loss"]).astype(np.float64)
    fits = True
except MemoryError:
    fits = False
print(json.dumps({"r": ranked.r, "samples": ranked.samples, "checkpoints": ranked.checkpoints, "copy fits": fits}))
"""


@pytest.mark.slow
def test_a_hundred_million_losses_are_written_and_ranked_in_little_memory(tmp_path: Path) -> None:
    """K = 32 checkpoints of n = 3,125,000 samples; the record alone is 400 MB."""
    done = subprocess.run(
        [sys.executable, "-c", WORK, str(tmp_path), "32", "3125000", str(LIMIT)],
        capture_output=True,
        text=True,
        env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PATH": ""},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["samples"], told["checkpoints"]) == (3_125_000, 32)
    assert not told["copy fits"]  # the limit holds: one copy of the losses goes beyond it
    assert told["r"] == pytest.approx(0.5 * 0.01**2 / 2, rel=0.25)  # means 0.01 apart, variance 1 + 1
    command = [sys.executable, "-m", "discreet", "rank", str(tmp_path / "whole.safetensors"), "--json", "-"]
    limited = f"import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_DATA, ({LIMIT} << 20,) * 2)"
    limited += (
        f"; sys.argv = {command[2:]!r}; runpy.run_module('discreet', run_name='__main__', alter_sys=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited],
        capture_output=True,
        text=True,
        env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PATH": ""},
        check=False,
    )
    assert done.returncode == 0, done.stderr
