"""The shadow bank: halves, keys, what is measured, calibration as a class of its own, kills."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from discreet.attacked import dependence
from discreet.bank import BankSettings, assign, bank
from discreet.exposure import expose
from discreet.measure import measure_stack
from discreet.mlp import MLP
from discreet.quantizers import quantize_stack
from discreet.queries import MIRRORED, shift
from discreet.recipe import Recipe
from discreet.records import Record, RecordError
from discreet.stats import auc
from discreet.training import train
from tests.own_code import QUANTIZER

NETWORK = MLP((12, 16, 1))
RECIPE = Recipe(lr=1e-2, epochs=30, batch_size=8)
PLAN = BankSettings(NETWORK, RECIPE, models=8, unit=4, variants=("full", "uniform(bits=3)"), seed=3)
PUBLIC = np.arange(60, 90)


def data(samples: int = 90) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((samples, 12), dtype=np.float32), rng.integers(0, 2, samples)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Record]:
    folder = tmp_path_factory.mktemp("bank")
    x, y = data()
    return folder, bank(folder, PLAN, x, y, public=PUBLIC)


def test_every_private_sample_trains_exactly_half() -> None:
    found = assign(7, 4, seed=0)
    assert len(found.spare) == 1
    counts = found.member.sum(axis=0)
    assert sorted(counts) == [0, 2, 2, 2, 2, 2, 2]
    assert counts[found.spare[0]] == 0
    private = np.setdiff1d(np.arange(7), found.spare)
    assert (found.member[::2, private] ^ found.member[1::2, private]).all()
    assert np.array_equal(assign(7, 8, seed=0).member[:4], found.member)
    assert not np.array_equal(assign(7, 4, seed=1).member, found.member)
    group = np.repeat(np.arange(5), 2)
    whole = assign(10, 4, group=group, public=np.array([8, 9]), seed=0).member
    assert np.array_equal(whole[:, ::2], whole[:, 1::2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"models": 5}, "models: expected an even number, at least 2, got 5: models come in pairs"),
        ({"public": np.array([9])}, "public: expected positions from 0 to 8, got 9"),
        ({"public": np.arange(8)}, "samples: expected at least 2 that are not public, got 0"),
        ({"public": np.array([1.5])}, "public: expected positions of samples, whole numbers, got float64"),
        ({"public": np.zeros(4, bool)}, "public: expected positions of samples, whole numbers, got bool"),
        ({"group": np.zeros(4, int)}, "group: expected one for each of 9 samples, got 4"),
        (
            {"public": np.array([0]), "group": np.zeros(9, int)},
            "public: group 0 has public samples and others",
        ),
    ],
)
def test_assignments_that_cannot_be(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assign(9, **{"models": 4, **arguments})


def test_models_are_those_of_training_each_alone(made: tuple[Path, Record]) -> None:
    _, record = made
    x, y = data()
    assert record.member is not None
    assert record.variants == ("full", "uniform(bits=3)")
    assert record.runs == tuple(map(str, range(8)))
    assert record.signals["public"].sum() == 30
    assert not np.asarray(record.member)[:, PUBLIC].any()
    subset = np.flatnonzero(record.membership("5"))[None]
    alone = train(NETWORK, torch.from_numpy(x), torch.from_numpy(y), subset, RECIPE, seed=3, model_ids=[5])
    for variant in record.variants:
        dense = alone if variant == "full" else quantize_stack(alone, variant)
        expected = measure_stack(NETWORK, {"v": dense}, x, y, "bce", which=["loss", "confidence"])
        row = record.rows(variant, "5")[0]
        for name, values in expected.items():
            np.testing.assert_allclose(record.signals[name][row], values[0, 0], rtol=2e-3, atol=2e-3)


def test_members_are_found_and_the_answer_is_not_given_away(made: tuple[Path, Record]) -> None:
    _, record = made
    for method in ("loss", "lira", "rmia"):
        found = expose(record, method, "full")
        assert found.runs == record.runs  # every model in turn
        assert found.members == found.nonmembers == 8 * 30
        assert auc(found.scores, found.member, keep=found.keep).low > 0.6, method
    counted, truth = [], []
    for run in record.runs:
        counted.append(-np.asarray(record.blind(run).member).sum(axis=0)[:60].astype(float))
        truth.append(record.membership(run)[:60])
    assert auc(np.array(counted), np.array(truth)).value == 0.5


def times(folder: Path, what: str) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in sorted((folder / what).glob("*.safetensors"))}


def test_what_is_there_is_never_made_again_and_other_content_never_reuses_it(
    made: tuple[Path, Record],
) -> None:
    folder, record = made
    x, y = data()
    weights, parts = times(folder, "weights"), times(folder, "release/parts")
    assert (len(weights), len(parts)) == (2, 4)
    assert bank(folder, PLAN, x, y, public=PUBLIC) == record
    assert (times(folder, "weights"), times(folder, "release/parts")) == (weights, parts)
    more = bank(folder, replace(PLAN, variants=("full", "uniform(bits=3)", "sign")), x, y, public=PUBLIC)
    assert more.variants == ("full", "uniform(bits=3)", "sign")
    assert times(folder, "weights") == weights
    assert times(folder, "release/parts").items() > parts.items()
    bank(folder, replace(PLAN, models=12), x, y, public=PUBLIC)
    assert times(folder, "weights").items() > weights.items()
    assert len(times(folder, "weights")) == 3
    other = x.copy()
    other[0, 0] += 1e-3
    turned = y.copy()
    turned[0] = 1 - turned[0]
    short = replace(PLAN, variants=("full",), models=4)
    for plan, inputs, labels in (
        (short, other, y),
        (short, x, turned),
        (replace(short, recipe=replace(RECIPE, lr=2e-2)), x, y),
        (replace(short, seed=4), x, y),
        (replace(short, model=MLP((12, 17, 1))), x, y),
    ):
        before = len(times(folder, "weights"))
        assert bank(folder, plan, inputs, labels, public=PUBLIC) != record
        assert len(times(folder, "weights")) == before + 1
    asked = replace(short, which=("loss",))
    assert set(bank(folder, asked, x, y, public=PUBLIC).signals) == {"loss", "label", "params_hash", "public"}


_NETWORK = """
import torch
from torch import nn

