"""The demo, small: what it keeps, what it promises about membership, the same bytes, and going on after a kill."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from importlib import util
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(
    any(util.find_spec(name) is None for name in ("torch", "rdkit", "B3DB")),
    reason="needs discreet[molecules]",
)

if util.find_spec("torch") is not None:
    from discreet.quantizers import PRESETS
    from discreet.records import read_all
    from discreet.studies.demo import demo
    from discreet.studies.pair import VARIANTS
    from discreet.studies.plan import Material, Plan, prepare

    SMALL = Plan(runs=4, epochs=8, lr=1e-2, bits=256, hidden=16, molecules=700)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "run"
    shares = []
    demo(folder, plan=SMALL, workers=2, progress=lambda doing, share: shares.append(share))
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert max(np.diff(shares)) < 0.2
    return folder


@pytest.fixture(scope="module")
def material() -> Material:
    return prepare(SMALL)


def test_no_family_is_on_two_sides(material: Material) -> None:
    sides = [
        set(material.family[part]) for part in (material.training, material.validation, material.evaluation)
    ]
    assert sum(map(len, sides)) == len(set().union(*sides))
    for part in (material.validation, material.evaluation):
        assert len(np.unique(material.family[part])) == len(part)


def test_each_training_molecule_is_in_half_of_the_runs(material: Material) -> None:
    assert material.halves.shape == (SMALL.runs, len(material.training))
    assert (material.halves.sum(axis=1) == material.n_train).all()
    assert (material.halves[0::2] ^ material.halves[1::2]).all()


def test_the_coarser_settings_of_a_plan_are_checked() -> None:
    for wrong, words in (
        ({"runs": 3}, "even number"),
        ({"seed": -1}, "0 or more"),
        ({"epochs": 7}, "at least 8"),
    ):
        with pytest.raises(ValueError, match=words):
            Plan(**wrong)


def test_the_run_directory_holds_what_it_should(run_dir: Path) -> None:
    found = sorted(path.relative_to(run_dir).as_posix().partition("-")[0] for path in run_dir.glob("[!.]*"))
    assert found == ["audit.json", "manifest.json", "release", "report.html", "trajectory", "weights"]
    assert len(list((run_dir / "weights").iterdir())) == SMALL.runs
    assert (run_dir / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_the_trajectory_is_measured_on_strangers_only(run_dir: Path, material: Material) -> None:
    record = read_all(sorted((run_dir / "trajectory").iterdir()))
    assert record.variants == VARIANTS
    assert record.runs == ("0", "1", "2", "3")
    assert sorted(set(record.step)) == list(range(1, SMALL.epochs + 1))
    assert record.sample.tolist() == material.number[material.evaluation].tolist()
    assert record.member is not None
    assert not record.member.any()
    assert record.about["n_train"] == material.n_train


def test_the_release_measures_the_shipped_weights(run_dir: Path, material: Material) -> None:
    import torch
    from safetensors.torch import load_file, safe_open

    from discreet.measure import measure_stack
    from discreet.mlp import MLP

    release = read_all(sorted((run_dir / "release").glob("*.safetensors")))
    assert release.member is not None
    np.testing.assert_array_equal(release.member, material.halves)
    network = MLP((SMALL.bits, SMALL.hidden, 1))
    x = torch.from_numpy(material.fingerprint[material.training]).float()
    for run, path in enumerate(sorted((run_dir / "weights").iterdir())):
        with safe_open(path, "pt") as file:
            step = float(file.metadata()["step"])
        (row,) = release.rows("full", str(run))
        assert release.step[row] == step
        weights = {name: value[None] for name, value in load_file(path).items()}
        again = measure_stack(network, {"full": weights}, x, material.label[material.training])
        np.testing.assert_allclose(release.signal("loss")[row], again["loss"][0, 0], rtol=1e-4, atol=1e-5)


def test_the_shipped_step_has_the_lowest_validation_loss(run_dir: Path, material: Material) -> None:
    """Against a training and a judgement of its own, on PyTorch's plain functions."""
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits as bce

    from discreet.mlp import MLP
    from discreet.recipe import Recipe
    from discreet.training import train

    x, y = torch.from_numpy(material.fingerprint).float(), torch.from_numpy(material.label)
    losses: list[list[float]] = []

    def judge(epoch: int, params: dict[str, torch.Tensor]) -> None:
        hidden = torch.relu(x[material.validation] @ params["0.weight"].mT + params["0.bias"][:, None])
        outputs = (hidden @ params["2.weight"].mT + params["2.bias"][:, None])[..., 0]
        losses.append([float(bce(row, y[material.validation].float())) for row in outputs])

    network = MLP((SMALL.bits, SMALL.hidden, 1))
    recipe = Recipe(lr=SMALL.lr, epochs=SMALL.epochs, batch_size=SMALL.batch_size)
    subsets = np.array([np.flatnonzero(half) for half in material.halves])
    training = x[material.training], y[material.training]
    train(network, *training, subsets, recipe, seed=SMALL.seed, on_checkpoint=judge)
    release = read_all(sorted((run_dir / "release").glob("*.safetensors")))
    shipped = [int(release.step[release.rows("full", run)[0]]) for run in release.runs]
    assert shipped == (1 + np.argmin(losses, axis=0)).tolist()


def test_members_fit_better_than_strangers(run_dir: Path) -> None:
    release = read_all(sorted((run_dir / "release").glob("*.safetensors")))
    for run in release.runs:
        losses = np.asarray(release.signal("loss")[release.rows("full", run)[0]])
        member = release.membership(run)
        assert losses[member].mean() < losses[~member].mean()


