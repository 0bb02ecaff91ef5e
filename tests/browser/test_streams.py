"""The pages of streams in Chromium: what an operator sees, with a keyboard, on a phone, in the dark, and when
the server is away."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from sluice.config.streams import Declared
from sluice.supervision.rules.status import Health, HealthReport
from sluice.web.app import REFRESH_SECONDS
from sluice.web.data.airflow_db import OpenApproval
from tests.support import browser as browsers
from tests.support import observed, pages
from tests.support.airflow_server import Airflow
from tests.support.browser import PHONE, OpenPage, Watch
from tests.support.pages import HOSTILE, STREAM, Made, Server

WORST = "a stream that flaps"


@pytest.fixture
def made() -> Made:
    """Streams in each state; names and messages try to be more than text."""
    made, now = pages.make_app(), time.time()
    specs = [
        pages.spec(),
        replace(pages.spec(), name="rides", title=WORST),
        replace(pages.spec(), name="off"),
    ]
    made.declared = Declared(specs, {"broken": f"broken/stream.toml: unknown key {HOSTILE[0]}"})
    made.airflow = observed.airflow(specs, now)
    made.airflow.checks["off"] = replace(made.airflow.checks["off"], paused=True)
    made.observed.lives |= observed.streams(specs, now).lives
    flapping = HealthReport(Health.FLAPPING, f"{HOSTILE[0]} {HOSTILE[6]} restarted 3 times")
    made.observed.lives["rides", "consumer"] = observed.consumer(specs[1], now, report=flapping, lag=50_000)
    made.observed.lives["rides", "queries"] = observed.component(
        specs[1], "queries", now, Health.SUSPENDED, suspended=f"by {HOSTILE[4]} since 2026: a new disk"
    )
    approval = OpenApproval("rides_change", "r 1", "approve_change", HOSTILE[1], now - 60, (HOSTILE[4],))
    made.airflow = replace(made.airflow, approvals=[approval])
    made.past = [
        ("consumer", observed.event("health", now - 60, health="flapping", message=HOSTILE[2])),
        ("consumer", observed.event("restart", now - 90, who="schedule", reason="it is down")),
    ]
    made.logs["consumer"] = [f"{n} {HOSTILE[0]}" for n in range(15)]
    return made


@pytest.fixture
def address(server: Server, made: Made) -> str:
    server.app = made.app
    return f"{server.address}/streams"


def test_the_worst_first_and_the_way_out(watch: Watch, address: str) -> None:
    page = watch.page
    page.goto(address)
    titles = page.locator("section.stream h2").all_text_contents()
    assert titles[0] == WORST
    card = page.locator("section.stream").first
    expect(card.locator(".pill").first).to_have_text("flapping")
    expect(card).to_contain_text(HOSTILE[0])
    expect(card).to_contain_text("trigger rides_stream with action restart")
    expect(page.locator("#waiting")).to_contain_text(HOSTILE[1].strip())
    expect(page.locator("#waiting")).to_contain_text("Restart or stop the consumer of rides")
    expect(page.locator("#invalid-broken")).to_contain_text("unknown key")
    assert page.evaluate("window.hit") is None
    browsers.expect_readable(page)
    browsers.screenshot(page, "streams-light")
    page.emulate_media(color_scheme="dark")
    expect(page.locator("body")).to_have_css("background-color", "rgb(14, 17, 22)")
    browsers.expect_readable(page)
    browsers.screenshot(page, "streams-dark")

    page.get_by_role("link", name=WORST).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(WORST)
    assert page.url.endswith("/streams/rides")
    expect(page.locator("#charts polyline")).to_have_count(2)
    assert page.evaluate("window.hit") is None
    browsers.expect_readable(page)
    browsers.screenshot(page, "stream-dark")


def test_it_follows_what_is_observed_and_tells_a_screen_reader(
    watch: Watch, made: Made, address: str
) -> None:
    page = watch.page
    page.goto(f"{address}/{STREAM}")
    details = page.locator("#log-consumer")
    details.locator("summary").click()
    expect(details).to_have_attribute("open", "")
    consumer = page.locator("#components tbody tr").first
    expect(consumer.locator(".pill")).to_have_text("healthy")
    now = time.time()
    made.observed.lives[STREAM, "consumer"] = observed.consumer(
        pages.spec(), now, Health.DATA_AT_RISK, lag=777
    )
    browsers.refresh(page, REFRESH_SECONDS)
    expect(consumer.locator(".pill")).to_have_text("data at risk")
    expect(consumer.locator("[data-label=Lag]")).to_have_text("777")
    expect(page.locator("#announcer")).to_have_text("Now: data at risk")
    # What the reader opened stays open, and so does the focus.
    expect(page.locator("#log-consumer")).to_have_attribute("open", "")


def test_times_are_in_the_readers_zone(open_page: OpenPage, address: str) -> None:
    page = open_page(timezone="Asia/Kolkata")
    page.goto(f"{address}/{STREAM}")
    shown = page.locator("#batches time").first
    label = shown.get_attribute("aria-label") or ""
    assert label.endswith(("Asia/Kolkata", "Asia/Calcutta"))
    assert (shown.get_attribute("title") or "").endswith(" UTC")


def test_a_server_that_is_away_is_said_to_be(watch: Watch, address: str) -> None:
    page = watch.page
    page.goto(address)
    page.route("**/streams", lambda route: route.abort())
    browsers.refresh(page, REFRESH_SECONDS)
    expect(page.locator("#error")).to_contain_text("could not be updated")
    expect(page.locator("#freshness")).to_have_attribute("data-state", "failing")
    page.unroute_all()
    browsers.refresh(page, REFRESH_SECONDS)
    expect(page.locator("#error")).to_be_hidden()
    expect(page.locator("#freshness")).to_have_attribute("data-state", "live")


@pytest.mark.parametrize("path", ["", "/rides"])
def test_on_a_phone_nothing_is_cut_off(watch: Watch, address: str, path: str) -> None:
    page = watch.page
    page.set_viewport_size(PHONE)
    page.goto(f"{address}{path}")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    # Each row is a card, with the column's name beside each value.
    label = page.locator("td[data-label=Lag]").first
    assert label.evaluate("(cell) => getComputedStyle(cell, '::before').content") == '"Lag"'
    browsers.expect_readable(page)
    browsers.screenshot(page, f"streams-phone{path.replace('/', '-')}")


def test_by_keyboard(watch: Watch, address: str) -> None:
    page = watch.page
    page.goto(f"{address}/rides")
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim().slice(0, 60)"))
        if any("last lines of its log" in text for text in reached):
            break
    for wanted in ("All streams", "Restart, stop or start", "Running queries"):
        assert any(text.startswith(wanted) for text in reached), wanted
    page.keyboard.press("Enter")
    expect(page.locator("details[open]")).to_have_count(1)


def test_without_scripts_the_page_is_the_same(watch: Watch, address: str) -> None:
    """The server renders it whole: what a script adds is that it stays new."""
    page: Page = watch.page
    page.route("**/*.js", lambda route: route.abort())
    page.goto(address)
    expect(page.locator("section.stream h2").first).to_have_text(WORST)
    expect(page.locator("#freshness-text")).to_contain_text("as of ")


def test_it_is_the_first_page_of_the_navigation(airflow: Airflow, open_page: OpenPage) -> None:
    page = open_page()
    browsers.log_in(page, airflow.address, "viewer", airflow.passwords["viewer"])
    page.get_by_role("link", name="Streams", exact=True).click()
    frame = page.frame_locator("iframe[title='Streams']")
    expect(frame.get_by_role("heading", level=1)).to_have_text("Streams")
    expect(frame.locator("section.stream").first).to_be_visible()
    browsers.screenshot(page, "streams-in-airflow")
    # Two clicks from the navigation: the stream's page, in the frame; a DAG, in the whole window.
    frame.get_by_role("link", name="NYC taxi").click()
    expect(frame.get_by_role("heading", level=1)).to_have_text("NYC taxi")
    frame.get_by_role("link", name="Restart, stop or start").click()
    page.wait_for_url("**/dags/nyc_taxi_stream")
