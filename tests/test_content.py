"""What stands for a method in a key: other code, settings, libraries or releases under one name are told apart."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata, util
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from discreet import _content, attacks
from discreet._content import content_of, versions_of

OWN = """
from dataclasses import dataclass

def helper(x):
    return 1 * x

@dataclass(frozen=True)
class Own:
    by: float = 1.0
    def __call__(self, blind, row):
        return helper(blind.signal("loss")[row])
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of the user's; what is imported from it is forgotten."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_method.py").write_text(OWN)
    yield tmp_path / "own_method.py"
    sys.modules.pop("own_method", None)


def told(path: Path, code: str, **settings: Any) -> str:
    """What stands for the method, once its module has this code, as a new process would read it."""
    sys.modules.pop("own_method", None)
    path.write_text(code)
    importlib.invalidate_caches()
    return content_of(importlib.import_module("own_method").Own(**settings))


def test_methods_of_this_package_are_their_specs() -> None:
    assert content_of(attacks.parse("loss")) == "Loss()"
    assert content_of("lira(mode='offline')") == "lira(mode='offline')"


def test_methods_from_elsewhere_are_told_by_code_and_settings(own: Path) -> None:
    first = told(own, OWN)
    assert told(own, OWN) == told(own, f"# a remark\n{OWN}") == first
    assert told(own, OWN.replace("1 * x", "2 * x")) != first  # a function that it calls
    assert told(own, OWN, by=2.0) != first
    assert told(own, OWN, by=np.arange(2000)) != told(own, OWN, by=np.arange(2000) - (np.arange(2000) == 999))


def test_methods_that_a_spec_names_are_told_by_code(own: Path) -> None:
    spec = "quantile(learner=('ridge', 'own_method:Own(by=2.0)'))"
    told(own, OWN)
    first = content_of(attacks.parse(spec))
    told(own, OWN.replace("1 * x", "2 * x"))
    assert content_of(attacks.parse(spec)) != first
    own.write_text("raise KeyError('broken')")
    sys.modules.pop("own_method")
    assert content_of(spec) == spec  # what needs it says what is wrong


@dataclass(frozen=True)
class Remembers:
    """Keeps what it worked out once."""

    size: int = 3

    @cached_property
    def found(self) -> int:
        return 7


class Plain:
    """Has no text of its own."""


def test_what_an_object_keeps_and_where_it_lies_do_not_count() -> None:
    method = Remembers()
    first = content_of(method)
    assert method.found == 7
    assert content_of(method) == first != content_of(Remembers(4))
    assert content_of(Plain()) == content_of(Plain())


def test_the_library_that_does_the_work_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    if util.find_spec("torch") is None:
        pytest.skip("needs discreet[torch]")
    from discreet.quantizers import parse
    from discreet.quantizers._library import Library

    assert content_of(parse("uniform(4)")) == "uniform(bits=4)"
    monkeypatch.setattr(Library, "made_by", property(lambda self: "hqq 0.2"))
    assert content_of(parse("hqq(bits=4)")).endswith("; made by hqq 0.2")


def test_releases_of_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert versions_of("numpy", "no-such-package") == {
        "numpy": metadata.version("numpy"),
        "no-such-package": None,
    }
    made = np.random.default_rng(0)  # of an installed package: of its code only names are hashed
    first = content_of(made)
    assert content_of(made) == first
    _content._version.cache_clear()
    monkeypatch.setattr(metadata, "version", lambda name: "99")
    assert content_of(made) != first
    assert versions_of("numpy") == {"numpy": "99"}
    _content._version.cache_clear()


def test_keys_cost_no_torch(own: Path) -> None:
    code = "import sys; from own_method import Own; from discreet._content import content_of\n"
    command = [sys.executable, "-c", f"{code}print('; code ' in content_of(Own()), 'torch' in sys.modules)"]
    out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=own.parent)
    assert out.stdout.split() == ["True", "False"]


def test_what_a_class_keeps_while_it_works_does_not_change_its_key() -> None:
    class Counting:
        calls: ClassVar[list[int]] = []

    before = content_of(Counting())
    Counting.calls.append(1)
    assert content_of(Counting()) == before
