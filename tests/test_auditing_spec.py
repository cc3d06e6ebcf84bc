"""``discreet audit SPEC.toml``: what comes out of a model of one's own, that it goes on, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib import util
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(util.find_spec("torch") is None, reason="needs discreet[torch]")

if util.find_spec("torch") is not None:
    import torch

    from discreet.audit import Audit
    from discreet.auditing_spec import Done, audit_spec
    from discreet.cli import entry
    from discreet.records import Record, read_all
    from discreet.spec import AuditSpec, SpecFileError, read

CODE = """
import numpy as np, torch
from torch import nn

def load(samples=400):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((samples, 6), dtype=np.float32)
    return x, (x[:, 0] + rng.standard_normal(samples) > 0).astype(np.int64)

def build():
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))

def fit(model, x, y, *, seed, checkpoint, epochs=4):
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=draw).split(50):
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
build = "mine:build"

[train]
fit = "mine:fit"

[variants]
quantizers = ["sign(scale='absmean')", "4 bits = uniform(bits=4, scale='absmean')"]

[attacks]
names = ["loss", "attack_p"]

[budget]
runs = 4
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder; modules imported from it are forgotten."""
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing: that takes longest, and is looked at elsewhere."""
    monkeypatch.setattr("discreet.report.write", lambda *_: ())


def write(folder: Path, code: str = CODE, spec: str = SPEC) -> Path:
    sys.modules.pop("mine", None)
    (folder / "mine.py").write_text(textwrap.dedent(code))
    (folder / "spec.toml").write_text(spec)
    return folder / "spec.toml"


def carry_out(path: Path, run: str = "run") -> Done:
    spec, source = read(path, AuditSpec)
    return audit_spec(spec, source, path.parent / run, workers=1)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    folder = tmp_path_factory.mktemp("spec")
    gate = '\n[gate]\nrequire = ["auc < 1", "auroc:full > 0.5"]\n'
    path = write(folder, spec=SPEC.replace("runs = 4", "runs = 4\nshadows = 2") + gate)
    return folder / "run", carry_out(path)


def test_a_run_directory_holds_what_it_should(done: tuple[Path, Done]) -> None:
    folder, found = done
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert names == {
        "manifest.json", "plan.json", "trajectory", "release", "weights", "attacks",
        "audit.json", "report.html", "exposed.csv", "gate.json",
    }  # fmt: skip
    assert Audit.load(folder / "audit.json").to_json() == found.audit.to_json()
    assert found.verdict is not None
    assert json.loads((folder / "gate.json").read_text())["outcome"] == found.verdict.outcome == "passed"


def test_runs_are_followed_and_shadows_are_not(done: tuple[Path, Done]) -> None:
    folder, found = done
    trajectory = read_all(sorted((folder / "trajectory").glob("*.safetensors")))
    release = read_all(sorted((folder / "release").glob("*.safetensors")))
    assert trajectory.runs == ("0", "1", "2", "3")
    assert sorted(release.runs) == ["0", "1", "2", "3", "4", "5"]
    assert sorted(set(trajectory.step.tolist())) == [1, 2, 3, 4]
    variants = ("full", "sign(scale='absmean')", "4 bits")
    assert set(trajectory.variants) == set(release.variants) == set(variants)
    (analysis,) = found.audit.analyses
    assert {row.variant for row in analysis.ranking.variants} == set(variants)
    assert {row.checkpoints for row in analysis.ranking.variants} == {4}
    assert {row.samples for row in analysis.ranking.variants} == {160}
    loss = next(row for row in analysis.attacks if (row.attack, row.metric) == ("loss", "auc"))
    assert loss.members == 6 * 100


def test_members_are_the_samples_that_fit_was_given(
    done: tuple[Path, Done], folder: Path, no_page: None, capsys: pytest.CaptureFixture[str]
) -> None:
    release = read_all(sorted((done[0] / "release").glob("*.safetensors")))
    spy = CODE.replace("    draw = ", "    print('GIVEN', sorted(x[:, 0].tolist())[:3], len(x))\n    draw = ")
    carry_out(write(folder, spy, SPEC.replace("runs = 4", "runs = 2")))
    given = [line for line in capsys.readouterr().out.splitlines() if line.startswith("GIVEN")]
    x = np.random.default_rng(0).standard_normal((400, 6), dtype=np.float32)
    assert len(given) == 2
    for run, line in enumerate(given):
        member = np.asarray(release.membership(str(run)))
        own = x[np.asarray(release.sample)[member], 0]
        assert line == f"GIVEN {sorted(own.tolist())[:3]} 100"


