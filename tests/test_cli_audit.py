"""``discreet audit``: what it adds to a run directory, that it goes on after a stop, and always the same bytes."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet import rank
from discreet.audit import Audit
from discreet.auditing import audit_attacks
from discreet.cli import entry
from discreet.exposure import expose
from discreet.records import Record
from discreet.stats import auc, compare, tpr_at_fpr
from tests.banks import bank
from tests.test_audit import validator

LEAKS = {"full": 1.5, "ternary": 0.7, "sign": 0.0}
SAMPLES = 240
Run = Callable[..., tuple[int, str, str]]


def release() -> Record:
    return bank(LEAKS, runs=4, samples=SAMPLES)


def make(folder: Path) -> Path:
    """A run directory without a store: a ranking of four variants, and release records in two parts."""
    rng = np.random.default_rng(0)
    base, gaps = rng.exponential(size=(6, 1, 80)), np.array([0.4, 0.2, 0.0, 0.1])[:, None]
    noise = {v: 0.05 * rng.standard_normal((6, 4, 80)) for v in LEAKS}
    found = rank({v: base + (1 + i) * gaps + noise[v] for i, v in enumerate(LEAKS)})
    folder.mkdir()
    Audit.of_ranking(found.to_json(), notes=("A note of the run.",)).save(folder / "audit.json")
    (folder / "release").mkdir()
    record = release()
    for name, runs in (("a", "01"), ("b", "23")):
        rows = np.flatnonzero(np.isin(record.run, list(runs)))
        record.take_rows(rows).save(folder / "release" / f"{name}.safetensors")
    return folder


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Audit]:
    folder = make(tmp_path_factory.mktemp("audit") / "run")
    shares: list[float] = []
    found = audit_attacks(
        folder, ["lira", "loss"], workers=2, progress=lambda doing, share: shares.append(share)
    )
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    return folder, found


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing: that takes longest, and is looked at elsewhere."""
    monkeypatch.setattr("discreet.report.write", lambda *_: ())


def numbers(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "audit.json").read_bytes(), (folder / "exposed.csv").read_bytes()


def written(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("audit.json", "report.html", "exposed.csv")}


def test_the_audit_is_valid_and_holds_what_was_found(done: tuple[Path, Audit]) -> None:
    folder, found = done
    raw = json.loads((folder / "audit.json").read_text("utf-8"))
    validator("audit").validate(raw)
    assert Audit.load(folder / "audit.json") == found
    (analysis,) = found.analyses
    assert {(row.variant, row.attack) for row in analysis.attacks} == {
        (v, a) for v in LEAKS for a in ("lira", "loss")
    }
    metrics = [
        "auc",
        "tpr@0.1",
        "tpr@0.01",
        "tpr@0.001",
        "tpr@0.0001",
        "balanced_accuracy",
        "advantage",
        "epsilon",
    ]
    assert [row.metric for row in analysis.attacks[:8]] == metrics
    assert analysis.roc[0].resolvable == 2 / SAMPLES
    assert len(analysis.exposed) == 20 * len(LEAKS)
    assert {row.label for row in analysis.classes} == {"0", "1"}
    assert {row.variant for row in analysis.paired} == set(LEAKS) - {"full"}
    assert found.notes[0] == "A note of the run."
    assert str(folder) not in json.dumps(raw)


def test_the_figures_are_those_of_stats(done: tuple[Path, Audit]) -> None:
    (analysis,) = done[1].analyses
    e = expose(release(), "loss", "ternary")
    mine = {row.metric: row for row in analysis.attacks if (row.variant, row.attack) == ("ternary", "loss")}
    area, rate = auc(e.scores, e.member), tpr_at_fpr(e.scores, e.member, 0.1)
    assert (mine["auc"].value, mine["auc"].low, mine["auc"].high) == (area.value, area.low, area.high)
    assert (mine["tpr@0.1"].value, mine["tpr@0.1"].low) == (rate.tpr.value, rate.tpr.low)
    assert mine["tpr@0.1"].more["realised_fpr"] == rate.realised_fpr
    assert mine["tpr@0.001"].more["resolvable"] is False
    assert mine["tpr@0.001"].more["needs"] == 1000
    full = expose(release(), "loss", "full")
    wanted = compare(e.scores, full.scores, e.member)
    paired = {(row.variant, row.attack, row.metric): row for row in analysis.paired}
    row = paired["ternary", "loss", "auc"]
    assert (row.value, row.low, row.high) == (wanted.auc.value, wanted.auc.low, wanted.auc.high)
    assert row.answer == "less"
    assert paired["sign", "loss", "tpr@0.01"].value < 0
    here = np.asarray(release().signal("label")) == 1
    area = auc(e.scores, e.member, keep=np.tile(here, (4, 1)))
    strongest = analysis.roc[0].attack
    if strongest == "loss":
        row = next(r for r in analysis.classes if (r.variant, r.label, r.metric) == ("ternary", "1", "auc"))
        assert (row.value, row.low) == (area.value, area.low)


