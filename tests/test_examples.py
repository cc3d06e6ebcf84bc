"""The examples run as their readers would run them, only smaller."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL = {
    "pictures": ("clothes", "count = 240", "/usr/share/datasets/fashion-mnist"),
    "table": ("churn", "rows = 400", "/"),
}

pytestmark = pytest.mark.skipif(
    any(util.find_spec(name) is None for name in ("torch", "sklearn")), reason="needs discreet[compress]"
)


@pytest.mark.parametrize("name", SMALL)
def test_a_training_script_is_audited_by_adding_the_spec(name: str, tmp_path: Path) -> None:
    module, few, data = SMALL[name]
    if not Path(data).is_dir():
        pytest.skip(f"needs {data}")
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
    spec = (folder / "audit.toml").read_text().partition("[budget]")[0]
    assert f'fit = "{module}:fit"' in spec
    small = f'[data.options]\n{few}\n[train.options]\nepochs = 1\n[attacks]\nnames = ["loss"]\n[budget]\nruns = 2\n'
    (folder / "audit.toml").write_text(f"{spec}\n{small}")
    command = [sys.executable, "-m", "discreet", "audit", "audit.toml"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert (
        f"What {module}.build_model and its small forms give away"
        in (folder / "audit" / "report.html").read_text()
    )
