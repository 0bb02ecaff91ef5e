"""The page in Chromium over made-up results: what a reader sees, can do, and must not have done to them."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest
from fastapi import HTTPException
from playwright.sync_api import Page, ViewportSize, expect

from sluice.clients.lake.results.table import Results
from sluice.config.streams import Declared
from sluice.core.errors import Missing, Unreachable
from sluice.supervision.observer.live import OBSERVER, Live
from sluice.supervision.rules.status import Health, HealthReport
from sluice.web.app import REFRESH_SECONDS, may_read
from tests.support import browser as browsers
from tests.support import observed, pages
from tests.support.browser import OpenPage, Scheme, Watch
from tests.support.pages import HOSTILE, QUERY, STREAM, Made, Server

TITLE = re.compile(r"^\d\d:\d\d–\d\d:\d\d$")
# The age is some seconds, or minutes on a machine that was held up.
AGE = re.compile(r"^(\d+ min )?\d+ s ago$")
GROUND: dict[Scheme, str] = {"light": "rgb(245, 246, 248)", "dark": "rgb(14, 17, 22)"}
NAMES = [
    "Citation bot",
    "Rosiestep",
    "Émile Zöla",
    "BHGbot",
    "Ser Amantio di Nicolao",
    "Юрий Петров",
    "InternetArchiveBot",
    "Lugnuts",
    "Ἀριστοτέλης",
    "DeltaBot",
]


@pytest.fixture
def made() -> Made:
    return pages.make_app(pages.make_results(time.time(), names=name_of))


@pytest.fixture
def address(server: Server, made: Made) -> str:
    server.app = made.app
    return f"{server.address}/results/{STREAM}.{QUERY}"


@pytest.fixture
def page(watch: Watch, address: str) -> Page:
    """The page on a desktop, with its first answer shown."""
    return look(watch.page, address)


def name_of(number: int) -> str:
    return NAMES[number] if number < len(NAMES) else f"Editor {number}"


def look(page: Page, address: str) -> Page:
    page.goto(address)
    expect(page.locator("#freshness")).to_have_attribute("data-state", "live")
    expect(page.locator("#chart .ytick").first).to_be_attached()
    expect(page.locator("#day .point").first).to_be_attached()
    return page


def refresh(page: Page, made: Made) -> None:
    """The page asks again, and gets a new answer."""
    made.forget()
    browsers.refresh(page, REFRESH_SECONDS)


def texts(page: Page, selector: str) -> list[str]:
    return page.locator(selector).all_text_contents()


# What it shows.


def test_figures_table_and_chart(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text("Wikipedia: top editors")
    expect(page.locator("#source")).to_have_text(AGE)
    expect(page.locator("#written")).to_have_text(AGE)
    expect(page.locator("#late")).to_have_text("1,437")
    expect(page.locator("#early")).to_have_text("12")
    expect(page.locator("#watermark")).to_have_text(re.compile(r"\d\d:\d\d:\d\d$"))
    expect(page.locator("#window-title")).to_have_text(TITLE)
    expect(page.locator("#window-sums")).to_have_text("6,116 edits by 500 users · still counting")
    assert texts(page, "#rows bdi") == NAMES
    assert texts(page, "#rows tr:first-child td") == ["1", "Citation bot", "bot", "400"]
    assert texts(page, "#rows tr:nth-child(8) td") == ["8", "Lugnuts", "person", "120"]
    assert [text.strip() for text in texts(page, "#chart .ytick text")] == NAMES
    assert sorted(texts(page, "#chart .bartext")) == sorted(texts(page, "#rows td:nth-child(4)"))
    expect(page.locator("#day .point")).to_have_count(2 * 144)


def test_health_and_the_last_check(page: Page, made: Made) -> None:
    expect(page.locator("#health")).to_have_text("stream: healthy")
    assert texts(page, "#components .component") == ["consumer", "producer", "queries"]
    assert texts(page, "#components .pill") == ["healthy", "idle", "idle"]
    expect(page.locator("#supervision")).to_have_text(
        re.compile(r"wiki_changes_stream\): last check .* s ago\.$")
    )

    made.observed.lives[STREAM, "producer"] = observed.component(
        pages.spec(),
        "producer",
        time.time(),
        report=HealthReport(Health.SOURCE_UNAVAILABLE, "the feed has not answered for 80 s"),
    )
    refresh(page, made)
    expect(page.locator("#health")).to_have_text("producer: source unavailable")
    expect(page.locator("#health")).to_have_attribute("data-severity", "error")
    expect(page.locator("#components")).to_contain_text("the feed has not answered for 80 s")

    made.check["paused"] = True
    refresh(page, made)
    expect(page.locator("#health")).to_have_text("producer: source unavailable")
    expect(page.locator("#supervision")).to_contain_text("is paused")


def test_health_that_cannot_be_read_is_red_and_the_rest_is_there(page: Page, made: Made) -> None:
    away = Live(errors={OBSERVER: "the observer does not answer"})
    made.observed.lives |= dict.fromkeys(made.observed.lives, away)
    refresh(page, made)
    expect(page.locator("#health")).to_have_text("stream: not observed yet, outdated")
    expect(page.locator("#health")).to_have_attribute("data-severity", "error")
    expect(page.locator("#components")).to_contain_text("the observer does not answer")
    expect(page.locator("#freshness")).to_have_attribute("data-state", "live")
    expect(page.locator("#rows tr")).to_have_count(10)


def test_before_anything_was_counted(watch: Watch, made: Made, address: str) -> None:
    counted = made.results.results
    made.results.results = Results()
    page = watch.page
    page.goto(address)
    expect(page.locator("#empty")).to_have_text("No edits counted yet.")
    expect(page.locator("#written")).to_have_text("none yet")
    expect(page.locator("#source")).to_have_text("none yet")
    expect(page.locator("#window-title")).to_have_text("No window")

    made.results.results = counted
    refresh(page, made)
    expect(page.locator("#rows tr")).to_have_count(10)
    expect(page.locator("#empty")).to_be_hidden()
    expect(page.locator("#chart .ytick")).to_have_count(10)


def test_before_there_is_a_table(watch: Watch, made: Made, address: str) -> None:
    made.results.error = Missing("table results.editors does not exist")
    page = watch.page
    page.goto(address)
    expect(page.locator("#error")).to_have_text("No results yet: table results.editors does not exist.")
    expect(page.locator("#freshness-text")).to_have_text("no data")
    expect(page.locator(".card").first).to_be_hidden()
    made.results.error = None
    refresh(page, made)
    expect(page.locator("#rows tr")).to_have_count(10)
    expect(page.locator("#error")).to_be_hidden()


def test_a_query_of_other_groups_without_kinds(watch: Watch, made: Made, address: str) -> None:
    made.declared = Declared([pages.with_page(pages.of_zipcodes())])
    made.results.results = pages.make_results(time.time(), names=name_of, has_kinds=False)
    windows = made.results.results.windows
    page = look(watch.page, address)
    expect(page.get_by_role("heading", level=1)).to_have_text("ISP: hits")
    expect(page.locator("#window-sums")).to_have_text("6,116 hits by 500 zipcodes · still counting")
    assert texts(page, "thead th") == ["#", "Zipcode", "Hits"]
    assert texts(page, "#rows tr:first-child td") == ["1", "Citation bot", "400"]
    assert [text.strip() for text in texts(page, "#chart .ytick text")] == NAMES
    expect(page.locator("#day .point")).to_have_count(144)
    expect(page.locator("#choose fieldset, .kind")).to_have_count(0)
    expect(page.get_by_label("Window", exact=True)).to_contain_text(" · 6,484 hits")

    page.locator("#day").scroll_into_view_if_needed()
    box = page.locator("#day .point").nth(30).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#day .hoverlayer text")).to_have_text(re.compile(r"–\d\d:\d\d: [\d,]+ hits$"))
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.get_by_label("Window", exact=True)).to_have_value(str(int(windows[30].start)))
    expect(page.locator("#window-sums")).to_contain_text("closed")
    page.reload()
    expect(page.get_by_label("Window", exact=True)).to_have_value(str(int(windows[30].start)))
    assert "whose" not in page.url


# Whose edits, of which window.


def test_a_past_window_and_only_bots(page: Page, made: Made) -> None:
    start, end = made.results.results.windows[30].start, made.results.results.windows[30].end
    page.get_by_label("Window", exact=True).select_option(str(int(start)))
    expect(page.locator("#window-sums")).to_contain_text("closed")
    hours = [time.strftime("%H:%M", time.gmtime(at)) for at in (start, end)]
    expect(page.locator("#window-title")).to_contain_text("–".join(hours))
    expect(page.locator("#announcer")).to_contain_text("edits by 500 users")

    page.get_by_text("Bots", exact=True).click()
    expect(page.locator("#rows tr:nth-child(2) bdi")).to_have_text("BHGbot")
    assert set(texts(page, "#rows .kind")) == {"bot"}
    expect(page.locator("#day .point")).to_have_count(144)

    # The choice outlives the refreshes, and loading the page again.
    with page.expect_response(re.compile(r"/api/results/.*whose=bots&window=")):
        refresh(page, made)
    expect(page.locator("#window-sums")).to_contain_text("closed")
    page.reload()
    expect(page.get_by_label("Window", exact=True)).to_have_value(str(int(start)))
    expect(page.get_by_label("Bots")).to_be_checked()
    expect(page.locator("#window-title")).to_contain_text("–".join(hours))


def test_a_window_that_left_the_table(page: Page, made: Made) -> None:
    last = str(int(made.results.results.windows[-1].start))
    page.get_by_label("Window", exact=True).select_option(last)
    expect(page.locator("#window-sums")).to_contain_text("closed")
    made.results.results = replace(made.results.results, windows=made.results.results.windows[:-1])
    refresh(page, made)
    expect(page.locator("#empty")).to_have_text("This window is no longer shown; choose another.")
    expect(page.get_by_label("Window", exact=True)).to_have_value(last)
    expect(page.locator("#both")).to_be_hidden()


def test_by_keyboard_alone(page: Page, made: Made) -> None:
    focused = lambda: page.evaluate("document.activeElement.id || document.activeElement.value")  # noqa: E731
    reached = []
    for _ in range(4):
        page.keyboard.press("Tab")
        reached.append(focused())
    # The button for newer windows has nowhere to go, so it is skipped.
    assert reached[:3] == ["older", "window", "all"]
    page.keyboard.press("Shift+Tab")
    if focused() != "window":
        page.keyboard.press("Shift+Tab")
    assert focused() == "window"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"

    before = page.locator("#window-title").text_content() or ""
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#window-title")).not_to_have_text(before)
    expect(page.get_by_label("Window", exact=True)).to_have_value(
        str(int(made.results.results.windows[1].start))
    )
    assert focused() == "window"
    page.keyboard.press("Tab")
    assert focused() == "newer"
    page.keyboard.press("Enter")
    expect(page.locator("#window-title")).to_have_text(before)
    page.get_by_label("All").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_label("People")).to_be_checked()
    expect(page.locator("#rows tr:first-child bdi")).to_have_text("Rosiestep")


def test_a_click_on_the_day_chooses_its_window(page: Page, made: Made) -> None:
    """Anywhere in the window's column: beside its bar and above it too, where the pointer mostly is."""
    page.locator("#day").scroll_into_view_if_needed()
    bars = page.locator("#day .trace").first.locator(".point")
    # The newest window comes first; its neighbour to the right is one younger.
    bar, next_bar = bars.nth(30).bounding_box(), bars.nth(29).bounding_box()
    plot = page.locator("#day .nsewdrag").bounding_box()
    assert bar is not None
    assert next_bar is not None
    assert plot is not None
    gap = next_bar["x"] - (bar["x"] + bar["width"])
    assert gap > 1
    window = made.results.results.windows[30]
    for place, x, y in (
        ("on the bar", bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2),
        ("in the gap", bar["x"] + bar["width"] + gap * 0.4, bar["y"] + bar["height"] / 2),
        ("above the bar", bar["x"] + bar["width"] / 2, plot["y"] + 1),
    ):
        page.mouse.move(x, y)
        labels = page.locator("#day .hoverlayer text")
        expect(labels, place).to_have_count(1)
        expect(labels, place).to_contain_text(time.strftime("%H:%M", time.gmtime(window.start)))
        expect(labels, place).to_contain_text("by bots")
        page.mouse.click(x, y)
        expect(page.get_by_label("Window", exact=True), place).to_have_value(str(int(window.start)))
        expect(page.locator("#window-sums"), place).to_contain_text("closed")
        page.get_by_label("Window", exact=True).select_option("")
        page.mouse.move(0, 0)
        expect(labels, place).to_have_count(0)


