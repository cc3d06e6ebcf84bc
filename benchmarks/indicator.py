"""r_Q of a large mapped record, against NumPy's float64 mean over the same file."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from discreet.indicator import measure_run
from discreet.moments import LossMoments
from discreet.records import Record
from discreet.trajectory import Trajectory


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Least time of several, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def write(path: Path, checkpoints: int, samples: int) -> None:
    """A record of one run, as a file."""
    rng = np.random.default_rng(0)
    loss = np.empty((checkpoints, samples), np.float32)
    for k in range(checkpoints):
        loss[k] = rng.exponential(size=samples) + 0.01 * abs(k - checkpoints // 2)
    Record(
        run=("0",) * checkpoints,
        step=np.arange(checkpoints, dtype=float),
        variant=("sign",) * checkpoints,
        sample=np.arange(samples),
        signals={"loss": loss},
    ).save(path)


_PEAK = """
import sys, psutil
from discreet.indicator import measure_run
from discreet.records import Record
from discreet.trajectory import Trajectory
process = psutil.Process()
before = process.memory_full_info().uss
values = Record.open(sys.argv[1]).signals["loss"]
measure_run(Trajectory(values), draws=1000)
print(process.memory_full_info().uss - before)
"""


def main() -> None:
    """Print the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.safetensors"
        write(path, 32, 1_000_000)
        values = np.asarray(Record.open(path).signals["loss"])
        base = seconds(lambda: values.mean(dtype=np.float64))
        print(f"32 x 1,000,000 float32: NumPy float64 mean {base * 1e3:.0f} ms")
        for name, work in (
            ("r_Q (two passes)", lambda: Trajectory(values).ratios),
            ("r_Q with what its interval needs", lambda: measure_run(Trajectory(values))),
            ("one-pass co-moments with row hashes", lambda: LossMoments.of(values)),
        ):
            took = seconds(work, 3)
            print(f"  {name}: {took * 1e3:.0f} ms, {took / base:.1f} times the mean")
        used = int(
            subprocess.run([sys.executable, "-c", _PEAK, path], capture_output=True, check=True).stdout
        )
        print(f"  memory beyond the mapped file: {used / 2**20:.0f} MiB")
        path.unlink()
        write(path, 500, 100_000)
        values = np.asarray(Record.open(path).signals["loss"])
        print(f"500 x 100,000 float32: r_Q in {seconds(lambda: measure_run(Trajectory(values)), 2):.1f} s")


if __name__ == "__main__":
    main()
