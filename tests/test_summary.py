from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from discreet._json import read_as
from discreet.audit import Agreement, Analysis, Attack, Paired, RankTable, RocCurve, Stability
from discreet.summary import DOUBTS, headline, needed_samples, pairs_told_apart, summarize

NBSP = "\u00a0"


def analysis(
    r: dict[str, float | None],
    apart: set[tuple[str, str]] = frozenset(),  # type: ignore[assignment]
    flags: dict[str, list[str]] | None = None,
    status: str = "undefined",
    **parts: Any,
) -> Analysis:
    """Variants in order of r (None: unranked), with the pairs that are told apart."""
    rows = []
    for place, (name, value) in enumerate(r.items(), 1):
        ranked = value is not None
        rows.append(
            {
                "variant": name,
                "status": "ok" if ranked else status,
                "r": value,
                "r_median": value,
                "low": value and value / 2,
                "high": value and value * 2,
                "runs": 16,
                "runs_undefined": 0 if ranked or status != "undefined" else 16,
                "runs_infinite": 0 if ranked or status != "infinite" else 16,
                "checkpoints": 5,
                "candidates": 4,
                "samples": 1000,
                "n_train_r": None,
                "resolution": 0.002,
                "rank": place if ranked else None,
                "rank_low": place if ranked else None,
                "rank_high": place if ranked else None,
                "diagnostics": (flags or {}).get(name, [])
                + (["below-resolution"] if value is not None and value < 0.002 else []),
            }
        )
    pairs = [
        {
            "safer": a,
            "than": b,
            "probability": None if r[a] is None or r[b] is None else 0.9,
            "told_apart": (a, b) in apart,
        }
        for a, b in itertools.combinations(r, 2)
    ]
    raw = {
        "schema": "discreet.rank/1",
        "level": 0.95,
        "statistic": "mean",
        "variants": rows,
        "pairwise": pairs,
    }
    return Analysis("x", read_as(RankTable, raw, "ranking"), **parts)


SIZE = f"r = 0.0200, 95{NBSP}% interval 0.0100 to 0.0400"


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            analysis({"a": 0.02, "b": 0.01, "c": 0.005}, {("a", "b"), ("a", "c")}),
            f"By the indicator, `a` is ahead of all 2 others ({SIZE}).",
        ),
        (
            analysis({"a": 0.02, "b": 0.01}, {("a", "b")}),
            f"By the indicator, `a` is ahead of the other variant ({SIZE}).",
        ),
        (
            analysis({"a": 0.02, "b": 0.01, "c": 0.005}, {("a", "c")}),
            f"`a` ranks first by the indicator ({SIZE}). It is told apart from 1 of the 2 others, but not from `b`.",
        ),
        (
            analysis({"a": 0.02, "b": 0.01, "c": 0.005}),
            f"`a` ranks first by the indicator ({SIZE}), but it is not told apart from any other: "
            "the data do not say which is safer.",
        ),
        (
            analysis({"a": 0.02, "b": 0.01}),
            f"`a` ranks first by the indicator ({SIZE}), but it is not told apart from `b`: "
            "the data do not say which is safer.",
        ),
        (
            analysis({"a": 0.02}),
            f"Only `a` was ranked ({SIZE}): there is nothing to compare it with.",
        ),
        (
            analysis({"full": 0.03, "a": 0.02}, flags={"full": ["full-precision-reference"]}),
            f"`a` is the only variant ranked beside the reference ({SIZE}).",
        ),
        (analysis({"a": None}), "No variant could be ranked, so nothing is said about which is safer."),
        (
            analysis({"a": 0.02, "b": 0.01}, {("a", "b")}, {"a": ["worse-than-constant"]}),
            f"`a` ranks first ({SIZE}), but it predicts worse than a constant, so that is no sign of safety "
            "(`worse-than-constant`).",
        ),
        (
            analysis({"a": 0.001, "b": 0.0005}),
            f"No ranked variant has an r that can be told from 0 here; `a` comes first (r = 0.00100, 95{NBSP}% "
            "interval 0.000500 to 0.00200), but that order may be chance.",
        ),
        (
            analysis(
                {"full": 0.03, "a": 0.02, "b": 0.01}, {("a", "b")}, {"full": ["full-precision-reference"]}
            ),
            f"By the indicator, `a` is ahead of the other variant ({SIZE}).",
        ),
    ],
)
def test_the_headline_says_no_more_than_the_data(made: Analysis, words: str) -> None:
    assert headline(made) == words
    assert summarize(made)[0] == words


