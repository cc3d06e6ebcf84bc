"""A verdict as JUnit XML, which CI systems show test by test: one requirement, one test case.

Source: Jenkins' description of the format (``junit-10.xsd`` of its xUnit plug-in). It holds no times and no host.
"""

from __future__ import annotations

from xml.etree import ElementTree

from discreet._words import visible
from discreet.gate import Verdict

__all__ = ["junit"]


def junit(verdict: Verdict) -> str:
    """Write a verdict as JUnit XML.

    A requirement that fails is a ``failure``. One that is undecided is an ``error``, since nobody may read it as
    passed: what CI systems take for skipped they count as good.
    """
    outcomes = [check.outcome for check in verdict.checks]
    counts = {
        "tests": str(len(outcomes)),
        "failures": str(outcomes.count("failed")),
        "errors": str(outcomes.count("undecided")),
    }
    suites = ElementTree.Element("testsuites", {"name": "discreet gate", **counts})
    suite = ElementTree.SubElement(
        suites, "testsuite", {"name": f"discreet gate: {visible(verdict.analysis)}", **counts, "skipped": "0"}
    )
    for check in verdict.checks:
        named = {"classname": "discreet.gate", "name": visible(check.requirement)}
        case = ElementTree.SubElement(suite, "testcase", named)
        reason = visible(check.reason)
        if check.outcome == "passed":
            ElementTree.SubElement(case, "system-out").text = reason
        else:
            kind = "failure" if check.outcome == "failed" else "error"
            told = ElementTree.SubElement(case, kind, {"message": reason, "type": check.outcome})
            told.text = reason
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, "unicode") + "\n"
