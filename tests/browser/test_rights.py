"""Who sees which stream, with the FAB auth manager: its own roles, and users who lack rights per DAG."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Page, expect

from sluice.config import streams
from tests.browser.test_login import FILES, PATHS
from tests.support import browser as browsers
from tests.support.airflow_server import Airflow
from tests.support.browser import OpenPage
from tests.support.fab_users import HIDDEN, PAGES
from tests.support.observed import RUN

ALL = set(streams.names())
OTHERS = ALL - {HIDDEN}
SEEN = {
    **dict.fromkeys(("viewer", "user", "op", "admin", "viewer-as-shipped", "user-as-shipped"), ALL),
    **dict.fromkeys(("all-but-one", "without-logs"), OTHERS),
    "no-stream": set(),
}
# All of the hidden stream that tests/browser/test_login.py asks for: pages, JSON, log and documents.
OF_HIDDEN = tuple(path for path in PATHS if HIDDEN in path)
MAY_ANSWER = "may be answered by"


@pytest.fixture(scope="module")
def clients(fab: Airflow) -> Iterator[dict[str, httpx.Client]]:
    made = {user: fab.client(user) for user in fab.passwords}
    yield made
    for client in made.values():
        client.close()


def streams_in(html: str) -> set[str]:
    return {name for name in ALL if name in html}


def logged_in(open_page: OpenPage, fab: Airflow, user: str) -> Page:
    """At Airflow's start page. The login is in a tab of its own: a script of FAB's form fails by itself."""
    page = open_page()
    form = page.context.new_page()
    browsers.log_in(form, fab.address, user, fab.passwords[user])
    form.close()
    page.goto(f"{fab.address}/")
    return page


def test_the_asked_paths_are_all_kinds_that_a_stream_has() -> None:
    kinds = ("/results/", "/api/results/", "/queries/", "/api/queries/", "/log/", "/runs/", ".json")
    assert [kind for kind in kinds if not any(kind in path for path in OF_HIDDEN)] == []


@pytest.mark.parametrize("user", SEEN)
def test_the_streams_of_a_user(clients: dict[str, httpx.Client], user: str) -> None:
    """On the overview, with their approvals and who may give them, and as links of the queries page."""
    seen, client = SEEN[user], clients[user]
    overview = client.get("/sluice/streams")
    assert overview.status_code == 200
    assert streams_in(overview.text) == seen
    assert set(re.findall(r'id="stream-(\w+)"', overview.text)) == seen
    assert set(re.findall(r">Revert (\w+)\?<", overview.text)) == seen
    assert overview.text.count(MAY_ANSWER) == len(seen)
    for stream in ALL:
        answers = [client.get(f"/sluice/{path}/{stream}") for path in ("streams", "queries", "api/queries")]
        assert [answer.status_code for answer in answers] == [200 if stream in seen else 404] * 3
    for stream in seen:
        assert streams_in(client.get(f"/sluice/queries/{stream}").text) == seen
    # The navigation's address leads to a stream that the user may read.
    any_queries = client.get("/sluice/queries")
    assert any_queries.status_code == (200 if seen else 404)
    assert streams_in(any_queries.text) == seen


@pytest.mark.parametrize("path", OF_HIDDEN)
def test_of_a_hidden_stream_there_is_nothing(clients: dict[str, httpx.Client], path: str) -> None:
    """The answer is that about a stream that does not exist, also to a request that is wrong."""
    unknown = path.replace(HIDDEN, "unknown")
    for user, seen in SEEN.items():
        found, other = clients[user].get(path), clients[user].get(unknown)
        assert (other.status_code, other.json()) == (404, {"detail": "no stream 'unknown'"})
        if HIDDEN in seen:
            assert found.status_code == 200, user
        else:
            assert (found.status_code, found.json()) == (404, {"detail": f"no stream {HIDDEN!r}"}), user
            assert _other_headers(found) == _other_headers(other)
        wrong = path.partition("?")[0] + "?whose=nonsense&window=nonsense"
        assert HIDDEN in seen or clients[user].get(wrong).json() == found.json()


def _other_headers(answer: httpx.Response) -> dict[str, str]:
    varying = ("content-length", "date", "server-timing", "x-request-id")
    return {name: value for name, value in answer.headers.items() if name.lower() not in varying}


def test_that_airflow_itself_draws_the_same_line(clients: dict[str, httpx.Client]) -> None:
    """There is no such DAG in this database: who may read it is told so, who may not is refused."""
    for user, seen in SEEN.items():
        for stream in ALL:
            status = clients[user].get(f"/api/v2/dags/{stream}_stream").status_code
            assert status == (404 if stream in seen else 403), (user, stream)


@pytest.mark.parametrize("user", ["viewer-as-shipped", "user-as-shipped"])
def test_airflow_shows_its_navigation_to_who_may_see_plugins(
    clients: dict[str, httpx.Client], user: str
) -> None:
    """FAB's roles Viewer and User may not: they reach the pages by the links of tasks and of mails."""
    assert clients[user].get("/api/v2/plugins").status_code == 403


def test_without_the_right_to_open_airflow_nothing_is_there(clients: dict[str, httpx.Client]) -> None:
    for path in (*PATHS, "/sluice/streams/unknown"):
        answer = clients["without-website"].get(path)
        assert (answer.status_code, answer.json()) == (403, {"detail": "Forbidden"}), path


