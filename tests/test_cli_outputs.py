"""Where results go: never over an input, another output, a device or a pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def losses(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    gaps = np.array([0.3, 0.0, 0.1])[:, None]
    np.savez(tmp_path / "losses.npz", sign=rng.exponential(size=(1, 1, 60)) + gaps + rng.random((3, 3, 60)))
    return tmp_path / "losses.npz"


def rank(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "discreet", "rank", *arguments], capture_output=True, text=True
    )


def test_an_input_is_never_overwritten(losses: Path) -> None:
    before = losses.read_bytes()
    found = rank(losses, "--json", losses)
    assert found.returncode == 2
    assert "read or written already" in found.stderr
    assert losses.read_bytes() == before


def test_two_outputs_need_two_files(losses: Path) -> None:
    both = losses.with_name("both")
    found = rank(losses, "--json", both, "--report", both)
    assert found.returncode == 2
    assert not both.exists()


def test_a_pipe_is_refused_and_stays_a_pipe(losses: Path) -> None:
    pipe = losses.with_name("pipe")
    os.mkfifo(pipe)
    found = rank(losses, "--json", pipe)
    assert found.returncode == 2
    assert "expected a file to write, got a folder, device or pipe" in found.stderr
    assert pipe.is_fifo()


def test_a_link_is_written_through(losses: Path) -> None:
    real, link = losses.with_name("real.json"), losses.with_name("link.json")
    real.write_text("old")
    link.symlink_to(real)
    assert rank(losses, "--json", link).returncode == 0
    assert link.is_symlink()
    assert json.loads(real.read_text())["schema"] == "discreet.rank/1"


def test_a_page_does_not_go_to_stdout(losses: Path) -> None:
    found = rank(losses, "--report", "-")
    assert found.returncode == 2
    assert "a page goes to a file" in found.stderr


def test_weights_are_never_quantized_onto_themselves(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    path = tmp_path / "m.safetensors"
    save_file({"w": torch.randn(4, 4)}, path)
    before = path.read_bytes()
    command = [sys.executable, "-m", "discreet", "quantize", path, "--quantizer", "sign", "--out", path]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 2
    assert path.read_bytes() == before
