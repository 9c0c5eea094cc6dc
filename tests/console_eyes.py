"""Drives the console's pages as a user does: navigates, reads, presses buttons, and checks accessibility with axe."""

from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import ConsoleMessage, Page, Request, expect
from tests.browser import LAPTOP, chromium, faults_of_access
from tests.system import PATIENCE_S

from bailiff_devstack.stack import API, CONSOLE, Plan, Stack

POOL = "pool-a"
PATIENCE_MS = PATIENCE_S * 1000
expect.set_options(timeout=PATIENCE_MS)

HOSTILE = "<img src=x onerror=\"window.pwned='img'\"><script>window.pwned='script'</script>"
LINK = "javascript:window.pwned='link'"
# Chromium gives text a style that it replaces in an editor all at once; the policy stops that, and nothing is lost.
WATCH = """
Object.defineProperty(window, 'pwned', { set: how => console.error('A script ran that is not ours: ' + how) });
document.addEventListener('securitypolicyviolation', event => {
  const { violatedDirective: directive, blockedURI } = event;
  if (directive !== 'style-src-attr') console.error('The policy stopped something: ' + directive + ' ' + blockedURI);
});
"""
AWAY = ("Failed to load resource", "ERR_", "Content Security Policy")
"""Errors that Chromium writes by itself: the page reports unavailable services, and WATCH reports what the policy stopped."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """All services, the archive with its query interface, and the console; one machine of eight GPUs."""
    plan = Plan(archive=True, api=True, console=True, env={"BAILIFF_SEAL_SECONDS": "1"})
    with Stack(tmp_path_factory.mktemp("console"), plan, progress=print) as stack:
        stack.processes.wait_ready(API, CONSOLE, timeout_s=PATIENCE_S)
        yield stack


@pytest.fixture
async def page(stack: Stack) -> AsyncIterator[Page]:
    """A page of a laptop.

    It fails the test if it asks another server for anything, writes an error to its console, asks something in a dialog of the
    browser's, or ran a script that is not its own or tried to.
    """
    elsewhere: list[str] = []
    errors: list[str] = []

    def asked(request: Request) -> None:
        if not request.url.startswith((stack.console, "data:", "blob:")):
            elsewhere.append(request.url)

    def on_message(message: ConsoleMessage) -> None:
        if message.type == "error" and not any(word in message.text for word in AWAY):
            errors.append(f"{page.url}: {message.text}")

    async with chromium() as browser:
        context = await browser.new_context(viewport={"width": LAPTOP[0], "height": LAPTOP[1]}, color_scheme="light")
        context.set_default_timeout(PATIENCE_MS)
        await context.add_init_script(WATCH)
        page = await context.new_page()
        page.on("request", asked)
        page.on("console", on_message)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(f"a dialog: {dialog.message}"))
        yield page
        await context.close()
    assert elsewhere == []
    assert errors == []


class Seeing:
    """A person before the page."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address

    async def open(self, path: str) -> None:
        """Go there."""
        await self.page.goto(self.address + path)

    async def text(self, words: str) -> None:
        """Wait until it can be read."""
        await expect(self.page.get_by_text(words).first).to_be_visible()

    async def state(self, word: str) -> None:
        """Wait until the job whose page this is, is so."""
        await expect(self.page.locator("main .badge").first).to_contain_text(word)

    async def submit(self, yaml: str, outcome: str) -> None:
        """Write a job, see what would come of it, send it."""
        await self.open(f"/{POOL}/submit")
        await self.page.get_by_role("button", name="YAML").click()
        await self.page.locator(".cm-content").fill(yaml)
        await self.text(outcome)
        await self.page.get_by_role("button", name="Submit", exact=True).click()
        await self.page.wait_for_url(f"**/{POOL}/jobs/*")

    async def act(self, action: str) -> None:
        """One of the job's buttons: look at what it will cause, then do it."""
        await self.page.locator(".actions").get_by_role("button", name=action, exact=True).click()
        await self.sent(action)

    async def sent(self, action: str) -> None:
        """The dialog's own button, and admission's answer."""
        dialog = self.page.get_by_role("dialog")
        await dialog.get_by_text("Effects").wait_for()
        await dialog.get_by_role("button", name=action, exact=True).click()
        await dialog.get_by_text("Accepted").wait_for()
        await dialog.get_by_role("button", name="Close").last.click()

    async def accessible(self, what: str) -> None:
        """In both colour schemes."""
        for scheme in ("dark", "light"):
            await self.page.emulate_media(color_scheme=scheme)
            found = await faults_of_access(self.page)
            assert found == [], f"{what}, {scheme}:\n" + "\n".join(found)
