"""A person before the console's pages: goes somewhere, reads, presses buttons, and looks at it with axe."""

from playwright.async_api import Page, expect
from tests.browser import faults_of_access
from tests.system import PATIENCE_S

POOL = "pool-a"
PATIENCE_MS = PATIENCE_S * 1000


class Seeing:
    """A person before the page."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address

    async def open(self, path: str) -> None:
        """Go there."""
        await self.page.goto(self.address + path)

    async def text(self, words: str) -> None:
        """Wait until it can be read."""
        await expect(self.page.get_by_text(words).first).to_be_visible(timeout=PATIENCE_MS)

    async def state(self, word: str) -> None:
        """Wait until the job whose page this is, is so."""
        await expect(self.page.locator("main .badge").first).to_contain_text(word, timeout=PATIENCE_MS)

    async def submit(self, yaml: str, outcome: str) -> None:
        """Write a job, see what would come of it, send it."""
        await self.open(f"/{POOL}/submit")
        await self.page.get_by_role("button", name="YAML").click()
        await self.page.locator(".cm-content").fill(yaml)
        await self.text(outcome)
        await self.page.get_by_role("button", name="Submit", exact=True).click()
        await self.page.wait_for_url(f"**/{POOL}/jobs/*")

    async def act(self, verb: str) -> None:
        """One of the job's buttons: look at what it will cause, then do it."""
        await self.page.locator(".actions").get_by_role("button", name=verb, exact=True).click()
        await self.sent(verb)

    async def sent(self, verb: str) -> None:
        """The dialog's own button, and admission's answer."""
        dialog = self.page.get_by_role("dialog")
        await dialog.get_by_text("What it will cause").wait_for()
        await dialog.get_by_role("button", name=verb, exact=True).click()
        await dialog.get_by_text("Accepted").wait_for()
        await dialog.get_by_role("button", name="Close").last.click()

    async def accessible(self, what: str) -> None:
        """In both colour schemes."""
        for scheme in ("dark", "light"):
            await self.page.emulate_media(color_scheme=scheme)
            found = await faults_of_access(self.page)
            assert found == [], f"{what}, {scheme}:\n" + "\n".join(found)