# Refreshing.


def test_it_refreshes_without_loading_the_page_again(page: Page, made: Made) -> None:
    page.evaluate("window.same = document.getElementById('window')")
    page.get_by_label("Window", exact=True).focus()
    made.results.results = replace(made.results.results, late=7)
    refresh(page, made)
    expect(page.locator("#late")).to_have_text("7")
    assert page.evaluate("window.same === document.activeElement")


def test_a_reader_that_fails_is_shown_and_what_was_known_stays(page: Page, made: Made) -> None:
    made.results.error = Unreachable("table results.editors: the catalog's database does not answer")
    refresh(page, made)
    trouble = page.get_by_role("alert")
    expect(trouble).to_have_text(
        "Could not refresh: table results.editors: the catalog's database does not answer."
        " The values below are the last known ones."
    )
    expect(page.locator("#freshness")).to_have_attribute("data-state", "failing")
    red = page.locator("#freshness").evaluate("e => getComputedStyle(e).color")
    assert red == "rgb(192, 31, 31)"
    expect(page.locator("#freshness-text")).to_have_text(re.compile(r"^not refreshed for \d+ s$"))
    browsers.refresh(page, 3600)
    expect(page.locator("#freshness-text")).to_have_text(re.compile(r"^not refreshed for 1 h"))
    expect(page.locator("#source")).to_have_attribute("data-old", "true")
    expect(page.locator("#health")).to_have_text("stream: healthy, as last known")
    expect(page.locator("#health")).to_have_css("border-style", "dashed")
    expect(page.locator("#rows tr")).to_have_count(10)
    made.results.error = None
    refresh(page, made)
    expect(trouble).to_be_hidden()
    expect(page.locator("#freshness")).to_have_attribute("data-state", "live")
    expect(page.locator("#health")).to_have_text("stream: healthy")


