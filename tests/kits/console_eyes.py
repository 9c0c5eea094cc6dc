"""Drives the console's pages as a user does: navigates, reads, presses buttons, and checks accessibility with axe."""

from collections.abc import AsyncIterator, Iterator
from typing import Literal

import pytest
import pytest_asyncio
import yaml
from playwright.async_api import Browser, ConsoleMessage, Page, Request, expect
from tests.kits.browser import AXE, LAPTOP, faults_of_access
from tests.kits.criu import criu_program
from tests.kits.log_builder import policy
from tests.kits.system import PATIENCE_S

from bailiff_devstack.stack import API, CONSOLE, Plan, Stack

Scheme = Literal["dark", "light"]
POOL = "pool-a"
PATIENCE_MS = PATIENCE_S * 1000
expect.set_options(timeout=PATIENCE_MS)

HOSTILE = "<img src=x onerror=\"window.pwned='img'\"><script>window.pwned='script'</script>"
LINK = "javascript:window.pwned='link'"
# Chromium sets a style attribute on text replaced in an editor; the policy blocks it, without effect on the page.
WATCH = """
Object.defineProperty(window, 'pwned', { set: how => console.error('A foreign script ran: ' + how) });
document.addEventListener('securitypolicyviolation', event => {
  const { violatedDirective: directive, blockedURI } = event;
  if (directive !== 'style-src-attr') console.error('The content security policy blocked: ' + directive + ' ' + blockedURI);
});
"""
AWAY = ("Failed to load resource", "ERR_", "Content Security Policy")
"""Errors that Chromium writes by itself: the page reports unavailable services, and WATCH reports what the policy blocked."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """All services, the archive with the query API, and the console; one machine of eight GPUs.

    A job that is paused after a second has run, and may evict again whom it evicted.
    """
    folder = tmp_path_factory.mktemp("console")
    rules = folder / "policy.yaml"
    rules.write_text(yaml.safe_dump(policy(restarts={"backoff": "1s", "max_backoff": "1s"}).model_dump(mode="json")))
    plan = Plan(
        policy=rules, archive=True, api=True, console=True, env={"BAILIFF_SEAL_SECONDS": "1", "BAILIFF_CRIU": criu_program()}
    )
    with Stack(folder / "stack", plan, progress=print) as stack:
        stack.processes.wait_ready(API, CONSOLE, timeout_s=PATIENCE_S)
        yield stack


@pytest_asyncio.fixture(loop_scope="module")
async def page(stack: Stack, browser: Browser) -> AsyncIterator[Page]:
    """A page at laptop size.

    The test fails if the page sends a request to another server, logs an error, opens a browser dialog, or runs or tries to
    run a foreign script.
    """
    elsewhere: list[str] = []
    errors: list[str] = []

    def requested(request: Request) -> None:
        if not request.url.startswith((stack.console, "data:", "blob:")):
            elsewhere.append(request.url)

    def on_message(message: ConsoleMessage) -> None:
        if message.type == "error" and not any(word in message.text for word in AWAY):
            errors.append(f"{page.url}: {message.text}")

    context = await browser.new_context(viewport={"width": LAPTOP[0], "height": LAPTOP[1]}, color_scheme="light")
    context.set_default_timeout(PATIENCE_MS)
    await context.add_init_script(WATCH)
    page = await context.new_page()
    await page.request.get(stack.console_link)
    page.on("request", requested)
    page.on("console", on_message)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(f"a dialog: {dialog.message}"))
    yield page
    await context.close()
    assert elsewhere == [], elsewhere
    assert errors == [], errors


class Seeing:
    """Helpers for a page: navigate, read, act. schemes: those that `accessible` checks; dark first, since the page is light."""

    def __init__(self, page: Page, address: str, schemes: tuple[Scheme, ...] = ("dark", "light")) -> None:
        self.page, self.address, self.schemes = page, address, schemes

    async def open(self, path: str) -> None:
        """Go there."""
        await self.page.goto(self.address + path)

    async def text(self, words: str) -> None:
        """Wait until this text is visible."""
        await expect(self.page.get_by_text(words).first).to_be_visible()

    async def state(self, word: str) -> None:
        """Wait until the page's job shows this state."""
        await expect(self.page.locator("main .badge").first).to_contain_text(word)

    async def submit(self, yaml: str, outcome: str) -> None:
        """Enter a job, check its preview, submit it."""
        await self.open(f"/{POOL}/submit")
        await self.page.get_by_role("button", name="YAML").click()
        await self.page.locator(".cm-content").fill(yaml)
        await self.text(outcome)
        await self.page.get_by_role("button", name="Submit", exact=True).click()
        await self.page.wait_for_url(f"**/{POOL}/jobs/*")

    async def act(self, action: str) -> None:
        """Press one of the job's buttons, check the preview, then confirm."""
        await self.page.locator(".actions").get_by_role("button", name=action, exact=True).click()
        await self.sent(action)

    async def sent(self, action: str) -> None:
        """Press the dialog's button and wait for admission's reply."""
        dialog = self.page.get_by_role("dialog")
        await dialog.get_by_text("Effects").wait_for()
        await dialog.get_by_role("button", name=action, exact=True).click()
        await dialog.get_by_text("Accepted").wait_for()
        await dialog.get_by_role("button", name="Close").last.click()

    async def accessible(self, what: str) -> None:
        """Check with axe. Without it a story goes on: the test with Lighthouse is skipped and says how to get both."""
        if not AXE.exists():
            return
        for scheme in self.schemes:
            await self.page.emulate_media(color_scheme=scheme)
            found = await faults_of_access(self.page)
            assert found == [], f"{what}, {scheme}:\n" + "\n".join(found)
