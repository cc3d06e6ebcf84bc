"""discreet compress: a spec carried out, resumed and cut short."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from discreet.artefacts import load_masks, load_sparse
from discreet.cli.entry import run
from discreet.compressing import compress, jobs_of
from discreet.compressing_roles import sizes_of
from discreet.compressors.safecompress import Safecompress
from discreet.methods import parse
from discreet.spec import CompressSpec, read
from discreet.spec.sections import Budget, Compress, Data, Model, Roles, Safety, Select
from tests.compress_specs import OWN, SPEC, TABLE, stamps, working


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from working(tmp_path, monkeypatch)


def test_a_spec_is_carried_out_and_found_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "my.toml").write_text(SPEC)
    assert run(["compress", "my.toml"]) == 0
    printed = capsys.readouterr().out
    told = json.loads((folder / "my" / "compress.json").read_text())
    assert [(unit["part"], unit["method"].partition("(")[0], unit["density"]) for unit in told["units"]] == [
        ("method", "set", 0.3),
        ("control", "dense", 0.3),
        ("control", "kd", 0.3),
        ("ladder", "set", 0.5),
    ]
    assert told["roles"] == {
        "fit": 240,
        "loop": 60,
        "audit": 150,
        "validation": 60,
        "test": 90,
        "reference": 0,
    }
    assert told["left"] == []
    method, dense, small, ladder = told["units"]
    assert method["used"] < ladder["used"] < dense["used"] == dense["parameters"]
    assert small["parameters"] < dense["parameters"]
    assert all(unit["audit"]["mia"]["value"] >= 0.5 for unit in told["units"])
    assert all(unit["audit"]["task"]["n"] == 2 for unit in told["units"])
    assert printed.count("set") >= 2
    apart = [
        a["task"] - b["task"]
        for a, b in zip(method["audit"]["by_run"], dense["audit"]["by_run"], strict=True)
    ]
    assert dense["beside"]["task"]["value"] == pytest.approx(np.mean(apart))
    assert dense["beside"]["task"]["n"] == 2
    assert "sparse container: model.sparse.safetensors" in printed

    # what ships is what was audited: the file's own audit is that of the first run
    files = {each["name"]: each for each in told["shipped"]["files"]}
    assert files["model.sparse.safetensors"]["same"]
    exported = files["model.sparse.safetensors"]["audit"]
    assert exported["task"]["value"] == method["audit"]["by_run"][0]["task"]
    assert exported["mia"]["value"] == method["audit"]["by_run"][0]["mia"]
    assert exported["mia"]["n"] == 150
    assert not files["model.quantized.safetensors"]["same"]
    for name, each in files.items():
        assert each["bytes"] == (folder / "my" / name).stat().st_size
    state = load_sparse(folder / "my" / "model.sparse.safetensors")
    masks = load_masks(folder / "my" / "model.sparse.safetensors")
    assert sum(int(mask.sum()) for mask in masks.values()) == told["shipped"]["weights"]["used"]
    assert all(not bool(state[name][~mask].any()) for name, mask in masks.items())

    page = (folder / "my" / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<script" not in page
    for words in (
        "model.sparse.safetensors",
        "The density ladder",
        "Task performance against what an attack gets",
    ):
        assert words in page

    before, data = stamps(folder / "my"), (folder / "my" / "compress.json").read_bytes()
    assert run(["compress", "my.toml"]) == 0
    assert stamps(folder / "my") == before
    assert (folder / "my" / "compress.json").read_bytes() == data


def test_a_time_budget_ends_between_trainings_and_a_control_that_fails_stops_nothing(folder: Path) -> None:
    text = SPEC.replace('["dense", "kd"]', '["static+dmp"]')
    (folder / "my.toml").write_text(text)
    assert run(["compress", "my.toml", "--time-budget", "0.000001"]) == 0
    told = json.loads((folder / "my" / "compress.json").read_text())
    assert len(told["units"]) == 1  # at least the model that ships
    assert [each["method"].partition("(")[0] for each in told["left"]] == ["static+dmp", "set"]
    assert (
        "The time budget ended before: static+dmp at 0.3, set at 0.5; the next call goes on"
        in told["notes"][-1]
    )
    assert run(["compress", "my.toml"]) == 0
    again = json.loads((folder / "my" / "compress.json").read_text())
    assert [unit["part"] for unit in again["units"]] == ["method", "ladder"]
    assert again["units"][0] == told["units"][0]
    assert "reference" in again["failed"][0]["reason"]
    assert "static+dmp at 0.3 failed: " in again["notes"][-1]
    (folder / "my.toml").write_text(text.replace('method = "set"', 'method = "set+dmp"'))
    assert run(["compress", "my.toml"]) == 2


def test_a_time_budget_ends_within_rounds_which_are_kept(folder: Path) -> None:
    text = SPEC.replace('"set"', "\"safecompress(test='loss', interval=2, tune=1)\"").replace(
        '["dense", "kd"]', "[]"
    )
    text = text.replace("epochs = 4", "epochs = 8").replace("[0.3, 0.5]", "[0.3]")
    (folder / "my.toml").write_text(text)
    spec, source = read("my.toml", CompressSpec)
    whole = compress(spec, source, folder / "whole")
    began: list[str] = []

    def slow(what: str, share: float) -> None:  # the time is up when the second round of the control begins
        if "round 2" in what and began:
            monkey.setattr(time, "monotonic", lambda: float("inf"))
        if "round 1" in what and compress_units(folder / "cut"):
            began.append(what)

    with pytest.MonkeyPatch.context() as monkey:
        cut = compress(replace(spec, budget=Budget(minutes=1e6)), source, folder / "cut", progress=slow)
    assert [each["part"] for each in cut["left"]] == ["random"]
    assert list((folder / "cut" / ".scratch").rglob("course.json"))
    seen: list[str] = []
    again = compress(spec, source, folder / "cut", progress=lambda what, share: seen.append(what))
    assert not [each for each in seen if "first training" in each]
    assert again["units"] == whole["units"]
    assert again["left"] == []


def compress_units(folder: Path) -> list[Path]:
    return [*folder.glob("models/*.safetensors")]


def test_a_model_and_data_of_ones_own(folder: Path) -> None:
    (folder / "own_code.py").write_text(OWN)
    (folder / "my.toml").write_text(
        """
