"""A real browser for console tests: Chromium, driven by Playwright.

`BAILIFF_TEST_BROWSER` is its path; by default the system's browser is used, or the one that Playwright downloaded. Without any,
tests that need one are skipped with a reason. What checks its pages is pinned in the frontend's package-lock.
"""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright

FRONTEND = Path(__file__).parents[2] / "services" / "console" / "frontend"
SYSTEM = ("chromium", "chromium-browser", "google-chrome")
LAPTOP, TABLET, PHONE = (1440, 900), (768, 1024), (390, 844)
IN_ONE_BROWSER = pytest.mark.asyncio(loop_scope="module")
WCAG_AA = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


AXE = FRONTEND / "node_modules" / "axe-core" / "axe.min.js"


def node_package(*path: str) -> Path:
    """A file of one of the frontend's packages; without them the test is skipped."""
    found = FRONTEND.joinpath("node_modules", *path)
    if not found.exists() or shutil.which("node") is None:
        pytest.skip(f"no {path[0]}: npm --prefix services/console/frontend ci (Node 20.19 or later)")
    return found


def browser_path(downloaded: str = "") -> str:
    """The browser's program; downloaded: where Playwright would have put it."""
    named = os.environ.get("BAILIFF_TEST_BROWSER")
    if named:
        assert Path(named).exists(), f"BAILIFF_TEST_BROWSER: there is no {named}"
        return named
    found = next((path for name in SYSTEM if (path := shutil.which(name))), None)
    if found is None and downloaded and Path(downloaded).exists():
        return downloaded
    return found or pytest.skip("no browser: apt-get install chromium, or playwright install chromium")


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """The browser; closed with all its pages after the test."""
    async with async_playwright() as playwright:
        path = browser_path(playwright.chromium.executable_path)
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all tests of a file, which run on one event loop: `IN_ONE_BROWSER`."""
    async with chromium() as browser:
        yield browser


async def faults_of_access(page: Page) -> list[str]:
    """Violations of WCAG AA that axe finds on the current page, one line each."""
    if not await page.evaluate("typeof axe === 'object'"):
        await page.evaluate(node_package("axe-core", "axe.min.js").read_text())
    found: dict[str, Any] = await page.evaluate("tags => axe.run(document, {runOnly: {type: 'tag', values: tags}})", WCAG_AA)
    return [
        f"{each['id']}: {node['target'][0]}: {(node.get('failureSummary') or '').splitlines()[-1].strip()}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
