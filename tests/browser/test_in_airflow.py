"""The pages where they are at home: in Airflow's frame, behind its login, reached by its navigation."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.support import browser as browsers
from tests.support.airflow_server import Airflow
from tests.support.browser import OpenPage
from tests.support.pages import HOSTILE

TITLE = "Wikipedia: top editors"


def test_by_login_and_navigation(airflow: Airflow, open_page: OpenPage) -> None:
    page = open_page()
    browsers.log_in(page, airflow.address, "viewer", airflow.passwords["viewer"])
    frame = browsers.open_results(page, TITLE)
    expect(frame.locator("#rows tr")).to_have_count(10)
    expect(frame.locator("#rows bdi").first).to_have_text(HOSTILE[0])
    expect(frame.locator("#chart .ytick text").first).to_contain_text("<img src=x")
    expect(frame.locator("#freshness")).to_have_attribute("data-state", "live")
    expect(frame.locator("#supervision")).to_have_text(re.compile("Airflow knows no DAG"))
    browsers.screenshot(page, "page-in-airflow-light")

    # Its reader chooses dark, as in Airflow's menu: the page follows without being loaded again.
    page.evaluate(
        """() => {
            localStorage.setItem("theme", "dark");
            dispatchEvent(new StorageEvent("storage", {key: "theme", newValue: "dark"}));
        }"""
    )
    expect(frame.locator("html")).to_have_attribute("data-theme", "dark")
    expect(frame.locator("body")).to_have_css("background-color", "rgb(14, 17, 22)")
    browsers.screenshot(page, "page-in-airflow-dark")

    # The address that the frame leaves in Airflow's own can be loaded again.
    page.reload()
    expect(page.frame_locator("iframe").locator("#rows tr")).to_have_count(10)

    page.get_by_role("link", name="Running queries").click()
    frame = page.frame_locator("iframe[title='Running queries']")
    expect(frame.get_by_role("heading", level=1)).to_have_text(re.compile("^Running queries of "))
