"""The page of a compression: it shows what it is given, claims no more, and escapes."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from discreet.report.compressed import compressed
from discreet.report.compressed_figures import Track


def estimate(value: float, half: float = 0.02) -> dict[str, Any]:
    return {"value": value, "low": value - half, "high": value + half, "n": 3, "level": 0.95, "method": ""}


def unit(part: str, method: str, task: float, mia: float, density: float = 0.1) -> dict[str, Any]:
    audit = {
        "task": estimate(task),
        "mia": estimate(mia),
        "tm": estimate(task / mia),
        "auc": estimate(mia),
        "attacks": {"modified": estimate(mia), "loss": estimate(mia - 0.01)},
        "tpr": {"0.1": estimate(0.2), "0.01": estimate(0.03)},
    }
    points = [
        {
            "run": run,
            "epoch": epoch,
            "loss": 2 / epoch + 0.1 * run,
            "task": estimate(0.4 + epoch / 100),
            "leak": estimate(0.5 + epoch / 200),
            "metric": "accuracy",
        }
        for epoch in (2, 4, 8)
        for run in (0, 1)
    ]
    return {
        "part": part,
        "method": method,
        "density": density,
        "epochs": 8.0,
        "spent": 12.0,
        "parameters": 1000,
        "parameters_full": 1000,
        "used": 110,
        "notes": [],
        "epsilon": None,
        "audit": audit,
        "history": {"points": points} if "safecompress" in method else {},
        "beside": {"mia": estimate(0.6 - mia), "task": estimate(0.7 - task)} if part != "method" else {},
    }


def told() -> dict[str, Any]:
    files = [
        {"form": "sparse container", "name": "model.sparse.safetensors", "bytes": 37393, "same": True,
         "audit": unit("", "", 0.7, 0.6)["audit"] | {"train": estimate(0.9)}},
        {"form": "ONNX", "name": "model.onnx", "bytes": 300000, "same": False, "difference": 1e-7,
         "audit": {"task": estimate(0.7)}},
        {"form": "masks", "name": "masks.safetensors", "bytes": 1000},
    ]  # fmt: skip
    weights = {
        "maskable": 900,
        "used": 90,
        "parameters": 1000,
        "dead": {"0.weight": 3},
        "removed": 4,
        "narrow": [2, 3],
    }
    return {
        "spec": {"compress": {"runs": 3, "method": "safecompress"}, "data": {"load": "<b>&own:data"}},
        "data": {"source": "made", "samples": 100},
        "roles": {"fit": 40},
        "audit": ["modified", "loss"],
        "units": [
            unit("method", "safecompress(rule='tm', test='basket(x=(1, 2))')+re1(beta=0.1)", 0.7, 0.6),
            unit("random", "safecompress(rule='random')+re1(beta=0.1)", 0.69, 0.6),
            unit("control", "dense", 0.7, 0.8),
            unit("ladder", "safecompress(rule='tm', test='basket(x=(1, 2))')+re1(beta=0.1)", 0.72, 0.65, 0.2),
        ],
        "left": [],
        "shipped": {"files": files, "weights": weights, "notes": ["ONNX was <left> out"]},
        "notes": [],
    }


SPEED = {
    "latency": [
        {"form": "dense", "batch": 1, "seconds": {"value": 1e-4, "low": 9e-5, "high": 2e-4, "n": 21},
         "faster": {"value": 1.0, "low": 1.0, "high": 1.0, "n": 21}},
        {"form": "ONNX Runtime", "batch": 1, "seconds": {"value": 5e-5, "low": None, "high": None, "n": 3},
         "faster": {"value": 2.0, "low": 1.5, "high": 2.5, "n": 21}},
    ],
    "swaps": [{"layer": "0", "density": 0.1, "kept": False,
               "faster": {"1": {"value": 0.6, "low": 0.5, "high": 0.7, "n": 21}}}],
}  # fmt: skip


def words(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_the_page_shows_what_it_is_given() -> None:
    page = compressed(told(), SPEED)
    assert page == compressed(told(), SPEED)
    text = words(page)
    assert "Beside dense its attack accuracy is lower by 0.200 (0.180 to 0.220)" in text
    assert "its task performance not told apart (−0.0200 to 0.0200)" in text
    assert "safecompress+re1, picked at random" in text
    assert "37,393" in text
    assert "Audit of model.sparse.safetensors, reloaded" in text
    assert "its TPR at 0.01 FPR 0.0300 (0.0100 to 0.0500)" in text
    assert "within 10⁻⁷" in text or "within 1.00 × 10⁻⁷" in text
    assert "Without units that do nothing (4)" in text
    assert "Skipping the zeros of linear layers is not 1.1 times faster here" in text
    assert "none on this page has: stronger attacks than these may exist" in text
    for heading in (
        "What ships",
        "Beside its controls",
        "The course of the training",
        "Other densities",
        "Speed",
    ):
        assert heading in text


def test_candidates_that_are_all_equal_are_told() -> None:
    given = told()
    rounds = [
        {"difference": difference, "distinct": many}
        for difference, many in ((True, 4), (False, 2), (False, 1))
    ]
    given["units"][0]["history"]["rounds"] = rounds
    said = "In 2 of 3 choices it found no difference between candidates (in 1 all candidates were the same)."
    assert said in words(compressed(given, SPEED))
    given["units"][0]["history"]["rounds"] = rounds[:1]
    assert "no difference" not in words(compressed(given, SPEED))


def test_lots_are_not_said_to_find_no_difference() -> None:
    given = told()
    given["units"][0]["method"] = "safecompress(rule='random', test='basket')+re1(beta=0.1)"
    given["units"][0]["history"]["rounds"] = [{"difference": False, "distinct": 4}]
    assert "no difference" not in words(compressed(given, SPEED))


def test_a_guarantee_is_told_for_each_method_that_has_one() -> None:
    given = told()
    assert "ε = " not in words(compressed(given, SPEED))
    given["units"][2] |= {"method": "static+dpsgd(noise=0.6)", "epsilon": [41.21, 1e-5]}
    text = words(compressed(given, SPEED))
    assert "static+dpsgd: ε = 41.3 at δ = 1e-5, only against those who do not know the seed" in text
    assert "Its training was differentially private" not in text
    given["units"][0]["epsilon"] = [3.0, 1e-6]
    assert (
        "Its training was differentially private: ε = 3.00 at δ = 1e-6, only against those who do"
        in words(compressed(given, SPEED))
    )


def test_a_ratio_that_is_not_defined_is_left_out_and_the_page_says_why() -> None:
    given = told()
    assert "Task / attack is left out" not in words(compressed(given, SPEED))
    for unit in given["units"]:
        unit["audit"]["tm"] = None
    assert "Task / attack is left out where a performance is below 0" in words(compressed(given, SPEED))


def test_the_page_is_sound_and_escapes() -> None:
    page = compressed(told(), SPEED)
    assert "<script" not in page
    assert "<b>" not in page
    assert "ONNX was &lt;left&gt; out" in page
    body = page[page.index("<body") : page.index("</body>") + 7].replace("&nbsp;", " ")
    body = re.sub(r"<(meta|br|col)([^>]*)>", r"<\1\2/>", body).replace(" open>", ">")
    tree = ElementTree.fromstring(body)
    ids = [each.get("id") for each in tree.iter() if each.get("id")]
    assert len(ids) == len(set(ids))
    links = [each.get("href", "")[1:] for each in tree.iter("a")]
    assert set(links) <= set(ids)
    assert all(each.get("role") == "img" for each in tree.iter("svg"))


def test_what_is_not_there_is_not_shown() -> None:
    short = told()
    short["units"] = [copy.deepcopy(short["units"][2])]
    short["units"][0]["part"], short["shipped"] = "method", None
    short["units"][0]["beside"] = {}
    text = words(compressed(short))
    for heading in ("The course of the training", "Other densities", "Speed on this machine"):
        assert heading not in text
    one = told()
    for each in one["units"]:
        each["beside"] = {}
    assert "There is one run: what differs from its controls may be chance." in words(compressed(one))


def test_a_track_takes_means_and_ranges_over_runs() -> None:
    points = told()["units"][0]["history"]["points"]
    track = Track.of(points)
    assert track is not None
    assert track.epochs == (2, 4, 8)
    assert [round(value, 6) for value in track.values["loss on members"]] == [1.05, 0.55, 0.3]
    assert (track.low["loss on members"][0], track.high["loss on members"][0]) == (1.0, 1.1)
    assert Track.of([]) is None
    assert Track.of([{**point, "metric": "mae"} for point in points]) is None


CHROMIUM = Path("/usr/bin/chromium")


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Debian's Chromium")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_page_is_quiet_narrow_and_accessible(tmp_path: Path) -> None:
    api = pytest.importorskip("playwright.sync_api")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    (tmp_path / "page.html").write_text(compressed(told(), SPEED), "utf-8")
    with api.sync_playwright() as playwright:
        switches = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=switches)
        noise: list[str] = []
        for width, scheme in ((375, "light"), (1000, "dark")):
            page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
            page.on("console", lambda message: noise.append(message.text))
            page.goto((tmp_path / "page.html").as_uri())
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            wide = page.evaluate(
                "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
            )
            assert wide[0] <= wide[1]
            assert not noise
            found = axe.Axe().run(page)
            assert not found.response["violations"], found.generate_report()
        browser.close()
