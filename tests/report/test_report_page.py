from __future__ import annotations

import doctest
import importlib
import itertools
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.report.conftest import CASES, HOSTILE, analysis_json, audit_json, ranked

from discreet.audit import Audit
from discreet.report import render, write
from discreet.report.forest import groups
from discreet.report.markup import Markup, join, node, prose
from discreet.report.page import sections, views
from discreet.report.performance import pareto
from discreet.report.scale import RScale
from discreet.report.view import View, short_names, thin

EVERY = pytest.mark.parametrize("name", list(CASES))
VOID = {"meta", "br", "col"}


class Tree(HTMLParser):
    """Elements with their attributes and text; complains where tags do not match."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[tuple[str, str]] = []
        self.feed(page)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append((self.open[-1] if self.open else "", data))

    def values(self, attribute: str) -> list[str]:
        return [attrs[attribute] or "" for _, attrs in self.elements if attribute in attrs]

    def words(self, *skip: str) -> str:
        return " ".join(text for tag, text in self.text if tag not in ("style", *skip))


@EVERY
def test_the_page_is_well_formed_and_small(name: str, pages: dict[str, str]) -> None:
    page = pages[name]
    tree = Tree(page)
    assert page.startswith("<!doctype html>\n")
    assert len(page.encode("utf-8")) < 6_000_000
    ids = tree.values("id")
    assert len(ids) == len(set(ids))
    for target in tree.values("href"):
        assert target.startswith("#")
        assert target[1:] in ids
    for targets in tree.values("aria-labelledby"):
        assert set(targets.split()) <= set(ids)
    for target in re.findall(r"url\(#([^)]+)\)", " ".join(tree.values("clip-path") + tree.values("style"))):
        assert target in ids


@EVERY
def test_nothing_runs_and_nothing_is_fetched(name: str, pages: dict[str, str]) -> None:
    tree = Tree(pages[name])
    tags = {tag for tag, _ in tree.elements}
    foreign = {"script", "link", "img", "iframe", "object", "embed", "base", "form", "image", "foreignobject"}
    assert not tags & foreign
    attributes = {key for _, attrs in tree.elements for key in attrs}
    assert not attributes & {"src", "srcset", "xlink:href", "action", "data", "background"}
    assert not {key for key in attributes if key.startswith("on")}
    (style,) = [text for tag, text in tree.text if tag == "style"]
    assert "@import" not in style
    assert "url(" not in style
    assert [tag for tag, _ in tree.elements].count("style") == 1


@EVERY
def test_no_number_reads_nan_or_none(name: str, pages: dict[str, str]) -> None:
    words = Tree(pages[name]).words()
    assert not re.search(r"\b(nan|NaN|inf|None|True|False)\b", words)


@EVERY
def test_every_figure_has_words_and_a_table(name: str, pages: dict[str, str]) -> None:
    page = pages[name]
    figures = re.findall(r"<figure>.*?</figure>(.*?)</details>", page, re.DOTALL)
    assert page.count("<figure>") == len(figures)
    assert all("<summary>Data of this figure</summary>" in after and "<table>" in after for after in figures)
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == 2 * len(figures)
    for drawing in drawings:
        assert 'role="img"' in drawing
        assert re.search(r"<title id=[^>]+>[^<]+</title><desc id=[^>]+>[^<]{20,}</desc>", drawing)


@pytest.mark.parametrize("name", ["ranking-only", "extremes"])
def test_the_same_audit_gives_the_same_bytes(
    name: str, audits: dict[str, Audit], pages: dict[str, str]
) -> None:
    assert render(Audit.from_json(audits[name].to_json())) == pages[name]


def test_bytes_depend_on_no_process_nor_on_the_users_settings(tmp_path: Path) -> None:
    settings = "font.size: 30\nfont.weight: bold\nlines.solid_joinstyle: bevel\nsvg.fonttype: path\n"
    (tmp_path / "matplotlibrc").write_text(settings)
    Audit.from_json(CASES["ranking-only"]()).save(tmp_path / "audit.json")
    code = (
        "from discreet.audit import Audit; from discreet.report import render; import sys; "
        "sys.stdout.buffer.write(render(Audit.load('audit.json')).encode())"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True)
        for env in ({"PYTHONHASHSEED": "1", "LANG": "C"}, {"PYTHONHASHSEED": "2", "LANG": "C.UTF-8"})
    ]
    wanted = render(Audit.load(tmp_path / "audit.json")).encode()
    assert [run.stdout == wanted for run in runs] == [True, True], runs[0].stderr


def test_the_headline_comes_first_and_the_parts_in_order(
    pages: dict[str, str], audits: dict[str, Audit]
) -> None:
    page = pages["realistic"]
    wanted = [
        "ranking",
        "performance",
        "attacks",
        "curves",
        "lambda",
        "stability",
        "pairs",
        "storage",
        "diagnostics",
    ]
    wanted += ["analyses", "provenance", "reading"]
    assert re.findall(r'<section id="([a-z]+)"', page) == wanted
    assert str(prose(audits["realistic"].summary[0])) in page[: page.index("<svg")]
    for sentence in audits["realistic"].summary:
        assert str(prose(sentence)) in page
    assert page.count('<details class="analysis">') == 2


def test_a_ranking_alone_shows_only_what_it_has(pages: dict[str, str]) -> None:
    page = pages["ranking-only"]
    assert re.findall(r'<section id="([a-z]+)"', page) == [
        "ranking",
        "pairs",
        "diagnostics",
        "provenance",
        "reading",
    ]
    assert page.count("<figure>") == 1


def test_names_cannot_leave_their_place(pages: dict[str, str]) -> None:
    tree = Tree(pages["hostile"])
    assert "alert(1)" in tree.words()
    assert "<script>" in tree.words()
    for text in (text for _, text in tree.text):
        assert not re.search("[\u202a-\u202e\x00-\x08\x0e-\x1f]", text)
    assert next(text for tag, text in tree.text if tag == "title").endswith("· discreet")


def test_a_long_name_is_shown_short_and_found_in_full_once(pages: dict[str, str]) -> None:
    page = pages["hostile"]
    for name in ("x" * 10_000, "x" * 9_999 + "y"):
        assert page.count(f">{name}<") >= 1
    details = page.index("Names that were shortened, in full")
    assert "x" * 9_999 + "y" in page[details:]
    longest = max(len(text) for tag, text in Tree(page).text if tag in ("code", "text", "th"))
    assert longest <= 90


def test_short_names_stay_unique() -> None:
    names = ["a" * 50 + str(i) + "b" * 50 for i in range(12)]
    short = short_names(names, 20)
    assert len(set(short.values())) == 12
    assert all(len(name) <= 22 for name in short.values())


def test_markup_escapes_all_but_markup() -> None:
    assert node("p", "<b>", join("&", node("i", '"')), title='"><x>', hidden=True, lang=None) == (
        '<p title="&quot;&gt;&lt;x&gt;" hidden>&lt;b&gt;&amp;<i>&quot;</i></p>'
    )
    assert node("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert prose("a ` b") == "a ` b"
    assert prose("`<x>` y") == "<code>&lt;x&gt;</code> y"
    assert isinstance(join("a"), Markup)


def test_numbers_in_tables_are_those_of_the_audit(pages: dict[str, str]) -> None:
    page = pages["realistic"]
    name = '<caption class="unseen"><span>Ranking of paper preset, every epoch</span></caption>'
    table = re.search(f"{name}.*?</table>", page, re.DOTALL)
    assert table
    rows = re.findall(r"<tr><th.*?</tr>", table.group(), re.DOTALL)[1:]
    cells = [re.sub(r"<[^>]+>", "|", row).strip("|") for row in rows]
    first = [cell for cell in cells[0].split("|") if cell]
    assert first == ["ternary(zeros=0.9)", "1", "0.0212", "0.0102 to 0.0348", "1 to 2", "none", "86.8"]
    second = [cell for cell in cells[1].split("|") if cell]
    assert second[:3] == ["sign", "2", "0.00940"]
    assert second[5] == "3, 4"


def view_of(*rows: dict[str, Any], apart: set[tuple[str, str]] = frozenset()) -> View:  # type: ignore[assignment]
    raw = analysis_json("x", {row["variant"]: 0.01 for row in rows})
    names = [row["variant"] for row in rows]
    pairs = [
        {"safer": a, "than": b, "probability": 0.9, "told_apart": (a, b) in apart}
        for a, b in itertools.combinations(names, 2)
    ]
    raw["ranking"] |= {"variants": list(rows), "pairwise": pairs}
    return views(Audit.from_json(audit_json(raw)))[0]


def four() -> list[dict[str, Any]]:
    return [ranked(name, 0.04 - 0.01 * i, i + 1, 4) for i, name in enumerate("abcd")]


@pytest.mark.parametrize(
    ("apart", "bars"),
    [
        (set(), [(0, 3)]),
        ({("a", "d")}, [(0, 2), (1, 3)]),
        ({("a", "b"), ("a", "c"), ("a", "d")}, [(1, 3)]),
        ({("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")}, [(0, 1), (2, 3)]),
        ({("b", "c")}, [(0, 1), (2, 3)]),
        ({(a, b) for a in "abc" for b in "bcd" if a < b}, []),
    ],
)
def test_a_bar_joins_neighbours_of_which_no_two_are_told_apart(
    apart: set[tuple[str, str]], bars: list[Any]
) -> None:
    assert groups(view_of(*four(), apart=apart)) == bars


def test_the_front_holds_what_no_other_beats_in_both() -> None:
    view = view_of(*four())
    values = {"a": 0.7, "b": 0.9, "c": 0.8, "d": 0.95}
    rows = view.analysis.performance
    changed = [type(row)(row.variant, "auroc", values[row.variant]) for row in rows]
    assert pareto(view, changed) == ["a", "b", "d"]
    losses = [type(row)(row.variant, "log-loss", values[row.variant]) for row in rows]
    assert pareto(view, losses) == ["a"]


def test_a_collapsed_variant_is_never_on_the_front() -> None:
    rows = four()
    rows[0]["diagnostics"] = ["worse-than-constant"]
    view = view_of(*rows)
    best = [type(row)(row.variant, "auroc", 0.99) for row in view.analysis.performance]
    assert pareto(view, best) == ["b"]
    page = render(Audit("t", (view.analysis,)))
    assert "no sign of safety" in page
    assert "A cross marks an r that says little" in page


def test_losses_far_apart_get_an_axis_each() -> None:
    raw = analysis_json("far", {"a": 0.04, "b": 0.03, "c": 0.02})
    words = "Each panel has its own vertical axis"
    assert words not in render(Audit.from_json(audit_json(raw)))
    far = next(curve for curve in raw["curves"] if curve["variant"] == "b" and curve["signal"] == "loss")
    far |= {key: [50 * value for value in far[key]] for key in ("mean", "low", "high")}
    assert words in render(Audit.from_json(audit_json(raw)))


def test_an_attacked_audit_says_what_was_found(pages: dict[str, str]) -> None:
    page = pages["attacked"]
    words = re.sub(r"\s+", " ", Tree(page).words())
    for heading in ("What attacks find", "Less than the original?", "Most exposed records", "Class by class"):
        assert f">{heading}</h2>" in page
        assert (
            page.count(f"{heading}</h2>") + page.count(f"{heading}</h4>") == 1
        )  # the second shares its variants
    assert page.count("Cross-check by attack") >= 2
    assert "not resolvable: needs 10,000 non-members" in words
    assert "the strongest attack, lira(mode='offline')" in words
    assert "leaks less" in words
    assert "5 of the first 20 found in every run that trained on them" in words
    assert words.count("8 of 8 runs") == 5 * 4
    assert "exposed.csv beside this page has every record" in words


def test_older_audits_keep_their_figure_of_the_loss_attack(pages: dict[str, str]) -> None:
    assert "AUC of the loss attack against r" in pages["realistic"]
    assert "What attacks find" not in pages["realistic"]
    assert "AUC of every attack against r" in pages["attacked"]


def test_an_unknown_diagnostic_is_shown_as_it_is(pages: dict[str, str]) -> None:
    assert "<strong>from-the-future</strong>" in pages["hostile"]


@pytest.mark.parametrize(
    ("bend", "top", "most", "wanted"),
    [
        (0.00123, 0.0376, 6, [0.0, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02]),
        (0.00123, 4e8, 6, [0.0, 0.01, 1.0, 100.0, 1e4, 1e6, 1e8]),
        (1.0, 1.08, 6, [0.0, 0.2, 0.5, 1.0]),
    ],
)
def test_ticks_are_round_and_apart(bend: float, top: float, most: int, wanted: list[float]) -> None:
    assert [tick for tick, _ in RScale(bend, top).ticks(most)] == pytest.approx(wanted)


def test_the_axis_bends_at_the_resolution_and_ends_where_the_numbers_do() -> None:
    rows = view_of(*four()).analysis.ranking.variants
    scale = RScale.of(rows)
    assert scale.bend == rows[0].resolution
    assert scale.top == pytest.approx(1.08 * max(row.high or 0 for row in rows))
    assert scale.place(None, 0.0) == 0.0
    assert scale.place(1e9, 0.0) == scale.top


def test_thinning_keeps_the_ends() -> None:
    kept = thin(1000, 120)
    assert (kept[0], kept[-1], len(set(kept))) == (0, 999, 120)


def test_long_trajectories_stay_small() -> None:
    raw = analysis_json("long", {f"v{i}": 0.01 + i / 1000 for i in range(4)})
    for curve in raw["curves"]:
        steps = list(range(2000))
        curve |= {
            "steps": steps,
            "mean": [1 / (1 + s) for s in steps],
            "low": [0.0] * 2000,
            "high": [2.0] * 2000,
        }
    for row in raw["lambda"]:
        row |= {"rank": list(range(2, 2000)), "median": [0.1] * 1998, "deciding": [1] + [0] * 1997}
    page = render(Audit.from_json(audit_json(raw)))
    assert len(page) < 1_500_000


def test_many_variants_stay_readable() -> None:
    values = {f"variant-{i:03}": 0.5 / (i + 1) for i in range(80)}
    raw = analysis_json("many", values)
    page = render(Audit.from_json(audit_json(raw | {"curves": raw["curves"][:60:2], "lambda": []})))
    assert "The first 60 of 80 variants are drawn." in page
    assert "The first 24 of 30 variants are drawn." in page
    assert "The first 2,000 of 3,160 pairs; the JSON file has the rest." in page
    assert len(page.encode()) < 6_000_000
    Tree(page)


def test_figures_are_written_as_files_too(tmp_path: Path, audits: dict[str, Audit]) -> None:
    audit = audits["one-variant"]
    written = write(audit, tmp_path / "report.html", tmp_path / "figures")
    names = [path.relative_to(tmp_path).as_posix() for path in written]
    stems = ["1-ranking", "1-curves-1", "1-curves-2", "1-lambda", "1-stability"]
    assert names == ["report.html", *(f"figures/{stem}.{kind}" for stem in stems for kind in ("svg", "png"))]
    assert (tmp_path / "report.html").read_text("utf-8") == render(audit)
    svg = (tmp_path / "figures/1-ranking.svg").read_text("utf-8")
    assert svg.startswith("<svg")
    assert 'xmlns="http://www.w3.org/2000/svg"' in svg
    assert "var(--" not in svg
    png = (tmp_path / "figures/1-ranking.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == 1600
    before = {path: path.read_bytes() for path in written}
    write(audit, tmp_path / "report.html", tmp_path / "figures", ("png", "svg"))
    assert {path: path.read_bytes() for path in written} == before


def test_an_unknown_format_is_refused_before_anything_is_written(
    tmp_path: Path, audits: dict[str, Audit]
) -> None:
    with pytest.raises(ValueError, match='formats: expected "svg" or "png", got \'pdf\''):
        write(audits["ranking-only"], tmp_path / "report.html", tmp_path / "figures", ("pdf",))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_named(tmp_path: Path, audits: dict[str, Audit]) -> None:
    with pytest.raises(FileNotFoundError, match=r"cannot write: No such file or directory: .*nowhere"):
        write(audits["ranking-only"], tmp_path / "nowhere" / "report.html")


def test_the_report_is_torch_free_and_lazy() -> None:
    code = (
        "import sys, discreet.report, discreet.audit, discreet.gate, discreet.summary; "
        "print([m for m in ('torch', 'matplotlib', 'scipy.stats') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_sections_have_unique_names(audits: dict[str, Audit]) -> None:
    for name in ("ranking-only", "one-variant"):
        found = [section.name for section in sections(views(audits[name])[0])]
        assert len(found) == len(set(found))


MODULES = (
    "_json", "_words", "audit", "gate", "requirement", "summary", "report.advice", "report.markup",
    "report.palette", "report.view",
)  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(f"discreet.{module}"))
    assert failed == 0


def test_hostile_names_are_all_there(pages: dict[str, str]) -> None:
    assert len(HOSTILE) == 9
    assert "(no name)" in pages["hostile"]
