"""Methods by file name: listing, reading specs, and the text of every refusal."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import uuid
from pathlib import Path

import pytest

from discreet import _find

QUANTIZERS = "discreet.quantizers"

METHODS = {
    "plain": """
        '''A method without fields.

        More about it.
        '''
        from dataclasses import dataclass
        __all__ = ["Plain"]
        @dataclass(frozen=True)
        class Plain:
            pass
        """,
    "rich": """
        '''A method with fields.'''
        from dataclasses import dataclass, field
        __all__ = ["Rich"]
        @dataclass(frozen=True)
        class Rich:
            count: int
            share: float = 0.5
            words: tuple = field(default_factory=tuple, kw_only=True)
            note: str = field(default="none", kw_only=True)
            def __post_init__(self):
                if self.count < 0:
                    raise ValueError(f"count must be at least 0, got {self.count}")
        """,
    "thawed": """
        from dataclasses import dataclass
        __all__ = ["Thawed"]
        @dataclass
        class Thawed:
            pass
        """,
    "crowd": """
        from dataclasses import dataclass
        __all__ = ["One", "Other"]
        @dataclass(frozen=True)
        class One:
            pass
        Other = One
        """,
    "hungry": "import no_such_package_at_all\n__all__ = []\n",
    "_helper": "'''Not a method.'''\n",
}


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    # A name of its own for each test, as imported modules stay.
    name = f"house_{uuid.uuid4().hex}"
    folder = tmp_path / name / "methods"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        (each / "__init__.py").write_text("")
    for method, source in METHODS.items():
        (folder / f"{method}.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(str(tmp_path))
    return f"{name}.methods"


def test_methods_are_listed_by_file_name(room: str) -> None:
    assert _find.names(room) == ("crowd", "hungry", "plain", "rich", "thawed")


def test_listing_imports_neither_methods_nor_the_package() -> None:
    code = (
        "import sys; from discreet import _find; "
        f"print(_find.names({QUANTIZERS!r}), _find.about({QUANTIZERS!r})['sign']); "
        f"print([m for m in ('torch', {QUANTIZERS!r}, {QUANTIZERS!r} + '.sign') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    known = "('bnb4', 'bnb8', 'full', 'gptq', 'hqq', 'int4', 'int8', 'intx', 'sign', 'ternary', 'uniform', 'vector')"
    assert first == f"{known} One bit per weight, its sign."
    assert second == "[]"


def test_about_gives_the_first_docstring_line(room: str) -> None:
    assert _find.about(room) == {
        "crowd": "",
        "hungry": "",
        "plain": "A method without fields.",
        "rich": "A method with fields.",
        "thawed": "",
    }


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("plain", "plain"),
        (" plain ( ) ", "plain"),
        ("rich(3)", "rich(count=3, share=0.5)"),
        ("rich(3, 0.25)", "rich(count=3, share=0.25)"),
        ("rich(share=1e-3, count=+3)", "rich(count=3, share=0.001)"),
        ("rich(count=3, note='a, (b) \\'c\\'')", "rich(count=3, share=0.5, note=\"a, (b) 'c'\")"),
        ("rich(count=3, words=('a', -1, None))", "rich(count=3, share=0.5, words=('a', -1, None))"),
        ("rich(count=3, words=(), note='none')", "rich(count=3, share=0.5)"),
    ],
)
def test_specs_round_trip(room: str, text: str, again: str) -> None:
    method = _find.parse(text, room)
    assert _find.spec(method, room) == again
    assert _find.parse(again, room) == method


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("plain", set()),
        ("rich(3)", {"count"}),
        ("rich(3, 0.5)", {"count", "share"}),
        ("rich(note = 'share=2, words=()', count=3)", {"note", "count"}),
    ],
)
def test_fields_that_a_spec_writes(room: str, text: str, fields: set[str]) -> None:
    assert _find.written(text, room) == fields


def test_a_dotted_path_is_accepted_where_a_name_is(room: str) -> None:
    elsewhere = _find.parse(f"{room}.rich:Rich(count=2)", QUANTIZERS)
    assert _find.spec(elsewhere, QUANTIZERS) == f"{room}.rich:Rich(count=2, share=0.5)"
    assert _find.parse(_find.spec(elsewhere, QUANTIZERS), QUANTIZERS) == elsewhere


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rihc(3)", "unknown method 'rihc'; did you mean 'rich'?; known: crowd, hungry, plain, rich, thawed"),
        ("_helper", "unknown method '_helper'; known: crowd, hungry, plain, rich, thawed"),
        ("rich", "rich needs a value for count"),
        (
            "rich(3, cuont=1)",
            "rich has no field 'cuont'; did you mean 'count'?; its fields: count, share, words, note",
        ),
        ("plain(a=1)", "plain has no field 'a'; its fields: none"),
        ("rich(3, count=1)", "rich got 'count' twice, by position and by name"),
        ("rich(count=1, count=2)", "method spec 'rich(count=1, count=2)' gives a field twice"),
        ("rich(1, 2, 3)", "rich takes 2 values by position (count, share), got 3"),
        ("rich(3, note=none)", "'rich(3, note=none)': none is no literal; write text in quotes"),
        (
            "rich(3, words=print('x'))",
            "\"rich(3, words=print('x'))\": print('x') is no literal; write text in quotes",
        ),
        ("rich(**{'count': 1})", "method spec must read name(field=value, …), got \"rich(**{'count': 1})\""),
        ("rich(-1)", "'rich(-1)': count must be at least 0, got -1"),
        ("rich(3", "method spec must read name or name(field=value, …), got 'rich(3'"),
        ("rich(3)(4)", "method spec must read name(field=value, …), got 'rich(3)(4)'"),
        ("", "method spec must read name or name(field=value, …), got ''"),
        ("rich(3)\x00", "method spec must read name or name(field=value, …), got 'rich(3)\\x00'"),
        ("x" * 10_000, f"method spec must read name or name(field=value, …), got '{'x' * 57}…'"),
        ("hungry", "method 'hungry' needs the module 'no_such_package_at_all', which is not installed"),
        ("gone.away:Method", "method 'gone.away:Method' needs the module 'gone', which is not installed"),
    ],
)
def test_refusals_say_what_is_wrong(room: str, text: str, message: str) -> None:
    with pytest.raises(_find.SpecError) as caught:
        _find.parse(text, room)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["thawed", "crowd"])
def test_a_method_is_one_frozen_dataclass(room: str, name: str) -> None:
    with pytest.raises(_find.SpecError, match=rf"'{name}': {room}.{name} must export one frozen dataclass"):
        _find.parse(name, room)


def test_a_class_that_is_not_there_is_refused() -> None:
    with pytest.raises(_find.SpecError, match="must export one frozen dataclass"):
        _find.parse("discreet.quantizers.sign:Nothing", QUANTIZERS)


def test_deep_nesting_is_refused_in_one_line(room: str) -> None:
    with pytest.raises(_find.SpecError, match=r"cannot read method spec|is no literal"):
        _find.parse(f"rich({'(' * 400}1{')' * 400})", room)
