"""Specs, data, models and training functions that do not do, and what their users are told."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from importlib import util
from pathlib import Path

import jsonschema
import pytest

pytestmark = pytest.mark.skipif(util.find_spec("torch") is None, reason="needs discreet[torch]")

if util.find_spec("torch") is not None:
    from discreet.auditing_spec import audit_spec
    from discreet.cli import entry
    from discreet.spec import AuditSpec, CalledError, SpecFileError, read, schema
    from tests.test_auditing_spec import CODE, SPEC, write


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder; modules imported from it are forgotten."""
    yield tmp_path
    sys.modules.pop("mine", None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("runs = 4", "rnus = 4",
         r"line 18, \[budget\] rnus: unknown key; did you mean 'runs'\? \(known: runs, shadows"),
        ("runs = 4", "runs = 5", r"line 18, \[budget\] runs: expected an even number, at least 2, got 5"),
        ("runs = 4", "shadows = 1", r"\[budget\] shadows: expected an even number or 0, got 1"),
        ("runs = 4", "minutes = -1", r"\[budget\] minutes: expected 0 or more, got -1"),
        ("runs = 4", "minutes = inf", r"line 18, \[budget\] minutes: expected a finite number, got inf"),
        ("[budget]", "[split]\ntraining = nan\n[budget]", r"\[split\] training: expected a finite number, got nan"),
        ("[budget]", "[budgt]", r"line 17, \[budgt\]: unknown section; did you mean 'budget'"),
        ('names = ["loss", "attack_p"]', 'names = ["los"]',
         r"line 15, \[attacks\] names: unknown attack 'los'; did you"),
        ('names = ["loss", "attack_p"]', "names = []", r"line 15, \[attacks\] names: expected at least one attack"),
        ('"sign(scale=', '"sing(scale=', r"line 12, \[variants\] quantizers: unknown quantizer 'sing'; did you mean"),
        ('"sign(scale=\'absmean\')"', '"full"', r"quantizers: 'full' is full precision, which is always there"),
        ('"sign(scale=\'absmean\')"', '"sign", "sign()"', r"quantizers: 'sign' occurs twice"),
        ('"sign(scale=\'absmean\')"', '"onnx = sign"', r"quantizers: 'onnx' is the name of the deployed file; take"),
        ('"sign(scale=\'absmean\')"', '"one bit = sing"', r"quantizers: unknown quantizer 'sing'; did you mean"),
        ('fit = "mine:fit"', 'fit = "mine:fit"\nepochs = 3',
         r"\[train\] epochs: it tells the built-in trainer what to"),
        ('fit = "mine:fit"', "[train.options]\nepochs = 3",
         r"\[train\] options: expected none, as they are arguments of"),
        ('fit = "mine:fit"', 'fit = "mine:fit"\nloss = "ec"', r"loss: expected one of bce, ce, mse"),
        ("[budget]", "[split]\ntraining = 0.9\n[budget]",
         r"line 18, \[split\] training: expected shares that add up to 1"),
        ("[budget]", "[split]\nevaluation = 0\n[budget]",
         r"\[split\] evaluation: expected a share between 0 and 1, got 0"),
        ("[budget]", "[checkpoints]\nmembers = ['a']\n[budget]", r"\[checkpoints\]: expected files beside members"),
        ("[budget]", "[gate]\naccept = ['not_converged']\n[budget]",
         r"line 18, \[gate\] accept: expected some of .*, got 'not_converged'; did you mean 'not-converged'"),
        ('build = "mine:build"', 'build = "mine:build"\nonnx = "a.onnx"',
         r"\[model\]: expected onnx alone, or \[checkpoints\] files of the model beside it, got build"),
        ('build = "mine:build"', 'onnx = "a.onnx"',
         r"\[checkpoints\]: expected members, which say what the deployed"),
    ],
)  # fmt: skip
def test_a_wrong_spec(folder: Path, old: str, new: str, message: str) -> None:
    assert old in SPEC
    path = write(folder, spec=SPEC.replace(old, new))
    with pytest.raises(SpecFileError, match=message):
        read(path, AuditSpec)


