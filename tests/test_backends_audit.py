"""The same audit from one process, from Ray with any number of workers, with one killed, and from two nodes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

MODULE = """
import os, time
from pathlib import Path

import numpy as np
import torch
from torch import nn


def load():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 5), dtype=np.float32)
    return x, (x[:, 0] + 0.5 * rng.standard_normal(400) > 0).astype(np.int64)


def build_model():
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))


def fit(model, x, y, *, seed, checkpoint):
    if marks := os.environ.get("MARKS"):
        Path(marks, f"{os.getpid()}-{time.time_ns()}").touch()
        time.sleep(0.7)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    for _ in range(6):
        for rows in torch.randperm(len(x)).split(32):
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(model(x[rows])[:, 0], y[rows].float()).backward()
            optimizer.step()
        checkpoint(model)
    return model
"""
SPEC = """
[data]
load = "mine:load"
[model]
build = "mine:build_model"
[train]
loss = "bce"
fit = "mine:fit"
[variants]
quantizers = ["sign(scale='absmean')"]
[attacks]
names = ["loss", "lira", "rmia"]
[budget]
runs = 6
"""


def spec(folder: Path) -> Path:
    """A spec beside its module, which leaves a mark for each training where MARKS says."""
    folder.mkdir()
    (folder / "mine.py").write_text(MODULE)
    (folder / "spec.toml").write_text(SPEC)
    return folder / "spec.toml"


def run(path: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The command, in a process of its own: types are checked in this one, and cannot be sent."""
    command = [sys.executable, "-m", "discreet", "audit", str(path), "--folder", str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def audited(path: Path, folder: Path, *options: str) -> dict[str, bytes]:
    done = run(path, folder, *options)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "ray" not in done.stderr.lower()
    return {name: (folder / name).read_bytes() for name in ("audit.json", "exposed.csv")}


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where trainings leave their marks."""
    folder = tmp_path / "marks"
    folder.mkdir()
    monkeypatch.setenv("MARKS", str(folder))
    return folder


@contextmanager
def killing(marks: Path, killed: list[int]) -> Iterator[None]:
    """Kill the second process that leaves a mark: a worker of this test's own cluster."""
    stop = Event()

    def watch() -> None:
        while not stop.wait(0.02):
            others = {int(mark.name.partition("-")[0]) for mark in marks.iterdir()} - {os.getpid()}
            if len(list(marks.iterdir())) >= 2 and others:
                killed.append(others.pop())
                os.kill(killed[0], signal.SIGKILL)
                return

    thread = Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one process finds."""
    folder = tmp_path_factory.mktemp("here")
    return audited(spec(folder / "spec"), folder / "run")


def test_one_worker_and_two_give_the_audit_of_one_process(tmp_path: Path, here: dict[str, bytes]) -> None:
    path = spec(tmp_path / "spec")
    for workers in ("1", "2"):
        assert audited(path, tmp_path / workers, "--backend", "ray", "--workers", workers) == here
    made = {file: file.stat().st_mtime_ns for file in (tmp_path / "2").rglob("*.safetensors")}
    assert audited(path, tmp_path / "2") == here
    assert all(
        file.stat().st_mtime_ns == when for file, when in made.items()
    )  # what Ray made is not made again


def test_a_killed_worker_changes_nothing(tmp_path: Path, here: dict[str, bytes], marks: Path) -> None:
    killed: list[int] = []
    with killing(marks, killed):
        found = audited(spec(tmp_path / "spec"), tmp_path / "run", "--backend", "ray", "--workers", "2")
    assert len(killed) == 1
    assert len(list(marks.iterdir())) >= 7  # six runs, and one at least begun again
    assert found == here


def test_two_nodes_and_a_killed_worker(tmp_path: Path, here: dict[str, bytes], marks: Path) -> None:
    from ray.cluster_utils import Cluster

    killed: list[int] = []
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        with killing(marks, killed):
            found = audited(spec(tmp_path / "spec"), tmp_path / "run", "--backend", f"ray:{cluster.address}")
    finally:
        cluster.shutdown()
    assert len(killed) == 1
    assert (
        len({mark.name.partition("-")[0] for mark in marks.iterdir()}) >= 3
    )  # one a node, and another for the dead
    assert found == here


def test_what_goes_wrong_is_one_line(tmp_path: Path) -> None:
    path = spec(tmp_path / "spec")
    (path.parent / "mine.py").write_text(
        MODULE.replace("    optimizer = ", "    raise KeyError('no such column')\n    optimizer = ")
    )
    done = run(path, tmp_path / "run", "--backend", "ray")
    assert done.returncode == 2
    assert "mine:fit" in done.stderr
    assert "no such column" in done.stderr.splitlines()[-1]
    for name, words in [
        ("spark", "backend: expected local, processes, ray, ray:HOST:PORT or ray://HOST:PORT, got 'spark'"),
        ("ray:127.0.0.1:9", "ray: no cluster 127.0.0.1:9: "),
    ]:
        done = run(path, tmp_path / "run", "--backend", name)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith(f"discreet: {words}")
