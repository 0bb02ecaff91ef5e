"""Debian's Chromium, driven by Playwright: the page as a person sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, FrameLocator, Page, ViewportSize, expect, sync_playwright

from tests.support import packages

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build"
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 375, "height": 812}


@contextmanager
def launch() -> Iterator[Browser]:
    """A browser without a window, ended with the block."""
    with sync_playwright() as playwright:
        path = packages.program("chromium", "chromium")
        # Chromium's sandbox does not work for root, and only pages of this machine are opened.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
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


def poor_contrasts(page: Page) -> list[object]:
    """The texts of the page, its charts' too, that are below WCAG's contrast of 4.5: tag, text, contrast."""
    poor: list[object] = page.evaluate(
        """() => {
            const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
            const rgb = (colour) => {
                canvas.clearRect(0, 0, 1, 1);
                canvas.fillStyle = colour;
                canvas.fillRect(0, 0, 1, 1);
                return [...canvas.getImageData(0, 0, 1, 1).data];
            };
            const light = ([r, g, b]) => [r, g, b]
                .map((v) => v / 255)
                .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
                .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
            const ground = (node) => {
                for (let at = node; at; at = at.parentElement) {
                    const found = rgb(getComputedStyle(at).backgroundColor);
                    if (found[3] === 255) return found;
                }
                return rgb("white");
            };
            const poor = [];
            for (const node of document.querySelectorAll("body *")) {
                const own = [...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim());
                if (!own || node.closest(":disabled, script, noscript")) continue;
                const style = getComputedStyle(node);
                const ink = light(rgb(node instanceof SVGElement ? style.fill : style.color));
                const under = light(ground(node));
                const contrast = (Math.max(ink, under) + 0.05) / (Math.min(ink, under) + 0.05);
                if (contrast < 4.5) poor.push([node.tagName, node.textContent.slice(0, 30), contrast]);
            }
            return poor;
        }"""
    )
    return poor
