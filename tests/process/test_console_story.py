"""The main story of the console in a real browser: everything that a person does in it on one evening, on a real Bailiff.

Nothing is mocked: what the page shows comes from the log, and what it asks for goes through Kafka. The page may ask nobody else
for anything, and axe finds nothing against WCAG AA on any screen that the story passes, in both colour schemes.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import ConsoleMessage, Page, Request, expect
from tests.browser import LAPTOP, chromium
from tests.console_eyes import PATIENCE_MS, POOL, Seeing
from tests.system import PATIENCE_S

from bailiff.client import Client
from bailiff_bus.kafka import KafkaBus
from bailiff_devstack.stack import API, CONSOLE, Plan, Stack

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

TRAIN = "name: train-1\nclass: train\ngpus: 8\ncpu: 8\nmemory: 8GiB\ngrace: 5s\ncommand: [sleep, '3000']\n"
SERVE = "name: serve-1\nclass: inference\ngpus: 4\ncpu: 4\nmemory: 4GiB\ngrace: 5s\ncommand: [sleep, '3000']\n"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """All services, the archive with its query interface, and the console."""
    plan = Plan(archive=True, api=True, console=True, env={"BAILIFF_SEAL_SECONDS": "1"})
    with Stack(tmp_path_factory.mktemp("story"), plan, progress=print) as stack:
        stack.processes.wait_ready(API, CONSOLE, timeout_s=PATIENCE_S)
        yield stack


@pytest.fixture
async def page(stack: Stack) -> AsyncIterator[Page]:
    """A page of a laptop. It fails the test if it asks another server for anything, or an error is written to its console."""
    elsewhere: list[str] = []
    errors: list[str] = []

    def asked(request: Request) -> None:
        if not request.url.startswith((stack.console, "data:", "blob:")):
            elsewhere.append(request.url)

    def said(message: ConsoleMessage) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text and "ERR_" not in message.text:
            errors.append(message.text)

    async with chromium() as browser:
        context = await browser.new_context(viewport={"width": LAPTOP[0], "height": LAPTOP[1]}, color_scheme="light")
        context.set_default_timeout(PATIENCE_MS)
        page = await context.new_page()
        page.on("request", asked)
        page.on("console", said)
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
        await context.close()
    assert elsewhere == []
    assert errors == []


async def test_a_preemption_from_the_form_to_the_proof(stack: Stack, page: Page) -> None:
    see = Seeing(page, stack.console)
    await see.open("/")
    await see.text("What runs where")
    await see.accessible("an empty pool")

    await see.submit(TRAIN, "would start at once")
    await see.state("running")
    await see.submit(SERVE, "must leave")
    await see.state("running")
    await see.accessible("a running job")

    # Why was it evicted, for whom, what did it lose, when is it back?
    await see.open(f"/{POOL}/jobs/train-1")
    await see.text("Why it had to leave")
    await expect(page.locator(".reason").get_by_role("link", name="serve-1").first).to_be_visible()
    await see.accessible("a job that was evicted")
    await page.get_by_role("link", name="The decision").first.click()
    await see.text("Who leaves")
    await page.get_by_role("button", name="Verify this record").click()
    await expect(page.locator(".verdict")).to_contain_text("✓ The record stands in the chain")
    await see.accessible("a decision")

    # The urgent job is paused, and the other is back by itself; then it goes on, and the other leaves again.
    await see.open(f"/{POOL}/jobs/serve-1")
    await see.act("Pause")
    await see.state("paused")
    await see.open(f"/{POOL}/jobs/train-1")
    await see.state("running")
    await see.open(f"/{POOL}/jobs/serve-1")
    await see.act("Resume")
    await see.state("running")

    await see.open(f"/{POOL}/queue")
    await expect(page.get_by_role("link", name="train-1").first).to_be_visible()
    await see.accessible("a queue")


async def test_a_node_is_drained_and_taken_back(stack: Stack, page: Page) -> None:
    see = Seeing(page, stack.console)
    await see.open(f"/{POOL}")
    await page.get_by_role("radio", name="Table").check()
    await page.get_by_role("button", name="node-1").click()
    await page.get_by_role("button", name="Drain", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_text("What it will cause").wait_for()
    await dialog.get_by_role("radio").nth(2).check()
    await see.sent("Drain")
    await expect(page.locator(".badge", has_text="drained").first).to_be_visible()
    await see.accessible("a drained node")
    await page.get_by_role("button", name="Undrain", exact=True).click()
    await see.sent("Undrain")
    await expect(page.locator(".badge", has_text="drained")).to_have_count(0)


async def test_a_page_that_loses_its_console_goes_on_where_it_was(stack: Stack, page: Page) -> None:
    see = Seeing(page, stack.console)
    await see.open(f"/{POOL}/jobs/train-1")
    await see.text("live, record")
    await asyncio.to_thread(stack.processes.kill9, CONSOLE)
    await see.text("connection lost")

    async with Client(KafkaBus(stack.kafka.bootstrap), source="/test") as client:
        asked = await client.cancel("train-1", reason="meanwhile", domain=POOL)
        assert (await client.outcome_of(asked, PATIENCE_S)) is not None
    stack.start_service(CONSOLE)
    await see.text("live, record")
    await see.state("cancelled")
    await see.accessible("a job that has ended")