def test_a_server_that_is_gone_and_comes_back(page: Page, made: Made) -> None:
    page.context.set_offline(True)
    refresh(page, made)
    expect(page.get_by_role("alert")).to_contain_text("Could not refresh: the server cannot be reached.")
    expect(page.locator("#rows tr")).to_have_count(10)
    page.context.set_offline(False)
    refresh(page, made)
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_login_that_ended(page: Page, made: Made) -> None:
    def refuse() -> None:
        raise HTTPException(401, "Token Expired")

    made.app.dependency_overrides[may_read] = refuse
    refresh(page, made)
    expect(page.get_by_role("alert")).to_contain_text("your login has ended")


def test_an_age_that_is_too_old_is_red(page: Page, made: Made) -> None:
    made.results.results = replace(made.results.results, source_at=time.time() - 3600)
    refresh(page, made)
    expect(page.locator("#source")).to_have_text(re.compile("^1 h"))
    expect(page.locator("#source")).to_have_attribute("data-old", "true")


def test_ages_go_by_the_servers_clock(open_page: OpenPage, made: Made, address: str) -> None:
    page = open_page(clock=time.time() + 7 * 86_400)
    look(page, address)
    expect(page.locator("#source")).to_have_text(AGE)


def test_times_are_in_the_zone_that_airflows_user_chose(
    open_page: OpenPage, made: Made, address: str
) -> None:
    page = open_page(timezone="America/New_York")
    page.add_init_script("localStorage.timezone ??= JSON.stringify('Asia/Tokyo')")
    look(page, address)
    expect(page.locator("#zone")).to_have_text("Asia/Tokyo")
    there = time.strftime("%H:%M", time.gmtime(made.results.results.windows[0].start + 32_400))
    expect(page.locator("#window-title")).to_contain_text(f"{there}–")

    page.evaluate("localStorage.timezone = 'no zone'")
    look(page, address)
    expect(page.locator("#zone")).to_have_text("America/New_York")