BATCH = """
class Stubborn(nn.BatchNorm1d):
    def train(self, mode=True):
        return super().train(True)
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("return x, (x[:, 0]", "raise OSError('no disk'); return x, (x[:, 0]",
         r"line 3, \[data\] load: mine:load\(\) was called to load the data and raised OSError: no disk"),
        ("return x, (x[:, 0]", "return x[:-1], (x[:, 0]",
         r"to return as many labels as inputs, at least one, got 400 lab"),
        ("    rng = ", "    CALLS.append(0); samples += len(CALLS)\n    rng = ",
         r"expected mine:load to return the same samples each time, got 401 at first and then 402"),
        ("    return x, (x[:, 0]", "    CALLS.append(0); x = x[::(-1) ** len(CALLS)].copy(); return x, (x[:, 0]",
         r"mine:load gives other values, or the same in another order"),
        ("    return x, (x[:, 0]", "    return Shuffled(); return x, (x[:, 0]",
         r"the Dataset of mine:load gives other values at a second reading; switch augmentation and shuffling off"),
        ("default_rng(0)", "default_rng()",
         r"mine:load gives other values, or the same in another order, when it is call"),
        ("> 0).astype(np.int64)", "> 0).astype(np.int64) * 2",
         r"\[data\] load: y: expected 0 and 1, got 2 at position"),
        ("> 0).astype(np.int64)", "> 0).astype(np.int64) - 1",
         r"\[data\] load: y: expected 0 and 1, got -1 at position"),
        ("    return x, (x[:, 0]", "    x[3, 0] = np.inf; return x, (x[:, 0]",
         r"to return finite inputs, got 1 that are NaN"),
        ("    return nn.Sequential", "    1 / 0\n    return nn.Sequential",
         r"line 6, \[model\] build: mine:build\(\) was called to make the model and raised ZeroDivisionError"),
        ("def load(samples=400)", "def load(samples=1)", r"\[data\] load: expected at least 2 samples, got 1"),
        ("def load(samples=400)", "def load(samples=3)", r"\[split\]: 3 samples cannot be dealt out so: "),
        ("def load(samples=400):", "raise SystemExit(3)\ndef load(samples=400):",
         r"importing 'mine' raised SystemExit: 3; put what runs the script under if __name__ == '__main__':"),
        ("    optimizer.zero_grad()", "    raise SystemExit(3)", r"to train run 0 and raised SystemExit: 3"),
        ("    return nn.Sequential(", "    return nn.Sequential(Widen(), ",
         r"the model of mine:build changes its inputs in place, so that other variants"),
        ("    return nn.Sequential(nn.Linear(6, 16)", "    return nn.Sequential(SHARED",
         r"a module with parameters of its own each time, got two that share '0.weight': what a run learns would be"),
        ("    return nn.Sequential", "    return 3 or nn.Sequential",
         r"expected mine:build to return a torch module, got int"),
        ("nn.Linear(16, 1))", "nn.Linear(16, 3))",
         r"expected mine:build to return a model with one output, as the loss is"),
        ("nn.Linear(6, 16)", "nn.Linear(7, 16)",
         r"the model of mine:build\(\) was called on two samples of shape \[6\] and"),
        ("nn.ReLU(), nn.Linear", "nn.Dropout(0.5).train().requires_grad_(), Shaky(), nn.Linear",
         r"gives other outputs when it is asked about the same samples again, in eval mode: dropout"),
        ("nn.BatchNorm1d(16)", "Stubborn(16)",
         r"gives other outputs for a sample when other samples are beside it, in eval mode: batch"),
        ("def fit(model, x, y, *, seed, checkpoint, epochs=4)", "def fit(model, x, y, epochs=4)",
         r"\[train\] fit: mine:fit is called as fit\(model, x, y, seed=…, checkpoint=…\): got an unexpected keyword"),
        ("        checkpoint(model)", "        pass",
         r"mine:fit trained run 0 and called no checkpoint; expected checkpoint"),
        ("        checkpoint(model)", "        checkpoint(model[0])",
         r"mine:fit trains another model than it is given: missing: '0.weight', .*; unexpected: 'weight', 'bias'"),
        ("        checkpoint(model)", "        checkpoint(3)",
         r"mine:fit to call checkpoint with the torch module that is trained, got int"),
        ("    return model\n", "    return None\n",
         r"expected mine:fit to return the torch module that is trained, got NoneType"),
        ("optimizer.zero_grad()", "optimizer.zero_gard()",
         r"mine:fit\(\) was called to train run 0 and raised AttributeError: .*zero_gard"),
        ("        checkpoint(model)", "        model[0].weight.data.fill_(float('nan')); checkpoint(model)",
         r"gave a model with NaN or infinite values in '0.weight': the training of run 0 after 0 ch"),
    ],
)  # fmt: skip
def test_code_that_does_not_do(folder: Path, old: str, new: str, message: str) -> None:
    sets = "CALLS = []\nclass Shuffled(torch.utils.data.Dataset):\n    def __len__(self): return 50\n"
    sets += "    def __getitem__(self, at): return torch.rand(6), at % 2\n"
    shaky = "\nclass Shaky(nn.Module):\n    def forward(self, x): return nn.functional.dropout(x)\n"
    sets += "SHARED = nn.Linear(6, 16)\nclass Widen(nn.Module):\n    def forward(self, x): return x.mul_(2)\n"
    assert old in CODE
    code = CODE.replace(old, new, 1).replace("\ndef load", BATCH + shaky + sets + "\ndef load")
    spec, source = read(write(folder, code), AuditSpec)
    with pytest.raises((SpecFileError, CalledError, ValueError), match=message):
        audit_spec(spec, source, folder / "run", workers=1)


def test_probabilities_are_no_outputs(folder: Path) -> None:
    code = CODE.replace("nn.Linear(16, 1))", "nn.Linear(16, 2), nn.Softmax(1))")
    spec, source = read(write(folder, code, SPEC.replace("[train]", '[train]\nloss = "ce"')), AuditSpec)
    with pytest.raises(
        CalledError, match=r"a model of raw outputs, got probabilities: they add up to 1; leave"
    ):
        audit_spec(spec, source, folder / "run", workers=1)


def test_the_traceback_begins_in_the_users_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder, CODE.replace("    optimizer = ", "    1 / 0\n    optimizer = "))
    assert entry.run(["audit", str(path), "--folder", str(folder / "run")]) == 2
    told = capsys.readouterr().err
    assert "mine.py" in told
    assert "1 / 0" in told
    assert "fitting.py" not in told
    assert told.splitlines()[-1].startswith(
        f"discreet: {path}, line 9, [train] fit: mine:fit() was called to train run 0"
    )


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        (
            'require = ["auk < 1"]',
            r"\[gate\] require: requirement 'auk < 1': no metric 'auk'; did you mean 'auc'",
        ),
        ('require = ["accuracy > 0.8"]', r"no metric 'accuracy'"),
        ('require = ["auc:sing < 1"]', r"the ranking has no variant 'sing'"),
        ('require = ["tpr@1%:full:lira < 1"]', r"no attack 'lira' was measured"),
        (
            'require = ["tpr@5% < 0.1"]',
            r"line 20, \[gate\] require: requirement 'tpr@5% < 0.1': expected one of the rates that are measured"
            r" \(10%, 1%, 0.1%, 0.01%\), got 5%",
        ),
    ],
)
def test_a_gate_that_cannot_be_judged_is_told_before_anything_trains(
    folder: Path, gate: str, message: str
) -> None:
    path = write(
        folder,
        CODE.replace("    draw = ", "    raise SystemExit('trained')\n    draw = "),
        f"{SPEC}[gate]\n{gate}\n",
    )
    spec, source = read(path, AuditSpec)
    with pytest.raises(SpecFileError, match=message):
        audit_spec(spec, source, folder / "run", workers=1)


def test_a_folder_with_files_of_others_is_left_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(folder)
    (folder / "mine").mkdir()
    (folder / "mine" / "audit.json").write_text('{"mine": 1}')
    assert entry.run(["audit", str(path), "--folder", str(folder / "mine")]) == 2
    assert (
        "no earlier audit of a spec wrote the audit.json in it, which would be lost"
        in capsys.readouterr().err
    )
    assert [each.name for each in (folder / "mine").iterdir()] == ["audit.json"]
    assert (folder / "mine" / "audit.json").read_text() == '{"mine": 1}'


def test_functions_may_import_from_the_specs_folder_as_they_run(folder: Path) -> None:
    code = CODE.replace("    optimizer = ", "    from beside import epochs\n    optimizer = ")
    path = write(folder, code.replace("epochs=4", "many=4"), SPEC.replace("runs = 4", "runs = 2"))
    (folder / "beside.py").write_text("epochs = 3\n")
    spec, source = read(path, AuditSpec)
    before = list(sys.path)
    (analysis,) = audit_spec(spec, source, folder / "run", workers=1).audit.analyses
    assert {row.checkpoints for row in analysis.ranking.variants} == {3}
    assert sys.path == before
    sys.modules.pop("beside")


def test_a_path_to_a_file_is_no_dotted_path(folder: Path) -> None:
    spec, source = read(write(folder, spec=SPEC.replace("mine:load", "../mine.py:load")), AuditSpec)
    with pytest.raises(
        SpecFileError, match=r"expected package.module:function, got '../mine.py:load' \(a module in /"
    ):
        audit_spec(spec, source, folder / "run", workers=1)


def test_code_from_elsewhere_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.report.write", lambda *_: ())
    (folder / "spec").mkdir()
    (folder / "elsewhere").mkdir()
    write(folder / "elsewhere")
    monkeypatch.syspath_prepend(str(folder / "elsewhere"))
    (folder / "spec" / "spec.toml").write_text(SPEC.replace("runs = 4", "runs = 2"))
    spec, source = read(folder / "spec" / "spec.toml", AuditSpec)
    done = audit_spec(spec, source, folder / "run", workers=1)
    told = [note for note in done.audit.notes if "outside the spec's folder: a spec runs code" in note]
    assert [note.partition(" ")[0] for note in told] == ["mine:load", "mine:build", "mine:fit"]


def test_a_first_spec_runs_and_is_what_its_schema_says(folder: Path) -> None:
    path = folder / "first.toml"
    assert entry.run(["audit", "--init", str(path)]) == 0
    spec, _ = read(path, AuditSpec)
    assert (spec.data.load, spec.budget.runs) == ("tab20", 8)
    told = tomllib.loads(path.read_text())
    jsonschema.Draft202012Validator(schema(AuditSpec, "discreet audit")).validate(told)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(told | {"budgt": {}}, schema(AuditSpec, "discreet audit"))
    assert entry.run(["audit", "--init", str(path)]) == 2


def test_options_for_the_other_kind_of_argument(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder)
    assert entry.run(["audit", str(path), "--attack", "loss"]) == 2
    assert "--attack: it is for run directories; a spec says it under [attacks]" in capsys.readouterr().err
    assert entry.run(["audit", str(path), "--time-budget", "inf"]) == 2
    assert "--time-budget: expected minutes, or 0 for no limit, got inf" in capsys.readouterr().err
    assert entry.run(["audit", str(folder), "--time-budget", "3"]) == 2
    assert "--folder, --time-budget, --device, --precision: they are for specs" in capsys.readouterr().err
