"""The page of running queries in Chromium over made-up progress: what a reader sees, and what happens when it
changes."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

from sluice.clients.kafka.query_progress import ProgressSnapshot
from sluice.core.errors import Unreachable
from sluice.web.app import REFRESH_SECONDS
from tests.support import browser as browsers
from tests.support import pages
from tests.support.browser import Scheme, Watch
from tests.support.pages import HOSTILE, STREAM, Made, Server

WITH_STATE = ["rows", "duration", "state", "memory", "watermark", "late"]


@pytest.fixture
def made() -> Made:
    return pages.make_app(pages.make_results(time.time(), users=5))


@pytest.fixture
def address(server: Server, made: Made) -> str:
    server.app = made.app
    return f"{server.address}/queries/{STREAM}"


@pytest.fixture
def page(watch: Watch, address: str) -> Page:
    """The page on a desktop, with its first answer shown."""
    return look(watch.page, address)


def look(page: Page, address: str) -> Page:
    page.goto(address)
    expect(page.locator("#freshness")).to_have_attribute("data-state", "live")
    # The last picture of the last query that has one.
    expect(card(page, HOSTILE[0]).locator("[data-chart=duration] .point").first).to_be_attached()
    return page


def refresh(page: Page, made: Made) -> None:
    """The page asks again, and gets a new answer."""
    made.forget()
    browsers.refresh(page, REFRESH_SECONDS)


def card(page: Page, name: str) -> Locator:
    return page.locator(".card").filter(has=page.get_by_role("heading", name=name, exact=True))


def figures(found: Locator) -> dict[str, list[str]]:
    cells = "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    return {row[0]: row[1:] for row in found.locator("tbody tr").evaluate_all(cells)}


def test_every_query_with_its_pictures_figures_and_words(page: Page) -> None:
    names = page.locator(".card h2").all_text_contents()
    assert names == [STREAM, "windows", "rests", "down", HOSTILE[0], "new"]
    assert page.locator(".card .pill").all_text_contents() == [
        *("running", "running", "idle", "silent", "failed", "running")
    ]

    def charts(name: str) -> list[str]:
        ids = "figures => figures.map((figure) => figure.dataset.chart)"
        found: list[str] = card(page, name).locator("figure").evaluate_all(ids)
        return found

    assert charts(STREAM) == ["rows", "duration", "behind"]
    assert charts("windows") == WITH_STATE
    assert charts("rests") == ["rows", "duration"]
    assert charts("new") == []
    expect(card(page, "new").locator("table")).to_be_hidden()

    told = figures(card(page, "windows"))
    assert told["State, rows"] == ["72,340", "72,340"]
    assert told["State, memory"] == ["19.8 MB", "19.8 MB"]
    assert told["Late rows dropped"] == ["4", "1,080 in total"]
    assert told["Early rows left out"] == ["2", "540 in total"]
    assert re.fullmatch(r"\d+ min \d+ s|1\d min", told["lag"][0])
    assert re.fullmatch(r"\d+\.\d s", told["Duration"][0])
    assert told["Batch"][0] == "539"
    assert re.fullmatch(r"\d\d:\d\d:\d\d", told["ended"][0])
    assert told["walCommit"] == ["90 ms", "90 ms"]
    behind = figures(card(page, STREAM))
    assert (behind["Offset lag, maximum"], behind["minimum"]) == (["1,560", "1,960"], ["0", ""])
    assert "State, rows" not in behind

    for name, words in (
        ("windows", r"^Its newest batch ended \d+ .*ago\.$"),
        (
            "rests",
            r"^Nothing new to read; its newest batch ended 5\d min.* ago\. Last activity .* ago\.$",
        ),
        ("down", r"^No activity for 2\d min .*: its process is down, stuck or cannot write"),
        ("new", r"^It started \d+ .*ago; no batch has ended yet\.$"),
    ):
        expect(card(page, name).locator(".life")).to_have_text(re.compile(words))
    expect(card(page, "down").locator(".pill")).to_have_attribute("data-severity", "error")

    # Said for who does not see it, and shown under the pointer.
    picture = card(page, "windows").locator("[data-chart=state] .chart")
    label = picture.get_attribute("aria-label") or ""
    assert re.match(r"State, rows of windows over the last hours: newest 72,\d\d\d, maximum 72,340", label)
    parts = card(page, "windows").locator("[data-chart=duration] .key").all_text_contents()
    assert parts[:2] == ["addBatch", "queryPlanning"]
    rows = card(page, "windows").locator("[data-chart=rows]")
    rows.scroll_into_view_if_needed()
    box = rows.locator(".scatterlayer .trace .point").nth(60).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(rows.locator(".hoverlayer text").first).to_have_text(re.compile(r"input|processed"))


def test_hostile_words_are_text(page: Page, watch: Watch) -> None:
    expect(card(page, HOSTILE[0]).locator(".life")).to_have_text(
        re.compile(r"It failed \d+ min .*ago: </script>")
    )
    assert (
        page.locator("body :is(img, iframe, object, b, [onerror], #queries script, #queries a)").count() == 0
    )
    assert page.evaluate("window.hit") is None
    assert watch.dialogs == []


def test_it_refreshes_in_place_and_says_when_it_cannot(page: Page, made: Made) -> None:
    page.evaluate("window.same = document.querySelector('.card .scroll')")
    page.locator(".card .scroll").first.focus()
    now = time.time()
    more = pages.make_batches("rests", now, hours=0.1, late=lambda n, at: 3)
    queries = tuple(
        pages.past("rests", more) if query.query == "rests" else query
        for query in made.progress.past.queries[STREAM]
    )
    made.progress.past = ProgressSnapshot({STREAM: queries}, False, "2 malformed <b>records</b>")
    refresh(page, made)
    expect(card(page, "rests").locator(".pill")).to_have_text("running")
    assert figures(card(page, "rests"))["Batch"][0] == "17"
    expect(page.locator("#incomplete")).to_be_visible()
    expect(page.locator("#malformed")).to_have_text("2 malformed <b>records</b>")
    assert page.evaluate("window.same === document.activeElement")

    made.progress.error = Unreachable("query progress: Kafka is unavailable: no answer")
    refresh(page, made)
    expect(page.get_by_role("alert")).to_have_text(
        "Could not refresh: query progress: Kafka is unavailable: no answer."
        " The values below are the last known ones."
    )
    expect(card(page, "windows").locator(".pill")).to_have_text("running, as last known")
    made.progress.error = None
    made.progress.past = ProgressSnapshot({}, complete=False)
    refresh(page, made)
    expect(page.locator("#malformed")).to_be_hidden()
    expect(page.locator("#nothing")).to_be_hidden()
    made.progress.past = ProgressSnapshot({})
    refresh(page, made)
    expect(page.locator("#nothing")).to_be_visible()
    expect(page.locator(".card")).to_have_count(0)


def test_by_keyboard_to_another_page(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-current')") == "page"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Wikipedia: top editors")
    page.get_by_role("link", name="Running queries").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Running queries of {STREAM}")


def test_the_tables_are_there_where_the_pictures_library_is_not(watch: Watch, address: str) -> None:
    page = watch.page
    page.route("**/plotly.min.js*", lambda route: route.abort())
    page.goto(address)
    expect(page.locator("#no-chart")).to_be_visible()
    assert figures(card(page, "windows"))["State, rows"] == ["72,340", "72,340"]


@pytest.mark.parametrize(
    ("name", "size", "schemes"),
    [("desktop", browsers.DESKTOP, ("light", "dark")), ("phone", browsers.PHONE, ("dark", "light"))],
)
def test_it_fits_can_be_read_and_is_kept_as_a_picture(
    watch: Watch, address: str, name: str, size: ViewportSize, schemes: tuple[Scheme, Scheme]
) -> None:
    """In the system's colours, and when they change while the page is looked at."""
    page = watch.page
    page.set_viewport_size(size)
    for number, scheme in enumerate(schemes):
        page.emulate_media(color_scheme=scheme)
        if number == 0:
            look(page, address)
        browsers.expect_readable(page)
        assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
        browsers.screenshot(page, f"queries-{name}-{scheme}")