def test_exposed_records_are_counted_as_a_loop_would(done: tuple[Path, Audit]) -> None:
    folder, found = done
    attack = found.analyses[0].roc[0].attack
    e = expose(release(), attack, "full")
    with (folder / "exposed.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["variant"] == "full"]
    assert len(rows) == SAMPLES
    for row in rows[:5] + rows[-5:]:
        i = int(row["sample"]) - 100
        caught = accused = 0
        ranks = []
        for scores, member in zip(e.scores, e.member, strict=True):
            others = np.sort(scores[~member])[::-1]
            above = bool(scores[i] > others[1])  # 1 % of 120 non-members: one may be accused
            if member[i]:
                caught += above
                ranks.append(((others < scores[i]).sum() + (others <= scores[i]).sum()) / 2 / len(others))
            else:
                accused += above
        assert (int(row["runs"]), int(row["others"])) == (2, 2)
        assert (int(row["caught"]), int(row["accused"])) == (caught, accused)
        assert float(row["mean_rank"]) == pytest.approx(np.mean(ranks))
    shares = [int(row["caught"]) / int(row["runs"]) for row in rows]
    assert shares == sorted(shares, reverse=True)
    top = [row for row in found.analyses[0].exposed if row.variant == "full"]
    assert [row.sample for row in top] == [row["sample"] for row in rows[:20]]


def test_curves_never_claim_more_than_their_rate_allows(done: tuple[Path, Audit]) -> None:
    for curve in done[1].analyses[0].roc:
        e = expose(release(), curve.attack, curve.variant)
        for fpr, rate in list(zip(curve.fpr, curve.tpr, strict=True))[::12]:
            wanted = []
            for scores, member in zip(e.scores, e.member, strict=True):
                steps = np.append(np.unique(scores), -np.inf)
                possible = [(scores[member] > t).mean() for t in steps if (scores[~member] > t).mean() <= fpr]
                wanted.append(max(possible))
            assert rate == pytest.approx(np.mean(wanted))


def test_doing_it_again_attacks_nothing_and_gives_the_same_bytes(
    done: tuple[Path, Audit], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = done
    before = written(folder)
    monkeypatch.setattr("discreet.auditing_units.expose_one", lambda *_: pytest.fail("attacked again"))
    audit_attacks(folder, ["lira", "loss"])
    assert written(folder) == before


def test_another_folder_and_one_worker_give_the_same_bytes(
    done: tuple[Path, Audit], tmp_path: Path, no_page: None
) -> None:
    folder = make(tmp_path / "elsewhere")
    audit_attacks(folder, ["lira"], workers=1)  # the loss attack is always among them
    assert numbers(folder) == numbers(done[0])


@pytest.mark.slow
def test_other_attacks_replace_the_earlier_ones(
    done: tuple[Path, Audit], tmp_path: Path, no_page: None
) -> None:
    folder = make(tmp_path / "run")
    audit_attacks(folder, ["reference"])
    found = audit_attacks(folder, ["lira"])
    assert numbers(folder) == numbers(done[0])
    assert found.notes == done[1].notes


def test_other_records_are_attacked_anew(tmp_path: Path, no_page: None) -> None:
    folder = make(tmp_path / "run")
    first = audit_attacks(folder, ["loss"]).analyses[0].attacks[0]
    for path in (folder / "release").iterdir():
        path.unlink()
    bank(LEAKS, runs=4, samples=SAMPLES, seed=5).save(folder / "release" / "c.safetensors")
    assert audit_attacks(folder, ["loss"]).analyses[0].attacks[0].value != first.value


def test_an_attack_that_is_not_allowed_is_an_error_by_name_and_left_out_under_all(
    tmp_path: Path, no_page: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path / "run")
    with pytest.raises(ValueError, match="no signal"):
        audit_attacks(folder, ["metric(kind='entropy')"])
    monkeypatch.setattr("discreet.attacks.names", lambda: ("joint", "loss", "rmia"))
    monkeypatch.setattr("discreet.attacks.rmia.Rmia.__call__", unwilling)
    found = audit_attacks(folder, ["all"], workers=2)
    left = {each["attack"]: each for each in found.settings["attacks"]["left out"]}
    assert set(left["joint"]["variants"]) == set(LEAKS)
    assert any(note.startswith("Left out: the attack `joint`") for note in found.notes)
    assert left["rmia"]["reason"] == "rmia: this record has no such thing"
    assert found.settings["attacks"]["names"] == ["loss"]


def test_an_attack_on_some_variants_leaves_the_others_out(tmp_path: Path, no_page: None) -> None:
    folder = make(tmp_path / "some")
    spec = "joint(variants=('full', 'sign'))"
    found = audit_attacks(folder, [spec])
    assert {row.variant for row in found.analyses[0].attacks if row.attack == spec} == {"full", "sign"}
    (left,) = found.settings["attacks"]["left out"]
    assert (left["attack"], list(left["variants"])) == (spec, ["ternary"])


def unwilling(*_: object) -> None:
    raise ValueError("rmia: this record has no such thing")


def test_a_class_without_members_is_left_out_in_words(tmp_path: Path, no_page: None) -> None:
    folder = make(tmp_path / "run")
    record = release()
    label = np.where(np.arange(SAMPLES) == 0, 2, np.asarray(record.signal("label")))
    for path in (folder / "release").iterdir():
        path.unlink()
    replace(record, signals={**record.signals, "label": label}).save(folder / "release" / "c.safetensors")
    found = audit_attacks(folder, ["loss"])
    assert {row.label for row in found.analyses[0].classes} == {"0", "1"}
    assert any(note.startswith("Left out: class 2: member: expected both classes") for note in found.notes)


def test_records_of_other_settings_are_not_taken(tmp_path: Path, no_page: None) -> None:
    folder = make(tmp_path / "run")
    audit = Audit.load(folder / "audit.json")
    shipped = dict.fromkeys("0123", 1)
    replace(audit, settings={"lr": 0.1, "shipped checkpoint by run": shipped}).save(folder / "audit.json")
    record = release()
    other = replace(record, about={"settings": {"lr": 0.2}})
    other.save(folder / "release" / "other.safetensors")
    assert len(audit_attacks(folder, ["loss"]).analyses[0].attacks) == 8 * len(LEAKS)
    (folder / "release" / "a.safetensors").unlink()
    with pytest.raises(
        ValueError, match=r"no record of run '0' with the settings of the audit \(2 of 4 runs"
    ):
        audit_attacks(folder, ["loss"])


@pytest.fixture
def discreet(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        code = entry.run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_the_command_says_what_it_found_and_the_gate_judges_it(
    discreet: Run, done: tuple[Path, Audit]
) -> None:
    folder, _ = done
    code, out, err = discreet("audit", folder, "--attack", "lira,loss", "--workers", 1)
    assert (code, err) == (0, "")
    assert "what attacks find in each variant" in out
    assert "less than full" in out or "not told apart from full" in out
    assert f"every record: {folder / 'exposed.csv'}" in out
    assert discreet("gate", folder, "--require", "auc:sign < 0.65")[0] == 0
    code, out, _ = discreet("gate", folder, "--require", "auc < 0.6")
    assert (code, "failed: auc of full" in out) == (1, True)
    code, out, _ = discreet("gate", folder, "--require", "tpr@0.1%:sign < 0.001")
    assert (code, "undecided: tpr@0.001 of sign" in out) == (2, True)
    assert "non-members a run to be resolved, and there are 120" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "no audit to add attacks to; expected a run directory"),
        (("RUN", "--attack", "lirra"), "did you mean 'lira'"),
        (("RUN", "--attack", "loss,"), "expected names between commas"),
        (("RUN", "--workers", "0"), "Invalid value for '--workers'"),
    ],
)
def test_what_is_wrong_is_one_line_and_2(
    discreet: Run, done: tuple[Path, Audit], arguments: tuple[str, ...], words: str
) -> None:
    before = written(done[0])
    code, out, err = discreet("audit", *(done[0] if word == "RUN" else word for word in arguments))
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1
    assert written(done[0]) == before


