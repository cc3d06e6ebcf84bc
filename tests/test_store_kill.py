"""A real process killed at twenty random moments: no finished work is lost, and the bytes come out the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WORK = """
import sys, time
import numpy as np
from discreet.records import Record, join
from discreet.store import Store

store = Store(sys.argv[1])

def measure(unit):
    def write(path):
        time.sleep(0.002)
        loss = np.random.default_rng(unit).random((2, 2000))
        Record((str(unit),) * 2, np.arange(2.0), ("full",) * 2, np.arange(2000), {"loss": loss}).save(path)
    return write

with store.lock():
    print("working", flush=True)
    parts = []
    for unit in range(150):
        parts.append(store.make(store.key(f"trajectory/run-{unit}.safetensors", unit=unit), measure(unit)))
        print(unit, flush=True)
    store.make(store.key("trajectory/joined.safetensors", units=150), lambda path: join(parts, path))
print("finished", flush=True)
"""


def start(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", WORK, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "working\n"
    return process


def contents(folder: Path) -> dict[str, bytes]:
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return {name: data for name, data in found.items() if name not in ("manifest.json", ".lock")}


@pytest.mark.slow
def test_twenty_kills(tmp_path: Path) -> None:
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    began = time.monotonic()
    out, _ = start(undisturbed).communicate(timeout=120)
    assert out.endswith("finished\n")
    took = time.monotonic() - began
    moments, torn, done = random.Random(7), 0, {}
    for kill in range(20):
        process = start(killed)
        time.sleep(moments.uniform(0, took / 25))
        process.send_signal(signal.SIGKILL)
        out, _ = process.communicate()
        assert process.returncode == -signal.SIGKILL, f"finished before kill {kill}"
        torn += len(list((killed / ".parts").glob(".*")))
        for name, when in done.items():  # what was finished before is never done again
            assert (killed / name).stat().st_mtime_ns == when
        reported = [int(line) for line in out.split() if line.isdigit()]
        files = {p.name: p for p in (killed / "trajectory").glob("run-*")} if reported else {}
        for unit in reported:
            path = next(p for name, p in files.items() if name.startswith(f"run-{unit}-"))
            done[str(path.relative_to(killed))] = path.stat().st_mtime_ns
    assert len(done) > 10, "the kills came too early to say anything"
    assert torn > 0, "no kill came in the middle of a unit"
    out, _ = start(killed).communicate(timeout=120)
    assert out.endswith("finished\n")
    for name, when in done.items():
        assert (killed / name).stat().st_mtime_ns == when
    assert contents(killed) == contents(undisturbed)
    assert os.listdir(killed / ".parts") == []
