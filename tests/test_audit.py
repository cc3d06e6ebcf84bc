from __future__ import annotations

import copy
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from referencing import Registry, Resource

import discreet
from discreet._json import dumps, loads
from discreet.audit import Analysis, Audit, AuditError, Curve, Performance, RankTable

JSON = dict[str, Any]


def row(variant: str, rank: int | None, **changes: Any) -> JSON:
    r = None if rank is None else 0.01 / rank
    known = {
        "variant": variant,
        "status": "undefined" if rank is None else "ok",
        "r": r,
        "r_median": r,
        "low": r and 0.5 * r,
        "high": r and 2 * r,
        "runs": 4,
        "runs_undefined": 0 if rank else 4,
        "runs_infinite": 0,
        "checkpoints": 5,
        "candidates": 4,
        "samples": 1000,
        "n_train_r": r and 100 * r,
        "resolution": 0.00192,
        "rank": rank,
        "rank_low": rank,
        "rank_high": rank,
        "diagnostics": ["few-runs"],
    }
    return known | changes


def small() -> JSON:
    """An audit with one of everything."""
    pair = {"safer": "a", "than": "b", "probability": 0.99, "told_apart": True}
    lone = {"safer": "a", "than": "c", "probability": None, "told_apart": False}
    ranking = {
        "schema": "discreet.rank/1",
        "level": 0.95,
        "statistic": "mean",
        "variants": [row("a", 1), row("b", 2), row("c", None)],
        "pairwise": [pair, lone],
    }
    point = {"runs": 2, "spearman": 0.5, "low": 0.1, "high": 0.9}
    counts = {"runs": 4, "caught": 3, "others": 4, "accused": 0, "mean_rank": 0.9, "fpr": 0.01}
    exposed = {"variant": "a", "attack": "loss", "sample": "7", **counts}
    gap = {"value": -0.1, "low": -0.2, "high": -0.05, "answer": "less"}
    paired = {"variant": "a", "against": "b", "attack": "loss", "metric": "auc", **gap}
    analysis = {
        "name": "first",
        "note": "",
        "ranking": ranking,
        "performance": [
            {"variant": "a", "metric": "auroc", "value": 0.9, "low": 0.8, "high": 0.95, "n": 1000}
        ],
        "storage": [{"variant": "a", "bits_per_weight": 1.6, "bytes": 10, "levels": 3, "bytes_full": 320}],
        "attacks": [
            {"variant": "a", "attack": "loss", "metric": "auc", "value": 0.6, "low": 0.5, "high": 0.7}
        ],
        "roc": [{"variant": "a", "attack": "loss", "fpr": [0.1, 1], "tpr": [0.2, 1], "resolvable": 0.1}],
        "exposed": [exposed],
        "classes": [{"variant": "a", "attack": "loss", "label": "1", "metric": "auc", "value": 0.6}],
        "paired": [paired],
        "agreement": [{"with": "loss attack AUC", "spearman": None}],
        "curves": [{"variant": "a", "signal": "loss", "steps": [1, 2], "mean": [0.5, None]}],
        "lambda": [{"variant": "a", "rank": [2, 3], "median": [0.1, 0.2], "deciding": [3, 1]}],
        "stability": {"subset_vs_all": [point], "disjoint_halves": [], "runs_needed": {"0.9": None}},
    }
    return {
        "schema": "discreet.audit/1",
        "title": "small",
        "summary": ["`a` ranks first."],
        "analyses": [analysis],
        "settings": {"seed": 1, "deep": {"list": [1, None, True]}},
        "provenance": {"seed": 1, "versions": {"numpy": "2"}, "data": [{"name": "x", "sha256": "00"}]},
        "data": {"counts": {"all": 7}},
        "notes": [],
    }


def schema(name: str) -> JSON:
    return json.loads(files("discreet.report").joinpath(f"{name}.schema.json").read_text("utf-8"))


def validator(name: str) -> Any:
    ranks = Resource.from_contents(schema("rank"))
    registry: Any = Registry().with_resource("urn:discreet:rank:1", ranks)
    jsonschema.Draft202012Validator.check_schema(schema(name))
    return jsonschema.Draft202012Validator(schema(name), registry=registry)


def put(raw: JSON, path: str, value: Any) -> JSON:
    """A copy with the value at a dotted path replaced, or removed where the value is ``...``."""
    out = copy.deepcopy(raw)
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    node: Any = out
    for step in way:
        node = node[step]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return out


