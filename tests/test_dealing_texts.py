"""Which texts an audit of a language model judges, and which it refuses before anything is measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from discreet.dealing_texts import Texted, deal_texts
from discreet.llm.texts import TextError
from discreet.records import laws
from tests import llm
from tests.test_auditing_language import sentences, written

LONG = " ".join(sentences(12, 9))  # more than the context of 64 tokens


def asked(path: Path, prompts: Sequence[str], answers: Sequence[str]) -> Path:
    rows = [{"prompt": p, "completion": c} for p, c in zip(prompts, answers, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_non_member_that_is_a_member_once_both_are_cut_is_left_out(tmp_path: Path) -> None:
    others = [*sentences(8, 1), f"{LONG} ethanol", f"benzene {LONG}"]
    texted = Texted(
        written(tmp_path / "members.jsonl", [*sentences(8, 0), f"{LONG} Paris"]),
        written(tmp_path / "others.jsonl", others),
        calibration=written(tmp_path / "own.jsonl", sentences(4, 2)),
        on_long="cut",
    )
    dealt = deal_texts(llm.base(), texted, 0)
    assert dealt.counts["non-members with the tokens of a member, left out"] == 1
    assert dealt.counts["non-members, which r is taken over"] == 9
    assert dealt.counts["texts that were cut"] == 3
    assert "nonmembers, line 9" not in dealt.evaluation.sample
    assert "nonmembers, line 10" in dealt.evaluation.sample
    assert dealt.judged.sample[dealt.member].tolist() == [f"members, line {at}" for at in range(1, 10)]
    assert len(dealt.judged) == len(dealt.member) == len(dealt.public) == len(dealt.prompt) == 18


def test_too_few_may_be_left_once_texts_are_cut(tmp_path: Path) -> None:
    texted = Texted(
        written(tmp_path / "members.jsonl", [*sentences(8, 0), f"{LONG} Paris"]),
        written(tmp_path / "others.jsonl", [f"{LONG} ethanol", f"{LONG} benzene", "is the name"]),
        on_long="cut",
    )
    with pytest.raises(
        TextError, match=r"others.jsonl: expected at least 2 texts that are no members, got 1"
    ):
        deal_texts(llm.base(), texted, 0)


@pytest.mark.parametrize(
    ("long", "message"),
    [
        ("", ""),
        (
            "text",
            r"^\S*members.jsonl, line 3: its text has 150 characters, but expected are at most 100 where 10 texts are"
            r" judged, .*--on-long cut\) or leave it out, or judge fewer \(most, --most\)",
        ),
        (
            "prompt",
            r"^\S*others.jsonl, line 2: its prompt has 150 characters, but .* shorten it or leave it out",
        ),
    ],
)
def test_texts_that_no_record_holds_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: str, message: str
) -> None:
    """All texts of a record take as much room as the longest, which is found before hours of measuring."""
    monkeypatch.setattr(laws, "_ROOM", 1000)
    answers = [f"is {each}" for each in "abcde"]
    answers[2] = ("the name of ethanol " * 10)[: 150 if long == "text" else 20]
    prompts = [f"what {each}?" for each in "fghij"]
    prompts[1] = ("the name of benzene " * 10)[: 150 if long == "prompt" else 20]
    texted = Texted(
        asked(tmp_path / "members.jsonl", [f"what {each}?" for each in "klmno"], answers),
        asked(tmp_path / "others.jsonl", prompts, [f"was {each}" for each in "pqrst"]),
        calibration=written(tmp_path / "own.jsonl", ["Paris is the name"]),
    )
    if not long:
        assert len(deal_texts(llm.base(), texted, 0).judged) == 10
        return
    with pytest.raises(TextError, match=message):
        deal_texts(llm.base(), texted, 0)


def test_a_text_that_ends_in_nul_is_refused(tmp_path: Path) -> None:
    texted = Texted(
        written(tmp_path / "members.jsonl", [*sentences(3, 0), "ethanol is\0"]),
        written(tmp_path / "others.jsonl", sentences(4, 1)),
    )
    with pytest.raises(TextError, match=r"members.jsonl, line 4: its text ends in a NUL character"):
        deal_texts(llm.base(), texted, 0)
