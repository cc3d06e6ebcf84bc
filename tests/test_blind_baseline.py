"""The baseline without a model: it finds what is there, finds nothing in nothing, and copies cross no fold."""

from __future__ import annotations

import builtins
import json
import math
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from discreet.attacked import attacked
from discreet.audit import Audit
from discreet.audit_leaks import Blind
from discreet.auditing import audit_attacks
from discreet.blind_baseline import _bag, _deal, blind_baseline, blind_or_why, out_of_fold
from discreet.cli import entry
from discreet.exposure import judged
from discreet.gate import gate
from discreet.records import Record, RecordError
from discreet.report import render
from discreet.report.model_card import model_card
from discreet.report.model_index import model_index
from discreet.stats import auc
from discreet.tracking import params_of
from tests.banks import bank
from tests.test_cli_audit import make, no_page
from tests.test_gate import audit as small_audit

__all__ = ["no_page"]

Run = Callable[..., tuple[int, str, str]]
WORDS = np.array(
    ["the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be", "by", "on"]
)
CONFOUNDED = Blind("text", 0.8, 0.75, 0.85, 0.95, True, 100, 100, 1)
FINE = Blind("text", 0.52, 0.45, 0.58, 0.95, False, 100, 100, 1)


def sentences(rng: np.random.Generator, n: int) -> np.ndarray:
    """Texts of common words, with a number so that no two are the same."""
    return np.array([" ".join(rng.choice(WORDS, rng.integers(8, 25))) + f" {i}" for i in range(n)])


def split(text: np.ndarray, member: np.ndarray, **signals: np.ndarray) -> Record:
    """Runs with these members; losses say nothing."""
    member = np.atleast_2d(member)
    return Record(
        run=tuple(f"r{i}" for i in range(len(member))),
        step=np.ones(len(member)),
        variant=("full",) * len(member),
        sample=np.arange(len(text)),
        signals={"loss": np.random.default_rng(9).exponential(size=member.shape), "text": text, **signals},
        axes={"features": ("sample", "feature")} if "features" in signals else {},
        member=member,
    )


def null(seed: int, n: int = 300) -> Record:
    rng = np.random.default_rng(seed)
    return split(sentences(rng, n), rng.random(n) < 0.5)


def without_text(record: Record) -> Record:
    kept = {name: values for name, values in record.signals.items() if name != "text"}
    return replace(record, signals=kept, axes={name: record.axes[name] for name in kept})


# --- what it finds --------------------------------------------------------------------------------------------------


def test_a_word_that_gives_members_away() -> None:
    """Four members in ten, and no non-member, say "yesterday": the best classifier has AUC 0.4 + 0.6 / 2 = 0.7."""
    rng = np.random.default_rng(0)
    member = rng.random(1000) < 0.5
    text = sentences(rng, 1000)
    text = np.where(member & (rng.random(1000) < 0.4), np.char.add(text, " yesterday"), text)
    found = blind_baseline(split(text, member))
    assert found.confounded
    assert found.low > 0.5
    assert found.auc == pytest.approx(0.7, abs=0.04)
    assert (found.members, found.nonmembers) == (member.sum(), (~member).sum())


def test_prompts_give_members_away_though_answers_do_not() -> None:
    rng = np.random.default_rng(0)
    text, member = sentences(rng, 400), rng.random(400) < 0.5
    prompt = np.array([f"{'Describe' if m else 'Tell me about'} number {i}" for i, m in enumerate(member)])
    found = blind_baseline(split(text, member, prompt=prompt))
    assert found.auc > 0.99
    assert found.confounded
    alike = blind_baseline(split(text, member, prompt=np.array([f"Describe number {i}" for i in range(400)])))
    assert not alike.confounded
    assert not blind_baseline(split(text, member)).confounded


def test_longer_members_are_told_by_their_length() -> None:
    rng = np.random.default_rng(1)
    member = rng.random(600) < 0.5
    text = np.array([" ".join(["word"] * int(n)) for n in rng.integers(20, 40, 600) + 8 * member])
    text = np.char.add(text, np.array([f" {i:04d}" for i in range(600)]))
    assert blind_baseline(split(text, member)).auc > 0.75