def test_the_table_is_there_where_the_charts_library_is_not(watch: Watch, address: str) -> None:
    page = watch.page
    page.route("**/plotly.min.js*", lambda route: route.abort())
    page.goto(address)
    expect(page.locator("#rows tr")).to_have_count(10)
    expect(page.locator("#no-chart")).to_be_visible()


# Hostile names.


def hostile_results(first: int) -> Results:
    names = HOSTILE[first:] + HOSTILE[:first]
    return pages.make_results(time.time(), windows=3, users=len(names), names=names.__getitem__)


def shown_as(name: str) -> str:
    """What a reader may see of a name in the table."""
    if name == "\u200b\u2060 ":
        return "(a name that shows nothing)"
    return name if len(name) <= 255 else f"{name[:255]}…"


def hover(page: Page, rank: int) -> None:
    """The pointer onto a bar: those of people come first in the picture, and bots behind them."""
    bots = [kind == "bot" for kind in texts(page, "#rows .kind")]
    order = [n for n, bot in enumerate(bots) if not bot] + [n for n, bot in enumerate(bots) if bot]
    box = page.locator("#chart .point").nth(order.index(rank)).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 3, box["y"] + box["height"] / 2)


@pytest.mark.parametrize("first", [0, 6])
@pytest.mark.parametrize("size", [browsers.DESKTOP, browsers.PHONE], ids=["desktop", "phone"])
def test_hostile_names_are_text(
    watch: Watch, made: Made, address: str, first: int, size: ViewportSize
) -> None:
    made.results.results = hostile_results(first)
    page = watch.page
    page.set_viewport_size(size)
    look(page, address)
    expected = [shown_as(group.name) for group in made.results.results.windows[0].groups[:10]]
    assert texts(page, "#rows bdi") == expected

    # In the chart they are cut, and else the same: no markup of Plotly's was understood.
    labels = [label.removesuffix(" ") for label in texts(page, "#chart .ytick text")]
    for label, name in zip(labels, expected, strict=True):
        kept = label.removesuffix("…")
        assert name.startswith(kept)
        assert label == name or len(kept) >= 12
    assert page.locator("#chart .ytick tspan, #chart .ytick a").count() == 0

    # In what is shown under the pointer too.
    page.locator("#chart").scroll_into_view_if_needed()
    for rank, name in enumerate(expected):
        hover(page, rank)
        told = page.locator("#chart .hoverlayer text").first
        expect(told).to_contain_text(name if len(name) < 40 else f"{name[:20]}")
        expect(told).to_contain_text(" edits")
        assert page.locator("#chart .hoverlayer a").count() == 0

    links = "a:not([href^='../queries/'])"
    made_of_names = (
        f"img, iframe, object, embed, {links}, b, #rows script, #chart script, [onerror], [onload]"
    )
    assert page.locator(f"body :is({made_of_names})").count() == 0
    assert page.locator("script").count() == 3
    assert page.evaluate("window.hit") is None
    assert watch.dialogs == []
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]


