"""What discreet compress refuses, before anything is trained where that can be known."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from discreet.cli.entry import run
from discreet.compressing import compress
from discreet.spec import CompressSpec, SpecFileError, read
from tests.compress_specs import OWN, SPEC, TABLE, working

PARTS = """
import torch
from torch import nn

class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.words = nn.Linear(8, 8), nn.Embedding(2, 8)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))

def frozen():
    made = Parts()
    made.first.weight.requires_grad_(False)
    return made

def tied():
    made = Parts()
    made.last.weight = made.words.weight
    return made

class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(8, 2))

    def forward(self, x):
        return x @ self.slope

bare = Bare

class Sums(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 2, 8)

    def forward(self, x):
        return self.first(x[:, None])[:, :, 0]

class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(x.reshape(-1, 2, 4)).mean(1)
"""
AGED = f"{TABLE}\ndef aged():\n    x, y = data()\n    return {{'x': x, 'y': y, 'attribute': x[:, 0]}}\n"
MORE = """
import numpy as np
from own_table import data as table

def data():
    x, y = table()
    more = np.random.default_rng(1).standard_normal((20, 8)).astype(np.float32)
    more[[1, 4]] = x[[7, 9]]
    return {"x": x, "y": y, "reference": more}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from working(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ('"own_code:loss"', r'\[train\] task: expected "bce", "ce" or "mse", as own_code:loss does not say'),
        ('"ce"\ntask = "mse"', r"\[train\] task: expected none, as the loss says it, or ce, got 'mse'"),
        ('"own_code:mean"\ntask = "ce"', r"a tensor of shape \[4\], got shape \[\]"),
        ('"own_code:count"\ntask = "ce"', "losses with a gradient, got numbers that do not depend"),
        ('"own_code:lost"\ntask = "ce"', "own_code has no 'lost'; did you mean 'loss'"),
        ('"own_code:build"\ntask = "ce"', "was called on outputs of shape .* and raised"),
    ],
)
def test_losses_of_ones_own_that_are_none(
    folder: Path, loss: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "own_code.py").write_text(OWN)
    (folder / "my.toml").write_text(
        f'[data]\nload = "own_code:data"\n[model]\nbuild = "own_code:build"\n[train]\nloss = {loss}\n'
    )
    assert run(["compress", "my.toml"]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_code_that_fails_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "own_fails.py").write_text(OWN)
    (folder / "my.toml").write_text(
        '[data]\nload = "own_fails:data"\n[model]\nbuild = "own_fails:broken"\n[train]\nloss = "ce"\n'
    )
    assert run(["compress", "my.toml"]) == 2
    said = capsys.readouterr().err
    assert "Traceback (most recent call last):" in said
    assert "return missing_name" in said
    assert (
        "discreet: my.toml, line 4, [model] build: own_fails:broken() was called to make the model and raised"
        " NameError: name 'missing_name' is not defined"
    ) in said
    assert not (folder / "my" / "compress.json").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("own_table:data\"", "own_table:data\"\nsamples = 20", r"\[roles\].*loop: expected at least 4, got 2"),
        ("[safety]", "[roles]\nfit = 500\n[safety]", r"\[roles\]: sizes: expected at most 600 samples in all"),
        ("runs = 2", 'runs = 2\nmetric = "auroc"', r"\[compress\] metric: expected accuracy for ce"),
        ("hidden = [16, 16]", 'hidden = [16]\nactivation = "step"', r"\[model\] activation: .*expected one of"),
        ("[0.3, 0.5]", "[0.3, 0.004]", r"line 12, \[compress\] densities: 0.004 of 416 weights is 1;"),
        ("runs = 2", 'runs = 2\ninclude = ["head*"]', r"line 14, \[compress\] include: the pattern 'head\*'"),
        ('"set"', '"prune+dmp"', r"line 11, \[compress\] method: dmp: expected reference .* set \[roles\] ref"),
        ('"set"', '"kd+advreg"', r"\[compress\] method: advreg: expected reference samples"),
        ('"set"', '"rigl+dpsgd"', r"line 11, \[compress\] method: dpsgd: growth by gradient reads gradients"),
        ('"set"', "\"safecompress(test='attribute')\"", r"\[safety\] test: this test infers an attribute"),
        ('["modified", "loss"]', "[\"attack(attack='rmia')\"]", r"\[safety\] audit: expected an attack of a single"),
        (
            '["modified", "loss"]',
            """['''basket(tests=("modified(metric='auc')",))''']""",
            r"line 16, \[safety\] audit: tests: expected membership attacks that tell an accuracy, got",
        ),
        ('"set"', '"safecompress(interval=3)"', r"method: interval, tune, stop: expected an update before"),
        ("lr = 0.01", "lr = 1e30", r"line 9, \[train\] lr: model [01]: 0.weight is not finite after epoch 1"),
    ],
)  # fmt: skip
def test_what_a_spec_cannot_ask(folder: Path, old: str, new: str, message: str) -> None:
    (folder / "my.toml").write_text(SPEC.replace(old, new))
    spec, source = read("my.toml", CompressSpec)
    with pytest.raises(SpecFileError, match=message):
        compress(spec, source, folder / "my")