def test_order_of_words_and_case_of_letters_count() -> None:
    rng = np.random.default_rng(2)
    member = rng.random(300) < 0.5
    for one, other in (("big old dog", "old big dog"), ("C1CCCCC1", "c1ccccc1")):
        text = np.array([f"{one if m else other} {i}" for i, m in enumerate(member)])
        assert blind_baseline(split(text, member)).auc > 0.99


def test_nothing_is_found_in_nothing() -> None:
    found = [blind_baseline(null(seed)) for seed in range(4)]
    assert not any(each.confounded for each in found)
    assert all(each.low <= 0.5 <= each.high for each in found)


def test_members_and_others_change_places() -> None:
    """It learns which way round it is, so there is no sign to get wrong."""
    rng = np.random.default_rng(3)
    member = rng.random(300) < 0.5
    text = np.char.add(sentences(rng, 300), np.where(member, " in", " out"))
    assert blind_baseline(split(text, ~member)).auc > 0.95


def test_several_runs_are_averaged_and_buy_no_narrower_interval() -> None:
    rng = np.random.default_rng(4)
    text = sentences(rng, 400)
    member = np.array([rng.random(400) < 0.5 for _ in range(3)])
    record = split(text, member)
    whole = blind_baseline(record)
    each = [blind_baseline(record, run=run) for run in record.runs]
    assert whole.runs == 3
    assert whole.auc == pytest.approx(np.mean([one.auc for one in each]))
    assert whole.low == pytest.approx(np.mean([one.low for one in each]))


def test_the_halves_of_a_pair_are_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("discreet.blind_baseline._one", lambda *a: asked.append(a) or (0.5, 0.4, 0.6))
    rng = np.random.default_rng(4)
    half = rng.random(400) < 0.5
    assert blind_baseline(split(sentences(rng, 400), np.array([half, ~half, half[::-1]]))).runs == 3
    assert len(asked) == 2


def test_features_serve_where_there_are_no_texts() -> None:
    rng = np.random.default_rng(5)
    member = rng.random(400) < 0.5
    x = rng.normal(size=(400, 3)) + np.array([0, 0, 1.0]) * member[:, None]
    record = split(sentences(rng, 400), member, features=x)
    record = without_text(record)
    found = blind_baseline(record)
    assert found.of == "features"
    assert found.auc == pytest.approx(auc(x[:, 2], member).value, abs=0.03)  # one deviation apart: 0.76
    assert blind_or_why(record) == (None, "")  # unasked, only texts are looked at


# --- how it is judged -----------------------------------------------------------------------------------------------


def test_the_scores_are_out_of_fold_as_a_loop_would_have_them() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(6)
    x, y, fold = rng.normal(size=(90, 4)), rng.random(90) < 0.5, np.arange(90) % 3
    found = out_of_fold(x, y, fold)
    for each in range(3):
        model = LogisticRegression(C=1.0, solver="lbfgs", tol=1e-8).fit(x[fold != each], y[fold != each])
        naive = np.argsort(np.argsort(model.decision_function(x[fold == each])))
        mine = np.argsort(np.argsort(found[fold == each]))
        assert np.corrcoef(naive, mine)[0, 1] > 0.99


def test_the_interval_has_twice_the_variance_of_fixed_scores() -> None:
    record = null(7)
    found = blind_baseline(record)
    member, _ = judged(record, ["r0"])
    fold = _deal(np.arange(300), member[0], 5, 0)
    fixed = auc(out_of_fold(_bag(record.signal("text")), member[0], fold), member[0])
    assert found.auc == fixed.value
    assert (found.auc - found.low) / (fixed.value - fixed.low) == pytest.approx(math.sqrt(2), rel=0.05)


