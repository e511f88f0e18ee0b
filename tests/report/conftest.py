"""A headless Chromium and reports to open in it; its console and its requests are checked."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from report_fixture import digits_results, hostile_results
from selenium import webdriver

from driftcal.report import write_html

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
MISSING = (
    "the report is tested in Chromium, and {} was not found. Install it: apt-get install -y chromium chromium-driver "
    "(Debian), or put a chromium and its chromedriver on the PATH."
)


def executable(*names: str) -> str:
    for name in names:
        if path := shutil.which(name):
            return path
    pytest.fail(MISSING.format(" or ".join(names)), pytrace=False)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    binary = executable("chromium", "chromium-browser", "google-chrome")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    plain = digits_results()
    return {
        "plain": write_html(plain, folder / "plain.html"),
        "grouped": write_html(digits_results(grouped=True), folder / "grouped.html"),
        "hostile": write_html(hostile_results(), folder / "a 'quoted' & odd#name?.html"),
        "bare": write_html(
            replace(
                plain,
                metadata={},
                perturbation=None,
                calibrators=plain.calibrators[:1],
                rows=tuple(replace(row, intervals={}) for row in plain.rows),
            ),
            folder / "bare.html",
        ),
        "empty": write_html(replace(plain, rows=(), calibrators=(), shifts=()), folder / "empty.html"),
    }


@pytest.fixture
def visit(browser, pages):
    """Open a page at a width and in a colour scheme; at the end: no console message, no request but the file itself."""
    opened: list[Path] = []

    def go(name: str, width: int = 1280, scheme: str = "light"):
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        preferences = {
            "prefers-color-scheme": scheme,
            "prefers-reduced-motion": "reduce",
        }  # clicks wait for no scrolling
        media = [{"name": name, "value": value} for name, value in preferences.items()]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        opened.append(pages[name])
        browser.get(pages[name].as_uri())
        return browser

    for kind in ("browser", "performance"):
        browser.get_log(kind)
    yield go
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = {entry["params"]["request"]["url"] for entry in events if entry["method"] == "Network.requestWillBeSent"}
    allowed = {path.as_uri() for path in opened}
    # chrome: are pages of the browser itself, such as its first tab
    assert {url for url in urls if not url.startswith(("data:", "chrome:"))} == allowed
    browser.get("about:blank")
