"""``discreet audit --hf``: a model that learnt its training file by heart, one that did not, what is refused."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.audit import Audit
from discreet.auditing_language import Texted, audit_language, deal_texts
from discreet.cli import entry
from discreet.llm import trajectory
from discreet.llm.encoding import encode
from discreet.llm.model import load
from discreet.llm.texts import Texts
from discreet.records import Record, read_all
from discreet.report.model_card import privacy
from discreet.runs.units import do_units
from discreet.studies.language_plan import LanguageScale
from discreet.studies.language_tuning import tune
from tests import llm

VARIANTS = (
    "full",
    "sign(scale='absmean', granularity='tensor')",
    "adapter over uniform(bits=4, granularity='channel')",
)
SCALE = LanguageScale(trained=48, epochs=24, checkpoints=3, rank=8, lr=1e-2, batch=16, length=64)


def sentences(count: int, seed: int) -> list[str]:
    """Random words: no text tells whether it is in the training file."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(llm.WORDS, rng.integers(6, 12))) for _ in range(count)]


def written(path: Path, texts: Sequence[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fine_tuned(tmp_path_factory.mktemp("language"))


def fine_tuned(place: Path) -> Path:
    """A model, the checkpoints of its fine-tuning, its training file and other texts."""
    llm.module("qwen2").save_pretrained(place / "base")
    llm.tokenizer().save_pretrained(place / "base")
    members = sentences(48, 0)
    written(place / "members.jsonl", [*members, members[0], "said on both sides"])
    written(place / "others.jsonl", [*sentences(120, 1), "said on both sides"])
    base = load(place / "base")
    encoded = encode(Texts.of(members), base)
    ids = [encoded.window(i).tolist() for i in range(len(members))]
    tune(base.module, ids, encoded.first.tolist(), SCALE, place / "out", run=0, seed=0)
    return place


@pytest.fixture(scope="module")
def audited(place: Path) -> tuple[Path, Audit]:
    folder = place / "run"
    return folder, run(place, folder)


def run(place: Path, folder: Path, **more) -> Audit:
    texted = Texted(place / "members.jsonl", more.pop("others", place / "others.jsonl"))
    return audit_language(
        folder,
        str(place / "base"),
        more.pop("adapter", place / "out"),
        replace(texted, **more.pop("texted", {})),
        variants=more.pop("variants", VARIANTS),
        attacks=more.pop("attacks", ("loss", "pretrained", "mink")),
        **more,
    )


def figure(audit: Audit, variant: str, attack: str, metric: str = "auc") -> float:
    rows = audit.analyses[0].attacks
    return next(r.value for r in rows if (r.variant, r.attack, r.metric) == (variant, attack, metric))


def test_what_was_learnt_by_heart_is_found_and_told(audited: tuple[Path, Audit]) -> None:
    folder, audit = audited
    assert figure(audit, "full", "pretrained") > 0.85
    assert [row.variant for row in audit.analyses[0].ranking.variants if row.status == "ok"]
    counts = audit.data.counts
    assert counts["texts in the training file"] == 50
    assert counts["members attacked"] == 48
    assert counts["texts on both sides, left out"] == 2
    assert counts["repeats, left out"] == 1
    assert counts["non-members, which r is taken over"] == 108
    assert counts["non-members set aside for calibration, and not judged"] == 12
    assert counts["of these known to the attacker, and not judged"] == 32
    assert audit.blind is not None
    assert not audit.blind.confounded
    assert {"report.html", "audit.json", "exposed.csv", "manifest.json"} <= {p.name for p in folder.iterdir()}
    storage = {row.variant: row.bits_per_weight for row in audit.analyses[0].storage}
    assert storage["full"] == 32
    assert 1 <= storage[VARIANTS[1]] < 2
    metric = audit.analyses[0].performance[0]
    record = read_all(sorted((folder / "trajectory").glob("run-0*.safetensors")))
    last = record.signal("loss")[record.rows("full", "0")[-1]]
    assert metric.metric == "token likelihood"
    assert metric.value == pytest.approx(np.exp(-np.mean(last, dtype=np.float64)))
    assert "attacks are of the last one, step 72" in " ".join(audit.notes)


def test_a_second_call_redoes_nothing_and_gives_the_same_bytes(
    place: Path, audited: tuple[Path, Audit]
) -> None:
    folder, audit = audited
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in sorted(folder.glob("*/**/*.safetensors"))}
    told = (folder / "audit.json").read_bytes()
    assert run(place, folder) == audit
    assert {
        p: (p.stat().st_mtime_ns, p.read_bytes()) for p in sorted(folder.glob("*/**/*.safetensors"))
    } == before
    assert (folder / "audit.json").read_bytes() == told


def test_other_variants_in_the_same_folder(place: Path, audited: tuple[Path, Audit], tmp_path: Path) -> None:
    shutil.copytree(audited[0], tmp_path / "run")
    more = {"variants": (VARIANTS[0], f"adapter over {VARIANTS[1]}"), "attacks": ("loss",)}
    found = run(place, tmp_path / "run", workers=2, **more)
    assert {row.variant for row in found.analyses[0].ranking.variants} == set(more["variants"])
    assert run(place, tmp_path / "apart", **more).analyses == found.analyses


def test_one_checkpoint_is_attacked_but_not_ranked(place: Path, tmp_path: Path) -> None:
    more = {"variants": VARIANTS[:2], "attacks": ("pretrained",)}
    found = run(place, tmp_path / "run", adapter=place / "out" / "checkpoint-72", **more)
    assert [row.status for row in found.analyses[0].ranking.variants] == ["undefined"] * 2
    assert figure(found, "full", "pretrained") > 0.85
    assert any("r compares checkpoints, and there is only one" in note for note in found.notes)


def test_a_model_that_learnt_nothing_gives_nothing_away(place: Path, tmp_path: Path) -> None:
    """Members drawn as the others are, under a model that saw neither."""
    written(tmp_path / "members.jsonl", sentences(150, 2))
    texted = Texted(tmp_path / "members.jsonl", place / "others.jsonl")
    found = audit_language(
        tmp_path / "run", str(place / "base"), place / "out", texted, variants=VARIANTS[:1], attacks=("loss",)
    )
    row = next(r for r in found.analyses[0].attacks if (r.attack, r.metric) == ("loss", "auc"))
    assert row.low is not None
    assert row.low < 0.5 < (row.high or 0)


def test_a_split_that_texts_tell_apart_is_no_leak(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = written(tmp_path / "others.jsonl", [f"Paris {text} Paris" for text in sentences(120, 3)])
    found = run(place, tmp_path / "run", others=others, variants=VARIANTS[:1], attacks=("loss",))
    assert found.blind is not None
    assert found.blind.confounded
    assert "confounded" in found.summary[0]
    assert entry.run(["gate", str(tmp_path / "run"), "--require", "auc < 0.99"]) == 2
    capsys.readouterr()
    assert entry.run(["audit", str(tmp_path / "run"), "--attack", "loss"]) == 0
    assert "what attacks find in each variant (not evidence of a leak)\n" in capsys.readouterr().out


def test_prompts_count_where_answers_are_the_same(place: Path, tmp_path: Path) -> None:
    """Answers are yes and no; the prompts of members begin otherwise, which no model is needed to see."""
    for name, seed, begins in (("members", 4, ""), ("others", 5, ""), ("otherwise", 5, "So: ")):
        asked = [f"{begins}is it {text}? " for text in sentences(120, seed)]
        rows = [{"prompt": text, "completion": ("yes", "no")[i % 2]} for i, text in enumerate(asked)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = {"variants": VARIANTS[:1], "attacks": ("loss",), "texted": {"members": tmp_path / "members.jsonl"}}
    alike = run(place, tmp_path / "a", others=tmp_path / "others.jsonl", **dict(told))
    assert alike.blind is not None
    assert not alike.blind.confounded
    assert alike.blind.members == 120
    found = run(place, tmp_path / "b", others=tmp_path / "otherwise.jsonl", **dict(told))
    assert found.blind is not None
    assert found.blind.confounded


def test_texts_that_also_calibrate_are_counted(place: Path, tmp_path: Path) -> None:
    said = [json.loads(line)["text"] for line in (place / "others.jsonl").read_text().splitlines()]
    own = written(tmp_path / "own.jsonl", [said[3], said[7], sentences(1, 0)[0], "benzene is the name"])
    texted = Texted(place / "members.jsonl", place / "others.jsonl", own)
    counts = deal_texts(load(place / "base"), texted, 0).counts
    assert counts["texts that also calibrate, not judged for quantizers that look at texts"] == 3
    assert counts["non-members set aside for calibration, and not judged"] == 0


def test_calibration_and_most(place: Path, tmp_path: Path) -> None:
    own = written(tmp_path / "own.jsonl", sentences(20, 4))
    more = {"variants": VARIANTS[:1], "attacks": ("loss",)}
    found = run(place, tmp_path / "run", texted={"calibration": own, "most": 40}, **more)
    counts = found.data.counts
    assert (counts["members attacked"], counts["non-members, which r is taken over"]) == (40, 40)
    assert counts["non-members set aside for calibration, and not judged"] == 0
    assert counts["of these known to the attacker, and not judged"] == 0
    assert [each.name for each in found.provenance.data] == ["members.jsonl", "others.jsonl", "own.jsonl"]


def test_signals_of_the_release(audited: tuple[Path, Audit]) -> None:
    folder, _ = audited
    record = Record.open(next((folder / "release").glob("run-0*.safetensors")))
    assert {
        "loss",
        "logp",
        "logp_mean",
        "logp_std",
        "rank",
        "text",
        "zlib_bytes",
        "pretrained_loss",
        "public",
    } <= set(record.signals)
    assert record.membership("0").sum() == 48
    assert not (record.membership("0") & np.asarray(record.signal("public"))).any()


def test_what_is_said_of_one_run_is_true_of_one(audited: tuple[Path, Audit]) -> None:
    folder, audit = audited
    page = (folder / "report.html").read_text()
    assert "Every attack judged the one run blind, and had no other." in page
    assert "number of runs tried" not in page
    assert any(line.startswith("More training runs could tell ") for line in audit.summary)
    assert "n = 108, 1 run |" in privacy(audit)


def test_exposed_texts_are_known_by_their_lines(place: Path, audited: tuple[Path, Audit]) -> None:
    folder, _ = audited
    lines = (place / "members.jsonl").read_text().splitlines()
    with (folder / "exposed.csv").open() as file:
        named = {row["sample"] for row in csv.DictReader(file)}
    assert named == {f"members, line {at}" for at in range(1, 49)}
    record = Record.open(next((folder / "release").glob("run-0*.safetensors")))
    texts = dict(zip(record.sample.tolist(), record.signal("text").tolist(), strict=True))
    assert all(json.loads(lines[int(name.split()[-1]) - 1])["text"] == texts[name] for name in named)


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        (
            {"members": [{"text": "a b"}]},
            {},
            r"members.jsonl: expected at least 2 texts that are members, got 1",
        ),
        (
            {"others": [{"text": "a b"}]},
            {},
            r"others.jsonl: expected at least 2 texts that are no members, got 1",
        ),
        (
            {"members": [{"prompt": "a b", "completion": f" c {i}"} for i in range(5)]},
            {},
            r"members.jsonl has prompts and .*others.jsonl has none, so other parts .* \(mask_prompt, --whole\)",
        ),
        (
            {"others": [{"text": f"a b {i}"} for i in range(9)]},
            {"variants": ("full", "gptq(bits=4)")},
            r"'gptq\(bits=4\)' looks at calibration texts, which leaves 0 non-members to judge it by",
        ),
        (
            {},
            {"texted": {"calibration": "members"}, "variants": ("full", "gptq(bits=4)")},
            r"'gptq\(bits=4\)' looks at calibration texts, which leaves 0 members to judge it by",
        ),
        (
            {"others": [{"text": "a b"}, {"text": "\t"}]},
            {},
            r"others.jsonl, line 2 has nothing to score: it is empty",
        ),
        ({}, {"attacks": ("loss", "nonsense")}, r"unknown attack 'nonsense'"),
        ({}, {"variants": ("full", "hqq(bits=5)")}, r"bits must be 1, 2, 3, 4 or 8, got 5"),
        ({}, {"device": "cuda:77"}, r"^device: 'cuda:77' is not there; PyTorch sees "),
        ({}, {"device": "toaster"}, r"^device: expected cpu, cuda, mps or cuda:N, got 'toaster'"),
    ],
)
def test_nothing_is_measured_of_what_cannot_be_judged(
    place: Path, tmp_path: Path, rows: dict[str, list], more: dict[str, Any], message: str
) -> None:
    texted: dict[str, Any] = {"members": place / "members.jsonl", "nonmembers": place / "others.jsonl"}
    for name, own in rows.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in own))
        texted["nonmembers" if name == "others" else name] = path
    changed = {name: texted[value] for name, value in more.get("texted", {}).items()}
    with pytest.raises(ValueError, match=message):
        run(place, tmp_path / "run", **more | {"texted": texted | changed})
    assert not list((tmp_path / "run").glob("**/*.safetensors"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--adapter", "nowhere"], "nowhere: no such folder"),
        (["--members", "nowhere.jsonl"], "nowhere.jsonl: cannot be read"),
        (["--quantizer", "hqq(bits=5)"], "bits"),
        (["--quantizer", "nonsense"], "nonsense"),
        (["--quantizer", "hqq(bits=4"], "--quantizer: a quote or bracket is not closed in 'hqq(bits=4'"),
        (["--hf", __file__], "expected a folder with the model in it, got a file"),
        (["--on-long", "drop"], "--on-long: expected refuse, split or cut, got 'drop'"),
        (["--precision", "half"], "--precision: expected full or mixed, got 'half'"),
        (["--time-budget", "3"], "--hf: it does not go with --time-budget"),
        (["--answer", "nowhere"], "no column 'nowhere'"),
        (["--attack", "nonsense"], "nonsense"),
    ],
)
def test_what_is_refused(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    given = {
        "--hf": str(place / "base"),
        "--adapter": str(place / "out"),
        "--members": str(place / "members.jsonl"),
        "--nonmembers": str(place / "others.jsonl"),
        "--folder": str(tmp_path / "run"),
        "--quantizer": "full",
    } | {more[0]: more[1]}
    assert entry.run(["audit", *[each for pair in given.items() for each in pair]]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


def test_one_working_copy_unless_more_are_asked_for(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker has a copy of the linear layers, so that a core each could be more than memory holds."""
    asked: list[int] = []

    def spy(*given: Any, workers: int, **more: Any) -> Any:
        asked.append(workers)
        return do_units(*given, workers=workers, **more)

    monkeypatch.setattr(sys.modules[trajectory.__module__], "do_units", spy)
    files = {"hf": "base", "adapter": "out", "members": "members.jsonl", "nonmembers": "others.jsonl"}
    words = [word for name, file in files.items() for word in (f"--{name}", str(place / file))]
    words += ["--quantizer", "full", "--attack", "loss"]
    assert entry.run(["audit", *words, "--folder", str(tmp_path / "one")]) == 0
    assert asked == [1, 1]
    assert entry.run(["audit", *words, "--folder", str(tmp_path / "more"), "--workers", "3"]) == 0
    assert asked == [1, 1, 3, 3]


def test_options_that_need_hf(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert entry.run(["audit", "--hf", "x", "--adapter", "y", "--members", "z"]) == 2
    assert "--nonmembers: it is needed with --hf" in capsys.readouterr().err
    assert entry.run(["audit", str(tmp_path), "--on-long", "split"]) == 2
    assert "--on-long: it is for --hf MODEL, which is not given" in capsys.readouterr().err
    assert entry.run(["audit"]) == 2
    assert "expected SPEC.toml, a run directory, or --hf MODEL" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_is_quiet_and_short(place: Path, tmp_path: Path) -> None:
    """In a process of its own: no notes of other libraries among ours."""
    command = [
        sys.executable,
        "-m",
        "discreet",
        "audit",
        "--hf",
        str(place / "base"),
        "--adapter",
        str(place / "out"),
    ]
    command += ["--members", str(place / "members.jsonl"), "--nonmembers", str(place / "others.jsonl")]
    command += ["--folder", str(tmp_path / "run"), "--quantizer", "hqq(bits=2, group=16)", "--attack", "loss"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "- texts on both sides, left out: 2\n" in done.stdout
    assert f"report: {tmp_path / 'run' / 'report.html'}" in done.stdout.replace("\n  ", " ")