def test_copies_and_families_stay_in_one_fold() -> None:
    """Every text occurs twice, on one side each: across folds, copies would give their answer away."""
    rng = np.random.default_rng(8)
    once = rng.random(150) < 0.5
    text, member = np.repeat(sentences(rng, 150), 2), np.repeat(once, 2)
    found = blind_baseline(split(text, member))
    assert not found.confounded
    related = np.array([f"{name} {i}" for i, name in enumerate(text)])
    assert blind_baseline(split(related, member)).auc > 0.75  # what the families are there for
    assert not blind_baseline(split(related, member, family=np.arange(300) // 2)).confounded


def test_folds_are_balanced_and_whole() -> None:
    rng = np.random.default_rng(9)
    group = np.sort(rng.integers(0, 120, 400))
    group = np.unique(group, return_inverse=True)[1]
    y = rng.random(400) < 0.3
    fold = _deal(group, y, 5, 0)
    assert all(len(set(fold[group == each])) == 1 for each in np.unique(group))
    assert np.ptp(np.bincount(fold)) <= 8
    assert np.ptp(np.bincount(fold, weights=y)) <= 12
    alone = _deal(np.arange(400), y, 5, 0)
    assert np.ptp(np.bincount(alone, weights=y)) <= 1
    assert not np.array_equal(_deal(np.arange(400), y, 5, 1), alone)


def test_what_attacks_do_not_judge_it_does_not_judge() -> None:
    """Public texts are of another kind, and would give non-members away."""
    rng = np.random.default_rng(10)
    public = np.arange(500) < 100
    member = (rng.random(500) < 0.5) & ~public
    text = np.where(public, np.char.add(sentences(rng, 500), " public"), sentences(rng, 500))
    record = split(text, member, public=public.astype(np.int8))
    found = blind_baseline(record)
    assert found.nonmembers == (~member & ~public).sum()
    assert not found.confounded


def test_too_few_to_say() -> None:
    member = np.arange(40) < 6
    record = split(sentences(np.random.default_rng(0), 40), member)
    with pytest.raises(ValueError, match="expected at least 10 independent members for 5 folds, got 6"):
        blind_baseline(record)
    blind, why = blind_or_why(record)
    assert blind is None
    assert why.startswith(
        "whether the texts alone tell members from non-members was not checked: expected at"
    )


def test_what_it_needs() -> None:
    record = null(0)
    with pytest.raises(RecordError, match="no membership"):
        blind_baseline(replace(record, member=None))
    with pytest.raises(RecordError, match="a baseline without a model needs the signal 'text'"):
        blind_baseline(without_text(record))


def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: object, **more: object) -> object:
        if name.split(".")[0] == "sklearn":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", refuse)
    blind, why = blind_or_why(null(0))
    assert blind is None
    assert "needs scikit-learn: pip install 'discreet[llm]'" in why


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["words", "few numbers", "pairs"])
def test_under_the_null_a_split_is_rarely_called_confounded(kind: str) -> None:
    """At 95 % at most 2.5 % false alarms: 200 splits, 12 or more have a chance of 0.5 %. DeLong alone: up to 9 %."""
    rng = np.random.default_rng(11)
    alarms, low, scores = 0, 0, []
    base = sentences(rng, 300)
    for _ in range(200):
        member = rng.permutation(300) < 150
        if kind == "pairs":
            member = np.repeat(rng.permutation(150) < 75, 2)
        record = split(base, member, **({"family": np.arange(300) // 2} if kind == "pairs" else {}))
        if kind == "few numbers":
            record = without_text(split(base, member, features=rng.normal(size=(300, 2))))
        found = blind_baseline(record)
        alarms += found.confounded
        low += found.low <= 0.5 <= found.high
        scores.append(found.auc)
    assert alarms < 12
    assert low == 200 - alarms
    assert np.mean(scores) < 0.51


# --- what follows from it -------------------------------------------------------------------------------------------


def with_text(record: Record, confounded: bool) -> Record:
    """The record with texts that give run 0's members away, or no one's; its partner's as well."""
    rng = np.random.default_rng(12)
    text = sentences(rng, record.n_samples)
    member = np.asarray(record.member)[0]
    if confounded:
        text = np.char.add(text, np.where(member, " inside", " outside"))
    return replace(record, signals={**record.signals, "text": text})


@pytest.fixture
def discreet(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        code = entry.run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.mark.parametrize("confounded", [True, False])
def test_the_command_says_it_first_and_in_json(discreet: Run, tmp_path: Path, confounded: bool) -> None:
    path = with_text(bank(runs=2), confounded).save(tmp_path / "r.safetensors")
    code, out, _ = discreet("attack", path, "--attack", "loss")
    assert code == 0
    plain = " ".join(out.split())
    assert plain.startswith("- The split is confounded, so no leak is claimed") == confounded
    assert ("no sign that the split is confounded" in plain) != confounded
    found = json.loads(discreet("attack", path, "--attack", "loss", "--json", "-")[1])
    schema = json.loads(files("discreet.report").joinpath("attack.schema.json").read_text("utf-8"))
    jsonschema.validate(found, schema)
    assert found["blind"]["confounded"] is confounded
    assert "copies" not in found


def test_records_without_texts_are_told_nothing(discreet: Run, tmp_path: Path) -> None:
    path = bank(runs=2).save(tmp_path / "r.safetensors")
    assert "confounded" not in discreet("attack", path, "--attack", "loss")[1]
    found = json.loads(discreet("attack", path, "--attack", "loss", "--json", "-")[1])
    assert set(found) == {"schema", "level", "seed", "results", "left_out"}


def test_only_the_run_that_is_attacked_is_looked_at() -> None:
    rng = np.random.default_rng(13)
    member = np.array([np.arange(200) < 100, rng.permutation(200) < 100])
    text = np.char.add(sentences(rng, 200), np.where(member[0], " a", " b"))
    record = split(text, member)
    first, second = (attacked(record, ["loss"], run=run).blind for run in ("r0", "r1"))
    assert first is not None
    assert second is not None
    assert (first.confounded, second.confounded) == (True, False)


def test_copies_are_counted_and_not_judged(discreet: Run, tmp_path: Path) -> None:
    record = with_text(bank(runs=2), confounded=False)
    text, member = np.array(record.signal("text")), np.asarray(record.member)[0]
    one, other = int(np.argmax(member)), int(np.argmin(member))
    text[other] = text[one]
    record = replace(record, signals={**record.signals, "text": text})
    found = attacked(record, ["loss"], variants=["full"])
    assert found.copies == 2
    assert found.results[0].exposure.members == member.sum() - 1 + (~member).sum() - 1
    path = record.save(tmp_path / "r.safetensors")
    out = " ".join(discreet("attack", path, "--attack", "loss")[1].split())
    assert "2 texts have a copy on the other side" in out
    assert json.loads(discreet("attack", path, "--attack", "loss", "--json", "-")[1])["copies"] == 2


def confounded_run(folder: Path, confounded: bool = True) -> Path:
    made = make(folder)
    for path in sorted((made / "release").iterdir()):
        record = Record.open(path)
        rng = np.random.default_rng(14)
        text = sentences(rng, record.n_samples)
        # Runs 0 and 1 are a pair: a word for the half of one is a word against the other.
        if confounded:
            first = make_member(folder)
            text = np.char.add(text, np.where(first, " inside", " outside"))
        record = replace(
            record, signals={**{k: np.array(v) for k, v in record.signals.items()}, "text": text}
        )
        path.unlink()
        record.save(path)
    return made


def make_member(folder: Path) -> np.ndarray:
    from tests.test_cli_audit import release

    return np.asarray(release().member)[0]


def test_an_audit_carries_it_and_claims_no_leak(tmp_path: Path, no_page: None) -> None:
    folder = confounded_run(tmp_path / "run")
    found = audit_attacks(folder, ["loss"])
    assert found.blind is not None
    assert found.blind.confounded
    assert found.summary[0].startswith("The split is confounded, so no leak is claimed: the texts alone tell")
    assert not any("strongest attack" in each or "leaks less" in each for each in found.summary)
    assert Audit.load(folder / "audit.json") == found
    before = (folder / "audit.json").read_bytes()
    assert audit_attacks(folder, ["loss"]) == found
    assert (folder / "audit.json").read_bytes() == before


def test_an_audit_of_a_clean_split_says_so_in_a_note(tmp_path: Path, no_page: None) -> None:
    found = audit_attacks(confounded_run(tmp_path / "run", confounded=False), ["loss"])
    assert found.blind is not None
    assert not found.blind.confounded
    assert any("no sign that the split is confounded" in note for note in found.notes)
    assert any("strongest attack" in each for each in found.summary)


def test_when_texts_go_what_was_said_of_them_goes(tmp_path: Path, no_page: None) -> None:
    folder = confounded_run(tmp_path / "run")
    audit_attacks(folder, ["loss"])
    plain = make(tmp_path / "plain")
    for path in (folder / "release").iterdir():
        path.write_bytes((plain / "release" / path.name).read_bytes())
    found = audit_attacks(folder, ["loss"])
    assert found.blind is None
    assert not any("confounded" in each for each in (*found.summary, *found.notes))
    assert "blind" not in json.loads((folder / "audit.json").read_text())


def test_the_gate_refuses_attacks_and_judges_the_rest(discreet: Run, tmp_path: Path) -> None:
    made = replace(small_audit(), blind=CONFOUNDED)
    verdict = gate(made, ["auc:sign < 0.9", "r:sign > 0.009", "bytes <= 10"])
    assert [check.outcome for check in verdict.checks] == ["undecided", "passed", "passed"]
    assert "cannot be judged: auc of sign under loss: The split is confounded" in verdict.reasons[0]
    assert gate(made, ["auc > 0.9"], bound="point").outcome == "undecided"  # neither passes nor fails
    assert gate(replace(made, blind=FINE), ["auc:sign < 0.9"]).passed
    made.save(tmp_path / "audit.json")
    assert discreet("gate", tmp_path, "--require", "auc < 0.9")[0] == 2
    assert discreet("gate", tmp_path, "--require", "r:sign > 0.009")[0] == 0


def test_the_page_shows_it_first_and_marks_every_section_of_attacks() -> None:
    made = small_audit()
    page = render(replace(made, blind=CONFOUNDED))
    assert page.index("The split is confounded") < page.index("the indicator")
    older = render(replace(made, blind=CONFOUNDED, summary=("An older summary: no sign of harm.",)))
    assert older.index("The split is confounded") < older.index("An older summary")
    assert "Cross-check by attack (not evidence of a leak)" in page
    assert "Not evidence of a leak. " in page
    for blind in (None, FINE):
        clean = render(replace(made, blind=blind))
        assert "not evidence of a leak" not in clean
        assert "split is confounded" not in clean


def test_cards_and_logs_show_no_figure_of_an_attack() -> None:
    made = replace(small_audit(), blind=CONFOUNDED)
    card = model_card(made)
    assert "no evidence (confounded split)" in card
    assert "**The split is confounded, so no leak is claimed" in card
    kinds = {metric["type"] for metric in model_index(made)[0]["results"][0]["metrics"]}
    assert kinds == {"mis_indicator_r"}
    assert "mia_auc" in {metric["type"] for metric in model_index(small_audit())[0]["results"][0]["metrics"]}
    assert params_of(made)["split"] == "confounded"
    assert "split" not in params_of(small_audit())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"low": 0.4}, "blind.confounded: expected false for an interval that begins at 0.4, got true"),
        ({"auc": 0.9}, "blind: expected 0 <= low <= auc <= high <= 1"),
        ({"auc": math.nan}, "blind.auc: expected a finite number"),
    ],
)
def test_an_audit_refuses_what_cannot_be(changes: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(small_audit(), blind=replace(CONFOUNDED, **changes))


def test_old_audits_still_load() -> None:
    raw = small_audit().to_json()
    assert "blind" not in raw
    assert Audit.from_json(raw).blind is None
    assert Audit.from_json({**raw, "blind": None}).blind is None
    made = replace(small_audit(), blind=CONFOUNDED)
    assert Audit.from_json(made.to_json()) == made