def test_a_log_needs_the_right_to_read_the_logs_of_tasks(clients: dict[str, httpx.Client]) -> None:
    (stream, *_) = sorted(OTHERS)
    page, log = f"/sluice/streams/{stream}", f"/sluice/streams/{stream}/log/consumer"
    assert clients["all-but-one"].get(log).status_code == 200
    assert "a line of the consumer" in clients["all-but-one"].get(page).text
    refused = clients["without-logs"].get(log)
    assert (refused.status_code, refused.json()) == (404, {"detail": f"no stream {stream!r}"})
    shown = clients["without-logs"].get(page)
    assert shown.status_code == 200
    assert "a line of the consumer" not in shown.text
    # Its documents are not of its log.
    assert clients["without-logs"].get(f"{page}/runs/{quote(RUN)}/proof").status_code == 200


def test_static_files_are_of_no_stream(clients: dict[str, httpx.Client]) -> None:
    for name in FILES:
        assert clients["no-stream"].get(f"/sluice/static/{name}").status_code == 200


# In the browser, by FAB's own form of login.


@pytest.mark.parametrize("user", ["viewer", pytest.param("user", marks=pytest.mark.exhaustive), "op"])
def test_roles_see_all_streams(fab: Airflow, open_page: OpenPage, user: str) -> None:
    page = logged_in(open_page, fab, user)
    page.get_by_role("link", name="Streams").click()
    frame = page.frame_locator("iframe[title='Streams']")
    expect(frame.locator("section.stream")).to_have_count(len(ALL))
    approvals = frame.locator("#waiting li")
    expect(approvals).to_have_count(len(ALL))
    expect(approvals.first).to_contain_text(f"{MAY_ANSWER} Ada")
    for stream in sorted(ALL)[1:]:
        of_stream = approvals.filter(has_text=f"Revert {stream}?")
        expect(of_stream).to_contain_text(f"{MAY_ANSWER} every Airflow user who may")
        expect(of_stream).to_contain_text(f"of DAG {stream}_change")
    browsers.screenshot(page, f"rights-{user}")


@pytest.mark.exhaustive
def test_who_lacks_one_stream_sees_the_others(fab: Airflow, open_page: OpenPage) -> None:
    page = logged_in(open_page, fab, "all-but-one")
    page.get_by_role("link", name="Streams").click()
    frame = page.frame_locator("iframe[title='Streams']")
    expect(frame.locator("section.stream")).to_have_count(len(OTHERS))
    expect(frame.locator("#waiting li")).to_have_count(len(OTHERS))
    expect(frame.locator("body")).not_to_contain_text(HIDDEN)
    browsers.screenshot(page, "rights-all-but-one")

    page.get_by_role("link", name="Running queries").click()
    frame = page.frame_locator("iframe[title='Running queries']")
    expect(frame.get_by_role("heading", level=1)).to_have_text(f"Running queries of {sorted(OTHERS)[0]}")
    expect(frame.locator("nav.streams a")).to_have_text(sorted(OTHERS))
    expect(frame.locator("#freshness")).to_have_attribute("data-state", "live")
    browsers.screenshot(page, "rights-all-but-one-queries")

    # The navigation is the same for all who may see plugins: a hidden page's link leads to no page.
    page.get_by_role("link", name="Wikipedia: top editors").click()
    frame = page.frame_locator("iframe[title='Wikipedia: top editors']")
    expect(frame.locator("body")).to_contain_text(f"no stream '{HIDDEN}'")

    # In the browser's own session, as by a link that another person sent.
    for path in OF_HIDDEN:
        answer = page.goto(f"{fab.address}{path}")
        assert answer is not None
        assert (answer.status, answer.json()) == (404, {"detail": f"no stream {HIDDEN!r}"})
    browsers.screenshot(page, "rights-hidden")


def test_who_may_read_no_stream_is_told_so(fab: Airflow, open_page: OpenPage) -> None:
    page = logged_in(open_page, fab, "no-stream")
    page.goto(f"{fab.address}/sluice/streams")
    expect(page.locator(".notice[data-kind=missing]")).to_have_text(
        "There is no stream whose DAGs you may read."
    )
    expect(page.locator("section")).to_have_count(0)
    browsers.screenshot(page, "rights-no-stream")


@pytest.mark.exhaustive
def test_a_viewer_as_shipped_has_no_link_and_reaches_the_page_by_its_address(
    fab: Airflow, open_page: OpenPage
) -> None:
    page = logged_in(open_page, fab, "viewer-as-shipped")
    link = partial(page.get_by_role, "link")
    expect(link(name="Dags").first).to_be_visible()
    expect(link(name="Streams")).to_have_count(0)
    browsers.screenshot(page, "rights-viewer-as-shipped")
    page.goto(f"{fab.address}/sluice/streams")
    expect(page.locator("section.stream")).to_have_count(len(ALL))


def test_a_right_that_is_taken_away_ends_an_open_page(
    fab: Airflow, clients: dict[str, httpx.Client], open_page: OpenPage
) -> None:
    """The page says so, and shows what it had no longer as current."""
    page = logged_in(open_page, fab, "leaving")
    (stream, *_) = sorted(OTHERS)
    page.goto(f"{fab.address}/sluice/streams/{stream}")
    expect(page.locator("#freshness")).to_have_attribute("data-state", "live")
    taken = {"roles": [{"name": PAGES}]}
    answer = clients["admin"].patch("/auth/fab/v1/users/leaving?update_mask=roles", json=taken)
    assert answer.status_code == 200, answer.text
    expect(page.locator("#error")).to_contain_text("you are not allowed to see this page")
    expect(page.locator("#freshness")).to_have_attribute("data-state", "failing")
    browsers.screenshot(page, "rights-taken-away")