FACTOR = {factor}

def helper(x):
    return x {helper}

class Base(nn.Module):
    @property
    def gain(self):
        return {gain}

    def forward(self, x):
        return helper(self.layer(x - self.mean)) * self.setting * self.gain * FACTOR {base}

class Net(Base):
    def __init__(self, setting={setting}):
        super().__init__()
        self.setting = setting
        self.register_buffer("mean", torch.tensor({mean}))
        self.layer = nn.Linear(3, {width})

def made(setting):
    return lambda: Net(setting)
"""
_AS_IS: dict[str, Any] = {
    "factor": 1,
    "helper": "",
    "gain": 1,
    "base": "",
    "setting": 1.0,
    "mean": 0.0,
    "width": 1,
}


def network(**changes: Any) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "networks"}
    exec(_NETWORK.format(**{**_AS_IS, **changes}), space)
    return space


@pytest.mark.parametrize(
    "change",
    [
        {"factor": 2},
        {"helper": "+ 1"},
        {"gain": 2},
        {"base": "+ 1"},
        {"setting": 2.0},
        {"mean": 1.0},
        {"width": 2},
    ],
)
def test_another_network_of_the_same_name_is_told_apart(change: dict[str, Any]) -> None:
    from discreet.bank.identity import identity

    assert identity(network()["Net"]()) == identity(network()["Net"]())
    assert identity(network(**change)["Net"]()) != identity(network()["Net"]())
    assert identity(network(**change)["Net"]) != identity(network()["Net"])


def test_a_factory_is_known_by_what_it_was_made_with() -> None:
    from discreet.bank.identity import identity

    made = network()["made"]
    assert identity(made(1.0)) == identity(made(1.0))
    assert identity(made(1.0)) != identity(made(2.0))
    assert identity(lambda: nn.Linear(3, 1)) != identity(lambda: nn.Linear(3, 1).double().float())
    assert identity(nn.Linear(3, 1)) != identity(nn.Linear(3, 2))


_HASHED = """
import functools
from discreet._code import code_of

@functools.lru_cache
def kept(x):
    return x in {"a", "b", "c", "d"} or kept(x[1:])

