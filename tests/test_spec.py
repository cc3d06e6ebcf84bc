"""Specs: what is read, and what a wrong one is told."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.mlp import MLP
from discreet.spec import (
    CalledError,
    CompressSpec,
    Source,
    SpecFileError,
    load_data,
    load_model,
    named,
    read,
    schema,
    template,
)
from discreet.spec._lines import lines_of

EXAMPLES = {("data", "load"): "tab20", ("model", "hidden"): (16, 8), ("train", "loss"): "ce"}

WHOLE = """# a spec
[data]
load = "tab20"   # by name
samples = 500

[model]
hidden = [
  16,   # ] not the end
  8,
]

[train]
loss = "ce"
epochs = 3
lr = 1

[compress]
densities = [0.1, 0.2]
method = "prune+re1"
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


def spec(folder: Path, text: str = WHOLE) -> Path:
    (folder / "spec.toml").write_text(text)
    return folder / "spec.toml"


def source(folder: Path) -> Source:
    return Source(folder / "spec.toml", {("data", "load"): 2, ("model", "build"): 4})


def test_a_spec_is_read(folder: Path) -> None:
    found, where = read(spec(folder), CompressSpec)
    assert found.data.load == "tab20"
    assert found.model.hidden == (16, 8)
    assert (found.train.epochs, found.train.lr, found.train.loss) == (3, 1.0, "ce")
    assert isinstance(found.train.lr, float)
    assert found.compress.densities == (0.1, 0.2)
    assert found.export.formats == ("sparse", "dense", "onnx")
    assert where.at("train", "epochs").endswith("spec.toml, line 14, [train] epochs")
    assert where.at("budget", "minutes").endswith("spec.toml, [budget] minutes")
    assert where.folder == folder


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epochs = 3", "epocs = 3", r"line 14, \[train\] epocs: unknown key; did you mean 'epochs'\? \(known: "),
        ("[train]", "[trian]", r"line 12, \[trian\]: unknown section; did you mean 'train'\? \(known: data, model, "),
        ("epochs = 3", 'epochs = "3"', r'line 14, \[train\] epochs: expected a whole number, got "3"'),
        ("epochs = 3", "epochs = 3.5", r"line 14, \[train\] epochs: expected a whole number, got 3.5"),
        ("epochs = 3", "epochs = true", r"line 14, \[train\] epochs: expected a whole number, got true"),
        ("epochs = 3", "epochs = 0", r"line 14, \[train\] epochs: expected at least 1, got 0"),
        ("lr = 1", 'lr = "fast"', r'line 15, \[train\] lr: expected a number, got "fast"'),
        ("lr = 1", "lr = -1", r"line 15, \[train\] lr: expected a positive number, got -1.0"),
        ('loss = "ce"', "loss = 3", r"line 13, \[train\] loss: expected text in quotes, got 3"),
        ("densities = [0.1, 0.2]", "densities = 0.1", r"line 18, \[compress\] densities: expected a list, got 0.1"),
        ("densities = [0.1, 0.2]", "densities = [0.1, 'a']", r'line 18, .* densities: expected a number, got "a"'),
        ("densities = [0.1, 0.2]", "densities = [1.2]", r"line 18, .* densities: expected above 0 and below 1"),
        ("densities = [0.1, 0.2]", "densities = [0.1, 0.1]", r"line 18, .* densities: expected at least one, none"),
        ('"prune+re1"', '"prume"', r"line 19, \[compress\] method: unknown compressor 'prume'; did you mean 'prune'"),
        ("8,\n]", "8, 0\n]", r"line 7, \[model\] hidden: expected widths of at least 1, got \[16, 8, 0\]"),
        ("hidden = [\n  16,   # ] not the end\n  8,\n]", "", r"line 6, \[model\] build: expected either build or"),
        ('load = "tab20"', "", r"line 2, \[data\]: the key 'load' is missing"),
        ("[data]", "[daten]", r"line 2, \[daten\]: unknown section; did you mean 'data'"),
        ("epochs = 3", "epochs =", r"spec.toml: no TOML: .*line 14"),
        ("epochs = 3", "epochs = 3\nepochs = 4", r"spec.toml: no TOML: .*line 15"),
        ("[train]", "[export]\nformats = ['dense']\n[train]", r"line 13, \[export\] formats: expected sparse among"),
        ("[train]", "[export]\nformats = ['spars']\n[train]", r"formats: expected one of sparse, dense, onnx, got"),
        ("[train]", "[safety]\naudit = ['mod']\n[train]", r"line 13, \[safety\] audit: unknown safety 'mod'"),
        ("[train]", "data_ = 3\n[train]", r"line 12, \[model\] data_: unknown key"),
        ("# a spec", "model = 3", r"no TOML"),
    ],
)  # fmt: skip
def test_a_wrong_spec_is_told_where_and_why(folder: Path, old: str, new: str, message: str) -> None:
    assert old in WHOLE
    with pytest.raises(SpecFileError, match=message):
        read(spec(folder, WHOLE.replace(old, new)), CompressSpec)


