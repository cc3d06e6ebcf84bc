from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet._json import read_as
from discreet._words import rounded_up
from discreet.audit import Analysis, Attack, Audit, Performance, RankTable, Storage
from discreet.gate import GateError, gate, parse

ODD = "v:1 < 2"


def table(*changes: dict[str, Any]) -> RankTable:
    """`sign`, `full` and a name with a colon and a sign in it, at r = 0.02, 0.01 and 0.005."""
    rows = []
    for place, name in enumerate(("sign", "full", ODD), 1):
        r = 0.02 / 2 ** (place - 1)
        row = {
            "variant": name,
            "status": "ok",
            "r": r,
            "r_median": r,
            "low": r / 2,
            "high": 2 * r,
            "runs": 16,
            "runs_undefined": 0,
            "runs_infinite": 0,
            "checkpoints": 5,
            "candidates": 4,
            "samples": 1000,
            "n_train_r": 1000 * r,
            "resolution": 0.002,
            "rank": place,
            "rank_low": max(1, place - 1),
            "rank_high": min(3, place + 1),
            "diagnostics": [],
        }
        rows.append(row | (changes[place - 1] if place <= len(changes) else {}))
    raw = {"schema": "discreet.rank/1", "level": 0.95, "statistic": "mean", "variants": rows, "pairwise": []}
    return read_as(RankTable, raw, "ranking")


def audit(*changes: dict[str, Any], **parts: Any) -> Audit:
    known: dict[str, Any] = {
        "performance": tuple(
            Performance(
                name, "auroc", value, value - 0.02, value + 0.02, 100, share, share - 0.01, share + 0.01
            )
            for name, value, share in (("sign", 0.8, 0.9), ("full", 0.9, 1.0), (ODD, 0.85, 0.95))
        ),
        "storage": tuple(
            Storage(name, bits, 10) for name, bits in (("sign", 1.0), ("full", 32.0), (ODD, 4.0))
        ),
        "attacks": tuple(
            Attack(name, attack, "auc", value, value - 0.03, value + 0.03)
            for name, values in (("sign", (0.55, 0.52)), ("full", (0.7, 0.71)), (ODD, (0.6, 0.61)))
            for attack, value in zip(("loss", "lira"), values, strict=True)
        ),
    }
    return Audit("t", (Analysis("main", table(*changes), **(known | parts)),))


def judged(
    requirement: str, made: Audit | None = None, **options: Any
) -> tuple[bool, float | None, str | None]:
    (check,) = gate(made or audit(), [requirement], **options).checks
    return check.passed, check.judged, check.variant


@pytest.mark.parametrize(
    ("requirement", "outcome", "number", "variant"),
    [
        # a ceiling looks at the high end, and at the worst variant where none is named
        ("auc:sign:loss < 0.6", "passed", 0.58, "sign"),
        ("auc:sign:loss < 0.579", "undecided", 0.58, "sign"),
        ("auc:sign:loss < 0.52", "failed", 0.52, "sign"),
        ("auc:sign:loss <= 0.52", "undecided", 0.58, "sign"),
        ("auc:sign:loss <= 0.581", "passed", 0.58, "sign"),
        ("auc:sign < 0.6", "passed", 0.58, "sign"),
        ("auc:sign:lira < 0.6", "passed", 0.55, "sign"),
        ("auc < 0.6", "failed", 0.68, "full"),
        ("auc::loss < 0.75", "passed", 0.73, "full"),
        # a floor looks at the low end
        ("r:sign > 0.009", "passed", 0.01, "sign"),
        ("r:sign >= 0.01", "passed", 0.01, "sign"),
        ("r:sign > 0.01", "undecided", 0.01, "sign"),
        ("r > 0.001", "passed", 0.0025, ODD),
        ("n_train_r:sign > 9", "passed", 10.0, "sign"),
        ("n_train_r:sign > 11", "undecided", 10.0, "sign"),
        ("n_train_r:sign > 40", "failed", 40.0, "sign"),
        ("share_of_full:sign >= 89%", "passed", 0.89, "sign"),
        ("share_of_full:sign >= 90 %", "undecided", 0.89, "sign"),
        ("auroc:sign > 0.77", "passed", 0.78, "sign"),
        ("auroc > 0.8", "undecided", 0.78, "sign"),
        ("rank:sign <= 2", "passed", 2.0, "sign"),
        ("rank:sign <= 1", "undecided", 2.0, "sign"),
        # sizes have no interval
        ("bits_per_weight:sign <= 1", "passed", 1.0, "sign"),
        ("bits_per_weight < 5", "failed", 32.0, "full"),
        ("bytes <= 10", "passed", 10.0, "sign"),
        # a name may hold the grammar's own signs
        (f"auc:{ODD}:loss < 0.64", "passed", 0.63, ODD),
        (f"r:{ODD} > 0.001", "passed", 0.0025, ODD),
        ("  r:sign>0.009  ", "passed", 0.01, "sign"),
    ],
)
def test_the_interval_decides(requirement: str, outcome: str, number: float, variant: str) -> None:
    (check,) = gate(audit(), [requirement]).checks
    assert (check.outcome, check.passed, check.variant) == (outcome, outcome == "passed", variant)
    assert check.judged == pytest.approx(number)


