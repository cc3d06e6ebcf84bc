"""Audits of what was trained elsewhere, of classifiers of other libraries, and of deployed ONNX files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(util.find_spec("torch") is None, reason="needs discreet[torch]")

if util.find_spec("torch") is not None:
    import torch
    from safetensors.torch import load_file, save_file

    from discreet.auditing_spec import Done, audit_spec
    from discreet.auditing_spec.members import read_rows
    from discreet.auditing_spec.outputs import FLOOR, logits_of
    from discreet.auditing_spec.preparing import prepare
    from discreet.auditing_spec.state_files import natural
    from discreet.records import read_all
    from discreet.report import render
    from discreet.spec import AuditSpec, CalledError, SpecFileError, read
    from discreet.store import Store

SAMPLES = 300
CODE = """
import numpy as np, torch
from torch import nn

def load(samples=300, classes=2):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((samples, 5), dtype=np.float32)
    noisy = x[:, 0] + 0.7 * rng.standard_normal(samples)
    return x, np.digitize(noisy, [0.0] if classes == 2 else [-0.5, 0.5]).astype(np.int64)

def build(hidden=8):
    return nn.Sequential(nn.Linear(5, hidden), nn.ReLU(), nn.Linear(hidden, 1))

def who(run):
    return np.arange(100) + 100 * run
"""
SPEC = """
[data]
load = "mine:load"

[model]
build = "mine:build"

[checkpoints]
files = ["run0/epoch*.safetensors", "run1/epoch*.safetensors"]
members = ["run0/members.npy", "run1/members.json"]

[variants]
quantizers = ["sign(scale='absmean')"]