class Way:
    names = {"a", "b", "c"}
    def __call__(self, x):
        return kept(x)

print(code_of(kept), code_of(Way()), code_of(functools.partial(kept, "e")), code_of(Way().__call__))
"""


def test_code_has_one_hash_in_every_process() -> None:
    found = set()
    for seed in ("1", "2"):
        told = {**os.environ, "PYTHONHASHSEED": seed}
        found.add(
            subprocess.run([sys.executable, "-c", _HASHED], env=told, capture_output=True, check=True).stdout
        )
    assert len(found) == 1
    assert len(set(found.pop().split())) == 4


def test_modules_that_a_function_imports_as_it_runs_are_in_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from discreet._code import code_of

    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_outer.py").write_text("from own_inner import step\n")
    (tmp_path / "own_inner.py").write_text("step = 1\n")

    def fit() -> object:
        from own_outer import step  # pyright: ignore[reportMissingImports]

        return step

    first = code_of(fit)
    assert code_of(fit) == first
    fit()
    assert code_of(fit) == first  # whether they are imported already or not
    (tmp_path / "own_inner.py").write_text("step = 2\n")
    assert code_of(fit) != first
    for name in ("own_outer", "own_inner"):
        sys.modules.pop(name)


def test_a_loss_and_a_query_are_known_by_their_code(tmp_path: Path) -> None:
    x, y = data(24)
    made = []
    for factor in (1.0, 3.0):

        def own(z: Tensor, t: Tensor, factor: float = factor) -> Tensor:
            return factor * nn.functional.softplus(z[:, 0] * (1 - 2 * t))

        plan = replace(
            PLAN, models=2, variants=("full",), recipe=Recipe(own, optimizer="sgd", epochs=2), task="bce"
        )
        made.append(bank(tmp_path, plan, x, y))
    assert made[0] != made[1]
    for late in (0, 1):  # the first samples, all zeros, say nothing
        asked = replace(
            PLAN, models=2, variants=("full",), queries={"turned": lambda x, late=late: x.roll(late, 1)}
        )
        made.append(bank(tmp_path, asked, np.where(np.arange(24)[:, None] < 8, 0, x).astype(np.float32), y))
    assert made[2] != made[3]
    from discreet._code import code_of

    assert code_of(shift(0, 1)) == code_of(shift(0, 1))
    assert code_of(shift(0, 1)) != code_of(shift(1, 0))


@dataclass(frozen=True)
class Fitted:
    """Signs of the weights, times the scale that fits the full model's outputs on the calibration samples best."""

    content: str = "fitted signs/1"

    def calibrate(self, model: nn.Module, x: Tensor, y: Tensor) -> Mapping[str, Tensor]:
        weight = model.get_submodule("2").weight
        assert isinstance(weight, Tensor)
        with torch.no_grad():
            hidden = model.get_submodule("1")(model.get_submodule("0")(x))
            given, signs = hidden @ weight.T, hidden @ weight.sign().T
            return {"2.weight": weight.sign() * (given * signs).sum() / (signs * signs).sum()}


def test_each_compression_has_its_own_calibration_samples(tmp_path: Path) -> None:
    x, y = data()
    plan = replace(PLAN, models=4, variants={"full": "full", "fitted": Fitted()}, calibration=10)
    record = bank(tmp_path, plan, x, y, public=PUBLIC)
    assert record.calibration is not None
    assert record.member is not None
    flags = np.asarray(record.calibration)
    assert not flags[:, record.variants.index("full")].any()
    fitted = flags[:, record.variants.index("fitted")]
    assert fitted.sum(axis=1).tolist() == [10] * 4
    assert len({row.tobytes() for row in fitted}) == 4
    member = np.asarray(record.member)
    places = {row[line].tobytes() for row, line in zip(fitted, member, strict=True)}
    assert len(places) == 4  # not one draw of places, applied to each model's own samples
    assert (fitted <= np.asarray(record.member)).all()
    usual = expose(record, "loss", "fitted")
    assert not (usual.keep & fitted).any()
    asked = expose(record, "loss", "fitted", of="calibration")
    assert asked.members == 40
    assert asked.nonmembers == 4 * 30 - 40
    fresh = bank(tmp_path, replace(plan, calibrate_on="fresh"), x, y, public=PUBLIC)
    flags = np.asarray(fresh.calibration)[:, 1]
    assert not (flags & np.asarray(fresh.member)).any()
    assert not flags[:, PUBLIC].any()
    with pytest.raises(ValueError, match="'fitted signs/1' needs calibration samples, got 0"):
        bank(tmp_path, replace(plan, calibration=0), x, y, public=PUBLIC)
    with pytest.raises(ValueError, match="calibration: expected at most 30 members samples a model, got 31"):
        bank(tmp_path, replace(plan, calibration=31), x, y, public=PUBLIC)