def test_what_is_read_is_what_is_written() -> None:
    audit = Audit.from_json(small())
    assert Audit.from_json(audit.to_json()) == audit
    written = audit.to_json()
    validator("audit").validate(written)
    assert list(written)[:4] == ["schema", "title", "summary", "analyses"]
    assert written["analyses"][0]["lambda"] == small()["analyses"][0]["lambda"]
    assert written["analyses"][0]["agreement"][0]["with"] == "loss attack AUC"


def test_saving_twice_gives_the_same_bytes_and_loads_equal(tmp_path: Path) -> None:
    audit = Audit.from_json(small())
    first = audit.save(tmp_path / "a.json").read_bytes()
    again = Audit.load(tmp_path / "a.json")
    assert again == audit
    assert again.save(tmp_path / "b.json").read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]


def test_keys_of_a_newer_release_survive_a_round_trip(tmp_path: Path) -> None:
    raw = put(small(), "analyses.0.ranking.variants.0.epsilon", {"value": 1.5})
    raw = put(raw, "analyses.0.attacks.0.fpr", 0.01)
    raw = put(raw, "verdict", ["kept"])
    path = Audit.from_json(raw).save(tmp_path / "audit.json")
    again = json.loads(path.read_text())
    assert again["analyses"][0]["ranking"]["variants"][0]["epsilon"] == {"value": 1.5}
    assert again["analyses"][0]["attacks"][0]["fpr"] == 0.01
    assert again["verdict"] == ["kept"]


ROW = "analyses.0.ranking.variants.0"
RULE = 'a variant has a rank if and only if its status is "ok"'
STATUS = 'expected one of "ok", "infinite", "undefined"'
# a place, what is put there, and the message, which begins with the place as it reads in a message
BROKEN = [
    ("title", ..., 'the file: the key "title" is missing'),
    ("analyses.0.name", ..., 'analyses[0]: the key "name" is missing'),
    ("analyses.0.ranking", ..., 'analyses[0]: the key "ranking" is missing'),
    ("provenance.data.0.sha256", ..., 'provenance.data[0]: the key "sha256" is missing'),
    (f"{ROW}.rank", None, f'analyses[0].ranking.variants[0]: {RULE}, got "ok" and rank null'),
    (
        "analyses.0.ranking.variants.2.rank",
        3,
        f'analyses[0].ranking.variants[2]: {RULE}, got "undefined" and rank 3',
    ),
    ("schema", "discreet.audit/2", ': expected "discreet.audit/1", got "discreet.audit/2"'),
    ("title", 3, ": expected text, got 3"),
    ("settings", None, ": expected an object, got null"),
    ("analyses", [], ": expected at least one analysis, got an empty list"),
    ("analyses.0.ranking", [], ": expected an object, got a list"),
    ("analyses.0.ranking.level", 1.0, ": expected a number between 0 and 1, got 1.0"),
    ("analyses.0.ranking.variants", [], ": expected at least one variant, got an empty list"),
    (f"{ROW}.r", "0.1", ': expected a number, got "0.1"'),
    (f"{ROW}.r", True, ": expected a number, got true"),
    (f"{ROW}.r", None, ": expected a number for a ranked variant, got null"),
    (f"{ROW}.runs", 2.5, ": expected a whole number, got 2.5"),
    (f"{ROW}.status", "fine", f': {STATUS}, got "fine"'),
    ("analyses.0.ranking.pairwise.0.told_apart", 1, ": expected true or false, got 1"),
    ("analyses.0.ranking.pairwise.0.probability", 1.5, ": expected a number from 0 to 1, got 1.5"),
    ("analyses.0.curves.0.steps", 3, ": expected a list, got 3"),
    ("analyses.0.storage.0.bytes", "many", ': expected a whole number, got "many"'),
    ("analyses.0.performance.0.value", None, ": expected a number, got null"),
    ("analyses.0.attacks.0.attack", None, ": expected text, got null"),
]


def spoken(path: str, message: str) -> str:
    """The message in full: one that begins with a colon is about the place itself."""
    return re.sub(r"\.(\d+)", r"[\1]", path) + message if message.startswith(":") else message


@pytest.mark.parametrize(("path", "value", "message"), BROKEN)
def test_a_broken_file_is_refused_with_its_place_and_by_the_schema_too(
    path: str, value: Any, message: str
) -> None:
    raw = put(small(), path, value)
    with pytest.raises(AuditError) as error:
        Audit.from_json(raw)
    assert str(error.value) == spoken(path, message)
    assert not validator("audit").is_valid(raw)