@pytest.mark.parametrize("apart", [set(), {("a", "c")}, {("a", "b"), ("a", "c")}])
def test_what_is_not_told_apart_is_never_called_safer(apart: set[tuple[str, str]]) -> None:
    words = " ".join(summarize(analysis({"a": 0.02, "b": 0.01, "c": 0.005}, apart)))
    assert "is safer" not in words.replace("do not say which is safer", "")
    assert "safest" not in words
    assert "more secure" not in words


def test_pairs_are_counted_among_ranked_variants_only() -> None:
    made = analysis({"a": 0.02, "b": 0.01, "c": None}, {("a", "b")})
    assert pairs_told_apart(made) == (1, 1)
    assert f"The two variants are told apart at the 95{NBSP}% level." in summarize(made)
    words = summarize(analysis({"a": 0.02, "b": 0.01}))
    assert (
        f"The two variants are not told apart at the 95{NBSP}% level; their order may be chance, and neither is "
        "called safer."
    ) in words


def test_the_undecided_pairs_are_named_as_chance() -> None:
    made = analysis({"a": 0.02, "b": 0.01, "c": 0.005}, {("a", "b"), ("a", "c")})
    assert (
        f"Of 3 pairs of variants, 2 are told apart at the 95{NBSP}% level; in the other pair the order may be "
        "chance, and neither variant is called safer."
    ) in summarize(made)
    assert "More training runs or evaluation samples could tell 1 undecided pair apart." in summarize(made)


def test_samples_needed_bring_the_resolution_down_to_r() -> None:
    made = analysis({"a": 0.02, "b": 0.0016, "c": 0.0004})
    rows = {row.variant: row for row in made.ranking.variants}
    assert needed_samples(rows["b"]) == 1250  # z²/(2·1000) = 0.002, so z²/(2·1250) = 0.0016
    assert needed_samples(rows["c"]) == 5000
    words = summarize(made)
    assert (
        "2 of 3 ranked variants (`b` and `c`) lie below the resolution: with 1,000 evaluation samples, their r "
        "cannot be told from 0."
    ) in words
    assert any("about 1,300 would bring `b`" in sentence for sentence in words)


def test_absurd_sample_sizes_are_not_recommended() -> None:
    words = summarize(analysis({"a": 0.02, "b": 1e-12}))
    assert any("over a thousand times as many evaluation samples" in sentence for sentence in words)
    assert not any("would bring" in sentence for sentence in summarize(analysis({"a": 0.02, "b": 0.0})))


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ("undefined", "r is undefined in all its 16 runs: quantized, the checkpoints are all one model."),
        ("infinite", "r is infinite in all its 16 runs, which compares with nothing."),
    ],
)
def test_refusals_are_said_and_are_no_sign_of_safety(status: str, why: str) -> None:
    words = summarize(analysis({"a": 0.02, "b": None}, status=status))
    assert f"`b` is not ranked: {why} That is no sign of safety." in words


def test_doubts_the_silent_theorem_and_the_reference_are_said_once() -> None:
    flags = {
        "full": ["full-precision-reference", "theorem-silent"],
        "a": ["theorem-silent", "not-converged"],
        "b": ["not-converged"],
    }
    words = summarize(analysis({"full": 0.03, "a": 0.02, "b": 0.01}, flags=flags))
    assert (
        "Read `a` and `b` with doubt (`not-converged`): their loss still fell at the last "
        "checkpoint, and their places in the ranking say little."
    ) in words
    assert sum("n_train·r is not well above 1" in sentence for sentence in words) == 1
    assert (
        "`full` is a reference, though its r is the largest: the theorem speaks of small discrete sets of models, "
        "not of full precision."
    ) in words