def test_a_name_turns_the_direction_of_itself_only(page: Page, made: Made) -> None:
    made.results.results = hostile_results(6)
    refresh(page, made)
    expect(page.locator("#rows bdi").first).to_have_text(HOSTILE[6])
    row = page.locator("#rows tr").first
    places = [box["x"] for box in (cell.bounding_box() for cell in row.locator("td").all()) if box]
    assert places == sorted(places)


def test_the_policy_stops_what_is_injected_all_the_same(page: Page) -> None:
    stopped = page.evaluate(
        """() => new Promise((resolve) => {
            const stopped = [];
            setTimeout(() => resolve(stopped.sort()), 20_000);
            addEventListener("securitypolicyviolation", ({effectiveDirective}) => {
                stopped.push(effectiveDirective);
                if (stopped.length === 2) resolve(stopped.sort());
            });
            const script = document.createElement("script");
            script.textContent = "window.hit = 'script'";
            document.body.append(script);
            const box = document.createElement("div");
            box.innerHTML = "<img src=x onerror=\\"window.hit = 'handler'\\">";
            document.body.append(box);
        })"""
    )
    assert stopped == ["script-src-attr", "script-src-elem"]
    assert page.evaluate("window.hit") is None


def test_nothing_is_asked_of_anybody_else(page: Page, watch: Watch, server: Server) -> None:
    origin = server.address.removesuffix("/sluice")
    assert [url for url in watch.requests if not url.startswith(origin)] == []
    # Plotly brings the style of its maps along, which the policy keeps out and no chart here needs.
    said = [text for text in watch.messages if not text.startswith("Applying inline style violates")]
    assert said == []
    assert len(watch.messages) <= 1


# How it looks.


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
        expect(page.locator("body")).to_have_css("background-color", GROUND[scheme])
        assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
        browsers.expect_readable(page)
        browsers.screenshot(page, f"page-{name}-{scheme}")