def test_a_run_directory_without_records_is_refused(discreet: Run, tmp_path: Path) -> None:
    folder = make(tmp_path / "run")
    for path in (folder / "release").iterdir():
        path.unlink()
    code, _, err = discreet("audit", folder)
    assert code == 2
    assert "no record (*.safetensors) to attack" in err


WITHOUT_TORCH = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name="torch")
sys.meta_path.insert(0, NoTorch())
import discreet.report
discreet.report.write = lambda *_: ()
from discreet.cli import main
main()
"""


def test_it_runs_without_torch(tmp_path: Path) -> None:
    folder = make(tmp_path / "run")
    command = [
        sys.executable,
        "-c",
        WITHOUT_TORCH,
        "audit",
        str(folder),
        "--attack",
        "loss",
        "--workers",
        "1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(
    any(util.find_spec(name) is None for name in ("torch", "rdkit", "B3DB")),
    reason="needs discreet[molecules]",
)
def test_a_killed_audit_of_a_real_demo_goes_on(tmp_path: Path) -> None:
    def command(*arguments: str) -> list[str]:
        return [sys.executable, "-c", "from discreet.cli import main; main()", *arguments]

    folder = tmp_path / "demo"
    small = ("--runs", "4", "--epochs", "8", "--molecules", "700", "--workers", "1")
    subprocess.run(command("demo", str(folder), *small), check=True, capture_output=True, timeout=300)
    asked = ("audit", str(folder), "--attack", "lira,loss", "--workers", "1")
    before = (folder / "audit.json").read_bytes()
    running = subprocess.Popen(command(*asked), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 200
    while len(finished(folder)) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    kept = finished(folder)
    assert len(kept) >= 3
    assert (folder / "audit.json").read_bytes() == before
    subprocess.run(command(*asked), check=True, capture_output=True, timeout=300)
    assert {path: at for path, at in finished(folder).items() if path in kept} == kept
    first = written(folder)
    validator("audit").validate(json.loads(first["audit.json"]))
    subprocess.run(command(*asked), check=True, capture_output=True, timeout=300)
    assert written(folder) == first


def finished(folder: Path) -> dict[Path, Any]:
    return {path: path.stat().st_mtime_ns for path in (folder / "attacks").glob("*.safetensors")}