def test_the_same_spec_gives_the_same_bytes_wherever_it_lies(folder: Path, no_page: None) -> None:
    for name in ("a", "b"):
        (folder / name).mkdir()
        carry_out(write(folder / name, spec=SPEC.replace("runs = 4", "runs = 2")))
    one, two = ((folder / name / "run" / "audit.json").read_bytes() for name in ("a", "b"))
    assert one == two
    assert str(folder).encode() not in one


def test_the_built_in_trainer_does_without_fit(folder: Path, no_page: None) -> None:
    spec = SPEC.replace('build = "mine:build"', "hidden = [8]").replace(
        'fit = "mine:fit"', "epochs = 3\nlr = 0.01"
    )
    found = carry_out(write(folder, spec=spec))
    (analysis,) = found.audit.analyses
    assert [row.metric for row in analysis.performance] == ["auroc"] * 3
    assert all(row.value > 0.6 for row in analysis.performance if row.variant == "full")
    assert {row.checkpoints for row in analysis.ranking.variants} == {3}
    loaded, source = read(folder / "spec.toml", AuditSpec)
    assert audit_spec(loaded, source, folder / "again", workers=2).audit.to_json() == found.audit.to_json()


STOPPING = SPEC.replace('build = "mine:build"', "hidden = [16]").replace(
    'fit = "mine:fit"', "epochs = 40\nlr = 0.05\npatience = 2"
)


def test_patience_ends_each_run_by_its_validation_loss(folder: Path, no_page: None) -> None:
    found = carry_out(write(folder, spec=STOPPING))
    record = read_all(sorted((folder / "run" / "trajectory").glob("*.safetensors")))
    last = {run: int(record.step[record.rows("full", run)].max()) for run in record.runs}
    assert len(set(last.values())) > 1  # each stops when it is its time
    assert max(last.values()) < 40
    shipped = found.audit.settings["shipped checkpoint by run"]
    assert {run: step + 2 for run, step in shipped.items()} == last
    assert {row.status for row in found.audit.analyses[0].ranking.variants} == {"ok"}
    assert json.loads((folder / "run" / "plan.json").read_text())


def test_patience_needs_validation_samples(folder: Path) -> None:
    spec = f"{STOPPING}[split]\nvalidation = 0\nevaluation = 0.5\n"
    with pytest.raises(
        SpecFileError, match=r"spec.toml, line 11, \[train\] patience: expected validation samples"
    ):
        carry_out(write(folder, spec=spec))
    with pytest.raises(SpecFileError, match=r"\[train\] patience: expected at least 1, got 0"):
        carry_out(write(folder, spec=STOPPING.replace("patience = 2", "patience = 0")))


def test_a_time_budget_leaves_runs_for_the_next_call(folder: Path, no_page: None) -> None:
    path = write(folder)
    spec, source = read(path, AuditSpec)
    short = replace(spec, budget=replace(spec.budget, minutes=1.0))
    cut = audit_spec(short, source, folder / "run", workers=1, started=time.monotonic() - 120)
    assert cut.left == ("run 1", "run 2", "run 3")
    assert any("time budget ended before: run 1, run 2 and run 3" in note for note in cut.audit.notes)
    assert any("complementary halves; run 1 of them is not there yet." in note for note in cut.audit.notes)
    whole = audit_spec(spec, source, folder / "run", workers=1)
    assert whole.left == ()
    fresh = audit_spec(spec, source, folder / "fresh", workers=1)
    assert whole.audit.to_json() == fresh.audit.to_json()


def test_status_tells_what_is_left(folder: Path, no_page: None, capsys: pytest.CaptureFixture[str]) -> None:
    spec, source = read(write(folder), AuditSpec)
    short = replace(spec, budget=replace(spec.budget, minutes=1.0))
    audit_spec(short, source, folder / "run", workers=1, started=time.monotonic() - 120)
    assert entry.run(["status", str(folder / "run")]) == 0
    told = capsys.readouterr().out
    assert "done: 1 of 4 units of work" in told
    assert "left: run 1, run 2 and run 3 (about " in told
    audit_spec(spec, source, folder / "run", workers=1)
    assert entry.run(["status", str(folder / "run")]) == 0
    told = capsys.readouterr().out
    assert "done: 4 of 4 units of work" in told
    assert "left:" not in told
    assert "attacks: 6 of 6 done" in told


