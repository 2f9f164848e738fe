"""A headless Chromium for tests of pages: Debian's packages chromium and chromium-driver, and selenium."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --use-angle=swiftshader --enable-unsafe-swiftshader "
    "--disable-background-networking --disable-component-update --disable-sync --no-first-run --hide-scrollbars"
)


@contextlib.contextmanager
def chromium(profile: Path, width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Any]:
    """A driver whose page is `width` CSS pixels wide; narrow ones are like a phone's. Skips where there is none.

    Args:
        profile: a new folder.
        width: of the page.
        height: of the page.
        dark: whether the user prefers dark pages.
    """
    binary = shutil.which("chromium") or shutil.which("chromium-browser")
    driver_binary = shutil.which("chromedriver")
    if binary is None or driver_binary is None:
        pytest.skip("no Chromium: apt-get install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium: pip install selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS.split(), f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_binary))
    try:
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        # What the browser's own first page asked for is not of interest.
        driver.get("about:blank")
        complaints(driver), requested(driver)
        yield driver
    finally:
        driver.quit()


def complaints(driver: Any) -> list[str]:
    """What the console said since the last look, other than plain messages."""
    return [line["message"] for line in driver.get_log("browser") if line["level"] in ("WARNING", "SEVERE")]


def requested(driver: Any) -> list[str]:
    """All addresses that pages asked for since the last look."""
    events = [json.loads(line["message"])["message"] for line in driver.get_log("performance")]
    return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]


def overflow(driver: Any) -> int:
    """By how many pixels the page is wider than the window."""
    return driver.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")


def screenshot(driver: Any, path: Path, whole: bool = True) -> None:
    """Writes a PNG of the page, or of what is in sight."""
    import base64

    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": whole, "format": "png"})
    path.write_bytes(base64.b64decode(shot["data"]))