def test_files_that_cannot_be_read(folder: Path) -> None:
    with pytest.raises(SpecFileError, match=r"none.toml: cannot read the spec: No such file"):
        read(folder / "none.toml", CompressSpec)
    (folder / "spec.toml").write_bytes(b"\xff")
    with pytest.raises(SpecFileError, match=r"spec.toml: not UTF-8 text \(byte 0\)"):
        read(folder / "spec.toml", CompressSpec)
    with pytest.raises(SpecFileError, match=r"spec.toml: the section \[data\] is missing"):
        read(spec(folder, "[model]\nhidden = [3]"), CompressSpec)


KEYS = st.sampled_from(["a", "b-c", "d_1", '"q u"'])
VALUES = st.sampled_from(
    [
        "1",
        "'x = 1'",
        '"[z]"',
        "[1,\n 2] # ]",
        '["]",\n"#"]',
        "{ e = 1 }",
        '"""\n[no]\nno = 1\n"""',
        "'''\nx = [\n'''",
    ]
)


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.tuples(KEYS, VALUES), unique_by=lambda kv: kv[0])), max_size=4
    )
)
@settings(max_examples=100, deadline=None)
def test_lines_are_those_of_the_keys(tables: list[tuple[bool, list[tuple[str, str]]]]) -> None:
    lines, expected = ["# [comment]"], {}
    for number, (spaced, keys) in enumerate(tables):
        lines.append(f"[ t{number} ]" if spaced else f"[t{number}]  # x = [")
        expected[(f"t{number}",)] = len(lines)
        for key, value in keys:
            expected[(f"t{number}", key.strip('"'))] = len(lines) + 1
            lines += f"{key} = {value}".split("\n")
    text = "\n".join(lines)
    tomllib.loads(text)
    assert lines_of(text) == expected


@dataclass(frozen=True)
class Part:
    """A part.

    Attributes:
        name: Its name,
            on two lines.
        pair: Two numbers.
        more: Anything.
    """

    name: str
    pair: tuple[float, float] = (0.5, 1.0)
    kind: Literal["a", "b"] = "a"
    maybe: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Whole:
    """A spec."""

    part: Part


def test_other_dataclasses_are_read_as_well(folder: Path) -> None:
    text = '[part]\nname = "x"\npair = [1, 2]\nkind = "b"\nmaybe = 3\n[part.more]\nz = [1, "y"]\n'
    found = read(spec(folder, text), Whole)[0]
    assert found == Whole(Part("x", (1.0, 2.0), "b", 3, {"z": [1, "y"]}))
    for old, new, message in (
        ("[1, 2]", "[1]", "line 3, .* expected a list of 2, got 1 items"),
        ('"b"', '"c"', r'line 4, \[part\] kind: expected one of a, b, got "c"'),
        ("[part.more]\nz", "more", r"line 6, \[part\] more: expected a table of options, got a list"),
    ):
        with pytest.raises(SpecFileError, match=message):
            read(spec(folder, text.replace(old, new)), Whole)