def test_queries_are_known_by_what_they_do(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((24, 1, 4, 4), dtype=np.float32), rng.integers(0, 3, 24)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    plan = BankSettings(
        net,
        Recipe("ce", epochs=2, batch_size=6),
        models=4,
        variants=("full", "sign"),
        which=("loss", "correct", "hidden"),
        queries=MIRRORED,
    )
    record = bank(tmp_path, plan, x, y)
    assert record.axes["loss"] == ("row", "query", "sample")
    assert record.signals["hidden"].shape == (8, 2, 24, 8)
    assert record.signals["loss"].shape == (8, 2, 24)
    assert "public" not in record.signals
    moved = bank(
        tmp_path, replace(plan, queries={"identity": MIRRORED["identity"], "mirror": shift(0, 1)}), x, y
    )
    assert np.array_equal(moved.signals["loss"][:, 0], record.signals["loss"][:, 0])
    assert not np.array_equal(moved.signals["loss"][:, 1], record.signals["loss"][:, 1])
    assert len(list((tmp_path / "weights").iterdir())) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": 3}, "models: expected an even number"),
        ({"unit": 3}, "unit: expected an even number"),
        ({"calibration": -1}, "calibration: expected 0 or more"),
        ({"calibrate_on": "test"}, 'calibrate_on: expected "members" or "fresh", got \'test\''),
        ({"which": ("los",)}, "which: expected names among loss, margin"),
        ({"variants": ()}, "variants: expected at least one"),
        ({"variants": "sign"}, "variants: expected several specs, got the one text 'sign'"),
        ({"variants": ("sign", "sign")}, "variants: 'sign' occurs twice"),
        ({"variants": {"mine": print}}, "variants: expected a quantizer, its spec or an object with content"),
        ({"recipe": Recipe(loss=lambda z, y: z[:, 0])}, 'task: expected "bce", "ce" or "mse" beside a loss'),
    ],
)
def test_settings_that_cannot_be(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PLAN, **change)


def test_data_that_cannot_be(tmp_path: Path) -> None:
    x, y = data()
    with pytest.raises(ValueError, match="y: expected one label for each of 90 samples, got 89"):
        bank(tmp_path, PLAN, x, y[1:])
    with pytest.raises(ValueError, match="y: expected 0 and 1, got 7 at position 0"):
        bank(tmp_path, PLAN, x, np.where(y, 7, 3))
    with pytest.raises(ValueError, match=r"y: expected numbers, got text \('no', 'yes'\)"):
        bank(tmp_path, PLAN, x, np.where(y, "yes", "no"))


def test_ids_are_checked_before_anything_is_trained(tmp_path: Path) -> None:
    x, y = data(24)
    plan = replace(PLAN, models=2, variants=("full",))
    with pytest.raises(ValueError, match="sample: expected one id for each of 24 samples, got 23"):
        bank(tmp_path, plan, x, y, sample=np.arange(23))
    with pytest.raises(RecordError, match="sample '0' appears 24 times"):
        bank(tmp_path, plan, x, y, sample=np.zeros(24, int))
    assert not (tmp_path / "weights").exists()
    names = np.array([f"m{i}" for i in range(24)], dtype=object)
    assert bank(tmp_path, plan, x, y, sample=names).sample[3] == "m3"


def test_groups_are_dependent_samples(tmp_path: Path) -> None:
    x, y = data(24)
    plan = replace(PLAN, models=2, variants=("full",))
    alone = bank(tmp_path, plan, x, y, group=np.arange(24))
    assert "family" not in alone.signals
    grouped = bank(tmp_path, plan, x, y, group=np.array(list("abcdefghijkl")).repeat(2))
    assert np.array_equal(grouped.signal("family"), np.arange(12).repeat(2))
    assert dependence(grouped) is not None


