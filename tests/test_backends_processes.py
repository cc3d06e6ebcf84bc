"""Processes end with whoever asked for them, and leave what was finished."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import os, sys, time
from pathlib import Path
from discreet.backends import Processes

def work(folder, item):
    Path(folder, str(os.getpid())).touch()
    time.sleep(120)

if __name__ == "__main__":
    list(Processes(2).each(work, sys.argv[1], [1, 2]))
"""


def runs(pid: int) -> bool:
    """Whether a process is there, and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(true: object, seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while not (found := bool(true())) and time.monotonic() < limit:  # type: ignore[operator]
        time.sleep(0.1)
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_they_end_with_their_parent(how: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "pids").mkdir()
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "pids")]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as parent:
        try:
            assert until(lambda: len(list((tmp_path / "pids").iterdir())) == 2, 60)
            pids = [int(path.name) for path in (tmp_path / "pids").iterdir()]
            assert all(map(runs, pids))
            os.kill(parent.pid, how)
            assert until(lambda: not any(map(runs, pids)), 15)
            assert until(lambda: parent.poll() is not None, 15)
        finally:
            parent.kill()