def test_the_template_is_a_spec_that_says_the_defaults(folder: Path) -> None:
    text = template(CompressSpec, "What is done.\nA spec runs code.", EXAMPLES)
    assert text.startswith("# What is done.\n# A spec runs code.\n")
    assert all(len(line) <= 110 for line in text.splitlines())
    found = read(spec(folder, text), CompressSpec)[0]
    plain = '[data]\nload = "tab20"\n[model]\nhidden = [16, 8]\n[train]\nloss = "ce"\n'
    assert found == read(spec(folder, plain), CompressSpec)[0]
    assert "# patience = 0" in text
    assert text.count("patience") == 1  # of [select]: nothing trains with one
    on = "\n".join(
        line[2:]
        if line.startswith("# ") and " = " in line and "(not set)" not in line and line[2] != "["
        else line
        for line in text.splitlines()
        if not line.startswith(("# build", "#   "))
    )
    keys = tomllib.loads(on.replace("# [", "["))
    assert keys["compress"]["runs"] == 3
    assert keys["export"]["batch_sizes"] == [1, 64]


def test_the_schema_says_what_the_reader_takes(folder: Path) -> None:
    found = schema(CompressSpec, "discreet compress")
    jsonschema.Draft202012Validator.check_schema(found)
    good = tomllib.loads(WHOLE)
    jsonschema.validate(good, found)
    assert "Passes over" in found["properties"]["train"]["properties"]["epochs"]["description"]
    assert found["required"] == ["data", "model"]
    for section, key, value in (
        ("train", "epochs", "3"),
        ("train", "epocs", 3),
        ("compress", "densities", 0.1),
    ):
        wrong = good | {section: {**good[section], key: value}}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, found)


def test_functions_are_found_beside_the_spec(folder: Path) -> None:
    (folder / "own_pkg").mkdir()
    (folder / "own_pkg" / "__init__.py").write_text("")
    (folder / "own_pkg" / "train.py").write_text("def build(width=3):\n    return width\n\nWIDTH = 3\n")
    found = named("own_pkg.train:build", source(folder), "model", "build")
    assert (found("to see", {"width": 7}), found.note) == (7, "")
    assert str(folder) not in sys.path
    for path, message in (
        (
            "own_pkg.train:biuld",
            r"line 4, \[model\] build: own_pkg.train has no 'biuld'; did you mean 'build'\?",
        ),
        ("own_pkg.train:WIDTH", r"expected a function, own_pkg.train:WIDTH is int"),
        ("own_pkg.tran:build", r"no module 'own_pkg.tran' in .* or among the installed packages"),
        ("nowhere_pkg:build", r"no module 'nowhere_pkg' in .* or among the installed packages"),
        ("own_pkg.train", r"expected package.module:function, got 'own_pkg.train'$"),
        ("../other/train.py:build", r"a module in .* not a path to a file: a spec runs code"),
    ):
        with pytest.raises(SpecFileError, match=message):
            named(path, source(folder), "model", "build")
    outside = named("json:loads", source(folder), "model", "build")
    assert "outside the spec's folder: a spec runs code with all that you may do" in outside.note


def test_code_that_raises_is_framed(folder: Path) -> None:
    (folder / "own_bad.py").write_text(
        "def inner(n):\n    return 1 / n\n\ndef build(depth=0):\n    return inner(depth)\n"
    )
    found = named("own_bad:build", source(folder), "model", "build")
    with pytest.raises(CalledError) as caught:
        found("to make the model", {"depth": 0})
    assert str(caught.value).endswith(
        "line 4, [model] build: own_bad:build(depth=0) was called to make the model and raised ZeroDivisionError:"
        " division by zero"
    )
    shown = caught.value.shown
    assert shown.startswith("Traceback (most recent call last):\n")
    assert "return inner(depth)" in shown
    assert "return 1 / n" in shown
    assert "calls.py" not in shown
    (folder / "own_raises.py").write_text("raise RuntimeError('no')\n")
    with pytest.raises(CalledError, match=r"importing 'own_raises' raised RuntimeError: no"):
        named("own_raises:f", source(folder), "model", "build")
    (folder / "own_needs.py").write_text("import not_installed_pkg\n")
    with pytest.raises(CalledError, match=r"'own_needs' needs 'not_installed_pkg', which is not installed"):
        named("own_needs:f", source(folder), "model", "build")


