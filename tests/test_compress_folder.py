"""What discreet compress leaves in its folder, whole or half done: status, gate and report, and files in one step."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from discreet.audit import Audit
from discreet.cli.compress import _said
from discreet.cli.entry import run
from discreet.compressed_audit import audit_of, names_of
from discreet.compressing import compress
from discreet.gate import gate
from discreet.planned import planned
from discreet.report.model_card import model_card
from discreet.shipping import FILES
from discreet.spec import CompressSpec, importable, read
from discreet.store import Store
from tests.compress_specs import SPEC, TABLE

SMALL = (
    SPEC.replace("own_table", "folder_table")
    .replace("epochs = 4", "epochs = 1")
    .replace('["dense", "kd"]', '["dense", "static+dmp"]')
)
Said = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spec carried out, with a control that fails; tests change copies of it."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "folder_table.py").write_text(TABLE)
    (folder / "my.toml").write_text(SMALL)
    go(folder)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it."""
    shutil.copytree(whole, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def empty(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The spec alone."""
    for name in ("folder_table.py", "my.toml"):
        shutil.copy(whole / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def go(folder: Path, **more: Any) -> dict[str, Any]:
    spec, source = read(folder / "my.toml", CompressSpec)
    try:
        with importable(source.folder):
            return compress(spec, source, folder / "my", **more)
    finally:
        sys.modules.pop("folder_table", None)  # that of the next test lies elsewhere


def stopped_at(words: str) -> Any:
    """Progress that is interrupted when something begins."""

    def show(what: str, share: float) -> None:
        del share
        if words in what:
            raise KeyboardInterrupt

    return show


def files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}


def test_the_audit_holds_the_figures_of_the_compression(folder: Path) -> None:
    told = json.loads((folder / "my" / "compress.json").read_text())
    audit = Audit.load(folder / "my" / "audit.json")
    schema = Path(__file__).parents[1] / "src" / "discreet" / "report" / "audit.schema.json"
    jsonschema.validate(audit.to_json(), json.loads(schema.read_text()))
    assert audit == audit_of(told)
    shipped, methods = audit.analyses
    assert [row.variant for row in shipped.ranking.variants] == [
        "model.sparse.safetensors",
        "model.quantized.safetensors",
    ]
    assert [row.variant for row in methods.ranking.variants] == ["set at 0.3", "dense at 0.3", "set at 0.5"]
    for analysis, found, runs in (
        (shipped, {each["name"]: each for each in told["shipped"]["files"] if "audit" in each}, 1),
        (methods, dict(zip(names_of(told["units"]), told["units"], strict=True)), 2),
    ):
        rows = {(row.variant, row.attack, row.metric): row for row in analysis.attacks}
        for name, each in found.items():
            wanted = {(attack, "balanced_accuracy"): it for attack, it in each["audit"]["attacks"].items()}
            wanted |= {("strongest", "balanced_accuracy"): each["audit"]["mia"]}
            wanted |= {("strongest", "auc"): each["audit"]["auc"]}
            wanted |= {("strongest", f"tpr@{fpr}"): it for fpr, it in each["audit"]["tpr"].items()}
            for key, it in wanted.items():
                row = rows.pop((name, *key))
                assert (row.value, row.low, row.high) == (it["value"], it["low"], it["high"])
                assert (row.members, row.nonmembers, row.runs) == (75 * runs, 75 * runs, runs)
            task = next(row for row in analysis.performance if row.variant == name)
            assert (task.metric, task.value, task.n) == ("accuracy", each["audit"]["task"]["value"], 90)
        assert not rows
    assert {row.variant: row.bytes for row in shipped.storage} == {
        name: (folder / "my" / name).stat().st_size
        for name in ("model.sparse.safetensors", "model.quantized.safetensors")
    }
    assert [(row.variant, row.against, row.value) for row in methods.paired] == [
        ("set at 0.3", name, unit["beside"]["mia"]["value"])
        for name, unit in zip(names_of(told["units"])[1:], told["units"][1:], strict=True)
    ]


@pytest.mark.parametrize(
    ("require", "more", "code", "said"),
    [
        ("auc < 0.99", [], 0, "passed: auc of model."),
        ("auc < 0.1", [], 1, "failed: auc of model."),
        ("auc < 0.5", [], 2, "undecided: auc of model."),
        ("balanced_accuracy:model.sparse.safetensors:loss < 0.9", [], 0, "under loss"),
        ("balanced_accuracy > 0.9", [], 1, "failed: balanced_accuracy"),
        ("accuracy:model.sparse.safetensors > 0.05", [], 0, "passed: accuracy of model.sparse.safetensors"),
        ("accuracy > 0.99", [], 1, "failed: accuracy"),
        ("tpr@10% < 0.9", [], 0, "passed: tpr@0.1"),
        ("tpr@1% < 0.9", ["--bound", "point"], 2, "takes 100 non-members a run to be resolved, and there are 75"),
        ("tpr@0.1% < 0.9", [], 2, "it was not measured"),
        ("bytes:model.sparse.safetensors < 100000", [], 0, "passed: bytes"),
        ("auc:dense at 0.3 < 0.99", ["--analysis", "methods"], 0, "passed: auc of dense at 0.3 under strongest"),
        ("auc:dense at 0.3 < 0.99", [], 2, "the ranking has no variant 'dense at 0.3'"),
        ("auk < 0.9", [], 2, "no metric 'auk'; did you mean 'auc'?"),
    ],
)  # fmt: skip
def test_the_gate_judges_the_files_that_ship(
    folder: Path, capsys: Said, require: str, more: list[str], code: int, said: str
) -> None:
    assert run(["gate", "my", "--require", require, *more]) == code
    printed = capsys.readouterr()
    assert said in printed.out + printed.err
    judged = folder / "my" / "gate.json"
    assert judged.exists() == ("undecided" in printed.out or code != 2)
    if judged.exists():
        assert json.loads(judged.read_text())["outcome"] == ("passed", "failed", "undecided")[code]


def test_status_says_what_is_done_what_failed_and_what_ships(folder: Path, capsys: Said) -> None:
    assert run(["status", "my"]) == 0
    said = capsys.readouterr().out
    assert "done: 3 of 4 units of work" in said
    assert "failed: static+dmp at 0.3: dmp: expected reference samples" in said
    assert "left" not in said
    size = (folder / "my" / "model.sparse.safetensors").stat().st_size
    assert f"ships model.sparse.safetensors: {size:,} bytes\n" in said
    (folder / "my" / "model.sparse.safetensors").write_bytes(b"another")
    (folder / "my" / "masks.safetensors").unlink()
    run(["status", "my"])
    said = capsys.readouterr().out
    assert f"ships model.sparse.safetensors: 7 bytes, {size:,} bytes when it was audited" in said
    assert "ships masks.safetensors: not there" in said


def test_report_writes_the_page_again(folder: Path, capsys: Said) -> None:
    page = folder / "my" / "report.html"
    before = page.read_bytes()
    page.unlink()
    assert run(["report", "my"]) == 0
    assert page.read_bytes() == before
    assert run(["report", "my", "--out", "other.html"]) == 0
    assert (folder / "other.html").read_bytes() == before
    capsys.readouterr()
    assert run(["report", "my", "--figures", "figures"]) == 2
    assert "my is of discreet compress, whose figures are on its page alone" in capsys.readouterr().err
    assert run(["report", "my", "--model-card", "-", "--variant", "model.sparse.safetensors"]) == 0
    card = capsys.readouterr().out
    assert "| model.sparse.safetensors | undefined" in card
    assert "quantized" not in card


def test_a_call_that_changes_nothing_keeps_the_verdict(folder: Path) -> None:
    assert run(["gate", "my", "--require", "auc < 0.99"]) == 0
    names = (*FILES, "gate.json", "audit.json", "compress.json", "report.html")
    before = {n: (folder / "my" / n).read_bytes() for n in names if (folder / "my" / n).exists()}
    inode = (folder / "my" / "model.sparse.safetensors").stat().st_ino
    go(folder)
    assert {n: (folder / "my" / n).read_bytes() for n in before} == before
    assert (folder / "my" / "model.sparse.safetensors").stat().st_ino == inode
    (folder / "my.toml").write_text(SMALL.replace('"modified", "loss"', '"loss"'))
    go(folder)
    assert not (folder / "my" / "gate.json").exists()  # the same files, other attacks
    assert files(folder / "my") == {n: before[n] for n in FILES if n in before}


def test_half_done_it_is_judged_by_what_is_finished(folder: Path, empty: Path, capsys: Said) -> None:
    whole = folder / "my"
    with pytest.raises(KeyboardInterrupt):
        go(empty, progress=stopped_at("set at 0.5"))
    told = json.loads((empty / "my" / "compress.json").read_text())
    assert [unit["method"].partition("(")[0] for unit in told["units"]] == ["set", "dense"]
    assert told["notes"][0] == "Not done yet: set at 0.5; the next call goes on with them"
    assert told["notes"][1].startswith("static+dmp at 0.3 failed: ")
    assert files(empty / "my") == files(whole)
    capsys.readouterr()
    assert run(["status", "my"]) == 0
    said = capsys.readouterr().out
    assert "done: 2 of 4 units of work" in said
    assert "left: set at 0.5 (about" in said
    assert "failed: static+dmp at 0.3: dmp" in said
    assert "not ended in order" not in said
    assert run(["gate", "my", "--require", "auc < 0.99"]) == 0
    (empty / "my" / "report.html").unlink()
    assert run(["report", "my"]) == 0
    assert "Not done yet: set at 0.5" in (empty / "my" / "report.html").read_text()
    go(empty)
    for name in ("compress.json", "audit.json", "plan.json", "report.html"):
        assert (empty / "my" / name).read_bytes() == (whole / name).read_bytes()


def test_before_there_is_a_model_the_folder_is_named(empty: Path, capsys: Said) -> None:
    with pytest.raises(KeyboardInterrupt):
        go(empty, progress=stopped_at("set at 0.3"))
    assert run(["status", "my"]) == 0
    said = capsys.readouterr().out
    assert "done: 0 of 4 units of work" in said
    assert "left: set at 0.3, dense at 0.3, static+dmp at 0.3 and set at 0.5 (nothing was timed yet)" in said
    for command in (["gate", "my", "--require", "auc < 0.6"], ["report", "my"]):
        assert run(command) == 2
        assert (
            "discreet: my: discreet compress has no finished model in it yet, so there is no audit; call it again"
            in capsys.readouterr().err
        )


@pytest.mark.parametrize("after", [0, 2])
def test_a_kill_while_files_are_replaced_leaves_old_ones_or_new_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    old = files(folder / "my")
    assert run(["gate", "my", "--require", "auc < 0.99"]) == 0
    (folder / "my.toml").write_text(SMALL.replace("runs = 2", "runs = 2\nseed = 1"))
    replace, done = os.replace, 0

    def fused(source: Any, target: Any) -> None:
        nonlocal done
        if Path(target).parent == folder / "my" and Path(target).name in FILES:
            if done == after:
                raise KeyboardInterrupt
            done += 1
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fused)
        with pytest.raises(KeyboardInterrupt):
            go(folder)
    left = files(folder / "my")
    assert left.keys() == old.keys()
    changed = [name for name in left if left[name] != old[name]]
    assert len(changed) == after
    assert not (folder / "my" / "gate.json").exists()
    assert run(["gate", "my", "--require", "auc < 0.99"]) == 2  # no audit of files that were half replaced
    go(folder)
    new = files(folder / "my")
    assert all(new[name] != old[name] for name in old)
    assert all(left[name] == new[name] for name in changed)
    assert run(["gate", "my", "--require", "auc < 0.99"]) == 0


def test_a_failure_while_files_are_written_leaves_the_old_ones(folder: Path) -> None:
    old = files(folder / "my")
    audit = (folder / "my" / "audit.json").read_bytes()
    (folder / "my.toml").write_text(SMALL.replace("lr = 0.01", "lr = 0.02"))
    with pytest.raises(KeyboardInterrupt):
        go(folder, progress=stopped_at("exporting"))
    assert files(folder / "my") == old
    assert (folder / "my" / "audit.json").read_bytes() == audit
    left = planned(Store(folder / "my")).left
    assert left == ("dense at 0.3", "static+dmp at 0.3", "set at 0.5")


def test_formats_no_longer_asked_for_go(folder: Path) -> None:
    (folder / "my.toml").write_text(SMALL.replace('"sparse", "dense"', '"sparse"').replace("quantizer", "# "))
    aside = folder / "my" / ".scratch" / "shipping"  # of a call that was killed
    aside.mkdir(parents=True)
    (aside / "model.onnx").write_text("half")
    go(folder)
    assert set(files(folder / "my")) == {"model.sparse.safetensors", "masks.safetensors"}
    assert not [*(folder / "my" / ".scratch").iterdir()]


def test_no_command_writes_over_the_other_ones_folder(folder: Path, empty: Path, capsys: Said) -> None:
    (folder / "audit.toml").write_text(
        '[data]\nload = "folder_table:data"\n[model]\nhidden = [8]\n[train]\nepochs = 1\nloss = "ce"\n'
    )
    os.chdir(folder)
    assert run(["audit", "audit.toml", "--folder", "my"]) == 2
    assert "my: no earlier audit of a spec wrote the plan.json in it" in capsys.readouterr().err
    (empty / "my").mkdir()
    for name in ("manifest.json", "audit.json"):
        shutil.copy(folder / "my" / name, empty / "my" / name)
    os.chdir(empty)
    assert run(["compress", "my.toml"]) == 2
    assert "my: discreet compress did not write the audit.json in it" in capsys.readouterr().err


def test_names_are_short_where_that_tells_them_apart() -> None:
    def job(part: str, method: str, density: float = 0.1) -> dict[str, Any]:
        return {"part": part, "method": method, "density": density}

    jobs = [
        job("method", "safecompress(rule='tm')"),
        job("random", "safecompress(rule='random')"),
        job("control", "kd(epochs=3)"),
        job("control", "kd(epochs=4)"),
        job("ladder", "safecompress(rule='tm')", 0.2),
    ]
    assert names_of(jobs) == [
        "safecompress at 0.1",
        "safecompress at 0.1 (candidates at random)",
        "kd(epochs=3) at 0.1",
        "kd(epochs=4) at 0.1",
        "safecompress at 0.2",
    ]


@pytest.mark.parametrize(
    ("metric", "asked"),
    [
        ("accuracy", "accuracy"),
        ("my_pkg.metrics:utility", "utility"),
        ("my_pkg.metrics:auc", "own_auc"),  # that of attacks is another
        ("my_pkg.metrics:accuracy", "own_accuracy"),  # need not lie between 0 and 1
    ],
)
def test_task_performance_goes_by_a_name_that_a_requirement_can_say(
    folder: Path, metric: str, asked: str
) -> None:
    told = json.loads((folder / "my" / "compress.json").read_text()) | {"metric": metric}
    audit = audit_of(told)
    assert {row.metric for analysis in audit.analyses for row in analysis.performance} == {asked}
    assert gate(audit, [f"{asked} > 0.05"]).outcome == "passed"


def test_a_guarantee_of_what_ships_is_in_the_audit_and_the_card(folder: Path) -> None:
    told = json.loads((folder / "my" / "compress.json").read_text())
    assert "epsilon" not in json.dumps(audit_of(told).to_json()["analyses"])
    told["units"][1]["epsilon"] = [7.0, 1e-5]  # of a control, which does not ship
    assert "epsilon" not in json.dumps(audit_of(told).to_json()["analyses"])
    assert any("dense at 0.3: ε = 7.00 at δ = 1e-5, only against those" in each for each in _said(told))
    told["units"][0]["epsilon"] = [41.21, 1e-5]
    audit = audit_of(told)
    assert audit.to_json()["analyses"][0]["epsilon"] == [41.21, 1e-5]
    assert audit.notes[0].startswith(
        "What ships was trained with ε = 41.3 at δ = 1e-5, only against those who do not"
    )
    assert "differentially private for each record: ε = 41.3" in model_card(audit)
    schema = Path(__file__).parents[1] / "src" / "discreet" / "report" / "audit.schema.json"
    jsonschema.validate(audit.to_json(), json.loads(schema.read_text()))


def test_a_file_that_was_not_attacked_passes_nothing(folder: Path) -> None:
    told = json.loads((folder / "my" / "compress.json").read_text())
    told["shipped"]["files"].append({"form": "ONNX", "name": "model.onnx", "bytes": 9, "audit": {}})
    for require in ("auc < 0.99", "balanced_accuracy < 0.99", "accuracy > 0"):
        found = gate(audit_of(told), [require])
        assert found.outcome == "undecided"
        assert "of model.onnx" in found.reasons[0]
        assert "it was not measured" in found.reasons[0]
    assert gate(audit_of(told), ["bytes:model.onnx < 10"]).passed