UNKNOWN = ': the ranking has no variant "z"'
TURNED = "the interval's low end {} lies above its high end {}"
LAWS = [
    ("analyses.0.performance.0.variant", "z", UNKNOWN),
    ("analyses.0.lambda.0.variant", "z", UNKNOWN),
    ("analyses.0.ranking.pairwise.0.than", "z", UNKNOWN),
    ("analyses.0.curves.0.mean", [1.0], ": expected 2 numbers, one a step, got 1"),
    ("analyses.0.lambda.0.deciding", [1], ": expected 2 numbers, one a step, got 1"),
    (f"{ROW}.low", 1.0, "analyses[0].ranking.variants[0]: " + TURNED.format(1.0, 0.02)),
    ("analyses.0.attacks.0.low", 0.8, "analyses[0].attacks[0]: " + TURNED.format(0.8, 0.7)),
    ("analyses.0.roc.0.tpr", [1.0], ": expected 2 numbers, one a rate, got 1"),
    ("analyses.0.roc.0.tpr.1", 0.1, ": expected rates from 0 to 1, ascending, got 0.1"),
    ("analyses.0.roc.0.variant", "z", UNKNOWN),
    ("analyses.0.exposed.0.caught", 5, ": expected a count from 0 to 4, got 5"),
    ("analyses.0.exposed.0.variant", "z", UNKNOWN),
    ("analyses.0.classes.0.variant", "z", UNKNOWN),
    ("analyses.0.paired.0.against", "z", UNKNOWN),
    (
        "analyses.0.paired.0.answer",
        "more",
        ': an interval of -0.2 to -0.05 says "less", got "more"',
    ),
    (f"{ROW}.variant", "b", 'analyses[0].ranking.variants[1]: the name "b" is taken already'),
]


@pytest.mark.parametrize(("path", "value", "message"), LAWS)
def test_laws_between_numbers_are_checked(path: str, value: Any, message: str) -> None:
    with pytest.raises(AuditError) as error:
        Audit.from_json(put(small(), path, value))
    assert str(error.value) == spoken(path, message)


def test_an_audit_without_the_newer_lists_stays_valid() -> None:
    raw = small()
    for name in ("roc", "exposed", "classes", "paired"):
        del raw["analyses"][0][name]
    audit = Audit.from_json(raw)
    assert (audit.analyses[0].roc, audit.analyses[0].paired) == ((), ())
    validator("audit").validate(raw)


def test_two_analyses_need_two_names() -> None:
    raw = small()
    raw["analyses"] *= 2
    with pytest.raises(AuditError, match=r'analyses\[1\]: the name "first" is taken already'):
        Audit.from_json(raw)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_no_number_that_json_cannot_carry_gets_in(bad: float) -> None:
    table = Audit.from_json(small()).analyses[0].ranking
    with pytest.raises(AuditError, match=r"analyses\[0\]\.performance\[0\]\.value: expected a finite number"):
        Audit("t", (Analysis("x", table, performance=(Performance("a", "auroc", float(bad)),)),))
    with pytest.raises(AuditError, match=r"analyses\[0\]\.curves\[0\]\.mean\[1\]: expected a finite number"):
        Audit("t", (Analysis("x", table, curves=(Curve("a", "loss", (1.0, 2.0), (0.5, bad)),)),))
    with pytest.raises(AuditError, match=r"settings\.lr: expected a finite number"):
        Audit("t", (Analysis("x", table),), settings={"lr": bad})


FILES: list[tuple[bytes, str]] = [
    (b"", "the file is empty"),
    (b"  \n", "the file is empty"),
    (b"\xff\xfe", "not UTF-8 text (byte 0)"),
    (b'{"schema": "x",', "not JSON: Expecting property name enclosed in double quotes (line 1, column 16)"),
    (b'{"schema": NaN}', "not JSON: NaN is not a JSON number"),
    (b'{"schema": -Infinity}', "not JSON: -Infinity is not a JSON number"),
    (b'{"a": 1, "a": 2}', 'the key "a" appears twice in one object'),
    (b"[1, 2]", 'schema: expected "discreet.audit/1", got null'),
    (b'{"schema": "discreet.rank/1"}', 'schema: expected "discreet.audit/1", got "discreet.rank/1"'),
    (b"[" * 200_000, "not usable JSON: nested too deeply"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "message"), FILES)