def test_a_module_whose_name_is_taken_is_told(folder: Path) -> None:
    (folder / "json.py").write_text("def build():\n    return 3\n")
    with pytest.raises(
        SpecFileError, match=r"is not what Python imports as 'json' .* give the module another name"
    ):
        named("json:build", source(folder), "model", "build")


LOADERS = """
import numpy as np, torch
X, Y = np.zeros((6, 3)), np.arange(6) % 2

def pair(): return X, Y
def parts(): return {"x": X, "y": Y, "group": Y, "attribute": Y, "reference": X[:2]}
def dataset(): return torch.utils.data.TensorDataset(torch.zeros(6, 3), torch.arange(6))
def noisy():
    class Noisy(torch.utils.data.Dataset):
        def __len__(self): return 6
        def __getitem__(self, at): return torch.rand(3), 0
    return Noisy()
def broken():
    class Broken(torch.utils.data.Dataset):
        def __len__(self): return 6
        def __getitem__(self, at): raise KeyError(at)
    return Broken()
def three(): return X, Y, Y
def uneven(): return X, Y[:3]
def nan(): return X + np.nan, Y
def text(): return [["a"]], [1]
def unknown(): return {"x": X, "y": Y, "z": Y}
def few_groups(): return {"x": X, "y": Y, "group": Y[:2]}
def wide_groups(): return {"x": X, "y": Y, "group": X}
def nan_labels(): return X, np.where(np.arange(6) == 2, np.nan, Y)
def endless_targets(): return X, np.where(np.arange(12).reshape(6, 2) == 7, np.inf, 0)
def nan_groups(): return {"x": X, "y": Y, "group": np.array([0, np.nan, 1, np.nan, 2, 3])}
def no_group(): return {"x": X, "y": Y, "group": ["a", "b", None, "a", "b", "c"]}
def mixed_groups(): return {"x": X, "y": Y, "group": np.array(["a", 3, "b", 4, "a", 3], object)}
def no_day(): return {"x": X, "y": Y, "group": np.array(["2026-01-02", "NaT"] * 3, "datetime64[D]")}
def nan_attribute(): return {"x": X, "y": Y, "attribute": np.where(Y > 0, Y, np.nan)}
def not_available():
    import pandas
    return {"x": X, "y": Y, "group": pandas.Series(["a", pandas.NA] * 3)}
def other_reference(): return {"x": X, "y": Y, "reference": X[:, :2]}
"""


@dataclass(frozen=True)
class Load:
    """What stands for the section."""

    load: str
    samples: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)


