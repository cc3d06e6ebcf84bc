"""The page in a real browser: quiet, offline, narrow, readable by all, and on paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.report.conftest import CASES

CHROMIUM = Path("/usr/bin/chromium")
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Debian's Chromium"),
    # Playwright leaves its event loop's sockets to the interpreter's last collection.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(CHROMIUM), args=SWITCHES)
        yield running
        running.close()


@pytest.fixture(scope="module")
def folder(pages: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pages")
    for name, page in pages.items():
        (place / f"{name}.html").write_text(page, "utf-8")
    return place


class Visit:
    """An open page and everything it complained of or asked for."""

    def __init__(self, browser: Any, file: Path, width: int, scheme: str) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.noise: list[str] = []
        self.page.on("console", lambda message: self.noise.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.noise.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.noise.append(f"dialog: {dialog.message}"))
        self.page.on("request", self._asked)
        self.url = file.as_uri()
        self.page.goto(self.url)

    def _asked(self, request: Any) -> None:
        if request.url != self.url:
            self.noise.append(f"request: {request.url[:100]}")

    def open_everything(self) -> None:
        self.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")

    def widths(self) -> tuple[int, int]:
        shown = self.page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        return shown[0], shown[1]


@pytest.fixture
def visit(browser: Any, folder: Path) -> Iterator[Any]:
    opened: list[Visit] = []

    def open_page(name: str, width: int = 1280, scheme: str = "light") -> Visit:
        opened.append(Visit(browser, folder / f"{name}.html", width, scheme))
        return opened[-1]

    yield open_page
    for each in opened:
        each.context.close()


@pytest.mark.parametrize("name", list(CASES))
def test_quiet_offline_and_never_wider_than_the_screen(name: str, visit: Any) -> None:
    for width in (320, 360, 640, 768, 1280):
        seen = visit(name, width)
        assert seen.widths() == (width, width)
        seen.open_everything()
        assert seen.widths() == (width, width)
        assert seen.noise == []
    assert seen.page.title().endswith("· discreet")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", list(CASES))
def test_axe_finds_no_violation(name: str, scheme: str, visit: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    rules = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}
    for width in (360, 1280):
        seen = visit(name, width, scheme)
        seen.open_everything()
        found = axe.run(seen.page, options=rules).response["violations"]
        assert [(rule["id"], [node["html"][:200] for node in rule["nodes"][:3]]) for rule in found] == []


def test_the_scheme_of_the_reader_is_followed(visit: Any) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    letters = "getComputedStyle(document.querySelector('svg.wide text')).fill"
    light, dark = visit("ranking-only"), visit("ranking-only", scheme="dark")
    assert light.page.evaluate(paper) == "rgb(255, 255, 255)"
    assert dark.page.evaluate(paper) == "rgb(17, 22, 27)"
    assert light.page.evaluate(letters) != dark.page.evaluate(letters)


def test_the_drawing_that_fits_is_the_one_shown(visit: Any) -> None:
    seen = """[...document.querySelectorAll('svg')]
        .filter(svg => svg.getBoundingClientRect().width > 0).map(svg => svg.classList[0])"""
    assert visit("ranking-only", 1280).page.evaluate(seen) == ["wide"]
    assert visit("ranking-only", 360).page.evaluate(seen) == ["narrow"]


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", ["realistic", "hostile", "extremes"])
def test_no_letter_leaves_its_drawing(name: str, width: int, visit: Any) -> None:
    seen = visit(name, width)
    seen.open_everything()
    outside = seen.page.evaluate(
        """[...document.querySelectorAll('svg')].flatMap(svg => {
            const box = svg.getBoundingClientRect();
            return box.width === 0 ? [] : [...svg.querySelectorAll('text')].filter(text => {
                const t = text.getBoundingClientRect();
                return t.left < box.left - 2 || t.right > box.right + 2
                    || t.top < box.top - 2 || t.bottom > box.bottom + 2;
            }).map(text => text.textContent);
        })"""
    )
    assert outside == []


def test_tables_scroll_within_themselves_and_can_be_reached_by_keyboard(visit: Any) -> None:
    seen = visit("realistic", 360)
    first = seen.page.locator("[role=region]").nth(1)
    first.focus()
    before = first.evaluate("e => e.scrollLeft")
    assert first.evaluate("e => e.scrollWidth > e.clientWidth")
    seen.page.keyboard.press("ArrowRight")
    seen.page.wait_for_function("e => e.scrollLeft > 0", arg=first.element_handle())
    assert before == 0


def test_details_open_by_keyboard(visit: Any) -> None:
    seen = visit("ranking-only")
    seen.page.locator("summary").first.focus()
    seen.page.keyboard.press("Enter")
    assert seen.page.locator("details").first.evaluate("e => e.open")


@pytest.mark.parametrize("name", ["realistic", "hostile"])
def test_it_prints(name: str, visit: Any, tmp_path: Path) -> None:
    seen = visit(name, scheme="dark")
    pdf = seen.page.pdf(path=str(tmp_path / "page.pdf"), format="A4")
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 20_000
    seen.page.emulate_media(media="print", color_scheme="dark")
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert seen.page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    shown = "[...document.querySelectorAll('#ranking svg')].map(s => getComputedStyle(s).display)"
    assert seen.page.evaluate(shown) == ["block", "none"]
