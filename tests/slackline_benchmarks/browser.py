"""Debian's Chromium without a screen, steered by its driver: for the tests of the live page, and for pictures of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

PACKAGES = ("chromium", "chromium-driver")
_TROUBLE = ("SEVERE", "ERROR")


def lacking() -> str:
    """Why there is no browser; empty if there is one. As root, Debian's packages are installed if need be."""
    if shutil.which("chromium") and shutil.which("chromedriver"):
        return ""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return f"no Chromium: as root, apt-get install {' '.join(PACKAGES)}"
    subprocess.run(["apt-get", "update", "-qq"], check=False, capture_output=True)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120", *PACKAGES]
    done = subprocess.run(
        command, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, check=False, capture_output=True, text=True
    )
    return "" if done.returncode == 0 else f"Chromium cannot be installed: {done.stderr.strip()[-300:]}"


@contextmanager
def chromium(width: int = 1280, height: int = 900) -> Iterator[Chrome]:
    """A browser with one empty page."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        sized(driver, width, height)
        yield driver
    finally:
        driver.quit()


def sized(driver: Chrome, width: int, height: int, *, dark: bool = False) -> None:
    """Make the page so wide and high (below 600 pixels: a phone's), light or dark."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def troubles(driver: Chrome) -> list[str]:
    """What the page has logged as errors since it was asked last."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in _TROUBLE]  # type: ignore[no-untyped-call]
