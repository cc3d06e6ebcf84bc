"""Every command and every file of docs/workflows.md, as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "workflows.md").read_text("utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"# ([\w./-]+\.(?:toml|ya?ml))\n")
KNOWN = {"bash", "python", "toml", "yaml"}


def blocks(text: str) -> list[tuple[str, str]]:
    return [(found.group(1), found.group(2)) for found in BLOCK.finditer(text)]


def sections() -> dict[str, list[tuple[str, str]]]:
    """Blocks by section; the text of each begins at its heading."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    return {title: blocks(text) for title, text in zip(parts[::2], parts[1::2], strict=True)}


def environment(folder: Path, torch: bool = True) -> dict[str, str]:
    """The commands of this environment first, one thread, and no torch where none may be needed."""
    found = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "PRE_COMMIT_HOME": str(folder / "hooks"),
        "HOME": str(folder),
    }
    if not torch:
        absent = folder / "absent"
        absent.mkdir(exist_ok=True)
        (absent / "torch.py").write_text(
            'raise ModuleNotFoundError("No module named \'torch\'", name="torch")\n'
        )
        found["PYTHONPATH"] = str(absent)
    return found


def call(command: list[str], folder: Path, **options: bool) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, env=environment(folder, **options)
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "Traceback" not in done.stderr
    return done.stdout


def carry_out(parts: list[tuple[str, str]], folder: Path, *, torch: bool = True) -> str:
    """Write files, run programs and commands, in their order."""
    said = ""
    for language, text in parts:
        assert language in KNOWN
        if named := NAME.match(text):
            path = folder / named.group(1)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif language == "python":
            said += call([sys.executable, "-c", text], folder, torch=torch)
        else:
            assert language == "bash"
            said += call(["bash", "-eo", "pipefail", "-c", text], folder, torch=torch)
    return said


@pytest.mark.slow
def test_all_workflows_run_as_written(tmp_path: Path) -> None:
    found = sections()
    alone = found.pop("Audit with losses only")
    said = carry_out([part for parts in found.values() for part in parts], tmp_path)
    assert (tmp_path / "run" / "report.html").is_file()
    assert len(list((tmp_path / "runs").glob("run-*.safetensors"))) == 3
    assert said.count("discreet: measuring took") == 3
    for name in ("ranking.html", "gate.xml", "gate.sarif", "privacy.md", "mlflow.db"):
        assert (tmp_path / name).is_file(), name
    assert "mis_indicator_r" in said
    assert "logged to MLflow as run" in said
    carry_out(alone, tmp_path, torch=False)
    assert (tmp_path / "ranked" / "gate.json").is_file()
    workflow = tmp_path / ".github" / "workflows" / "privacy.yml"
    check = ["-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    call([sys.executable, *check, str(workflow)], tmp_path)
    steps = yaml.safe_load(workflow.read_text())["jobs"]["gate"]["steps"]
    commands = [step["run"] for step in steps if step.get("run", "").startswith("discreet")]
    assert len(commands) == 2
    for command in commands:
        call(["bash", "-ec", command], tmp_path)
    hook(tmp_path)


def hook(folder: Path) -> None:
    """The hook, by pre-commit itself, in a repository that holds the audit."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    call([*git, "init", "-q"], folder)
    call([*git, "add", "run/audit.json", ".pre-commit-config.yaml"], folder)
    call(["pre-commit", "validate-config"], folder)
    said = call(["pre-commit", "run", "--all-files"], folder)
    assert re.search(r"privacy gate\.+Passed", said)
    config = folder / ".pre-commit-config.yaml"
    config.write_text(config.read_text().replace("< 0.5", "< 0.0"))
    call([*git, "add", ".pre-commit-config.yaml"], folder)
    done = subprocess.run(
        ["pre-commit", "run", "--all-files"],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment(folder),
    )
    assert done.returncode == 1
    assert "exit code: 1" in done.stdout


def test_losses_alone_need_no_torch(tmp_path: Path) -> None:
    carry_out(sections()["Audit with losses only"], tmp_path, torch=False)
    assert "discreet.rank/1" in (tmp_path / "ranking.json").read_text()
    assert '"lira"' in (tmp_path / "attacks.json").read_text()
    with pytest.raises(AssertionError, match=r"pip install \"discreet\[torch\]\""):
        call(["discreet", "demo", "x"], tmp_path, torch=False)


def test_every_block_is_of_a_kind_that_is_run_and_every_link_leads_somewhere() -> None:
    assert {language for language, _ in blocks(PAGE)} == KNOWN
    assert PAGE.count("```") == 2 * len(blocks(PAGE))
    titles = {title.lower().replace(" ", "-") for title in sections()}
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        target, _, anchor = link.partition("#")
        assert (ROOT / "docs" / target).exists() if target else anchor in titles