[data]
load = "own_code:data"
options = { n = 300 }
[model]
build = "own_code:build"
options = { channels = 4 }
[train]
loss = "own_code:loss"
task = "ce"
epochs = 3
[compress]
method = "set+dmp"
densities = [0.5]
runs = 2
controls = ["kd"]
[export]
formats = ["sparse"]
values = "float16"
batch_sizes = [1]
"""
    )
    assert run(["compress", "my.toml"]) == 0
    told = json.loads((folder / "my" / "compress.json").read_text())
    assert told["data"] == {"source": "own_code:data", "samples": 300}
    assert "outputs change" in told["shipped"]["notes"][0]
    assert not told["shipped"]["files"][0]["same"]
    speed = json.loads((folder / "my" / "speed.json").read_text())
    assert speed["latency"][0]["form"] == "dense"
    state = load_sparse(folder / "my" / "model.sparse.safetensors")
    assert "1.running_var" in state
    channels = 4 * 9 + 4 + 2 * 4 + 16 * 4 * 2 + 2  # running statistics are no parameters
    assert told["units"][0]["parameters"] == told["shipped"]["weights"]["parameters"] == channels
    assert state["1.num_batches_tracked"].dtype == torch.int64
    before = stamps(folder / "my")
    assert len(before) == 2  # the student is a narrower module of one's own, and found again like the other
    assert run(["compress", "my.toml"]) == 0
    assert stamps(folder / "my") == before
    assert json.loads((folder / "my" / "compress.json").read_text()) == told
    text = (folder / "my.toml").read_text()
    (folder / "my.toml").write_text(text.replace('"own_code:loss"\ntask = "ce"', '"ce"'))
    assert run(["compress", "my.toml"]) == 0
    assert len(stamps(folder / "my")) == 4  # another loss is another training


def test_the_template_is_written_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compress", "--init", "my.toml"]) == 0
    text = (folder / "my.toml").read_text()
    assert text.startswith("#:schema ./my.schema.json\n")
    assert json.loads((folder / "my.schema.json").read_text())["title"] == "discreet compress"
    spec, _ = read("my.toml", CompressSpec)
    assert spec.compress.method == "safecompress"
    assert run(["compress", "--init", "my.toml"]) == 2
    assert "my.toml: there is a file already" in capsys.readouterr().err
    assert (folder / "my.toml").read_text() == text


@pytest.mark.parametrize("many", [2, 3, 5])
def test_whole_groups_find_parts_that_they_fill(folder: Path, many: int) -> None:
    (folder / "own_groups.py").write_text(
        f"{TABLE}\ndef kin():\n    x, y = data()\n    x[1::{many}] = x[::{many}]\n"
        f"    return {{'x': x, 'y': y, 'group': np.arange(len(y)) // {many}}}\n"
    )
    text = SPEC.replace("own_table:data", "own_groups:kin").replace('["dense", "kd"]', "[]")
    (folder / "my.toml").write_text(text.replace("[0.3, 0.5]", "[0.3]").replace("epochs = 4", "epochs = 1"))
    spec, source = read("my.toml", CompressSpec)
    told = compress(spec, source, folder / "my")
    assert sum(told["roles"].values()) >= 0.9 * 600
    assert len(told["units"]) == 1


def test_sections_of_safecompress_fill_what_the_method_leaves_open() -> None:
    own = {"data": Data("tab20"), "model": Model(hidden=(8,))}
    sections = {"safety": Safety(test="loss"), "select": Select("tm", patience=3)}
    found = jobs_of(CompressSpec(**own, **sections, compress=Compress("safecompress+re1", controls=())))
    assert [job.part for job in found] == ["method", "random"]
    assert "rule='tm', test='loss'" in found[0].method
    assert "patience=3" in found[0].method
    assert found[0].method.endswith("+re1(beta=0.1)") or "+re1" in found[0].method
    assert "rule='random', test='loss'" in found[1].method
    explicit = Compress("safecompress(rule='least')", controls=("set", "set", "dense"), random_control=False)
    found = jobs_of(CompressSpec(**own, **sections, compress=explicit))
    assert [job.part for job in found] == ["method", "control", "control"]
    assert "rule='least', test='loss'" in found[0].method
    default = Compress("safecompress(rule = 'constrained')", controls=(), random_control=False)
    found = jobs_of(CompressSpec(**own, **sections, compress=default))
    assert "rule='constrained', test='loss'" in found[0].method


def test_what_a_method_says_by_position_or_within_a_test_is_told_from_its_own_fields() -> None:
    own = {"data": Data("tab20"), "model": Model(hidden=(8,)), "select": Select("least", patience=3)}

    def method(spec: str) -> Safecompress:
        found = jobs_of(CompressSpec(**own, compress=Compress(spec, controls=()), safety=Safety(test="loss")))
        made = parse(found[0].method).compressor
        assert isinstance(made, Safecompress)
        return made

    both = method("safecompress('tm', \"modified(metric='auc')\")")
    assert (both.rule, both.test, both.patience) == ("tm", "modified(metric='auc')", 3)
    nested = method("safecompress(test=\"blackbox(learner='neural_blackbox(patience=9)')\")")
    assert nested.test == "blackbox(learner='neural_blackbox(patience=9)')"
    assert (nested.rule, nested.patience) == ("least", 3)


def test_shares_of_the_samples() -> None:
    sizes = sizes_of(Roles(fit=100, reference=50), 333)
    assert (sizes.fit, sizes.reference) == (100, 50)
    assert sizes.loop % 2 == sizes.audit % 2 == 0
    for samples in (60, 101, 999, 6000):
        sizes = sizes_of(Roles(), samples)
        assert sizes.total <= samples
        assert sizes.loop + sizes.audit <= sizes.fit
    assert np.isclose(sizes_of(Roles(), 10_000).fit, 4000)


@pytest.mark.slow
def test_a_killed_call_goes_on_and_ends_as_if_it_had_not_been(folder: Path) -> None:
    text = SPEC.replace('method = "set"', "method = \"safecompress(test='loss')\"").replace(
        "epochs = 6", "epochs = 40"
    )
    (folder / "my.toml").write_text(text.replace("[0.3, 0.5]", "[0.3]"))
    assert run(["compress", "my.toml", "--folder", "whole"]) == 0
    command = [sys.executable, "-m", "discreet", "compress", "my.toml", "--folder", "killed"]
    seen = 0
    for _ in range(4):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            end = time.monotonic() + 120
            while process.poll() is None and time.monotonic() < end:
                files = len([*(folder / "killed").rglob("*.safetensors")])
                if files > seen:
                    seen = files
                    break
                time.sleep(0.02)
            process.kill()
    assert run(["compress", "my.toml", "--folder", "killed"]) == 0
    assert seen
    for name in ("compress.json", "audit.json", "model.sparse.safetensors", "model.quantized.safetensors"):
        assert (folder / "killed" / name).read_bytes() == (folder / "whole" / name).read_bytes()
    assert not [*(folder / "killed" / ".scratch").iterdir()]


@pytest.mark.slow
def test_the_template_runs_as_it_is_and_ships_onnx(folder: Path) -> None:
    assert run(["compress", "--init", "my.toml"]) == 0
    text = (folder / "my.toml").read_text()
    for old, new in (
        ("samples = 6000", "samples = 1000"),
        ("hidden = [256, 256]", "hidden = [32, 32]"),
        ("epochs = 60", "epochs = 8"),
        (
            "densities = [0.1, 0.05, 0.2]",
            "densities = [0.2]\nruns = 2\ncontrols = []\nrandom_control = false",
        ),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "my.toml").write_text(text)
    assert run(["compress", "my.toml"]) == 0
    told = json.loads((folder / "my" / "compress.json").read_text())
    files = {each["form"]: each for each in told["shipped"]["files"]}
    onnx, sparse = files["ONNX"]["audit"], files["sparse container"]["audit"]
    assert onnx["task"] == sparse["task"]
    assert onnx["attacks"].keys() == sparse["attacks"].keys()
    for name in ("mia", "auc", "train"):
        assert onnx[name]["value"] == pytest.approx(sparse[name]["value"], abs=0.02)
        assert onnx[name]["n"] == sparse[name]["n"]
    assert files["ONNX"]["difference"] < 1e-3
    speed = json.loads((folder / "my" / "speed.json").read_text())
    assert {each["form"] for each in speed["latency"]} >= {"dense", "ONNX Runtime"}
    assert len(speed["swaps"]) == 3