def test_the_audit_has_both_presets_and_both_spacings(run_dir: Path) -> None:
    from discreet.audit import Audit

    audit = Audit.load(run_dir / "audit.json")
    names = [analysis.name for analysis in audit.analyses]
    assert names == [
        "paper preset, every epoch",
        "paper preset, every 4 epochs",
        "scaled preset, every epoch",
        "scaled preset, every 4 epochs",
    ]
    for analysis, preset in zip(audit.analyses, ("paper", "paper", "scaled", "scaled"), strict=True):
        variants = {"full", *PRESETS[preset]}
        assert {row.variant for row in analysis.ranking.variants} == variants
        assert {row.checkpoints for row in analysis.ranking.variants} == {
            8 if "every epoch" in analysis.name else 2
        }
        for rows in (analysis.performance, analysis.storage, analysis.attacks):
            assert {row.variant for row in rows} == variants
        assert {row.runs for row in analysis.attacks} == {SMALL.runs}
        (full,) = (row for row in analysis.performance if row.variant == "full")
        assert (full.share_of_full, full.share_low, full.share_high) == (1.0, 1.0, 1.0)
        sizes = {row.variant: row.bytes for row in analysis.storage}
        assert max(sizes, key=sizes.__getitem__) == "full"
    assert len(audit.analyses[0].curves) == 2 * 9
    assert audit.analyses[0].lambda_
    assert audit.data.counts["rows"] == 7807
    assert sum("told apart" in sentence for sentence in audit.summary) >= 4


def test_no_time_host_or_path_is_in_the_audit(run_dir: Path) -> None:
    text = (run_dir / "audit.json").read_text("utf-8")
    started = json.loads((run_dir / "manifest.json").read_text())["sessions"][0]["started"]
    for private in (socket.gethostname(), str(run_dir), str(Path.home()), started[:10], str(os.getpid())):
        assert f'"{private}' not in text
        assert f"/{private}" not in text


def test_what_is_missing_is_made_again_and_the_rest_is_not(run_dir: Path) -> None:
    before = (run_dir / "audit.json").read_bytes()
    page = (run_dir / "report.html").read_bytes()
    parts = sorted((run_dir / "trajectory").iterdir())
    kept = parts[0].stat().st_mtime_ns, parts[0].stat().st_ino
    parts[1].write_bytes(parts[1].read_bytes()[:1000])
    (run_dir / "audit.json").unlink()
    demo(run_dir, plan=SMALL, workers=1)
    assert (run_dir / "audit.json").read_bytes() == before
    assert (run_dir / "report.html").read_bytes() == page
    assert (parts[0].stat().st_mtime_ns, parts[0].stat().st_ino) == kept


def test_more_runs_keep_the_first_ones(run_dir: Path) -> None:
    from discreet.store import Store
    from discreet.studies.work import keys_of

    more, other = replace(SMALL, runs=6), replace(SMALL, seed=1)
    store, material = Store(run_dir), prepare(more)
    assert store.has(keys_of(store, more, material, 0).trajectory)
    assert not store.has(keys_of(store, more, material, 2).trajectory)
    assert not store.has(keys_of(store, other, material, 0).trajectory)


@pytest.mark.slow
def test_another_directory_gives_the_same_bytes(run_dir: Path, tmp_path: Path) -> None:
    demo(tmp_path / "again", plan=SMALL, workers=1)
    for name in ("audit.json", "report.html"):
        assert (tmp_path / "again" / name).read_bytes() == (run_dir / name).read_bytes()


COMMAND = (sys.executable, "-c", "from discreet.cli import main; main()", "demo")
QUICK = ("--runs", "4", "--epochs", "8", "--molecules", "700")


def begin(folder: Path) -> subprocess.Popen[str]:
    """Start the command, and wait until it has begun to work."""
    process = subprocess.Popen(
        [*COMMAND, folder, *QUICK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not (folder / "manifest.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("wait", [0.0, 4.0, 7.0, 10.0])
def test_ctrl_c_leaves_nothing_half_written(tmp_path: Path, wait: float) -> None:
    folder = tmp_path / "run"
    process = begin(folder)
    time.sleep(wait)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    if process.returncode != 0:  # else it was faster
        assert process.returncode == 2
        assert said == "discreet: stopped; what was finished is kept\n"
    assert not [path for path in folder.rglob(".*.part*") if path.is_file()]
    for name in ("audit.json", "manifest.json"):
        if (folder / name).exists():
            json.loads((folder / name).read_text())


@pytest.mark.slow
def test_a_killed_demo_goes_on(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*COMMAND, whole, *QUICK], check=True, capture_output=True, timeout=600)
    for wait in (2.0, 6.0):
        process = begin(killed)
        time.sleep(wait)
        process.kill()
        process.communicate()
    subprocess.run([*COMMAND, killed, *QUICK], check=True, capture_output=True, timeout=600)
    assert (killed / "audit.json").read_bytes() == (whole / "audit.json").read_bytes()


@pytest.mark.slow
def test_two_demos_in_one_directory_are_refused(tmp_path: Path) -> None:
    first = begin(tmp_path / "run")
    second = subprocess.run([*COMMAND, tmp_path / "run", *QUICK], capture_output=True, text=True, timeout=300)
    first.kill()
    first.communicate()
    assert second.returncode == 2
    assert f"{tmp_path / 'run'}: in use by process {first.pid}" in second.stderr
    assert "unexpected" not in second.stderr
    assert len(second.stderr.splitlines()) == 1