def test_the_point_is_judged_on_request() -> None:
    assert judged("auc:sign:loss < 0.56", bound="point") == (True, 0.55, "sign")
    assert gate(audit(), ["auc:sign:loss < 0.56"]).outcome == "undecided"
    assert gate(audit(), ["auc:sign:loss < 0.54"], bound="point").outcome == "failed"
    assert judged("rank:sign <= 1", bound="point") == (True, 1.0, "sign")


def test_any_failure_fails_and_any_doubt_leaves_undecided() -> None:
    sure, doubtful, wrong = "auc:sign:loss < 0.6", "auc:sign:loss < 0.55", "auc:full < 0.6"
    assert gate(audit(), [sure]).outcome == "passed"
    assert gate(audit(), [sure, doubtful]).outcome == "undecided"
    assert gate(audit(), [sure, doubtful, wrong]).outcome == "failed"
    assert gate(audit(attacks=()), ["auc:sign < 0.6", "bytes:sign < 1"]).outcome == "failed"


def test_one_variant_that_fails_fails_whatever_is_missing() -> None:
    some = tuple(row for row in audit().analyses[0].attacks if row.variant == "full")
    verdict = gate(audit(attacks=some), ["auc < 0.6"])
    assert verdict.outcome == "failed"
    assert verdict.checks[0].variant == "full"


def tpr(value: float, low: float, high: float, **more: Any) -> tuple[Attack, ...]:
    about = {"fpr": 0.001, "n": 1000, "resolvable": True, "needs": 1000} | more
    return (Attack("sign", "lira", "tpr@0.001", value, low, high, 8000, 8000, 16, more=about),)


@pytest.mark.parametrize(
    ("figure", "limit", "needed"),
    [
        # half-width 0.006 to shrink to 0.003: four times the records
        ((0.004, 0.002, 0.010), 0.007, 4000),
        # the number lies above the limit, so the low end has to come up: 0.004 to 0.002
        ((0.009, 0.005, 0.015), 0.007, 4000),
        # it cannot be resolved: 1,000 non-members a run, where there are 500 of 1,000 records
        ((0.006, 0.0, 0.0101), 0.010, 2000),
        # on the limit, nothing decides
        ((0.007, 0.005, 0.010), 0.007, None),
    ],
)
def test_the_records_needed_grow_with_the_square_of_the_half_width(
    figure: tuple[float, float, float], limit: float, needed: int | None
) -> None:
    made = audit(attacks=tpr(*figure, resolvable=needed != 2000))
    (check,) = gate(made, [f"tpr@0.1%:sign < {limit}"]).checks
    assert (check.outcome, check.n) == ("undecided", 1000)
    if needed is None:
        assert check.needed is None
        assert "no affordable number of records" in check.reason
        return
    assert check.needed == pytest.approx(needed, abs=1)
    assert f"about {rounded_up(check.needed or 0)} records" in check.reason
    assert "with the limit inside" in check.reason


def test_an_unresolvable_rate_says_what_it_takes() -> None:
    (check,) = gate(audit(attacks=tpr(0.006, 0.0, 0.02, resolvable=False)), ["tpr@0.001:sign < 0.01"]).checks
    assert "this rate takes 1,000 non-members a run to be resolved, and there are 500" in check.reason


def test_the_point_of_a_rate_that_cannot_be_resolved_judges_nothing() -> None:
    made = audit(attacks=tpr(0.0, 0.0, 0.02, resolvable=False))
    verdict = gate(made, ["tpr@0.001:sign < 0.01"], bound="point")
    assert verdict.outcome == "undecided"
    assert "this rate takes 1,000 non-members a run to be resolved, and there are 500" in verdict.reasons[0]


UNRANKED = {"r": None, "rank": None, "rank_low": None, "rank_high": None}
NO_INTERVAL = 'the number has no interval (bound "point" judges it without)'
ZERO = {"r": 0.0, "low": 0.0, "n_train_r": 0.0}


def flag(name: str) -> dict[str, Any]:
    return {"diagnostics": [name]}


