"""discreet compress: rewritten code of one's own, inputs that are no real numbers, and what weights in use are."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discreet._words import percent
from discreet.cli.entry import run
from tests.compress_specs import SPEC, TABLE, stamps, working


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from working(tmp_path, monkeypatch)


METRIC = """
def score(outputs, y):
    return (outputs.argmax(1) == y).astype(float)
"""
MINE = """
from dataclasses import dataclass, replace
from discreet.safety.loss import Loss

@dataclass(frozen=True)
class Mine:
    @property
    def needs_teacher(self):
        return False

    def apply(self, phase):
        return replace(phase, recipe=replace(phase.recipe, lr=1e-3))

@dataclass(frozen=True)
class Test(Loss):
    pass
"""


def small(folder: Path, *changes: tuple[str, str]) -> str:
    """The spec with one method at one density, without anything beside it."""
    text = (
        SPEC.replace('["dense", "kd"]', "[]").replace("[0.3, 0.5]", "[0.3]").replace("runs = 2", "runs = 1")
    )
    for old, new in (("quantizer", "# "), *changes):
        assert old in text
        text = text.replace(old, new)
    (folder / "my.toml").write_text(text)
    return text


def again(folder: Path, *modules: str) -> dict[str, Any]:
    """As a new process would find these modules."""
    for name in modules:
        sys.modules.pop(name, None)
    assert run(["compress", str(folder / "my.toml"), "--folder", str(folder / "my")]) == 0
    return json.loads((folder / "my" / "compress.json").read_text())


def test_a_metric_that_was_rewritten_is_measured_anew(folder: Path) -> None:
    (folder / "own_metric.py").write_text(METRIC)
    small(folder, ("runs = 1", 'runs = 1\nmetric = "own_metric:score"'))
    assert again(folder)["units"][0]["audit"]["task"]["value"] > 0
    before = stamps(folder / "my")
    again(folder, "own_metric")
    assert stamps(folder / "my") == before  # the same code is found again
    (folder / "own_metric.py").write_text(METRIC.replace("astype(float)", "astype(float) * 0"))
    assert again(folder, "own_metric")["units"][0]["audit"]["task"]["value"] == 0


def test_methods_and_tests_of_ones_own_that_were_rewritten_are_others(folder: Path) -> None:
    sub = folder / "sub"  # where the spec lies is where its code is looked for
    sub.mkdir()
    (sub / "own_table.py").write_text(TABLE)
    (sub / "own_mine.py").write_text(MINE)
    small(sub, ('"set"', '"set+own_mine:Mine"'), ('"modified"', '"own_mine:Test"'))
    again(sub)
    models, audits = (len([*(sub / "my" / name).iterdir()]) for name in ("models", "audits"))
    again(sub, "own_mine")
    assert (len([*(sub / "my" / "models").iterdir()]), models) == (1, 1)
    (sub / "own_mine.py").write_text(MINE.replace("    pass", "    sign = -1"))
    again(sub, "own_mine")
    assert len([*(sub / "my" / "models").iterdir()]) == 1
    assert len([*(sub / "my" / "audits").iterdir()]) > audits  # another test of the same models
    (sub / "own_mine.py").write_text(MINE.replace("lr=1e-3", "lr=1e-4"))
    again(sub, "own_mine")
    assert len([*(sub / "my" / "models").iterdir()]) == 2


@pytest.mark.parametrize("kind", ["(30 * x + 120).clip(0, 255).astype(np.uint8)", "x > 0"])
def test_a_perceptron_takes_inputs_that_are_no_real_numbers(folder: Path, kind: str) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    (folder / "own_bytes.py").write_text(
        f"{TABLE}\ndef whole():\n    x, y = data()\n    x, at = np.unique({kind}, axis=0, return_index=True)\n"
        "    return x, y[at]\n"
    )
    small(
        folder,
        ("own_table:data", "own_bytes:whole"),
        ('"sparse", "dense"', '"sparse", "onnx"'),
        ("batch_sizes = []", "batch_sizes = [1]"),
    )
    told = again(folder)
    assert "model.onnx" in {each["name"] for each in told["shipped"]["files"]}
    assert (folder / "my" / "model.onnx").exists()
    speed = json.loads((folder / "my" / "speed.json").read_text())
    assert {each["form"] for each in speed["latency"]} >= {"dense", "ONNX Runtime"}


def test_weights_in_use_are_a_share_of_the_big_model(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small(folder, ('"set"', '"kd"'))
    told = again(folder)
    (unit,) = told["units"]
    assert unit["used"] == unit["parameters"] < unit["parameters_full"] == 8 * 16 + 16 + 16 * 16 + 16 + 34
    share = unit["used"] / unit["parameters_full"]
    assert 0.2 < share <= 0.35
    assert f" {share:.3f} " in capsys.readouterr().out
    page = (folder / "my" / "report.html").read_text()
    assert f"<dt>Weights in use</dt><dd>{percent(share)}</dd>" in page
    files = json.loads((folder / "my" / "audit.json").read_text())["analyses"][0]
    assert files["storage"][0]["bytes_full"] == 4 * unit["parameters_full"]
