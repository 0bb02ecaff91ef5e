"""Debian's Chromium, driven by Playwright: the page as a person sees it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, FrameLocator, Page, expect, sync_playwright

INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", "chromium")
SCREENSHOTS = Path(__file__).resolve().parents[2] / "build"
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 375, "height": 812}


def chromium() -> str:
    """The path of Chromium; installed from the system's packages where it is missing and this is root.

    Raises RuntimeError with the line to run where it cannot be installed: a page that nobody looked at must
    not count as tested.
    """
    found = shutil.which("chromium")
    if found:
        return found
    line = " ".join(INSTALL)
    if os.geteuid() != 0:
        raise RuntimeError(f"Chromium is missing, and the page is tested in it. Run: sudo {line}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (("apt-get", "update"), INSTALL):
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            raise RuntimeError(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr[-500:]}")
    found = shutil.which("chromium")
    if not found:
        raise RuntimeError(f"Chromium is still missing after: {line}")
    return found


@contextmanager
def launch() -> Iterator[Browser]:
    """A browser without a window, ended with the block."""
    with sync_playwright() as playwright:
        # Chromium's sandbox does not work for root, and only pages of this machine are opened.
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def log_in(page: Page, airflow: str, user: str, password: str) -> None:
    """Log in to Airflow (its address, without a slash at the end) by its form."""
    page.goto(f"{airflow}/")
    page.locator("input[name=username]").fill(user)
    page.locator("input[name=password]").fill(password)
    page.locator("button[type=submit]").click()
    page.wait_for_url(lambda url: "/auth/login" not in url)


def open_report(page: Page, title: str) -> FrameLocator:
    """Follow the navigation's link ``title``; the frame that Airflow shows the report's page in."""
    page.get_by_role("link", name=title).click()
    frame = page.frame_locator(f"iframe[title='{title}']")
    expect(frame.get_by_role("heading", name=title)).to_be_visible()
    return frame


def screenshot(page: Page, name: str, full_page: bool = True) -> Path:
    """Kept as ``build/<name>.png``."""
    SCREENSHOTS.mkdir(exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path, full_page=full_page)
    return path