MISSING = [
    ("r:sign > 0", UNRANKED | {"status": "infinite"}, "its r is infinite"),
    ("rank:sign < 9", UNRANKED | {"status": "undefined"}, "its r is undefined"),
    ("r:sign > 0", {"low": None}, NO_INTERVAL),
    ("n_train_r:sign > 0", {"n_train_r": None}, "the number of training records is not known"),
    ("n_train_r:sign < 9", ZERO, NO_INTERVAL),
    ("r:sign > 0", flag("not-converged"), "its loss still fell at the last checkpoint (not-converged)"),
    ("rank:sign < 9", flag("worse-than-constant"), "it predicts worse than a constant (worse-than-constant)"),
    (
        "r:sign > 0",
        flag("optimum-early"),
        "its lowest loss falls at the start of the trajectory (optimum-early)",
    ),
    ("r:sign > 0", flag("optimum-late"), "its lowest loss falls late in the trajectory (optimum-late)"),
    ("r > 0", flag("not-comparable"), "it was not measured like the others (not-comparable)"),
]


@pytest.mark.parametrize(("requirement", "change", "reason"), MISSING)
def test_a_missing_or_doubtful_number_does_not_pass(
    requirement: str, change: dict[str, Any], reason: str
) -> None:
    verdict = gate(audit(change), [requirement])
    assert verdict.outcome == "undecided"
    assert verdict.checks[0].judged is None
    assert verdict.reasons[0].startswith(
        f"cannot be judged: {requirement.split(':')[0].split()[0]} of sign: {reason}"
    )


def test_a_diagnostic_can_be_accepted_by_name() -> None:
    made = audit({"diagnostics": ["not-converged"]})
    assert gate(made, ["r:sign > 0"], accept=["not-converged"]).passed
    assert not gate(made, ["r:sign > 0"], accept=["worse-than-constant"]).passed
    with pytest.raises(GateError, match=r"accept: expected one of .*not-converged.*, got 'not-convergd'"):
        gate(made, ["r:sign > 0"], accept=["not-convergd"])


@pytest.mark.parametrize("metric", ["auc", "tpr@0.01", "share_of_full", "bits_per_weight"])
def test_what_was_not_measured_does_not_pass(metric: str) -> None:
    verdict = gate(audit(attacks=(), performance=(), storage=()), [f"{metric} < 1"])
    assert not verdict.passed
    assert "it was not measured" in verdict.reasons[0]


def test_one_variant_without_the_number_is_worse_than_any() -> None:
    some = audit().analyses[0].attacks[:2]
    assert gate(audit(attacks=some), ["auc:sign < 1"]).passed
    verdict = gate(audit(attacks=some), ["auc < 1"])
    assert verdict.checks[0].variant == "full"
    assert not verdict.passed


def test_every_attack_must_have_been_run_on_every_variant() -> None:
    some = tuple(row for row in audit().analyses[0].attacks if (row.variant, row.attack) != ("sign", "lira"))
    assert gate(audit(attacks=some), ["auc:sign:loss < 1"]).passed
    verdict = gate(audit(attacks=some), ["auc:sign < 1"])
    assert verdict.reasons == (
        "cannot be judged: auc of sign under lira: it was not measured (required < 1)",
    )


def test_the_true_positive_rate_is_found_at_its_false_positive_rate() -> None:
    rows = (
        Attack("sign", "loss", "tpr@0.01", 0.02, 0.01, 0.03),
        Attack("sign", "loss", "tpr", 0.2, 0.1, 0.3, more={"fpr": 0.1}),
    )
    assert judged("tpr@0.01:sign < 0.05", audit(attacks=rows)) == (True, 0.03, "sign")
    assert judged("tpr@1%:sign < 0.05", audit(attacks=rows)) == (True, 0.03, "sign")
    assert judged("tpr@0.1:sign < 0.05", audit(attacks=rows)) == (False, 0.1, "sign")
    assert judged("tpr@0.001:sign < 0.05", audit(attacks=rows)) == (False, None, "sign")
    (check,) = gate(audit(attacks=rows), ["tpr@5%:sign < 0.05"]).checks
    assert "it was not measured at this rate (rates there are: 10%, 1%)" in check.reason


