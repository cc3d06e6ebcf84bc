"""The lock where the file system has none: a file with the process id."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.store.lock import Busy, alive, locked_by_pid


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def write(path: Path, pid: int, host: str | None = None) -> None:
    path.write_text(json.dumps({"pid": pid, "host": host or socket.gethostname()}))


def test_it_excludes_and_is_gone_afterwards(tmp_path: Path) -> None:
    path = tmp_path / ".lock.pid"
    with locked_by_pid(path):
        assert json.loads(path.read_text())["pid"] == os.getpid()
        with pytest.raises(Busy, match=rf"this process \({os.getpid()}\)"), locked_by_pid(path):
            pass
        assert path.exists()
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / ".lock.pid"
    write(path, dead_pid())
    with locked_by_pid(path):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_a_living_process_or_another_machine_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / ".lock.pid"
    write(path, os.getppid())
    with pytest.raises(Busy, match=f"process {os.getppid()} on {socket.gethostname()}"), locked_by_pid(path):
        pass
    write(path, dead_pid(), "elsewhere")
    with pytest.raises(Busy, match=rf"on elsewhere; if that is gone, delete {path}"), locked_by_pid(path):
        pass
    path.write_text("")
    with pytest.raises(Busy, match="another process; if that is gone, delete"), locked_by_pid(path):
        pass
    assert path.exists()


def test_who_is_alive() -> None:
    assert alive(os.getpid())
    assert alive(1)
    assert not alive(dead_pid())
