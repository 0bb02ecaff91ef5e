"""Debian's Chromium, driven by Playwright: the page as a person sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Error,
    FrameLocator,
    Page,
    Request,
    ViewportSize,
    expect,
    sync_playwright,
)
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.support import packages

Scheme = Literal["light", "dark"]
SCREENSHOTS = Path(__file__).resolve().parents[2] / "build"
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 375, "height": 812}
# A deadline costs only when it is missed: long enough for a machine that is busy with other tests.
DEADLINE_MS = 60_000


class OpenPage(Protocol):
    """Opens a page of its own in a new browser context."""

    def __call__(
        self, viewport: ViewportSize = DESKTOP, timezone: str = "UTC", clock: float | None = None
    ) -> Page: ...


@contextmanager
def launch() -> Iterator[Browser]:
    """A browser without a window, ended with the block."""
    expect.set_options(timeout=DEADLINE_MS)
    with sync_playwright() as playwright:
        path = packages.program("chromium", "chromium")
        # Chromium's sandbox does not work for root, and only pages of this machine are opened.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def new_page(browser: Browser, viewport: ViewportSize = DESKTOP, timezone: str = "UTC") -> Page:
    """A page in a context of its own."""
    page = browser.new_context(viewport=viewport, timezone_id=timezone, color_scheme="light").new_page()
    page.set_default_timeout(DEADLINE_MS)
    page.set_default_navigation_timeout(DEADLINE_MS)
    return page


class Watch:
    """What a page does beside what it shows: scripts that fail, dialogs, requests, words on the console."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.dialogs: list[str] = []
        self.requests: list[str] = []
        self.messages: list[str] = []
        page.on("pageerror", self._error)
        page.on("dialog", self._dialog)
        page.on("request", self._request)
        page.on("console", self._message)

    def close(self) -> None:
        self.page.remove_listener("pageerror", self._error)
        self.page.remove_listener("dialog", self._dialog)
        self.page.remove_listener("request", self._request)
        self.page.remove_listener("console", self._message)

    def _error(self, error: Error) -> None:
        self.errors.append(str(error))

    def _dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)

    def _message(self, message: ConsoleMessage) -> None:
        self.messages.append(message.text)


def log_in(page: Page, airflow: str, user: str, password: str) -> None:
    """Log in to Airflow (its address, without a slash at the end) by its form."""
    page.goto(f"{airflow}/")
    page.locator("input[name=username]").fill(user)
    page.locator("input[name=password]").fill(password)
    page.locator("button[type=submit], input[type=submit]").click()
    page.wait_for_url(lambda url: "/auth/login" not in url)


def open_results(page: Page, title: str) -> FrameLocator:
    """Follow the navigation's link ``title``; the frame that Airflow shows the page in."""
    page.get_by_role("link", name=title).click()
    frame = page.frame_locator(f"iframe[title='{title}']")
    expect(frame.get_by_role("heading", name=title)).to_be_visible()
    return frame


def refresh(page: Page, seconds: float) -> None:
    """Let the page's clock jump, which its test has installed: what falls due meanwhile happens at once."""
    page.clock.fast_forward(int(seconds * 1000))


def screenshot(page: Page, name: str, full_page: bool = True) -> Path:
    """Kept as ``build/<name>.png``."""
    SCREENSHOTS.mkdir(exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path, full_page=full_page)
    return path


# The texts of a page, its charts' too, that are below WCAG's contrast of 4.5: tag, text, contrast.
POOR_CONTRASTS = """() => {
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const known = new Map();
    const painted = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const rgb = (colour) => {
        if (!known.has(colour)) known.set(colour, painted(colour));
        return known.get(colour);
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


def expect_readable(page: Page) -> None:
    """Every text has WCAG's contrast of 4.5, as soon as charts are drawn in the colours of the rest."""
    try:
        page.wait_for_function(f"() => ({POOR_CONTRASTS})().length === 0", polling=200)
    except PlaywrightTimeout:
        assert page.evaluate(POOR_CONTRASTS) == []
        raise