[attacks]
names = ["loss"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the user's module; modules imported from it are forgotten."""
    before = set(sys.modules)
    sys.modules.pop("mine", None)
    (tmp_path / "mine.py").write_text(CODE)
    yield tmp_path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing: that takes longest, and is looked at elsewhere."""
    monkeypatch.setattr("discreet.report.write", lambda *_: ())


def module() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((SAMPLES, 5), dtype=np.float32)
    return x, (x[:, 0] + 0.7 * rng.standard_normal(SAMPLES) > 0).astype(np.int64)


def checkpoints(folder: Path, epochs: int = 11) -> None:
    """Two runs that memorise a hundred samples each, saved after each epoch as a loop would."""
    x, y = data()
    for run in range(2):
        (folder / f"run{run}").mkdir()
        torch.manual_seed(run)
        model, rows = module(), np.arange(100) + 100 * run
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for epoch in range(1, epochs + 1):
            for _ in range(20):
                optimizer.zero_grad()
                logit = model(torch.from_numpy(x[rows]))[:, 0]
                torch.nn.functional.binary_cross_entropy_with_logits(
                    logit, torch.from_numpy(y[rows]).float()
                ).backward()
                optimizer.step()
            save_file(model.state_dict(), folder / f"run{run}" / f"epoch{epoch}.safetensors")
    np.save(folder / "run0" / "members.npy", np.arange(100))
    (folder / "run1" / "members.json").write_text(json.dumps(list(range(100, 200))))


def carry_out(folder: Path, spec: str = SPEC) -> Done:
    path = folder / "spec.toml"
    path.write_text(spec)
    found, source = read(path, AuditSpec)
    return audit_spec(found, source, folder / "run", workers=1)


def auc_of(done: Done, variant: str) -> float:
    rows = done.audit.analyses[0].attacks
    return next(
        row.value for row in rows if (row.variant, row.attack, row.metric) == (variant, "loss", "auc")
    )


def test_checkpoints_are_measured_in_their_natural_order(folder: Path) -> None:
    checkpoints(folder)
    done = carry_out(folder)
    record = read_all(sorted((folder / "run" / "trajectory").glob("*.safetensors")))
    assert record.trajectory("full", "0").size == 11
    last = module()
    last.load_state_dict(load_file(folder / "run0" / "epoch11.safetensors"))
    x, y = data()
    with torch.no_grad():
        logit = last(torch.from_numpy(x[200:]))[:, 0].double()
    expected = torch.nn.functional.softplus(torch.where(torch.from_numpy(y[200:]) == 1, -logit, logit))
    np.testing.assert_allclose(record.signal("loss")[record.rows("full", "0", 11.0)[0]], expected, rtol=1e-5)
    assert record.sample.tolist() == list(range(200, 300))
    assert auc_of(done, "full") > 0.52
    assert any("Nothing was trained: 2 runs of 11 checkpoints" in note for note in done.audit.notes)


def test_without_members_nothing_is_attacked(folder: Path) -> None:
    checkpoints(folder, epochs=3)
    members = 'members = ["run0/members.npy", "run1/members.json"]'
    done = carry_out(folder, SPEC.replace(members, ""))
    assert done.audit.analyses[0].attacks == ()
    assert {row.samples for row in done.audit.analyses[0].ranking.variants} == {SAMPLES}
    assert any("Nobody told who was trained on" in note for note in done.audit.notes)


def test_buffers_that_are_not_saved_are_the_models_own(tmp_path: Path) -> None:
    from discreet.auditing_spec.state_files import read_state

    model = module()
    model.register_buffer("table", torch.arange(3.0), persistent=False)
    save_file(model.state_dict(), tmp_path / "a.safetensors")
    assert set(read_state(tmp_path / "a.safetensors", model)) == set(model.state_dict())


def test_a_function_may_tell_the_members(folder: Path) -> None:
    checkpoints(folder, epochs=3)
    done = carry_out(folder, SPEC.replace('["run0/members.npy", "run1/members.json"]', '["mine:who"]'))
    record = read_all(sorted((folder / "run" / "release").glob("*.safetensors")))
    assert np.flatnonzero(record.membership("1")).tolist() == list(range(100, 200))
    assert auc_of(done, "full") > 0.5


def test_checkpoints_of_torch_and_of_wrappers(folder: Path) -> None:
    checkpoints(folder, epochs=2)
    for run in range(2):
        for epoch in (1, 2):
            path = folder / f"run{run}" / f"epoch{epoch}.safetensors"
            state = {f"module.{name}": value for name, value in load_file(path).items()}
            torch.save({"epoch": epoch, "state_dict": state}, path.with_suffix(".pt"))
    plain = carry_out(folder)
    wrapped = carry_out(folder, SPEC.replace(".safetensors", ".pt"))
    assert auc_of(plain, "full") == auc_of(wrapped, "full")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("run0/epoch*", "run0/ep-*", r"line 9, \[checkpoints\] files: no file matches 'run0/ep-\*.safetensors' in /"),
        (
            'build = "mine:build"',
            "hidden = [7]",
            r"files: .*epoch1.safetensors: a checkpoint of another architecture than the model's: of another shape:"
            r" '0.weight' \(expected \[7, 5\], got \[8, 5\]\), ",
        ),
        (
            'build = "mine:build"',
            "hidden = [8, 4]",
            r"another architecture than the model's: missing: '4.weight', '4.bias'; of another shape: '2.weight'",
        ),
        ("run1/members.json", "run1/none.json", r"members: .*none.json: No such file"),
        ('"run0/members.npy", ', "", r"members: expected one entry for each of 2 runs, or a function, got 1"),
        ("run0/members.npy", "run0/epoch1.safetensors", r"expected a file of row numbers that ends in .npy, .json,"),
        ("run1/members.json", "run1/bad.json", r"run 1: expected rows from 0 to 299, got 300 \(1 such rows\)"),
        ("run1/members.json", "run1/all.json", r"run 1: all 300 samples are members; expected some that are not"),
        ("run1/members.json", "run1/short.json",
            r"run 1: expected each row once, got row 0 2 times \(2 such"),
        ("run1/members.json", "run1/none.npy", r"members: .*none.npy: no row numbers: "),
        ("run1/epoch", "run0/epoch", r"line 9, \[checkpoints\] files: expected another model in each run, but r"),
        ("run1/epoch*", "run1/nan*", r"files: .*nan.safetensors: a checkpoint with NaN or infinite values in '2.b"),
        ("run1/members.json", "run1/most.json", r"every sample but 0 was trained on by some run; r and task"),
        ('["run0/members.npy", "run1/members.json"]', '["mine:build"]', r"mine:build\(run=0\) was called to tell"),
        ('build = "mine:build"', "", r"\[model\] build: expected either build or hidden, got neither"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(folder: Path, old: str, new: str, message: str) -> None:
    checkpoints(folder, epochs=2)
    kinds = {"bad": [300], "all": range(300), "most": range(100, 300), "short": [0, 1, 1, 0]}
    for name, rows in kinds.items():
        (folder / "run1" / f"{name}.json").write_text(json.dumps(list(rows)))
    (folder / "run1" / "none.npy").touch()
    state = load_file(folder / "run1" / "epoch1.safetensors")
    save_file(state | {"2.bias": torch.tensor([np.nan])}, folder / "run1" / "nan.safetensors")
    assert old in SPEC
    with pytest.raises((SpecFileError, CalledError), match=message):
        carry_out(folder, SPEC.replace(old, new))


@pytest.mark.parametrize(
    "text",
    [
        ",0\n0,17\n1,23\n",  # pd.Series([17, 23]).to_csv
        ",row\n0,17\n1,23\n",
        "\ufeff17\n23\n",
        "\ufeffrow\n17\n23\n",
        '"row"\n"17"\n"23"\n',
        " 17 \n\n23\n",
    ],
)
def test_tables_of_row_numbers_as_others_write_them(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text, "utf-8")
    assert read_rows(tmp_path / "a.csv").tolist() == [17, 23]


@pytest.mark.parametrize("text", ["row,why\n3,x\n5,y\n", "3,4,5\n", ",a,b\n0,1,2\n", "row\n3\n5,7\n"])
def test_tables_of_several_columns_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(
        ValueError, match=r"a.txt: no row numbers: expected one column, or one beside an unnamed"
    ):
        read_rows(tmp_path / "a.txt")


def test_row_numbers_of_every_kind_of_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("row\n3\n5\n")
    (tmp_path / "a.txt").write_text("3\n5\n")
    (tmp_path / "a.json").write_text("[3, 5]")
    np.save(tmp_path / "a.npy", np.array([3, 5]))
    assert all(read_rows(tmp_path / f"a.{kind}").tolist() == [3, 5] for kind in ("csv", "txt", "json", "npy"))
    (tmp_path / "b.csv").write_text("3\nfive\n")
    with pytest.raises(ValueError, match=r"b.csv: no row numbers: "):
        read_rows(tmp_path / "b.csv")


def test_flags_of_zero_and_one_are_flags(folder: Path) -> None:
    checkpoints(folder, epochs=2)
    rows = carry_out(folder).audit
    flags = np.zeros(SAMPLES, np.int64)
    flags[:100] = 1
    np.save(folder / "run0" / "members.npy", flags)
    assert carry_out(folder).audit == rows


def test_ten_comes_after_two() -> None:
    names = [f"run/epoch{number}.pt" for number in (10, 9, 2, 1)]
    assert sorted(names, key=natural) == names[::-1]


ESTIMATORS = {
    "sklearn": (
        "from sklearn.ensemble import RandomForestClassifier as C",
        "C(20, n_jobs=1)",
        "probabilities",
    ),
    "sklearn_margins": ("from sklearn.linear_model import LogisticRegression as C", "C()", "margins"),
    "lightgbm": (
        "from lightgbm import LGBMClassifier as C",
        "C(n_estimators=30, n_jobs=1, verbose=-1)",
        "margins",
    ),
    "xgboost": ("from xgboost import XGBClassifier as C", "C(n_estimators=30, n_jobs=1)", "margins"),
    "catboost": (
        "from catboost import CatBoostClassifier as C",
        "C(iterations=30, verbose=False, allow_writing_files=False, thread_count=1)",
        "margins",
    ),
}
FITTED = """
[data]
load = "mine:load"

[data.options]
classes = {classes}

[model]
build = "mine:build"

[train]
loss = "{loss}"

[attacks]
names = ["loss", "lira"]

[budget]
runs = 4
"""


@pytest.mark.parametrize("given", ["", "random_state=3", "random_seed=3"])
def test_catboost_takes_the_seed_of_its_run_by_the_name_that_it_was_given(folder: Path, given: str) -> None:
    catboost = pytest.importorskip("catboost")
    from discreet.auditing_spec.estimators import _seed

    told = {"random_state": 3} if "state" in given else {"random_seed": 3} if given else {}
    x, y = data()

    def fitted(seed: int) -> np.ndarray:
        model = catboost.CatBoostClassifier(
            iterations=3, subsample=0.5, bootstrap_type="Bernoulli", thread_count=1, allow_writing_files=False,
            verbose=False, **told,
        )  # fmt: skip
        _seed(model, seed)
        return model.fit(x, y).predict_proba(x)

    np.testing.assert_array_equal(fitted(1), fitted(1))
    assert (fitted(1) != fitted(2)).any()


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("classes", [2, 3])
def test_classifiers_of_other_libraries(folder: Path, name: str, classes: int) -> None:
    line, made, kind = ESTIMATORS[name]
    pytest.importorskip(line.split()[1].partition(".")[0])
    code = CODE.replace("def build(hidden=8):", f"{line}\n\ndef build():\n    return {made}\n\ndef other():")
    (folder / "mine.py").write_text(code)
    loss = "bce" if classes == 2 else "ce"
    done = carry_out(folder, FITTED.format(classes=classes, loss=loss))
    (analysis,) = done.audit.analyses
    assert [row.variant for row in analysis.ranking.variants] == ["model"]
    assert analysis.ranking.variants[0].status == "undefined"
    assert analysis.performance[0].metric == ("auroc" if classes == 2 else "accuracy")
    release = read_all(sorted((folder / "run" / "release").glob("*.safetensors")))
    assert release.about["outputs"] == kind
    assert 0.4 < auc_of(done, "model") <= 1
    if name == "sklearn":  # a forest knows its members by heart
        assert "By attacks alone: each run has one checkpoint" in render(done.audit)
        assert auc_of(done, "model") > 0.7
    assert any("no torch module: it is judged by attacks alone" in note for note in done.audit.notes)
    assert done.audit.summary[0].startswith("By attacks alone: each run has one checkpoint of `model`")


OWN = """
class Own:
    def fit(self, x, y):
        self.classes_ = np.unique(y)
        return self
    def predict_proba(self, x):
        np.zeros(2) / np.zeros(2)
        found = 1 / (1 + np.exp(-x[:, 0]))
        return np.stack([1 - found, found], axis=1)

def build():
    return Own()

def other():"""


def test_a_classifier_of_ones_own_may_warn_of_numbers_that_it_does_not_use(folder: Path) -> None:
    (folder / "mine.py").write_text(CODE.replace("def build(hidden=8):", OWN))
    done = carry_out(folder, FITTED.format(classes=2, loss="bce").replace("runs = 4", "runs = 2"))
    assert auc_of(done, "model") == pytest.approx(0.5)  # it learns nothing, and is one model for all runs


def test_one_classifier_for_all_runs_is_refused(folder: Path) -> None:
    pytest.importorskip("sklearn")
    made = "from sklearn.linear_model import LogisticRegression\nONE = LogisticRegression(warm_start=True)\n"
    code = CODE.replace("def build(hidden=8):", f"{made}\ndef build():\n    return ONE\n\ndef other():")
    (folder / "mine.py").write_text(code)
    with pytest.raises(
        CalledError, match=r"mine:build to return a new classifier each time, got the same one"
    ):
        carry_out(folder, FITTED.format(classes=2, loss="bce"))


def test_a_device_is_for_what_pytorch_runs(folder: Path) -> None:
    (folder / "mine.py").write_text(CODE.replace("def build(hidden=8):", OWN))
    asked = '\n[device]\nprecision = "mixed"\n'
    words = "expected no device and precision for {}, which PyTorch does not run, got device '', precision 'mixed'"
    with pytest.raises(
        SpecFileError, match=rf"\[device\]: {words.format('a classifier of another library')}"
    ):
        carry_out(folder, FITTED.format(classes=2, loss="bce") + asked)
    with pytest.raises(SpecFileError, match=rf"\[device\]: {words.format('an ONNX file alone')}"):
        carry_out(folder, ONNX + asked)


def test_margins_and_probabilities_give_the_same_losses() -> None:
    from sklearn.linear_model import LogisticRegression

    from discreet.auditing_spec.estimators import ask

    x, y = data()
    model = LogisticRegression().fit(x, y)
    logits, kind = ask(model, x, 2, "bce")
    assert kind == "margins"
    by_hand = logits_of(model.predict_proba(x), "bce")
    np.testing.assert_allclose(logits, by_hand, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(logits[:, 0], model.decision_function(x))


def test_probabilities_become_logits() -> None:
    assert logits_of(np.array([[0.0, 1.0]]), "bce").tolist() == [[-np.log(FLOOR)]]
    np.testing.assert_allclose(logits_of(np.array([[0.2, 0.3, 0.5]]), "ce"), np.log([[0.2, 0.3, 0.5]]))
    assert logits_of(np.array([[2.0, -1.0]]), "bce").tolist() == [[-3.0]]
    with pytest.raises(ValueError, match=r"expected one or two columns, as the loss is bce, got 3"):
        logits_of(np.zeros((2, 3)), "bce")
    with pytest.raises(ValueError, match=r"expected finite ones, got 1 others"):
        logits_of(np.array([np.nan]), "bce")


@pytest.mark.parametrize(
    "metric", ["r > 0", "rank:model < 2", "n_train_r > 5", "bytes < 1000", "bits_per_weight < 9"]
)
def test_a_gate_asks_nothing_of_weights_that_are_not_there(folder: Path, metric: str) -> None:
    pytest.importorskip("sklearn")
    made = "from sklearn.linear_model import LogisticRegression as C\n\ndef build():\n    return C()\n"
    code = CODE.replace("def build(hidden=8):", f"{made}\ndef other():")
    (folder / "mine.py").write_text(code)
    words = (
        "there is no r of model, of which"
        if metric[0] in "rn"
        else "the size of model, which is no torch module"
    )
    with pytest.raises(SpecFileError, match=rf"line \d+, \[gate\] require: requirement '{metric}': {words}"):
        carry_out(folder, FITTED.format(classes=2, loss="bce") + f'[gate]\nrequire = ["{metric}"]\n')


@pytest.mark.parametrize(
    "metric", ["auc < 0.6", "tpr@1%:full < 0.1", "balanced_accuracy < 0.6", "n_train_r > 5"]
)
def test_a_gate_asks_for_no_attack_where_nobody_tells_the_members(folder: Path, metric: str) -> None:
    checkpoints(folder, epochs=2)
    spec = SPEC.replace('members = ["run0/members.npy", "run1/members.json"]', "")
    with pytest.raises(
        SpecFileError, match=rf"'{metric}': nothing is attacked and n is not known, as no \[check"
    ):
        carry_out(folder, f'{spec}[gate]\nrequire = ["{metric}"]\n')


def test_a_gate_asks_for_no_r_of_deployed_files(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    checkpoints(folder, epochs=3)
    export(folder)
    one = SPEC.replace(', "run1/epoch*.safetensors"', "").replace(', "run1/members.json"', "")
    beside = one.replace('build = "mine:build"', 'build = "mine:build"\nonnx = "model.onnx"')
    for spec, rest in ((ONNX, "$"), (beside, r"; name one of full and sign\(scale='absmean'\)$")):
        with pytest.raises(SpecFileError, match=rf"'r > 0': there is no r of onnx, .* is measured{rest}"):
            carry_out(folder, f'{spec}[gate]\nrequire = ["r > 0"]\n')
    done = carry_out(folder, f'{beside}[gate]\nrequire = ["r:full > -1", "bytes:onnx < 1e9"]\n')
    assert done.verdict is not None


ONNX = """
[data]
load = "mine:load"

[model]
onnx = "model.onnx"

[checkpoints]
members = ["run0/members.npy"]

[attacks]
names = ["loss", "lira"]
"""


def export(folder: Path, *last: torch.nn.Module) -> None:
    from discreet.artefacts.onnx_file import save_onnx

    own = module()
    own.load_state_dict(load_file(folder / "run0" / "epoch3.safetensors"))
    save_onnx(folder / "model.onnx", torch.nn.Sequential(own, *last), torch.from_numpy(data()[0][:4]))


def test_a_deployed_onnx_file_alone(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    checkpoints(folder, epochs=3)
    export(folder)
    done = carry_out(folder, ONNX)
    (analysis,) = done.audit.analyses
    assert [row.variant for row in analysis.ranking.variants] == ["onnx"]
    assert {row.attack for row in analysis.attacks} == {"loss"}  # one run has no references
    assert analysis.storage[0].bytes == (folder / "model.onnx").stat().st_size
    trained = carry_out(
        folder, SPEC.replace(', "run1/epoch*.safetensors"', "").replace(', "run1/members.json"', "")
    )
    assert auc_of(done, "onnx") == pytest.approx(auc_of(trained, "full"), abs=1e-6)


def test_a_deployed_file_beside_its_checkpoints(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    checkpoints(folder, epochs=3)
    export(folder)
    spec = SPEC.replace(', "run1/epoch*.safetensors"', "").replace(', "run1/members.json"', "")
    done = carry_out(
        folder, spec.replace('build = "mine:build"', 'build = "mine:build"\nonnx = "model.onnx"')
    )
    (analysis,) = done.audit.analyses
    assert {row.variant for row in analysis.ranking.variants} == {"full", "sign(scale='absmean')", "onnx"}
    assert auc_of(done, "onnx") == pytest.approx(auc_of(done, "full"), abs=1e-6)
    by_variant = {row.variant: row for row in analysis.ranking.variants}
    assert (by_variant["full"].checkpoints, by_variant["onnx"].checkpoints) == (3, 1)


def test_files_that_are_no_models(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    checkpoints(folder, epochs=1)
    (folder / "model.onnx").write_bytes(b"no model")
    with pytest.raises(SpecFileError, match=r"\[model\] onnx: .*model.onnx: ONNX Runtime cannot read it"):
        carry_out(folder, ONNX)
    with pytest.raises(
        SpecFileError, match=r"expected members, which say what the deployed ONNX file was trained"
    ):
        carry_out(folder, ONNX.replace('members = ["run0/members.npy"]', ""))


TRAINED = """
[data]
load = "mine:load"

[model]
build = "mine:build"

[train]
epochs = 3
lr = 0.02

[variants]
quantizers = ["sign(scale='absmean')"]
onnxruntime = ["dynamic", "static"]

[attacks]
names = ["loss", "lira"]

[budget]
runs = 4
"""


@pytest.mark.slow
def test_onnx_runtime_quantizes_what_ships(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    done = carry_out(folder, TRAINED)
    (analysis,) = done.audit.analyses
    names = {"full", "sign(scale='absmean')", "onnx int8 dynamic", "onnx int8 static"}
    assert {row.variant for row in analysis.ranking.variants} == names
    assert {row.variant for row in analysis.attacks if row.attack == "lira"} == names
    files = sorted((folder / "run" / "onnx").glob("run-0-*.onnx"))
    assert [row.bytes for row in analysis.storage][2:] == [path.stat().st_size for path in files]
    worth = {row.variant: row.value for row in analysis.performance}
    assert worth["onnx int8 dynamic"] == pytest.approx(worth["full"], abs=0.02)
    release = read_all(sorted((folder / "run" / "release").glob("*.safetensors")))
    loss = release.signal("loss")
    full, dynamic = (loss[release.rows(name)] for name in ("full", "onnx int8 dynamic"))
    assert 0 < np.abs(full - dynamic).max() < 0.2  # other numbers, and nearly the same ones
    assert '<span class="tag">no r</span>' in render(done.audit)
    assert "`onnx int8 dynamic` and `onnx int8 static` are not ranked" in " ".join(done.audit.summary)
    kept = {path: path.stat().st_mtime_ns for path in (folder / "run" / "onnx").iterdir()}
    assert carry_out(folder, TRAINED).audit.to_json() == done.audit.to_json()
    assert {path: path.stat().st_mtime_ns for path in (folder / "run" / "onnx").iterdir()} == kept


@pytest.mark.parametrize(
    ("copy", "group", "trained", "there"),
    [
        ("x[3] = x[250]", "np.arange(300)", 2, 2),
        ("x[3] = x[250]", "np.where(np.arange(300) == 250, 3, np.arange(300))", 0, 2),
        ("x[3] = x[4]", "np.arange(300)", 2, 0),  # of the runs that are there, both are members of one
        ("x[3] = x[150]", "np.arange(300)", 2, 2),
    ],
)
def test_samples_that_are_copies_are_counted(
    folder: Path, copy: str, group: str, trained: int, there: int
) -> None:
    checkpoints(folder, epochs=2)
    code = CODE.replace("    return x, np", f"    {copy}\n    y = np")
    code = code.replace("\n\ndef build", f"\n    return {{'x': x, 'y': y, 'group': {group}}}\n\ndef build")
    (folder / "mine.py").write_text(code)
    fitted = SPEC.replace("[checkpoints]\nfiles", "#").replace("members =", "#")
    for text, copies in ((SPEC, there), (fitted, trained)):
        (folder / "spec.toml").write_text(text)
        spec, source = read(folder / "spec.toml", AuditSpec)
        notes = prepare(spec, source, Store(folder / "kept"), 1).notes
        told = [note.partition(" have")[0] for note in notes if "have the same inputs" in note]
        assert told == ([f"{copies} of 300 samples"] if copies else [])