def test_what_a_spec_writes_is_not_replaced(folder: Path) -> None:
    (folder / "own_numbers.py").write_text(
        f"{TABLE}\ndef numbers():\n    x, y = data()\n    return x, x[:, 0]\n"
    )
    text = SPEC.replace("own_table:data", "own_numbers:numbers").replace('"ce"', '"mse"')
    text = text.replace("[0.3, 0.5]", "[0.3]").replace('["dense", "kd"]', "[]").replace("quantizer", "# ")
    written = text.replace('["modified", "loss"]', '["modified", "loss", "odds"]')  # the default
    (folder / "my.toml").write_text(written)
    with pytest.raises(SpecFileError, match=r"\[safety\] audit: .*'modified' reads classes"):
        compress(*read("my.toml", CompressSpec), folder / "my")
    written = text.replace('audit = ["modified", "loss"]', 'test = "basket"').replace(
        '"set"', '"safecompress"'
    )
    (folder / "my.toml").write_text(written)
    with pytest.raises(SpecFileError, match=r"line 16, \[safety\] test: modified reads classes"):
        compress(*read("my.toml", CompressSpec), folder / "my")
    (folder / "my.toml").write_text(written.replace('test = "basket"', ""))
    told = compress(*read("my.toml", CompressSpec), folder / "my")
    assert set(told["units"][0]["audit"]["attacks"]) == {"loss"}


def test_attacks_that_compare_runs_need_runs(folder: Path) -> None:
    text = SPEC.replace('"loss"]', "\"attack(attack='rmia')\"]").replace("[0.3, 0.5]", "[0.3]")
    text = text.replace('["dense", "kd"]', "[]")
    (folder / "my.toml").write_text(text.replace("runs = 2", "runs = 1"))
    spec, source = read("my.toml", CompressSpec)
    with pytest.raises(
        SpecFileError, match=r"audit: attack\(attack='rmia'\) compares the models of several runs"
    ):
        compress(spec, source, folder / "my")
    (folder / "my.toml").write_text(text)
    spec, source = read("my.toml", CompressSpec)
    told = compress(spec, source, folder / "my")
    assert set(told["units"][0]["audit"]["attacks"]) == {"modified", "attack(attack='rmia')"}
    file = told["shipped"]["files"][0]
    assert set(file["audit"]["attacks"]) == {"modified"}
    assert any("were not attacked by attack(attack='rmia')" in each for each in told["shipped"]["notes"])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        ("frozen", "'first.weight' is frozen"),
        ("tied", "'last.weight' is tied to 'words.weight', which is kept"),
        ("bare", "nothing to mask"),
    ],
)
def test_models_that_cannot_be_masked_are_told_before_anything_is_trained(
    folder: Path, build: str, message: str
) -> None:
    (folder / "own_parts.py").write_text(PARTS)
    text = SPEC.replace("hidden = [16, 16]", f'build = "own_parts:{build}"').replace('["dense", "kd"]', "[]")
    (folder / "my.toml").write_text(text)
    spec, source = read("my.toml", CompressSpec)
    with pytest.raises(SpecFileError, match=rf"my.toml, line 4, \[model\]: {message}"):
        compress(spec, source, folder / "my")
    assert not (folder / "my" / "models").exists()