def test_data_of_ones_own(folder: Path) -> None:
    from discreet.spec.sections import Data

    (folder / "own_data.py").write_text(LOADERS)
    for name in ("pair", "parts", "dataset"):
        found = load_data(Data(f"own_data:{name}"), source(folder))
        assert (tuple(found.x.shape), len(found.y)) == ((6, 3), 6)
        assert found.x.dtype == torch.float32
    found = load_data(Data("own_data:parts"), source(folder))
    assert found.group is not None
    assert found.attribute is not None
    assert found.reference is not None
    some = load_data(Data("own_data:parts", samples=4), source(folder), seed=1)
    assert len(some.y) == 4
    assert some.group is not None
    assert some.group.tolist() == some.y.tolist()
    for name, message in (
        ("noisy", "gives other values at a second reading; switch augmentation and shuffling off"),
        ("broken", "reading the Dataset of own_data:broken.* raised KeyError"),
        ("three", "to return a Dataset, a pair of inputs and labels, or a dict of x, y, .* got tuple"),
        ("uneven", "to return as many labels as inputs, at least one, got 3 labels for 6 inputs"),
        ("nan", "to return finite inputs, got 18 that are NaN or infinite"),
        ("text", "to return x: numbers, got list"),
        ("unknown", "got a dict of x, y, z"),
        ("few_groups", "to return group: one value for each of 6 samples, got 2"),
        ("wide_groups", r"to return group: one value for each of 6 samples, got shape \[6, 3\]"),
        (
            "nan_labels",
            r"line 2, .*to return y: finite values, none missing, got nan at position 2 \(1 such\)",
        ),
        ("endless_targets", r"y: finite values, none missing, got \[ *0. inf\] at position 3 \(1 such\)"),
        ("nan_groups", r"group: finite values, none missing, got nan at position 1 \(2 such\)"),
        ("no_group", r"group: finite values, none missing, got None at position 2 \(1 such\)"),
        ("mixed_groups", r"group: values of one kind, got str beside int"),
        ("no_day", r"group: finite values, none missing, got NaT at position 1 \(3 such\)"),
        ("nan_attribute", r"attribute: finite values, none missing, got nan at position 0 \(3 such\)"),
        ("not_available", r"group: finite values, none missing, got .* at position 1 \(3 such\)"),
        ("other_reference", r"to return reference: inputs of shape \[3\], got \[2\]"),
    ):
        with pytest.raises(CalledError, match=message):
            load_data(Data(f"own_data:{name}"), source(folder))
    with pytest.raises(
        SpecFileError, match=r"line 2, \[data\] load: expected one of tab20, .* did you mean 'tab20'"
    ):
        load_data(Data("tab2"), source(folder))
    with pytest.raises(
        SpecFileError, match=r"\[data\] samples: expected at most the 6 that there are, got 7"
    ):
        load_data(Data("own_data:pair", samples=7), source(folder))


MODELS = """
import torch
from torch import nn

def good(width=1.0): return nn.Sequential(nn.Linear(3, round(8 * width)), nn.ReLU(), nn.Linear(round(8 * width), 2))
ONE = good()
def same(): return ONE
def text(): return "model"
def raises(): raise OSError("no weights")
def wrong_input(): return nn.Linear(4, 2)
def too_few(): return nn.Linear(3, 1)
def nan():
    layer = nn.Linear(3, 2)
    layer.bias.data[:] = float("nan")
    return layer
def pair():
    class Pair(nn.Module):
        def forward(self, x): return x, x
    return Pair()
"""


def test_models_of_ones_own(folder: Path) -> None:
    from discreet.spec.sections import Data, Model

    (folder / "own_models.py").write_text(MODELS)
    (folder / "own_data2.py").write_text(LOADERS)
    data = load_data(Data("own_data2:pair"), source(folder))
    model, narrow, notes = load_model(Model("own_models:good"), source(folder), data, "ce")
    assert not notes
    assert narrow is not None
    half = narrow(0.5)
    assert callable(half)
    assert not isinstance(half, torch.nn.Module | MLP)
    assert half().get_submodule("0").out_features == 4
    assert callable(model)
    for name, message in (
        ("same", "to return a new module each time, got the same one"),
        ("text", "to return a torch module, got str"),
        ("raises", "own_models:raises.* was called to make the model and raised OSError: no weights"),
        (
            "wrong_input",
            r"the model of own_models:wrong_input\(\) was called on two samples of shape \[3\]",
        ),
        ("too_few", "a model with at least 2 outputs, one a class, got 1"),
        ("nan", "a model with finite outputs, got NaN or infinity"),
        ("pair", r"a model whose outputs are a tensor \[sample, out\], got tuple"),
    ):
        with pytest.raises(CalledError, match=message):
            load_model(Model(f"own_models:{name}"), source(folder), data, "ce")
    with pytest.raises(CalledError, match="a model with one output, as the loss is bce, got 2"):
        load_model(Model("own_models:good"), source(folder), data, "bce")
    network, none, _ = load_model(Model(hidden=(5,)), source(folder), data, "ce")
    assert (network, none) == (MLP((3, 5, 2)), None)
    assert load_model(Model(hidden=(5,)), source(folder), data, "bce")[0] == MLP((3, 5, 1))
