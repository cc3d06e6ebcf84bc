"""Specs as files: the first one, how they are named, and what editors put into them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from discreet.cli import entry
from discreet.spec import AuditSpec, SpecFileError, read

COMMANDS = pytest.mark.parametrize("command", ["audit", "compress"])
SPEC = """[data]
load = "tab20"

[model]
hidden = [64]

[train]
epochs = 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@COMMANDS
@pytest.mark.parametrize("name", ["my", "my.txt", "v1.2"])
def test_a_first_spec_has_a_name_that_the_command_reads(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, name: str
) -> None:
    assert entry.run([command, "--init", name]) == 2
    assert f"ends in .toml; write discreet {command} --init {name}.toml" in capsys.readouterr().err
    assert not [*folder.iterdir()]


@COMMANDS
def test_what_a_first_spec_says_next_can_be_pasted(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert entry.run([command, "--init", "my own/a spec.toml"]) == 2
    (folder / "my own").mkdir()
    capsys.readouterr()
    assert entry.run([command, "--init", "my own/a spec.toml"]) == 0
    (told,) = (line for line in capsys.readouterr().out.splitlines() if "now: " in line)
    assert shlex.split(told.partition("now: ")[2]) == ["discreet", command, "my own/a spec.toml"]


@COMMANDS
def test_a_schema_of_others_is_not_overwritten(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (folder / "my.schema.json").write_text("{}")
    assert entry.run([command, "--init", "my.toml"]) == 2
    assert "my.schema.json: there is a file already" in capsys.readouterr().err
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"my.schema.json": "{}"}
    (folder / "my.schema.json").unlink()
    assert entry.run([command, "--init", "my.toml"]) == 0
    (folder / "my.toml").unlink()
    assert entry.run([command, "--init", "my.toml"]) == 0  # over the same schema


@COMMANDS
def test_a_file_of_another_name_is_no_spec(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (folder / "my.txt").write_text(SPEC)
    assert entry.run([command, "my.txt"]) == 2
    assert "my.txt: expected a spec, whose name ends in .toml, got another file" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["my.txt"]


def test_a_byte_order_mark_is_no_part_of_the_spec(folder: Path) -> None:
    path = folder / "my.toml"
    path.write_bytes(b"\xef\xbb\xbf" + SPEC.replace("\n", "\r\n").encode())
    spec, source = read(path, AuditSpec)
    assert spec.train is not None
    assert (spec.train.epochs, source.lines["data",], source.lines["train", "epochs"]) == (3, 1, 8)
    path.write_bytes(b"\xef\xbb\xbf" + SPEC.replace("[data]", "[dat]").encode())
    with pytest.raises(SpecFileError, match=r"my\.toml, line 1, \[dat\]: unknown section"):
        read(path, AuditSpec)
    path.write_bytes(b"\xef\xbb\xbf#\xff")
    with pytest.raises(SpecFileError, match=r"not UTF-8 text \(byte 4\)"):
        read(path, AuditSpec)