def test_a_regression_is_measured_by_its_loss(tmp_path: Path) -> None:
    x, _ = data(24)
    plan = BankSettings(MLP((12, 4, 1)), Recipe("mse", epochs=2), models=2)
    assert set(bank(tmp_path, plan, x, x[:, 0]).signals) == {"loss", "label", "params_hash"}


def test_a_class_that_a_half_lacks(tmp_path: Path) -> None:
    x, _ = data(40)
    rare = np.zeros(40, int)
    rare[:2] = 1
    rare[2:20] = 2
    plan = replace(PLAN, model=MLP((12, 8, 3)), recipe=replace(RECIPE, loss="ce"), variants=("full",))
    record = bank(tmp_path, plan, x, rare)
    assert record.member is not None
    assert any(not (rare[line] == 1).any() for line in np.asarray(record.member))
    for method in ("loss", "lira", "metric(by_class=True)"):
        found = expose(record, method, "full")
        assert np.isfinite(auc(found.scores, found.member, keep=found.keep).value), method


_SCRIPT = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[2])
from test_bank import PLAN, PUBLIC, bank, data
x, y = data()
from dataclasses import replace
from discreet.recipe import Recipe
bank(sys.argv[1], replace(PLAN, unit=2, recipe=Recipe(lr=1e-2, epochs=150, batch_size=8)), x, y, public=PUBLIC)
"""


@pytest.mark.slow
def test_a_killed_bank_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SCRIPT]
    here = str(Path(__file__).parent)
    subprocess.run([*command, tmp_path / "whole", here], check=True, timeout=300)
    for wait in (0.5, 2.0, 1.0):
        process = subprocess.Popen([*command, tmp_path / "killed", here])
        while not (tmp_path / "killed" / "manifest.json").exists():
            time.sleep(0.05)
        time.sleep(wait)
        process.kill()
        process.wait()
    subprocess.run([*command, tmp_path / "killed", here], check=True, timeout=300)
    for path in (tmp_path / "whole" / "release").glob("*.safetensors"):
        assert path.read_bytes() == (tmp_path / "killed" / "release" / path.name).read_bytes()


OWN = (
    QUANTIZER
    + """
import torch


@dataclass(frozen=True)
class Fitted:
    content: str = "mine/1"

    def calibrate(self, model, x, y):
        return {name: 1.0 * value.sign() for name, value in model.named_parameters()}
"""
)


def test_what_compresses_is_known_by_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    x, y = data(24)

    def made(code: str) -> Record:
        sys.modules.pop("own_compressors", None)
        (tmp_path / "own_compressors.py").write_text(code)
        importlib.invalidate_caches()
        own = importlib.import_module("own_compressors")
        variants = {"named": "own_compressors:Mine", "given": own.Mine(), "calibrated": own.Fitted()}
        plan = replace(
            PLAN, models=2, variants=variants, recipe=Recipe(epochs=2), calibration=2, which=("loss",)
        )
        return bank(tmp_path / "run", plan, x, y)

    first = made(OWN)
    kept = times(tmp_path / "run", "release/parts")
    assert made(OWN) == first
    assert times(tmp_path / "run", "release/parts") == kept
    other = made(OWN.replace("(2 * groups)", "(9 * groups)").replace("1.0 *", "3.0 *"))
    for variant in first.variants:
        assert not np.array_equal(
            first.signals["loss"][first.rows(variant)], other.signals["loss"][other.rows(variant)]
        ), variant
    sys.modules.pop("own_compressors")


def test_libraries_that_quantize_are_part_of_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = data(24)
    plan = replace(PLAN, models=2, variants=("uniform(bits=3)",), recipe=Recipe(epochs=2))
    bank(tmp_path, plan, x, y)
    bank(tmp_path, plan, x, y)
    assert len(times(tmp_path, "release/parts")) == 1
    monkeypatch.setattr(type(plan.compressors["uniform(bits=3)"]), "made_by", "other 2.0", raising=False)
    bank(tmp_path, plan, x, y)
    assert len(times(tmp_path, "release/parts")) == 2
    assert len(times(tmp_path, "weights")) == 1
