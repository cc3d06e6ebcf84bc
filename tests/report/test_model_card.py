"""The model card's part: metadata that Hugging Face's own client reads, and text with what cannot be claimed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results
from tests.test_gate import ODD, table

from discreet.audit import Analysis, Attack, Audit
from discreet.cli import entry
from discreet.gate import gate
from discreet.report.model_card import model_card
from discreet.report.model_index import model_index


def few() -> Audit:
    """One attack beyond the others, a rate that is resolvable and one that is not."""
    rows = (
        Attack("sign", "loss", "auc", 0.55, 0.5, 0.6, 500, 500, 2),
        Attack("sign", "lira", "auc", 0.7, 0.65, 0.75, 400, 450, 2),
        Attack("sign", "lira", "tpr@0.01", 0.1, 0.05, 0.2, 400, 450, 2, more={"realised_fpr": 0.008}),
        Attack(
            "sign", "lira", "tpr@0.001", 0.3, 0.0, 0.9, 400, 450, 2, more={"resolvable": False, "needs": 1000}
        ),
    )
    changed = {"status": "undefined", "r": None, "low": None, "high": None, "rank": None, "n_train_r": None}
    return Audit(
        "t", (Analysis("main", table({"diagnostics": ["theorem-silent"]}, {}, changed), attacks=rows),)
    )


def test_every_audit_gives_a_card_that_the_client_reads(audits: dict[str, Audit], tmp_path: Path) -> None:
    for name, made in audits.items():
        text = model_card(made)
        card = ModelCard(text)
        raw = yaml.safe_load(text.split("---\n")[1])
        if not raw["model-index"][0]["results"]:
            continue
        model, found = model_index_to_eval_results(raw["model-index"])
        assert model == made.title
        assert card.data.eval_results is not None, name
        assert len(card.data.eval_results) == len(found)
        card.save(tmp_path / "README.md")
        assert ModelCard.load(tmp_path / "README.md").data.to_dict() == card.data.to_dict()


def test_metadata_has_the_worst_attack_with_interval_and_n() -> None:
    (found,) = model_index(few(), ["sign"], "my model")
    assert found["name"] == "my model"
    r, auc, tpr = found["results"][0]["metrics"]
    assert (r["type"], r["value"]) == ("mis_indicator_r", 0.02)
    assert {key: r["args"][key] for key in ("low", "high", "level", "samples", "runs")} == {
        "low": 0.01,
        "high": 0.04,
        "level": 0.95,
        "samples": 1000,
        "runs": 16,
    }
    assert (auc["type"], auc["value"], auc["args"]["attack"], auc["args"]["low"]) == (
        "mia_auc",
        0.7,
        "lira",
        0.65,
    )
    assert (tpr["type"], tpr["args"]["fpr"], tpr["args"]["realised_fpr"]) == ("mia_tpr", 0.01, 0.008)
    assert (tpr["args"]["members"], tpr["args"]["nonmembers"]) == (400, 450)
    raw = yaml.safe_load(model_card(few(), ["sign"], name="my model").split("---\n")[1])
    assert raw["model-index"] == [found]


def test_text_says_what_was_measured_and_what_cannot_be_claimed() -> None:
    made = few()
    text = model_card(made, verdict=gate(made, ["auc:sign < 0.6", "r:sign > 0.001"]))
    assert (
        "| sign | 0.0200 (0.0100 to 0.0400); n = 1,000, 16 runs | 0.700 (0.650 to 0.750); lira, n = 400 + 450"
        in text
    )
    assert "realised FPR 0.80\u00a0%; lira" in text
    assert "| not resolvable |" in text
    assert "That an attacker can do no better" in text
    assert "A bound from the theorem for sign" in text
    assert "is safe: its r is undefined" in text
    assert "v:1 \\< 2" in text
    assert "where it is not resolvable: that takes 1,000 non-members a run." in text
    assert "An order, by r, of variants that the data do not tell apart" not in text  # no pair was compared
    assert "The gate was failed." in text
    assert "failed: auc:sign \\< 0.6:" in text
    assert "Differential privacy" in text
    alone = model_card(Audit("t", (Analysis("main", table()),)), [ODD])
    assert "no attack was run" in alone
    assert "| sign |" not in alone


def test_a_guarantee_is_told_with_whom_it_holds_against() -> None:
    plain = few()
    private = replace(plain, analyses=(replace(plain.analyses[0], more={"epsilon": [41.21, 1e-5]}),))
    text = model_card(Audit.from_json(json.loads(json.dumps(private.to_json()))))
    assert (
        "differentially private for each record: ε = 41.3 at δ = 1e-5, only against those who do not know"
        in text
    )
    assert "A guarantee beyond ε = 41.3 at δ = 1e-5: these are averages" in text
    assert "Differential privacy, or any guarantee" not in text
    assert "ε" not in model_card(plain)


def test_pairs_that_are_not_told_apart_are_no_order(audits: dict[str, Audit]) -> None:
    for made in audits.values():
        pairs = made.analyses[0].ranking.pairs
        claimed = "do not tell apart" in model_card(made)
        assert claimed == any(not pair.told_apart for pair in pairs)


def test_report_writes_a_card(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    few().save(tmp_path / "audit.json")
    assert entry.run(["report", str(tmp_path), "--model-card", "-", "--variant", "sign", "--name", "m"]) == 0
    text = capsys.readouterr().out
    assert text == model_card(few(), ["sign"], name="m")
    assert not (tmp_path / "report.html").exists()
    assert entry.run(["gate", str(tmp_path), "--require", "auc:sign < 0.6"]) == 1
    card = tmp_path / "card.md"
    assert entry.run(["report", str(tmp_path), "--model-card", str(card)]) == 0
    assert "The gate was failed." in card.read_text()
    os.utime(tmp_path / "gate.json", ns=(0, 0))  # a verdict on an older audit
    assert entry.run(["report", str(tmp_path), "--model-card", str(card)]) == 0
    assert "The gate was" not in card.read_text()
    assert entry.run(["report", str(tmp_path), "--model-card", str(card), "--variant", "sing"]) == 2
    assert "variant: the audit has no 'sing'; it has sign, full" in capsys.readouterr().err
    assert entry.run(["report", str(tmp_path), "--variant", "sign"]) == 2
    assert "--variant and --name belong to --model-card" in capsys.readouterr().err
    assert json.loads((tmp_path / "audit.json").read_text())["schema"] == "discreet.audit/1"
