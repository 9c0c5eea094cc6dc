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
from bailiff_bus.messages import JobSpec
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_devstack.stack import API, CONSOLE, Plan, Stack

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

TRAIN = "name: train-1\nclass: train\ngpus: 8\ncpu: 8\nmemory: 8GiB\ngrace: 5s\ncommand: [sleep, '3000']\n"
HOSTILE = "<img src=x onerror=\"window.pwned='img'\"><script>window.pwned='script'</script>"
LINK = "javascript:window.pwned='link'"
WATCH = """
window.stopped = [];
document.addEventListener('securitypolicyviolation', event => window.stopped.push(event.violatedDirective + event.blockedURI));
"""
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


async def test_what_is_hostile_is_only_text(stack: Stack, page: Page) -> None:
    see = Seeing(page, stack.console)
    await page.add_init_script(WATCH)
    says = HOSTILE.replace("'", '"')
    group = TaskGroup(gpu_milli=0, cpu_milli=1000, memory_bytes=1 << 30)
    demand = JobDemand(job="talks", tasks=(group,), priority_class="inference", user=LINK)
    async with Client(KafkaBus(stack.kafka.bootstrap), source="/test", actor=HOSTILE) as client:
        asked = await client.submit(demand, JobSpec(command=("sh", "-c", f"echo '{says}'; sleep 3000")), domain=POOL)
        assert (await client.outcome_of(asked, PATIENCE_S)) is not None
        await see.open(f"/{POOL}/jobs/talks")
        await expect(page.locator(".log")).to_contain_text("<img src=x onerror=", timeout=PATIENCE_MS)
        await see.accessible("a hostile log")
        asked = await client.cancel("talks", reason=HOSTILE, domain=POOL)
        assert (await client.outcome_of(asked, PATIENCE_S)) is not None
    await see.state("cancelled")
    for path, words in (
        (f"/{POOL}/record", "talks"),
        (f"/{POOL}/jobs/<img src=x onerror=window.pwned=1>", "There is no job"),
        ("/javascript:window.pwned=1/queue", "There is no pool"),
    ):
        await see.open(path)
        await see.text(words)
        assert await page.locator("main img, main script, a[href^='javascript:']").count() == 0
        assert await page.evaluate("[window.pwned ?? null, window.stopped]") == [None, []], path


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
