"""Attacks on a record, judged: figures against oracles, what is left out, and lists of attacks as people write."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from discreet import attacks
from discreet._find import SpecError
from discreet.attack_specs import brief, chosen, split_specs
from discreet.attacked import FPRS, attacked, dependence, judge
from discreet.exposure import expose
from discreet.records import Record, RecordError
from discreet.stats import advantage, auc, epsilon_one_run, tpr_at_fpr
from tests.banks import bank


@pytest.fixture(scope="module")
def record() -> Record:
    return bank()


SPLITS = [
    ("loss", ("loss",)),
    (" loss , rmia ", ("loss", "rmia")),
    ("lira(mode='offline', tail='both'),loss", ("lira(mode='offline', tail='both')", "loss")),
    ("joint(variants=('a', 'b,c')),loss", ("joint(variants=('a', 'b,c'))", "loss")),
    ('reference(signal="a)b,c"),x', ('reference(signal="a)b,c")', "x")),
    ("my_pkg.mine:Mine(a=[1, 2]),all", ("my_pkg.mine:Mine(a=[1, 2])", "all")),
]


@pytest.mark.parametrize(("text", "parts"), SPLITS)
def test_lists_are_split_between_specs_and_not_within(text: str, parts: tuple[str, ...]) -> None:
    assert split_specs(text) == parts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lira(mode='offline'", "a quote or bracket is not closed"),
        ("lira(mode='offline)", "a quote or bracket is not closed"),
        ("loss)", "a quote or bracket is not closed"),
        ("loss,,rmia", "expected names between commas"),
        ("", "expected names between commas"),
    ],
)
def test_a_broken_list_is_refused(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        split_specs(text)


def test_brief_specs_say_what_is_not_default() -> None:
    assert brief("lira()") == "lira"
    assert brief("lira(mode='online', tail='both')") == "lira(tail='both')"
    for name in ("loss", "lira(tail='both', mode='offline')", "rmia(a=0.5)"):
        assert attacks.parse(brief(name)) == attacks.parse(name)


def test_all_is_every_attack_once_and_the_joint_one_is_left_out_with_a_reason() -> None:
    methods, left = chosen(["all", "loss"])
    assert {name.partition("(")[0] for name in methods} | set(left) == set(attacks.names())
    assert methods["loss"] is False
    assert methods["lira"] is True
    assert "name them, as in joint(variants=" in left["joint"]


def test_an_unknown_attack_is_refused() -> None:
    with pytest.raises(SpecError, match="did you mean 'lira'"):
        chosen(["lirra"])
    with pytest.raises(SpecError, match="expected at least one name, got none"):
        chosen([])


def test_the_figures_are_those_of_stats(record: Record) -> None:
    (found,) = attacked(record, ["loss"], variants=["full"]).results
    e = expose(record, "loss", "full")
    assert found.auc == auc(e.scores, e.member, keep=e.keep)
    for fpr, point in zip(FPRS, found.points, strict=True):
        assert point.tpr == tpr_at_fpr(e.scores, e.member, fpr, keep=e.keep).tpr
    each = [advantage(s, y).value for s, y in zip(e.scores, e.member, strict=True)]
    assert found.advantage.value == pytest.approx(np.mean(each))
    assert found.balanced_accuracy.value == pytest.approx((1 + np.mean(each)) / 2)
    level = 1 - 0.05 / 6
    bounds = [epsilon_one_run(s, y, level=level).value for s, y in zip(e.scores, e.member, strict=True)]
    assert found.epsilon.value == max(bounds)
    assert (found.exposure.members, found.exposure.nonmembers) == (360, 360)


def test_a_planted_leak_is_found_and_no_leak_is_not(record: Record) -> None:
    found = {(r.variant, r.attack): r for r in attacked(record, ["loss", "lira"]).results}
    for name in ("loss", "lira"):
        assert found["full", name].auc.low > 0.7
        assert found["full", name].advantage.low > 0.1
        assert found["sign", name].auc.covers(0.5)
        assert found["sign", name].advantage.covers(0.0)
        assert found["sign", name].epsilon.value == 0


def test_one_run_is_judged_as_itself(record: Record) -> None:
    (found,) = attacked(record, ["loss"], variants=["full"], run="3").results
    e = expose(record, "loss", "full", runs=["3"])
    assert found.exposure.runs == ("3",)
    assert found.auc == auc(e.scores, e.member)
    assert found.advantage == advantage(e.scores[0], e.member[0])


def test_no_order_of_runs_or_samples_matters(record: Record) -> None:
    rng = np.random.default_rng(1)
    turned = record.take_rows(np.arange(len(record.run))[::-1]).take_samples(rng.permutation(120))
    one, other = (attacked(r, ["loss", "rmia"], variants=["full"]) for r in (record, turned))
    for a, b in zip(one.results, other.results, strict=True):
        assert a.auc == b.auc
        assert a.advantage == b.advantage
        assert [point.tpr for point in a.points] == [point.tpr for point in b.points]


def test_the_interval_over_runs_is_no_narrower_than_that_of_the_samples(record: Record) -> None:
    (found,) = attacked(record, ["loss"], variants=["sign"]).results
    e = found.exposure
    each = [advantage(s, y) for s, y in zip(e.scores, e.member, strict=True)]
    assert found.advantage.high - found.advantage.low >= np.mean([x.high - x.low for x in each])
    assert 0 < found.advantage.high - found.advantage.value < 1


def test_samples_that_are_not_judged_count_nowhere(record: Record) -> None:
    rng = np.random.default_rng(2)
    hidden = rng.random(120) < 0.3
    public = {
        **record.signals,
        "known": np.where(hidden, np.asarray(record.member)[[*range(6)] * 2], -1).astype("i1"),
    }
    (found,) = attacked(replace(record, signals=public), ["loss"], variants=["full"]).results
    (fewer,) = attacked(record.take_samples(~hidden), ["loss"], variants=["full"]).results
    assert found.auc.value == fewer.auc.value
    assert found.exposure.members == fewer.exposure.members


def test_what_all_cannot_do_is_listed_with_its_reason(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("discreet.attacks.names", lambda: ("joint", "loss", "rmia"))
    lossless = replace(record, signals={"margin": record.signals["margin"]}, axes={})
    found = attacked(lossless, ["all"], variants=["full"])
    left = {each.attack: each.reason for each in found.left_out}
    assert "no signal 'loss'" in left["loss"].replace('"', "'")
    assert {r.attack for r in found.results} | set(left) == set(attacks.names())
    with pytest.raises(RecordError, match="no signal"):
        attacked(lossless, ["loss"], variants=["full"])


def test_an_attack_on_several_variants_is_about_those_named(record: Record) -> None:
    three = bank({"full": 1.0, "sign": 0.5, "other": 0.0})
    spec = "joint(variants=('full', 'sign'))"
    assert [r.variant for r in attacked(three, [spec], variants=["full", "sign"]).results] == ["full", "sign"]
    with pytest.raises(RecordError, match="variant 'other' is none of those released together"):
        attacked(three, [spec], variants=["other"])
    whole = attacked(three, [spec, "loss"])
    assert [(each.attack, each.variant) for each in whole.left_out] == [(spec, "other")]
    assert len(whole.results) == 5


def test_families_make_records_dependent(record: Record) -> None:
    families = replace(record, signals={**record.signals, "family": np.arange(120) // 4})
    assert dependence(record) is None
    assert dependence(families) is not None
    assert dependence(replace(record, signals={**record.signals, "family": np.zeros(120)})) is None
    (one,), (other,) = (attacked(r, ["loss"], variants=["full"]).results for r in (record, families))
    assert one.auc.value == other.auc.value
    assert one.auc.low != other.auc.low


def test_bad_input_is_named(record: Record) -> None:
    with pytest.raises(RecordError, match="no membership: an attack cannot be judged"):
        attacked(replace(record, member=None), ["loss"])
    with pytest.raises(RecordError, match="no variant 'sing'"):
        attacked(record, ["loss"], variants=["sing"])
    with pytest.raises(RecordError, match="no run '9'"):
        attacked(record, ["loss"], run="9")
    with pytest.raises(ValueError, match=r"level: expected a number in \(0, 1\), got 2.0"):
        attacked(record, ["loss"], level=2.0)
    members_only = replace(record, member=np.ones((6, 120), bool))
    with pytest.raises(ValueError, match="expected both classes, got no non-member"):
        attacked(members_only, ["loss"])


def test_rates_below_one_over_the_non_members_are_not_resolvable(record: Record) -> None:
    (found,) = attacked(record, ["loss"], variants=["full"]).results
    assert [point.resolvable for point in found.points] == [True, False, False, False]
    assert [point.needs for point in found.points] == [10, 100, 1000, 10000]


def test_judging_equal_scores_finds_nothing(record: Record) -> None:
    e = expose(record, "loss", "full")
    flat = judge(replace(e, scores=np.zeros_like(e.scores)))
    assert flat.auc.value == 0.5
    assert flat.advantage.value == 0
    assert all(point.tpr.value == 0 for point in flat.points)