@pytest.mark.parametrize(
    ("agreement", "words"),
    [
        (Agreement("loss attack AUC", -0.8, -0.95, -0.3, 9), "agrees with the order by r"),
        (Agreement("loss attack AUC", 0.8, 0.3, 0.95, 9), "contradicts the order by r"),
        (
            Agreement("loss attack AUC", -0.8, -0.95, 0.1, 9),
            "neither confirms nor contradicts the order by r",
        ),
        (Agreement("loss attack AUC", -0.8), "neither confirms nor contradicts the order by r"),
        (Agreement("baseline MIS", 0.8, 0.3, 0.95, 9), "agrees with the order by r"),
    ],
)
def test_a_cross_check_is_read_in_its_own_direction(agreement: Agreement, words: str) -> None:
    made = analysis({"a": 0.02, "b": 0.01}, agreement=(agreement,))
    assert words in summarize(made)[-1]


def test_an_agreement_that_could_not_be_computed_says_so() -> None:
    made = analysis({"a": 0.02, "b": 0.01}, agreement=(Agreement("loss attack AUC", None),))
    assert summarize(made)[-1] == "Whether r agrees with the loss attack AUC could not be computed."


def test_runs_needed_are_said_where_known() -> None:
    made = analysis({"a": 0.02, "b": 0.01}, stability=Stability(runs_needed={"0.9": 40, "0.95": None}))
    words = summarize(made)
    assert "About 40 runs make two disjoint halves agree at a Spearman correlation of 0.9." in words
    assert (
        "No number of runs tried made two disjoint halves agree at a Spearman correlation of 0.95." in words
    )


def test_the_docs_say_what_each_doubt_voids() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reading.md").read_text()
    rows = page.partition("## What a doubt voids")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z-]+)` \| .+ \|$", rows, flags=re.MULTILINE) == list(DOUBTS)


def test_names_cannot_break_out_of_their_backticks() -> None:
    name = "x` is ahead of everything `\n" + "y" * 10_000
    sentence = headline(analysis({name: 0.02, "b": 0.01}))
    assert sentence.count("`") == 4
    assert "\n" not in sentence
    assert len(sentence) < 250


def attacked(values: dict[str, float], resolvable: bool = True) -> Analysis:
    """Three variants, two attacks; the first is the strongest."""
    rows = tuple(
        Attack(name, attack, "tpr@0.01", v / n, v / n - 0.01, v / n + 0.01, more={"resolvable": resolvable})
        for n, attack in enumerate(("lira", "loss"), 1)
        for name, v in values.items()
    )
    curves = tuple(RocCurve("full", attack, (0.1, 1.0), (0.2, 1.0), 0.1) for attack in ("lira", "loss"))
    pairs = (
        Paired("sign", "full", "lira", "auc", -0.2, -0.3, -0.1, "less"),
        Paired("sign", "full", "lira", "tpr@0.01", -0.2, -0.3, -0.1, "less"),
        Paired("u4", "full", "lira", "tpr@0.01", 0.0, -0.1, 0.1, "not told apart"),
    )
    flags = {"full": ["full-precision-reference"]}
    r: dict[str, float | None] = {"sign": 0.03, "u4": 0.02, "full": 0.01}
    return analysis(r, flags=flags, attacks=rows, roc=curves, paired=pairs)


def test_what_the_strongest_attack_finds_is_said() -> None:
    said = summarize(attacked({"sign": 0.05, "u4": 0.2, "full": 0.21}))
    found = (
        f"At a false positive rate of 1{NBSP}%, the strongest attack (`lira`) finds 21.0{NBSP}% (20.0{NBSP}% to "
        f"22.0{NBSP}%) of the members of `full`, and from 5.0{NBSP}% of those of `sign` to 20.0{NBSP}% of those "
        "of `u4`."
    )
    compared = (
        "Compared with `full` on the same records, `sign` leaks less and `u4` is not told apart from it."
    )
    assert found in said
    assert compared in said
    assert not any("strongest" in each for each in summarize(attacked({"full": 0.2}, resolvable=False)))


def test_many_cross_checks_are_one_sentence() -> None:
    rows = [Agreement(f"a{i} attack AUC", -0.8, -0.9, -0.7) for i in range(3)]
    rows += [Agreement("b attack AUC", 0.8, 0.7, 0.9), Agreement("c attack AUC", None)]
    said = summarize(analysis({"a": 0.1, "b": 0.05}, agreement=tuple(rows)))
    wanted = "3 agree with the order by r, 1 contradicts it and 1 neither confirms nor contradicts it."
    assert f"Of 5 figures of attacks, {wanted}" in said
    assert not any(each.startswith("As a cross-check") for each in said)
