"""Rooms import only rooms above them, and the statistics half runs without torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "discreet"

TORCH_FREE = (
    "discreet",
    "discreet.audit",
    "discreet.gate",
    "discreet.report",
    "discreet.attacks",
    "discreet.backends",
    "discreet.stats",
)


def module(path: Path) -> str:
    name = path.relative_to(SOURCE.parent).with_suffix("").as_posix().replace("/", ".")
    return name.removesuffix(".__init__")


MODULES = {module(path) for path in SOURCE.rglob("*.py")}


def imports(path: Path) -> set[str]:
    """Modules of `discreet` that a file imports at its top level."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("discreet."):
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in inside}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("discreet.")}
    return found


def test_imports_make_no_circle() -> None:
    graph = {module(path): imports(path) for path in SOURCE.rglob("*.py")}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        if name in done:
            return
        for below in sorted(graph.get(name, ())):
            visit(below, (*trail, name))
        done.add(name)

    for name in sorted(graph):
        if name != "discreet":  # the package binds its public names last
            visit(name, ())


@pytest.mark.parametrize("name", TORCH_FREE)
def test_the_statistics_half_never_loads_torch_or_heavy_libraries(name: str) -> None:
    heavy = ("torch", "scipy.stats", "pyarrow", "matplotlib", "typer")
    code = f"import sys, {name}; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_nothing_imports_the_command_line() -> None:
    for path in SOURCE.rglob("*.py"):
        if "cli" not in path.parts and path.name != "__main__.py":
            assert not any(name.startswith("discreet.cli") for name in imports(path)), path


def test_annotations_cost_no_jaxtyping_import() -> None:
    code = "import sys, discreet; print('jaxtyping' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
    )
