"""A verdict as JUnit XML and SARIF, read back by the formats' own tools."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from junitparser import Error, Failure, JUnitXml
from sarif_pydantic import Sarif
from tests.test_gate import ODD, audit, table

from discreet.audit import Analysis, Attack, Audit
from discreet.cli import entry
from discreet.gate import gate
from discreet.report.junit import junit
from discreet.report.sarif import sarif

REQUIREMENTS = ("auc:sign:loss < 0.6", "auc < 0.4", "auc:sign < 0.56", f"bits_per_weight:{ODD} <= 8")
OUTCOMES = ("passed", "failed", "undecided", "passed")


def test_the_verdict_has_all_outcomes() -> None:
    assert tuple(check.outcome for check in gate(audit(), REQUIREMENTS).checks) == OUTCOMES


def test_junit_is_read_back_by_a_junit_parser() -> None:
    verdict = gate(audit(), REQUIREMENTS)
    suites = JUnitXml.fromstring(junit(verdict).encode())
    (suite,) = suites
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (4, 1, 1, 0)
    assert (suites.tests, suites.failures, suites.errors) == (4, 1, 1)
    cases = list(suite)
    assert [case.name for case in cases] == list(REQUIREMENTS)
    kinds = [[type(result) for result in case.result] for case in cases]
    assert kinds == [[], [Failure], [Error], []]
    assert cases[1].result[0].message == verdict.reasons[1]
    assert cases[0].system_out == verdict.reasons[0]


def test_junit_holds_what_the_format_asks_for_and_nothing_else() -> None:
    allowed = {
        "testsuites": {"name", "tests", "failures", "errors"},
        "testsuite": {"name", "tests", "failures", "errors", "skipped"},
        "testcase": {"classname", "name"},
        "failure": {"message", "type"},
        "error": {"message", "type"},
        "system-out": set(),
    }
    for element in ElementTree.fromstring(junit(gate(audit(), REQUIREMENTS))).iter():
        assert set(element.attrib) == allowed[element.tag]


def test_sarif_is_read_back_by_its_object_model() -> None:
    verdict = gate(audit(), REQUIREMENTS)
    raw = json.loads(json.dumps(sarif(verdict, "runs/a%20b/audit.json"), allow_nan=False))
    log = Sarif.model_validate(raw)
    (run,) = log.runs
    assert run.tool.driver.name == "discreet"
    rules, results = run.tool.driver.rules, run.results
    assert rules is not None
    assert results is not None
    assert len({rule.id for rule in rules}) == len(rules) == 4
    assert [(rules[result.rule_index].id == result.rule_id, result.level.value) for result in results] == [
        (True, "error"),
        (True, "warning"),
    ]
    assert [result.message.text for result in results] == [verdict.reasons[1], verdict.reasons[2]]
    for result in raw["runs"][0]["results"]:
        assert result["locations"][0]["physicalLocation"] == {
            "artifactLocation": {"uri": "runs/a%20b/audit.json"},
            "region": {"startLine": 1},
        }
    again = sarif(gate(audit(), REQUIREMENTS[::-1]), "audit.json")["runs"][0]["results"]
    prints = [
        {r["ruleId"]: r["partialFingerprints"] for r in rows} for rows in (raw["runs"][0]["results"], again)
    ]
    assert prints[0] == prints[1]


@pytest.mark.parametrize(("bound", "words"), [("interval", "the whole interval"), ("point", "the estimate")])
def test_sarif_says_what_is_judged(bound: str, words: str) -> None:
    (run,) = sarif(gate(audit(), REQUIREMENTS[:1], bound=bound), "audit.json")["runs"]
    (rule,) = run["tool"]["driver"]["rules"]
    assert (
        rule["fullDescription"]["text"]
        == f"The release gate requires {REQUIREMENTS[0]}; {words} must meet it."
    )


def test_names_that_would_break_the_files() -> None:
    odd = 'a"<&>\x07\u202e]]>'
    made = Audit(
        "t", (Analysis("an & other", table(), attacks=(Attack("sign", odd, "auc", 0.9, 0.8, 0.95),)),)
    )
    verdict = gate(made, ["auc:sign < 0.5"])
    (suite,) = JUnitXml.fromstring(junit(verdict).encode())
    assert suite.name == "discreet gate: an & other"
    assert odd.partition("\x07")[0] in next(iter(suite)).result[0].message
    Sarif.model_validate(json.loads(json.dumps(sarif(verdict, "audit.json"))))


def test_gate_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "my run"
    run.mkdir()
    audit().save(run / "audit.json")
    required = [part for text in REQUIREMENTS for part in ("--require", text)]
    assert entry.run(["gate", "my run", *required, "--junit", "gate.xml", "--sarif", "gate.sarif"]) == 1
    assert JUnitXml.fromfile("gate.xml").failures == 1
    raw = json.loads(Path("gate.sarif").read_text())
    place = raw["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "my%20run/audit.json"}
    assert entry.run(["gate", "my run", "--require", "auc:sign < 0.56", "--junit", "gate.xml"]) == 2
    assert JUnitXml.fromfile("gate.xml").errors == 1
    for options, words in [
        (["--junit", "-"], "this goes to a file, not to stdout"),
        (["--junit", "x", "--sarif", "x"], "already; name another one"),
        (["--sarif", "my run/audit.json"], "already; name another one"),
        (["--sarif", "none/x"], "does not exist"),
    ]:
        capsys.readouterr()
        assert entry.run(["gate", "my run", *required, *options]) == 2
        assert words in capsys.readouterr().err
    Audit.load(run / "audit.json")
    assert entry.run(["gate", "my run", "--require", "nothing < 1", "--junit", "gate.xml"]) == 2
    assert not Path("gate.xml").exists()  # an older verdict does not outlive it