@pytest.mark.parametrize(
    ("load", "old", "new", "message"),
    [
        ('build = "own_parts:Sums"', '"set"', "\"safecompress('tm', 'whitebox')\"", r"\[model\]: Sums has no nn.Lin"),
        ('build = "own_parts:Tokens"', '"set"', "\"safecompress('tm', 'whitebox')\"", r"\[model\]: expected \[rows"),
        ('build = "own_parts:Sums"', '"modified", "loss"', '"loss", "whitebox"', r"\[safety\] audit: model: Sums"),
        ("hidden = [8]", '"set"', "\"safecompress(test='attribute')\"", r"\[safety\] test: expected classes for"),
        ("hidden = [8]", '"set"', "\"safecompress(test='basket(weights=(2.0, 1.0))')\"", None),
    ],
)  # fmt: skip
def test_what_attacks_refuse_is_told_before_anything_is_trained(
    folder: Path, load: str, old: str, new: str, message: str | None
) -> None:
    (folder / "own_parts.py").write_text(PARTS)
    (folder / "own_aged.py").write_text(AGED)
    text = (
        SPEC.replace("hidden = [16, 16]", load).replace("own_table:data", "own_aged:aged").replace(old, new)
    )
    (folder / "my.toml").write_text(text)
    seen = refused(folder, message) if message else begun(folder)
    assert seen[0] == "reading the data"
    assert (len(seen) == 1) == bool(message)


