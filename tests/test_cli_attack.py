"""``discreet attack``: lists of attacks, tables, JSON after its schema, scores as CSV, and exit codes."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from discreet.cli import entry
from discreet.exposure import expose
from discreet.stats import auc
from tests.banks import bank

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def discreet(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        code = entry.run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bank(runs=4).save(tmp_path_factory.mktemp("bank") / "release.safetensors")


def test_json_is_valid_and_alone_on_stdout(discreet: Run, path: Path) -> None:
    code, out, err = discreet(
        "attack", path, "--attack", "lira(mode='offline', tail='both'),loss", "--json", "-"
    )
    assert (code, err) == (0, "")
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    schema = json.loads(files("discreet.report").joinpath("attack.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(found, schema)
    names = [(row["variant"], row["attack"]) for row in found["results"]]
    both = "lira(mode='offline', tail='both')"
    assert names == [("full", both), ("full", "loss"), ("sign", both), ("sign", "loss")]
    e = expose(bank(runs=4), "loss", "full")
    assert found["results"][1]["auc"]["value"] == auc(e.scores, e.member).value
    assert [point["resolvable"] for point in found["results"][1]["tpr"]] == [True, False, False, False]
    assert found["left_out"] == []


def test_the_same_call_gives_the_same_bytes(discreet: Run, path: Path, tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        assert (
            discreet("attack", path, "--attack", "loss", "--variant", "sign", "--json", tmp_path / name)[0]
            == 0
        )
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_tables_say_every_figure_and_what_cannot_be_resolved(discreet: Run, path: Path) -> None:
    code, out, err = discreet("attack", path, "--attack", "loss", "--attack", "rmia", "--level", 0.9)
    assert (code, err) == (0, "")
    assert "full attacked by loss: 4 runs in turn, 240 members and 240 non-members judged" in out
    for words in ("90 % interval", "TPR at 10 % FPR", "balanced accuracy", "advantage", "epsilon at least"):
        assert out.count(words) >= 4 or words == "90 % interval"
    assert "not resolvable: needs 10,000 non-members a run (there are 60)" in out
    assert "if 10 % are members" in out
    assert [line.split()[:2] for line in out.rstrip().splitlines()[-4:]] == [
        ["full", "loss"],
        ["full", "rmia"],
        ["sign", "loss"],
        ["sign", "rmia"],
    ]


def test_one_run_and_one_variant(discreet: Run, path: Path) -> None:
    options = ("--attack", "loss", "--target", "2", "--variant", "sign")
    code, out, _ = discreet("attack", path, *options)
    assert code == 0
    assert "sign attacked by loss: run 2, 60 members and 60 non-members judged" in out
    assert "full" not in out
    found = json.loads(discreet("attack", path, *options, "--json", "-")[1])
    assert [row["runs"] for row in found["results"]] == [["2"]]


def test_all_lists_what_it_leaves_out(discreet: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.attacks.names", lambda: ("joint", "loss", "rmia"))
    code, out, _ = discreet("attack", path, "--attack", "all", "--variant", "full")
    assert code == 0
    assert "left out: joint on full: it judges variants released together" in out
    monkeypatch.setattr(
        "discreet.attacks.names", lambda: ("combined", "joint", "loss", "mink", "rmia", "zlib")
    )
    out = discreet("attack", path, "--attack", "all")[1]
    assert out.count("left out: ") == 2
    assert "left out: combined, mink and zlib on full and sign: " in out
    code, out, err = discreet("attack", path, "--attack", "all", "--variant", "full", "--json", "-")
    assert code == 0
    assert "joint" in [each["attack"] for each in json.loads(out)["left_out"]]
    assert "left out: joint on full: " in err


def test_scores_are_written_one_a_sample(discreet: Run, path: Path, tmp_path: Path) -> None:
    target = tmp_path / "scores.csv"
    assert discreet("attack", path, "--attack", "loss", "--csv", target)[0] == 0
    with target.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 4 * 120
    e = expose(bank(runs=4), "loss", "sign")
    mine = [row for row in rows if (row["variant"], row["run"]) == ("sign", "3")]
    assert np.array_equal([float(row["score"]) for row in mine], e.scores[3])
    assert [row["member"] == "true" for row in mine] == e.member[3].tolist()
    assert [row["sample"] for row in mine[:2]] == ["100", "101"]
    assert {row["judged"] for row in rows} == {"true"}


def test_several_files_are_one_record(discreet: Run, path: Path, tmp_path: Path) -> None:
    record, parts = bank(runs=4), []
    for pair in (0, 2):
        rows = np.flatnonzero([int(run) in (pair, pair + 1) for run in record.run])
        parts.append(record.take_rows(rows).save(tmp_path / f"{pair}.safetensors"))
    one, other = (
        discreet("attack", *paths, "--attack", "loss", "--variant", "sign", "--json", "-")
        for paths in (parts, [path])
    )
    assert one == other


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--attack", "lose"), "did you mean 'loss'"),
        (("--attack", "lira(mode='offline'"), "a quote or bracket is not closed"),
        (("--attack", "lira(mode='of')"), "mode: expected one of online, offline"),
        (("--attack", "loss", "--target", "7"), 'no run "7"'),
        (("--attack", "loss", "--variant", "sing"), 'no variant "sing"'),
        (("--attack", "loss", "--level", "1"), "level: expected a number in (0, 1)"),
        (("--attack", "loss", "--csv", "-"), "scores go to a file, not to stdout"),
        (("--attack", "metric(kind='entropy')"), "no signal"),
        ((), "Missing option '--attack'"),
    ],
)
def test_what_is_wrong_is_one_line_and_2(
    discreet: Run, path: Path, arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = discreet("attack", path, *arguments)
    assert (code, out) == (2, "")
    assert words.replace('"', "'") in err.replace('"', "'")
    assert len(err.splitlines()) == 1


def test_no_membership_is_2(discreet: Run, tmp_path: Path) -> None:
    from dataclasses import replace

    bare = replace(bank(), member=None).save(tmp_path / "bare.safetensors")
    code, _, err = discreet("attack", bare, "--attack", "loss")
    assert code == 2
    assert "no membership: an attack cannot be judged" in err


def test_an_input_is_never_overwritten(discreet: Run, path: Path) -> None:
    before = path.read_bytes()
    code, _, err = discreet("attack", path, "--attack", "loss", "--csv", path)
    assert code == 2
    assert "this file is read or written already" in err
    assert path.read_bytes() == before