WRONG = [
    ("auc", "requirement 'auc': expected METRIC[@FPR][:VARIANT[:ATTACK]] followed by <, <=, > or >= and a number"),
    ("", "requirement '': expected METRIC"),
    ("auc = 3", "expected METRIC"),
    ("auc < low", "requirement 'auc < low': the limit 'low' is not a number"),
    ("auc < nan", "the limit 'nan' is not a number"),
    ("auc < inf", "the limit 'inf' is not a number"),
    ("ouc < 1", "requirement 'ouc < 1': no metric 'ouc'; did you mean 'auc'?"),
    ("auroc:sing > 1", "requirement 'auroc:sing > 1': the ranking has no variant 'sing'; did you mean 'sign'?"),
    ("r:zzz > 1", f"requirement 'r:zzz > 1': the ranking has no variant 'zzz'; known: sign, full, {ODD}"),
    ("auc:sign:los < 1", "requirement 'auc:sign:los < 1': no attack 'los' was measured; did you mean 'loss'?"),
    ("r:sign:loss > 1", "requirement 'r:sign:loss > 1': r is not the figure of an attack, so none can be named"),
    ("auc@0.01 < 1", "only tpr takes a false-positive rate, between 0 and 1"),
    ("tpr@2 < 1", "only tpr takes a false-positive rate, between 0 and 1"),
    ("tpr@x < 1", "the false-positive rate 'x' is not a number"),
    ("tpr < 1", "tpr needs its false-positive rate, as in tpr@0.01"),
]  # fmt: skip


@pytest.mark.parametrize(("requirement", "message"), WRONG)
def test_what_cannot_be_understood_is_an_error_and_no_verdict(requirement: str, message: str) -> None:
    with pytest.raises(GateError) as error:
        gate(audit(), [requirement])
    assert message in str(error.value)


def test_a_gate_that_asks_nothing_is_an_error() -> None:
    with pytest.raises(GateError, match="requirements: expected at least one; a gate that asks nothing"):
        gate(audit(), [])
    with pytest.raises(GateError, match="requirements: expected a list of texts, got one text 'r > 0'"):
        gate(audit(), "r > 0")
    with pytest.raises(GateError, match='bound: expected "interval" or "point", got \'mean\''):
        gate(audit(), ["r > 0"], bound="mean")


def test_another_analysis_is_judged_by_name() -> None:
    made = audit()
    both = Audit("t", (made.analyses[0], Analysis("other", table({"low": 0.0199}))))
    assert not gate(both, ["r:sign > 0.0198"]).passed
    assert gate(both, ["r:sign > 0.0198"], analysis="other").analysis == "other"
    assert gate(both, ["r:sign > 0.0198"], analysis="other").passed
    with pytest.raises(GateError, match=r"analysis: the audit has no 'othr'; did you mean 'other'\?"):
        gate(both, ["r > 0"], analysis="othr")


def test_reasons_name_the_number_its_end_and_the_limit() -> None:
    verdict = gate(audit(), ["auc < 0.6", "r:sign > 0.009", "bytes:sign < 11"])
    assert verdict.reasons == (
        "failed: auc of full under lira is 0.68, the low end of 0.710 (0.680 to 0.740), the worst of 6 "
        "(required < 0.6)",
        "passed: r of sign is 0.01, the low end of 0.0200 (0.0100 to 0.0400) (required > 0.009)",
        "passed: bytes of sign is 10 (required < 11)",
    )
    assert not verdict.passed


def test_the_verdict_is_written_as_its_schema_says(tmp_path: Path) -> None:
    schema = json.loads(files("discreet.report").joinpath("gate.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    made = audit({"diagnostics": ["not-converged"]})
    for bound in ("interval", "point"):
        verdict = gate(
            made,
            ["auc < 0.6", "r > 0", "tpr@0.1:sign < 1", "auc:sign < 0.56"],
            bound=bound,
            accept=["not-converged"],
        )
        path = verdict.save(tmp_path / "gate.json")
        jsonschema.validate(json.loads(path.read_text()), schema)
        assert path.read_bytes() == verdict.save(tmp_path / "again.json").read_bytes()
    passed_without = put_passed(verdict.to_json())
    assert not jsonschema.Draft202012Validator(schema).is_valid(passed_without)


def put_passed(raw: dict[str, Any]) -> dict[str, Any]:
    """A verdict that passes a check without a number: the schema itself refuses it."""
    raw["checks"][2]["passed"] = True
    return raw


numbers = st.floats(-2, 2, allow_nan=False)
operators = st.sampled_from(["<", "<=", ">", ">="])


@settings(deadline=None, max_examples=40)
@given(operators, numbers)
def test_passing_by_interval_implies_passing_by_point(operator: str, limit: float) -> None:
    for what in ("r", "share_of_full", "rank", *(("auc:sign",) if 0 <= limit <= 1 else ())):
        requirement = f"{what} {operator} {limit}"
        if gate(audit(), [requirement]).passed:
            assert gate(audit(), [requirement], bound="point").passed


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        found = parse(text, audit().analyses[0])
    except GateError:
        return
    assert found.operator in ("<", "<=", ">", ">=")


@pytest.mark.parametrize("limit", ["60", "-0.1", "1_0", "160%"])
def test_a_limit_that_judges_nothing_is_refused(limit: str) -> None:
    with pytest.raises(GateError, match=r"judges nothing|is not a number"):
        gate(audit(), [f"auc < {limit}"])
