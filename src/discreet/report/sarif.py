"""A verdict as SARIF 2.1.0, which code hosts show as annotations: a result for each requirement that did not pass.

Source: OASIS, Static Analysis Results Interchange Format 2.1.0, sections 3.13 (log), 3.14 (run), 3.27 (result).
"""

from __future__ import annotations

import hashlib
from importlib import metadata
from typing import Any

from discreet.gate import Check, Verdict

__all__ = ["sarif"]

_LEVELS = {"failed": "error", "undecided": "warning"}
_JUDGED = {"interval": "the whole interval", "point": "the estimate"}


def sarif(verdict: Verdict, uri: str) -> dict[str, Any]:
    """A verdict as the JSON of a SARIF log.

    Every requirement is a rule. One that passed has no result, so that an alert closes once it passes; one that is
    undecided is a warning, one that failed an error.

    Args:
        verdict: The gate's answer.
        uri: Where the audit lies, relative to the root of the repository: code hosts show results at a file.
    """
    rules = {check.requirement: _rule(check, verdict.bound) for check in verdict.checks}
    places = {text: place for place, text in enumerate(rules)}
    results = [
        _result(check, places[check.requirement], uri)
        for check in verdict.checks
        if check.outcome != "passed"
    ]
    driver = {
        "name": "discreet",
        "version": metadata.version("discreet"),
        "rules": list(rules.values()),
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
        "results": results,
        "properties": {"outcome": verdict.outcome, "analysis": verdict.analysis, "bound": verdict.bound},
    }
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


def _identity(check: Check) -> str:
    return hashlib.sha256(check.requirement.encode()).hexdigest()


def _rule_id(check: Check) -> str:
    return f"gate/{check.metric}/{_identity(check)[:8]}"


def _rule(check: Check, bound: str) -> dict[str, Any]:
    return {
        "id": _rule_id(check),
        "name": "RequirementNotMet",
        "shortDescription": {"text": f"{check.requirement} is required"},
        "fullDescription": {
            "text": f"The release gate requires {check.requirement}; {_JUDGED[bound]} must meet it."
        },
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["privacy", "membership-inference"]},
    }


def _result(check: Check, place: int, uri: str) -> dict[str, Any]:
    location = {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}
    return {
        "ruleId": _rule_id(check),
        "ruleIndex": place,
        "level": _LEVELS[check.outcome],
        "message": {"text": check.reason},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"requirement/v1": _identity(check)},
        "properties": {
            "outcome": check.outcome,
            "value": check.value,
            "low": check.low,
            "high": check.high,
            "n": check.n,
        },
    }