def test_the_gate_decides_how_it_ends(
    folder: Path, no_page: None, capsys: pytest.CaptureFixture[str]
) -> None:
    for requirement, code in (("auc < 1", 0), ("auroc:full > 0.999", 1), ("auc < 0.5", 2)):
        path = write(folder, spec=f'{SPEC}[gate]\nrequire = ["{requirement}"]\n')
        assert entry.run(["audit", str(path), "--folder", str(folder / "run")]) == code
        told = capsys.readouterr().out.splitlines()[-1]
        assert told == f"- {('passed', 'failed', 'undecided')[code]}"


def test_other_code_is_trained_anew(folder: Path, no_page: None) -> None:
    spec = SPEC.replace("runs = 4", "runs = 2")
    path = write(folder, spec=spec)
    carry_out(path)
    before = sorted((folder / "run" / "weights").iterdir())
    carry_out(path)
    assert sorted((folder / "run" / "weights").iterdir()) == before
    found = carry_out(write(folder, CODE.replace("lr=0.02", "lr=0.01"), spec))
    assert len(list((folder / "run" / "weights").iterdir())) == 2 * len(before)
    assert {row.runs for row in found.audit.analyses[0].ranking.variants} == {2}


def test_what_is_damaged_is_made_again(folder: Path, no_page: None) -> None:
    path = write(folder, spec=SPEC.replace("runs = 4", "runs = 2"))
    before = carry_out(path).audit.to_json()
    for kind in ("weights", "release", "trajectory"):
        damaged = sorted((folder / "run" / kind).glob("run*-1-*.safetensors"))[0]
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:-7])
        assert carry_out(path).audit.to_json() == before
        assert damaged.read_bytes() == whole


def test_tables_of_pandas_are_samples(folder: Path) -> None:
    pytest.importorskip("pandas")
    code = CODE.replace(
        "    return x, (x[:, 0]",
        "    import pandas\n    return pandas.DataFrame(x), pandas.Series((x[:, 0] > 0).astype(int))\n    (x[:, 0]",
    )
    spec, source = read(write(folder, code), AuditSpec)
    from discreet.spec import load_data

    found = load_data(spec.data, source)
    assert (found.x.shape, found.x.dtype, found.y.sum().item() > 100) == ((400, 6), torch.float32, True)


@pytest.mark.slow
def test_a_killed_audit_goes_on(folder: Path) -> None:
    path = write(
        folder, CODE.replace("        checkpoint(model)", "        checkpoint(model); time.sleep(0.05)")
    )
    (folder / "mine.py").write_text("import time\n" + (folder / "mine.py").read_text())
    command = [sys.executable, "-m", "discreet", "audit", str(path), "--folder"]
    subprocess.run([*command, str(folder / "whole")], check=True, capture_output=True)
    kills, seen = 0, 0
    for wanted in (1, 2, 4):  # shipped weights after which it is killed: within a run, in no order of ours
        process = subprocess.Popen(
            [*command, str(folder / "run")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        while process.poll() is None and seen < wanted:
            time.sleep(0.02)
            seen = len(list((folder / "run" / "weights").glob("*.safetensors")))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
    assert kills == 3
    stamps = {each: each.stat().st_mtime_ns for each in (folder / "run" / "weights").iterdir()}
    subprocess.run([*command, str(folder / "run")], check=True, capture_output=True)
    assert {each: each.stat().st_mtime_ns for each in stamps} == stamps
    for name in ("audit.json", "report.html", "exposed.csv"):
        assert (folder / "run" / name).read_bytes() == (folder / "whole" / name).read_bytes(), name


def test_where_it_is_measured_is_part_of_what_is_kept(
    folder: Path, no_page: None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(folder, spec=SPEC.replace("runs = 4", "runs = 2"))
    where = ["--folder", str(folder / "run")]

    assert entry.run(["audit", str(path), *where]) == 0
    plain = {each.name for each in (folder / "run" / "trajectory").iterdir()}
    assert entry.run(["audit", str(path), *where, "--device", "cpu", "--precision", "mixed"]) == 0
    mixed = {each.name for each in (folder / "run" / "trajectory").iterdir()} - plain
    assert len(mixed) == len(plain)
    one, other = (
        np.asarray(Record.open(folder / "run" / "trajectory" / min(names)).signals["loss"])
        for names in (plain, mixed)
    )
    assert not np.array_equal(one, other)
    np.testing.assert_allclose(one, other, atol=0.05)
    assert entry.run(["audit", str(path), *where, "--device", "gpu"]) == 2
    assert "--device: expected cpu, cuda, mps or cuda:N, got 'gpu'" in capsys.readouterr().err
    path.write_text(path.read_text() + '\n[device]\nprecision = "half"\n')
    assert entry.run(["audit", str(path), *where]) == 2
    assert "[device] precision: expected full or mixed, got 'half'" in capsys.readouterr().err