def test_an_attack_whose_library_is_missing_is_told_before_anything_is_trained(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    (folder / "own_aged.py").write_text(AGED)
    method = """'''safecompress(test="attribute(metric='mae')")'''"""
    (folder / "my.toml").write_text(SPEC.replace("own_table:data", "own_aged:aged").replace('"set"', method))
    assert refused(folder, r"\[safety\] test: this test needs scikit-learn") == ["reading the data"]


def refused(folder: Path, message: str) -> list[str]:
    """What is being done until a spec is refused."""
    seen: list[str] = []
    with pytest.raises(SpecFileError, match=message):
        compress(
            *read("my.toml", CompressSpec), folder / "my", progress=lambda what, share: seen.append(what)
        )
    assert not (folder / "my" / "models").exists()
    return seen


def begun(folder: Path) -> list[str]:
    """What is being done until a training begins."""
    seen: list[str] = []

    def show(what: str, share: float) -> None:
        seen.append(what)
        if share > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compress(*read("my.toml", CompressSpec), folder / "my", progress=show)
    return seen


def test_reference_samples_play_no_other_part(folder: Path) -> None:
    (folder / "own_more.py").write_text(MORE)
    text = SPEC.replace("own_table:data", "own_more:data")
    (folder / "my.toml").write_text(text)
    spec, source = read("my.toml", CompressSpec)
    with pytest.raises(
        SpecFileError, match=r"line 3, \[data\] load: reference: .*; 2 rows .* the first is row 1$"
    ):
        compress(spec, source, folder / "my")
    (folder / "my.toml").write_text(f"{text}[roles]\nreference = 9\n")
    spec, source = read("my.toml", CompressSpec)
    with pytest.raises(SpecFileError, match=r"\[roles\] reference: expected 0, as load returns .*, got 9"):
        compress(spec, source, folder / "my")


def test_an_adversary_is_not_trained_on_labels_that_nobody_knows(folder: Path) -> None:
    (folder / "own_code.py").write_text(OWN)
    (folder / "my.toml").write_text(
        '[data]\nload = "own_code:data"\n[model]\nbuild = "own_code:build"\n[train]\nloss = "ce"\nepochs = 1\n'
        '[compress]\nmethod = "kd+advreg"\ndensities = [0.5]\n'
    )
    spec, source = read("my.toml", CompressSpec)
    with pytest.raises(
        SpecFileError,
        match=r"\[compress\] method: advreg: expected reference samples with labels, .*; set \[roles\] reference \(",
    ):
        compress(spec, source, folder / "my")
    assert not (folder / "my" / "models").exists()


def test_what_defences_refuse_is_told_before_anything_is_trained(folder: Path) -> None:
    (folder / "my.toml").write_text(SPEC.replace('method = "set"', 'method = "kd+distil"'))
    spec, source = read("my.toml", CompressSpec)
    seen: list[str] = []
    with pytest.raises(
        SpecFileError, match=r"line 11, \[compress\] method: distil: the training learns from"
    ):
        compress(spec, source, folder / "my", progress=lambda what, share: seen.append(what))
    assert seen == ["reading the data"]


def test_a_metric_that_is_not_there_is_told_before_anything_is_trained(folder: Path) -> None:
    (folder / "my.toml").write_text(SPEC.replace("runs = 2", 'runs = 2\nmetric = "own_table:dat"'))
    spec, source = read("my.toml", CompressSpec)
    with pytest.raises(
        SpecFileError, match=r"\[compress\] metric: own_table has no 'dat'; did you mean 'data'"
    ):
        compress(spec, source, folder / "my")


@pytest.mark.parametrize(
    ("body", "message", "shown"),
    [
        (
            "outputs[:, 2]",
            r"my.toml, line 14, \[compress\] metric: own_metrics:score\(\) was called on outputs .* raised IndexErr",
            "return outputs[:, 2]",
        ),
        (
            "np.where(y == 0, 1.0, np.nan)",
            r"my.toml, line 14, \[compress\] metric: expected finite scores from own_metrics:score, got nan at posi",
            "",
        ),
        (
            "y.mean()",
            r"my.toml, line 14, \[compress\] metric: expected one score for each of 60 samples from",
            "",
        ),
    ],
)
def test_a_metric_that_does_not_do_is_told_before_anything_is_trained(
    folder: Path, capsys: pytest.CaptureFixture[str], body: str, message: str, shown: str
) -> None:
    (folder / "own_metrics.py").write_text(
        f"import numpy as np\n\ndef score(outputs, y):\n    return {body}\n"
    )
    (folder / "my.toml").write_text(SPEC.replace("runs = 2", 'runs = 2\nmetric = "own_metrics:score"'))
    assert run(["compress", "my.toml"]) == 2
    said = capsys.readouterr().err
    assert re.search(message, said)
    assert shown in said
    assert not (folder / "my" / "models").exists()


def test_a_metric_that_fails_later_is_told_where(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "own_later.py").write_text(
        "CALLS = []\n\ndef score(outputs, y):\n    CALLS.append(0)\n    return outputs[:, len(CALLS)]\n"
    )
    text = SPEC.replace("runs = 2", 'runs = 1\nmetric = "own_later:score"')
    (folder / "my.toml").write_text(text.replace('["dense", "kd"]', "[]"))
    assert run(["compress", "my.toml"]) == 2
    said = capsys.readouterr().err
    assert re.search(
        r"my.toml, line 14, \[compress\] metric: own_later:score\(\) was called on .* IndexError", said
    )
    assert (folder / "my" / "models").exists()


def test_patience_is_no_key_of_a_compression(folder: Path) -> None:
    (folder / "my.toml").write_text(SPEC.replace("lr = 0.01", "lr = 0.01\npatience = 3"))
    with pytest.raises(SpecFileError, match=r"my.toml, line 10, \[train\] patience: unknown key"):
        read("my.toml", CompressSpec)


def test_files_of_others_are_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "my.toml").write_text(SPEC)
    (folder / "my").mkdir()
    for name in ("model.safetensors", "report.html"):
        (folder / "my" / name).write_text("precious")
        assert run(["compress", "my.toml"]) == 2
        assert f"my: discreet compress did not write the {name} in it" in capsys.readouterr().err
        assert (folder / "my" / name).read_text() == "precious"
        (folder / "my" / name).unlink()
