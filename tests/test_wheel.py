"""The built wheel, in an empty environment without torch, ranks losses that another system wrote."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_wheel_ranks_without_torch(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    wheel = next(tmp_path.glob("*.whl"))
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel]
    subprocess.run(pip, check=True, capture_output=True)
    rng = np.random.default_rng(0)
    gaps = np.array([0.3, 0.0, 0.1])[:, None]
    losses = rng.exponential(size=(1, 1, 200)) + gaps + 0.1 * rng.standard_normal((4, 3, 200))
    np.savez(tmp_path / "losses.npz", sign=losses + gaps, full=losses)
    command = [python.parent / "discreet", "rank", tmp_path / "losses.npz", "--json", "-"]
    out = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    assert [v["variant"] for v in json.loads(out.stdout)["variants"]] == ["sign", "full"]
    absent = subprocess.run([python, "-c", "import torch"], capture_output=True)
    assert absent.returncode == 1
