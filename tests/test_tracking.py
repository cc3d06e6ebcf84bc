"""Runs in MLflow, by its own client, on a store of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mlflow import MlflowClient

from discreet.audit import Analysis, Attack, Audit
from discreet.cli import entry
from discreet.tracking import log_run, metrics_of, params_of
from tests.test_gate import ODD, audit, table

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.mark.slow
def test_a_run_directory_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    audit().save(run / "audit.json")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    assert entry.run(["gate", str(run), "--require", "auc < 0.4"]) == 1
    assert entry.run(["report", str(run), "--mlflow", uri]) == 0
    out = capsys.readouterr().out
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("discreet")
    assert experiment is not None
    (logged,) = client.search_runs([experiment.experiment_id])
    assert f"logged to MLflow as run {logged.info.run_id} of 'discreet'" in out
    assert logged.info.status == "FINISHED"
    assert logged.data.metrics == metrics_of(audit().analyses[0])
    assert logged.data.params == params_of(audit())
    assert logged.data.tags["discreet.gate"] == "failed"
    assert {file.path for file in client.list_artifacts(logged.info.run_id)} == {
        "audit.json",
        "report.html",
        "gate.json",
    }
    fetched = client.download_artifacts(logged.info.run_id, "audit.json", str(tmp_path))
    assert Audit.load(fetched) == audit()
    assert entry.run(["report", str(run), "--mlflow", uri]) == 0
    assert "logged before to MLflow as run" in capsys.readouterr().out
    assert log_run(run, uri) == (logged.info.run_id, False)
    assert log_run(run, uri, "another")[1] is True
    few = Audit("other", (Analysis("main", table()),))
    few.save(run / "audit.json")
    os.utime(run / "gate.json", ns=(0, (run / "audit.json").stat().st_mtime_ns - 1))
    name, new = log_run(run, uri)
    assert new is True
    assert len(client.search_runs([experiment.experiment_id])) == 2
    assert "discreet.gate" not in client.get_run(name).data.tags
    assert {file.path for file in client.list_artifacts(name)} == {"audit.json", "report.html"}


@pytest.mark.slow
def test_a_verdict_that_comes_later_goes_to_the_run_of_its_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    audit().save(run / "audit.json")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    name, new = log_run(run, uri)
    assert new is True
    client = MlflowClient(tracking_uri=uri)
    assert {file.path for file in client.list_artifacts(name)} == {"audit.json"}
    for require, outcome in (("auc < 0.4", "failed"), ("auc < 0.9", "passed")):
        entry.run(["gate", str(run), "--require", require])
        (run / "report.html").write_text(outcome)
        assert log_run(run, uri) == (name, False)
        found = client.get_run(name)
        assert (found.data.tags["discreet.gate"], found.info.status) == (outcome, "FINISHED")
        for file, words in (("report.html", outcome), ("gate.json", f'"outcome": "{outcome}"')):
            assert words in Path(client.download_artifacts(name, file, str(tmp_path))).read_text()


def test_metrics_have_their_ends_and_n() -> None:
    found = metrics_of(audit().analyses[0])
    assert (found["sign/r"], found["sign/r_low"], found["sign/r_high"]) == (0.02, 0.01, 0.04)
    assert (found["sign/r_samples"], found["sign/runs"], found["sign/rank"]) == (1000, 16, 1)
    assert (found["full/lira/auc"], found["full/lira/auc_low"]) == (0.71, 0.71 - 0.03)
    assert (found["sign/auroc"], found["sign/auroc_n"]) == (0.8, 100)
    assert found["v_1 _ 2/bits_per_weight"] == 4
    assert params_of(audit())["variant.v_1 _ 2"] == ODD


def test_names_that_mlflow_takes_for_one_are_told_apart() -> None:
    rows = table({"variant": "a(1)"}, {"variant": "a[1]"}, {"variant": "()"})
    made = Audit("t", (Analysis("main", rows, attacks=(Attack("a[1]", "lira(mode='x')", "tpr@0.01", 0.5),)),))
    found = params_of(made)
    assert (found["variant.a_1"], found["variant.a_1_2"], found["variant.variant"]) == ("a(1)", "a[1]", "()")
    assert metrics_of(made.analyses[0])["a_1_2/lira_mode_x_/tpr_0.01"] == 0.5


def test_what_mlflow_refuses_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    audit().save(tmp_path / "audit.json")
    assert entry.run(["report", str(tmp_path), "--mlflow", "nowhere://x"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("discreet: mlflow: ")
    assert error.count("\n") == 1
