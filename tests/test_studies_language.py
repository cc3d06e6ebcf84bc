"""The study of language models: a small one from end to end, how texts are dealt out, and its verdicts on planted
figures."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet._json import dumps
from discreet.audit_leaks import Blind
from discreet.cli import entry
from discreet.data.samples import DataError
from discreet.data.texts import TextSet
from discreet.estimate import Estimate
from discreet.exposure import Exposure
from discreet.ranking import rank
from discreet.records import Record
from discreet.stats import tpr_at_fpr
from discreet.studies.language import Language, language
from discreet.studies.language_claims import claims, cleaned
from discreet.studies.language_command import run, scale_of
from discreet.studies.language_figures import _curve, _looks
from discreet.studies.language_found import ATTACKS, BEFORE, METRICS, REFERENCES, Found, find
from discreet.studies.language_page import to_json, to_markdown, training_curve
from discreet.studies.language_plan import PAPER_QUANTIZERS, SCALES, LanguageScale, deal

TINY = LanguageScale(
    variants=(
        "full",
        "uniform(bits=4, granularity='channel')",
        "sign(scale='absmean', granularity='channel')",
    ),
    runs=4,
    trained=40,
    evaluation=40,
    public=40,
    calibration=8,
    epochs=30,
    checkpoints=2,
    rank=8,
    lr=3e-3,
    pretrained=300,
    passes=1,
)
needs_chemicals = pytest.mark.skipif(
    util.find_spec("chemicals") is None, reason="needs the package chemicals"
)


def texts(count: int, families: int) -> TextSet:
    family = np.random.default_rng(0).integers(0, families, count)
    return TextSet(
        ("",) * count,
        tuple(map(str, range(count))),
        np.unique(family, return_inverse=True)[1],
        "x",
        {},
        "",
        "",
        {},
    )


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Language]:
    folder = tmp_path_factory.mktemp("study")
    return folder, language(folder, scale=TINY, workers=1)


@pytest.mark.slow
@needs_chemicals
def test_what_was_learnt_by_heart_is_found(measured: tuple[Path, Language]) -> None:
    found = find(measured[1])
    assert dumps(to_json(find(measured[1], workers=3))) == dumps(to_json(found))
    assert found.figures["reference", "full", "auc"].low > 0.6
    assert not found.blind.confounded
    own, others, _ = training_curve(found)[-1][1]
    assert own[0] < others[0]
    assert own[1] < own[0] < own[2]
    page = to_markdown(found)
    at = [run.best for i in found.ranking.indicators if i.variant != "full" for run in i.per_run.values()]
    assert f"lowest loss falls at {np.median(at) / (TINY.checkpoints - 1):.2f} of the trajectory" in page
    for words in ("LOSS + zlib + ref", "LiRA offline", "the paper says", "Figure 9", "full precision"):
        assert words in page


@pytest.mark.slow
@needs_chemicals
def test_a_second_call_does_nothing_and_processes_give_the_same(
    measured: tuple[Path, Language], tmp_path: Path
) -> None:
    folder, first = measured
    before = {
        p: p.stat().st_mtime_ns
        for p in folder.rglob("*")
        if p.is_file() and p.name not in ("manifest.json", ".lock")
    }
    again = language(folder, scale=TINY, workers=2)
    assert {p: p.stat().st_mtime_ns for p in before} == before
    elsewhere = language(tmp_path, scale=replace(TINY, epochs=2), workers=2)
    here = language(tmp_path / "own", scale=replace(TINY, epochs=2), workers=1)
    for one, two in ((first, again), (elsewhere, here)):
        for name in ("trajectory", "release", "curves"):
            a, b = getattr(one, name), getattr(two, name)
            assert np.array_equal(a.signal("loss"), b.signal("loss"))
            assert np.array_equal(a.signal("params_hash"), b.signal("params_hash"))


@needs_chemicals
def test_the_command_writes_page_figures_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = [f"--set={name}={value}" for name, value in vars(TINY).items() if isinstance(value, int | float)]
    told += ["--set", f"variants={';'.join(TINY.variants)}", "--set", "epochs=2"]
    assert entry.run(["study", "language", "--scale", "quick", "--folder", str(tmp_path / "run"), *told]) == 0
    assert "Attacks without reference models are near chance." in capsys.readouterr().out
    found = json.loads((tmp_path / "run" / "study.json").read_text())
    assert {row["metric"] for row in found["attacks"]} == set(METRICS)
    assert len(found["attacks"]) == len(ATTACKS) * 3 * len(METRICS)
    assert found["scale"]["epochs"] == 2
    assert {path.stem for path in (tmp_path / "run").glob("*.svg")} == {
        "best",
        "lira",
        "training",
        "correlations",
    }


def test_parts_share_no_family_and_halves_complement_each_other() -> None:
    scale = replace(TINY, trained=30, evaluation=25, public=20, calibration=5, pretrained=50)
    given = texts(300, 180)
    parts = deal(given, scale, 3)
    names = ("pool", "public", "evaluation", "calibration", "pretraining")
    kinds = [set(given.family[getattr(parts, name)].tolist()) for name in names]
    assert sum(map(len, kinds)) == len(set.union(*kinds))
    assert [len(getattr(parts, name)) >= n for name, n in zip(names, (60, 20, 25, 5, 50), strict=True)] == [
        True
    ] * 5
    assert parts.member.shape == (4, len(parts.pool))
    assert (parts.member[0] ^ parts.member[1]).sum() >= len(parts.pool) - 1
    for row in parts.member:
        assert not set(given.family[parts.pool[row]]) & set(given.family[parts.pool[~row]])
    again, other = deal(given, scale, 3), deal(given, scale, 4)
    assert np.array_equal(again.pool, parts.pool)
    assert not np.array_equal(other.pool, parts.pool)
    with pytest.raises(ValueError, match=r"x: 160 texts are needed \(60 pool, .*there are 100"):
        deal(texts(100, 90), scale, 0)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (["runs=3"], "runs: expected an even number, at least 4, got 3"),
        (["checkpoints=1"], "checkpoints: expected from 2"),
        (["rank=0"], "rank: expected at least 1, got 0"),
        (["variants=hqq"], "variants: expected full precision first"),
        (["variants=full"], "variants: expected at least one quantizer beside 'full', got none"),
        (["pretrained=0"], "pretrained: expected at least 1, got 0"),
        (["nonsense=1"], "--set: expected FIELD=VALUE with one of model"),
        (["runs=many"], "--set: expected int for runs, got 'many'"),
    ],
)
def test_settings_that_cannot_be(changed: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        scale_of("small", changed)


def test_scales() -> None:
    assert len(PAPER_QUANTIZERS) == 12
    assert (SCALES["paper"].runs, SCALES["paper"].checkpoints, SCALES["paper"].epochs) == (20, 22, 10)
    assert SCALES["paper"].trained == 10000
    assert all(scale.rank == 64 for scale in SCALES.values())
    assert min(SCALES["small"].evaluation, SCALES["emails"].evaluation) >= 1000
    assert TINY.marks == (30, 60)
    with pytest.raises(ValueError, match="scale: expected one of quick, small"):
        scale_of("large")


def test_texts_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"smolinstruct\.jsonl: no such file; .*SMolInstruct"):
        run(tmp_path, "paper")
    with pytest.raises(DataError, match="npm pack"):
        run(tmp_path, "quick", ["data=emails"], mails=tmp_path)


def test_quantizers_that_cannot_be_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    for variant, words in (("hqq(bits=5)", "bits must be"), ("hqq(bits=4)", "given twice")):
        with pytest.raises(ValueError, match=words):
            language(tmp_path / "run", scale=replace(TINY, variants=("full", variant, "hqq(bits=4)")))
    assert not (tmp_path / "run").exists()


def test_no_two_variants_look_alike() -> None:
    more = ("adapter over gptq(bits=4)", "bnb4(kind='fp4')", "int8", "intx(bits=8)", "intx(bits=4)", "sign")
    looks = _looks((*PAPER_QUANTIZERS, *more))
    told = {(look["color"], look["marker"], look["markerfacecolor"]) for look in looks.values()}
    assert len(told) == len(PAPER_QUANTIZERS) + len(more)
    assert looks["gptq(bits=3)"]["marker"] == looks["hqq(bits=3)"]["marker"]
    assert looks["gptq(bits=3)"]["color"] == looks["gptq(bits=8)"]["color"]


def test_curves_are_the_figures_of_merit_at_every_rate_ties_and_all() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(500) < 200
    scores = np.round(rng.standard_normal(500) + member, 1)
    rates = np.array([0.01, 0.03, 0.05, 0.1, 0.2, 0.5, 0.9])
    found = _curve(scores[member], scores[~member], np.append(rates, 1.0))
    assert found[:-1].tolist() == pytest.approx(
        [tpr_at_fpr(scores, member, rate).tpr.value for rate in rates]
    )
    assert found[-1] == 1


def test_names() -> None:
    assert [
        cleaned(each) for each in ("gptq(bits=4)", "hqq(bits=1)", "bnb8", "bnb4(kind='fp4')", "sign")
    ] == [
        "GPTQ 4 bits",
        "HQQ 1 bits",
        "bitsandbytes 8 bits",
        "bitsandbytes fp4",
        "sign",
    ]


def planted(slope: float, *, alone: float = 0.5, confounded: bool = False) -> Found:
    """Eleven quantizers whose r grows; the AUC of attacks with references goes with it by ``slope``."""
    scale = replace(SCALES["small"], runs=4)
    rng = np.random.default_rng(0)
    compressed = scale.variants[1:]
    losses: dict[str, Any] = {}
    for place, variant in enumerate(scale.variants):
        noise = rng.standard_normal((4, 3, 400))
        losses[variant] = 1 + noise * 0.1 + np.array([0.0, 0.02, 0.03])[None, :, None] * (1 + place)
    ranking = rank(losses, n_train=100)
    order = [i.variant for i in sorted((ranking[v] for v in compressed), key=lambda i: i.r or 0)]
    member = np.tile(np.arange(4000) < 2000, (1, 1))
    figures, exposures = {}, {}
    for attack in ATTACKS:
        for variant in scale.variants:
            step = order.index(variant) if variant in order else 0
            shift = 0.4 + slope * step * 0.04 if attack in REFERENCES else 2 * (alone - 0.5)
            scores = np.random.default_rng(7).standard_normal((1, 4000)) + shift * member
            exposures[attack, variant] = Exposure(
                attack, variant, ("0",), scores, member, np.ones_like(member)
            )
            for metric in METRICS:
                value = 0.5 + shift / 4
                figures[attack, variant, metric] = Estimate(value, value - 0.01, value + 0.01, 4000, 0.95)
    blind = Blind(
        "text", 0.7 if confounded else 0.5, 0.6 if confounded else 0.4, 0.8, 0.95, confounded, 1, 1, 1, ""
    )
    one = Record(
        run=("0",), step=np.ones(1), variant=("full",), sample=np.arange(2), signals={"loss": np.ones((1, 2))}
    )
    small = replace(scale, trained=3, evaluation=2, public=2, calibration=1, pretrained=1)
    given = texts(40, 40)
    told = Language(scale, given, deal(given, small, 0), one, one, one, "x", 0)
    return Found(told, ranking, exposures, figures, blind)


def verdicts(found: Found) -> dict[str, str]:
    return {claim.where: claim.verdict for claim in claims(found)}


def test_planted_agreement_holds_and_turned_round_it_does_not() -> None:
    down, up = verdicts(planted(-1.0)), verdicts(planted(1.0))
    for where in ("Fig. 3 and 10", "sec. 13.3", "Fig. 4"):
        assert (down[where], up[where]) == (
            ("holds", "does not") if where != "sec. 13.3" else (down[where], up[where])
        )
    told = {claim.says: claim.verdict for claim in claims(planted(-1.0))}
    assert told["r orders quantizers as attacks with references do."] == "holds"
    assert {claim.says: claim.verdict for claim in claims(planted(1.0))}[
        "r orders quantizers as attacks with references do."
    ] == "does not"
    assert told["Attacks without reference models are near chance."] == "holds"
    assert told["Only attacks with reference models compete."] == "holds"
    says = "Quantized models leak less than full precision."
    worse = {claim.says: claim.verdict for claim in claims(planted(1.0))}
    assert (told[says], worse[says]) == ("holds", "does not")


def test_correlations_are_over_quantizers_alone() -> None:
    told = planted(-1.0).agreements["reference", "auc"]
    assert told is not None
    assert told.n == 11  # twelve variants, full precision among them


def test_attacks_that_need_no_references() -> None:
    told = {claim.says: claim.verdict for claim in claims(planted(-1.0, alone=1.2))}
    assert told["Attacks without reference models are near chance."] == "does not"
    assert told["Only attacks with reference models compete."] == "does not"


def test_comparing_with_the_model_before_counts_on_neither_side() -> None:
    found = planted(-1.0)
    strong = {("pretrained", v, "auc"): Estimate(0.9, 0.89, 0.91, 4000, 0.95) for v in found.variants}
    told = {each.says: each for each in claims(replace(found, figures={**found.figures, **strong}))}
    near = told["Attacks without reference models are near chance."]
    assert near.verdict == "holds"
    assert near.numbers.endswith("with the model before fine-tuning, which counts on neither side, 0.900")
    assert told["Only attacks with reference models compete."].verdict == "holds"


def test_below_chance_is_not_near_it_and_other_attacks_may_follow_r() -> None:
    said = "Attacks without reference models are near chance."
    assert {claim.says: claim.verdict for claim in claims(planted(-1.0, alone=0.3))}[said] == "cannot tell"
    found = planted(-1.0)
    alone = [attack for attack in ATTACKS if attack not in REFERENCES and attack not in BEFORE]
    said = "r is unrelated to what the other attacks find."
    assert {claim.says: claim.verdict for claim in claims(found)}[said] == "cannot tell"
    for metrics, ends in (
        (("auc",), "told from 0 in 4 of 4"),
        (("average precision", "auc", "tpr@0.15", "tpr@0.1"), "told from 0 in 16 of 16"),  # of Figure 11
        (("tpr@0.2", "tpr@0.01"), "no correlation over so few quantizers"),
    ):
        some = {
            (a, v, m): found.figures["reference", v, m]
            for a in alone[:4]
            for v in found.variants
            for m in metrics
        }
        told = {each.says: each for each in claims(replace(found, figures={**found.figures, **some}))}[said]
        assert told.numbers.endswith(ends)
        assert told.verdict == ("cannot tell" if "tpr@0.2" in metrics else "does not")


def test_without_a_slope_nothing_is_claimed() -> None:
    told = verdicts(planted(0.0))
    assert told["Fig. 3 and 10"] == told["Fig. 4"] == "cannot tell"


def test_a_confounded_split_gives_no_verdict_on_leaks() -> None:
    (only,) = claims(planted(-1.0, confounded=True))
    assert only.verdict == "cannot tell"
    assert "texts alone tell them from others" in only.numbers
