"""The page in Chromium: with the app alone, and inside a real Airflow with its login.

One browser, one server and one Airflow serve the folder's tests, and end with the last of them: while
Playwright is started, its thread has a running event loop, and no other test could run one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

from tests.support.airflow_server import Airflow, start
from tests.support.browser import DESKTOP, OpenPage, Watch, launch, new_page

if TYPE_CHECKING:
    from tests.support.pages import Server

# Before Airflow is imported: it reads its configuration, and makes its home, then.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="sluice-airflow-"))


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with launch() as launched:
        yield launched


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """One address for all apps: the browser compiles the charts' library once per address."""
    from tests.support.pages import serve

    with serve() as served:
        yield served


@pytest.fixture(scope="package")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    with start(tmp_path_factory.mktemp("airflow")) as started:
        yield started


@pytest.fixture(scope="package")
def fab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """With the FAB auth manager, which knows roles and rights per DAG."""
    with start(tmp_path_factory.mktemp("fab"), fab=True) as started:
        yield started


@pytest.fixture(scope="package")
def tab(browser: Browser) -> Iterator[Page]:
    """The browser's only process for pages that need no context of their own."""
    page = new_page(browser)
    page.clock.install()
    yield page
    page.context.close()


@pytest.fixture
def watch(tab: Page) -> Iterator[Watch]:
    """The tab as if it were new; a test fails if a script of the page did, or opened a dialog."""
    watch = Watch(tab)
    yield watch
    tab.context.set_offline(False)
    tab.unroute_all()
    if tab.url != "about:blank":
        tab.evaluate("localStorage.clear()")
        tab.goto("about:blank")
    tab.set_viewport_size(DESKTOP)
    tab.emulate_media(color_scheme="light")
    tab.mouse.move(0, 0)
    watch.close()
    assert (watch.errors, watch.dialogs) == ([], [])


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Pages in contexts of their own; the test fails if a script of theirs did, or opened a dialog."""
    contexts: list[BrowserContext] = []
    watches: list[Watch] = []

    def opened(viewport: ViewportSize = DESKTOP, timezone: str = "UTC", clock: float | None = None) -> Page:
        page = new_page(browser, viewport, timezone)
        contexts.append(page.context)
        watches.append(Watch(page))
        if clock is not None:
            page.clock.install(time=clock)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [(watch.errors, watch.dialogs) for watch in watches] == [([], [])] * len(watches)