def test_foreign_files_are_refused_by_name(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    path.write_bytes(data)
    with pytest.raises(AuditError) as error:
        Audit.load(path)
    assert str(error.value) == f"{path}: {message}"


def test_numbers_beyond_float64_are_refused() -> None:
    raw = loads(dumps(put(small(), "analyses.0.attacks.0.value", "BIG")).replace('"BIG"', "1e999"))
    with pytest.raises(AuditError, match=r"attacks\[0\].value: expected a finite number, got inf"):
        Audit.from_json(raw)
    with pytest.raises(AuditError, match=r"attacks\[0\].value: expected a finite number, got 1000"):
        Audit.from_json(put(small(), "analyses.0.attacks.0.value", 10**400))


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(AuditError, match="title: the text holds half a surrogate pair"):
        Audit.from_json(put(small(), "title", "\ud800"))


def test_numpy_numbers_become_plain_ones() -> None:
    raw = put(small(), "analyses.0.attacks.0.value", np.float32(0.5))
    raw = put(raw, "analyses.0.ranking.variants.0.runs", np.int64(4))
    assert json.loads(dumps(Audit.from_json(raw).to_json())) == Audit.from_json(raw).to_json()


def test_a_real_ranking_is_wrapped_with_its_summary() -> None:
    rng = np.random.default_rng(0)
    base = rng.exponential(size=(6, 1, 300))
    noise = 0.1 * rng.standard_normal((6, 4, 300))
    gaps = np.array([0.4, 0.0, 0.05, 0.1])[:, None]
    ranking = discreet.rank(
        {"two": base + gaps + noise, "one": base + 3 * gaps + noise}, n_train=100
    ).to_json()
    validator("rank").validate(ranking)
    audit = Audit.of_ranking(ranking, title="losses.csv")
    validator("audit").validate(audit.to_json())
    assert audit.to_json()["analyses"][0]["ranking"] == ranking
    assert audit.summary[0].startswith("By the indicator, `one` is ahead of the other variant (r = 0.5")


def test_a_broken_ranking_is_refused_when_wrapped() -> None:
    with pytest.raises(AuditError, match='ranking: the key "variants" is missing'):
        Audit.of_ranking({"schema": "discreet.rank/1", "level": 0.95, "statistic": "mean"})


def test_the_audit_schema_holds_the_ranking_schema_as_it_is() -> None:
    assert schema("audit")["$defs"]["ranking"] == schema("rank")


def test_told_apart_asks_for_no_order_and_unlisted_pairs_are_not() -> None:
    table = Audit.from_json(small()).analyses[0].ranking
    assert table.told_apart("a", "b")
    assert table.told_apart("b", "a")
    assert not table.told_apart("a", "c")
    assert not table.told_apart("b", "c")
    assert [pair.than for pair in table.pairs] == ["b"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = Audit.from_json(small())
    path = audit.save(tmp_path / "audit.json")
    before = path.read_bytes()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Audit.from_json(put(small(), "title", "new")).save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["audit.json"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"cannot write: No such file or directory: '.*nowhere/audit\.json'"
    ):
        Audit.from_json(small()).save(tmp_path / "nowhere" / "audit.json")


AS_NOBODY = """
import os, sys
from discreet.audit import Audit
import discreet._audit_laws
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
audit = Audit.load(sys.argv[1] + "/in.json")
try:
    audit.save(sys.argv[1] + "/audit.json")
except PermissionError as error:
    print(error)
"""


def test_a_read_only_folder_is_refused_by_name() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.json").write_text(dumps(small()))
        folder.chmod(0o555)
        out = subprocess.run([sys.executable, "-c", AS_NOBODY, name], capture_output=True, text=True)
        folder.chmod(0o755)
    wanted = f"[Errno 13] cannot write: Permission denied: '{name}/audit.json'"
    assert out.stdout.strip() == wanted, out.stderr


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
places = st.sampled_from([path for path, *_ in BROKEN + LAWS])


@settings(max_examples=150, deadline=None)
@given(places, trees)
def test_any_damage_is_either_harmless_or_an_audit_error(path: str, value: Any) -> None:
    raw = put(small(), path, value)
    try:
        audit = Audit.from_json(raw)
    except AuditError:
        return
    json.dumps(audit.to_json(), allow_nan=False)


def test_the_ranking_table_reads_alone() -> None:
    read: Callable[[JSON], RankTable] = lambda raw: Audit.from_json(raw).analyses[0].ranking  # noqa: E731
    table = read(small())
    assert [found.variant for found in table.ranked] == ["a", "b"]
    assert [found.variant for found in table.unranked] == ["c"]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("analyses.0.attacks.0.value", 0.999, "lies outside its own interval"),
        ("analyses.0.attacks.0.value", -5.0, "outside its own interval|from 0 to 1"),
        ("analyses.0.storage.0.bytes", -1, "expected sizes of at least 0"),
    ],
)
def test_impossible_figures_are_refused(path: str, value: Any, message: str) -> None:
    with pytest.raises(AuditError, match=message):
        Audit.from_json(put(small(), path, value))


def test_a_figure_told_twice_is_refused() -> None:
    raw = small()
    raw["analyses"][0]["attacks"].append(raw["analyses"][0]["attacks"][0])
    with pytest.raises(AuditError, match="attacks"):
        Audit.from_json(raw)
