"""More console tests in a real browser: changed bytes, past states, a phone, keyboard only, unavailable services.

The pool has hostile names and logs, which no page may execute.
"""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect
from tests.kits.archive import query
from tests.kits.browser import IN_ONE_BROWSER, LAPTOP, PHONE, TABLET
from tests.kits.console_eyes import HOSTILE, LINK, POOL, Seeing
from tests.kits.console_keys import Keys
from tests.kits.system import PATIENCE_S

from bailiff.client.client import Client
from bailiff_bus.kafka import KafkaBus
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records.job_requests import CancelJob, SubmitJob
from bailiff_devstack.kafka import EmbeddedKafka
from bailiff_devstack.stack import API, AUDITOR, Stack

pytestmark = [IN_ONE_BROWSER, pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(600)]

SCROLLS = """() => {
  const all = root => [...root.querySelectorAll("*")].flatMap(each => [each, ...(each.shadowRoot ? all(each.shadowRoot) : [])]);
  const over = (how, whole, shown) => /auto|scroll/.test(how) && whole > shown + 1;
  const scrolls = each => {
    const { overflowX, overflowY } = getComputedStyle(each);
    return over(overflowX, each.scrollWidth, each.clientWidth) || over(overflowY, each.scrollHeight, each.clientHeight);
  };
  const page = document.documentElement;
  const found = all(document.body).filter(each => each.clientWidth && !each.matches(".log, dialog .body") && scrolls(each));
  if (page.scrollWidth > page.clientWidth + 1) found.push(page);
  const beyond = (part, box) => part.getBoundingClientRect().right > box.getBoundingClientRect().right + 1;
  for (const box of document.querySelectorAll(".figure"))
    found.push(...[...box.querySelectorAll("*")].filter(each => beyond(each, box)));
  return found.map(each => `${each.tagName}.${each.className}: ${each.scrollWidth} × ${each.scrollHeight}`);
}"""
"""What has scroll bars of its own, what is beyond the box of its figure, and the page if it is too wide.

Only a log, which follows its end, and a dialog may scroll.
"""
PAGES = (
    "",
    "/overview",
    "/jobs",
    "/nodes/node-1",
    "/policy",
    "/queue",
    "/projects",
    "/accounting",
    "/accounting?project=vision",
    "/record",
    "/timeline",
    "/timeline?at=3",
    "/record?seq=3",
    "/what-if",
    "/submit",
    "/jobs/big",
    "/jobs/big?tab=evictions",
    "/jobs/big?tab=events",
    "/jobs/hostile?tab=log",
    "/jobs/nobody",
    "/nodes/nobody",
    "/decisions/3",
    "/nonsense",
)
SECOND = 1_000_000
GIB = 1 << 30


@pytest_asyncio.fixture(loop_scope="module")
async def client(stack: Stack) -> AsyncIterator[Client]:
    """A client that submits with a hostile name."""
    async with Client(KafkaBus(stack.kafka.bootstrap), source="/stories", actor=HOSTILE) as client:
        yield client


def job(name: str, gpus: int, kind: str = "train", command: tuple[str, ...] = ("sleep", "3000")) -> SubmitJob:
    group = TaskGroup(gpu_milli=gpus * 1000, cpu_milli=1000, memory_bytes=GIB)
    demand = JobDemand(job=name, tasks=(group,), priority_class=kind, labels={"link": LINK}, grace=5 * SECOND)
    return SubmitJob(demand=demand, spec=JobSpec(command=command))


async def done(client: Client, *requests: SubmitJob | CancelJob) -> None:
    """Wait until the requests are answered; a job that exists already is no error."""
    for requested in await client.requests(POOL, list(requests)):
        assert await client.outcome_of(requested, PATIENCE_S) is not None


async def a_preemption(client: Client) -> None:
    """`big` runs on the machine, `urgent` preempts it, `hostile` prints hostile lines. Once for all tests."""
    if POOL in await client.pools() and "urgent" in (await client.projection(POOL)).state.jobs:
        return
    hostile_line = HOSTILE.replace("'", '"')
    await done(client, job("hostile", 1, "inference", command=("sh", "-c", f"echo '{hostile_line}'; sleep 3000")), job("big", 7))
    await running(client, "big")
    await done(client, job("urgent", 4, "inference"))
    await running(client, "urgent")


async def running(client: Client, name: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await client.projection(POOL)).state.jobs[name].phase != "running":  # noqa: ASYNC110 - it is another process that makes it so
            await asyncio.sleep(0.1)


async def test_archived_bytes_that_were_changed_are_seen_in_the_browser(stack: Stack, page: Page, client: Client) -> None:
    see = Seeing(page, stack.console)
    await a_preemption(client)
    await see.open(f"/{POOL}/jobs/big")
    await page.get_by_role("link", name="Decision #").first.click()
    await see.text("Victims")
    verdict = page.locator(".verdict")
    await page.get_by_role("button", name="Verify this record").click()
    await expect(verdict).to_contain_text("✓")

    seq = int(page.url.rpartition("/")[2])
    (kept,) = await query(stack.postgres.dsn, "SELECT value FROM records WHERE seq = $1", seq)
    changed = kept["value"].replace(b'"urgent"', b'"urgens"')
    assert changed != kept["value"]
    await query(stack.postgres.dsn, "UPDATE records SET value = $2 WHERE seq = $1", seq, changed)
    try:
        await page.get_by_role("button", name="Verify again").click()
        await expect(verdict).to_contain_text("✗ Verification failed.")
        await expect(page.locator(".checks [data-tone=bad]").first).to_be_visible()
        await see.accessible("a decision that fails verification")
    finally:
        await query(stack.postgres.dsn, "UPDATE records SET value = $2 WHERE seq = $1", seq, kept["value"])
    await page.get_by_role("button", name="Verify again").click()
    await expect(verdict).to_contain_text("✓")


async def test_the_past_and_the_raw_record(stack: Stack, page: Page, client: Client) -> None:
    see = Seeing(page, stack.console)
    await a_preemption(client)
    await see.open(f"/{POOL}/timeline?at=0")
    await see.text("No nodes were registered.")
    slider = page.get_by_role("slider")
    await slider.press("End")
    await see.text("1 node, 8 GPUs")
    await see.accessible("a past state")
    await see.open(f"/{POOL}/record?seq=0")
    await expect(page.get_by_role("dialog").locator("pre.raw")).to_be_visible()
    await see.accessible("a raw record")


async def test_a_preemption_on_the_timeline_and_in_the_player_by_keyboard_alone(stack: Stack, page: Page, client: Client) -> None:
    see, keys = Seeing(page, stack.console), Keys(page)
    await a_preemption(client)
    await see.open(f"/{POOL}/overview")
    await keys.go_to("Timeline", "a")
    await keys.press("Enter")
    await page.wait_for_url("**/timeline")
    await expect(page.locator(".timeline-bar", has_text="urgent").first).to_be_visible()
    await expect(page.locator(".timeline-arrow")).not_to_have_count(0)
    await expect(page.locator(".timeline-shade").first).to_be_attached()
    await see.accessible("the timeline")

    # The player goes to the decision before, which the browser verifies, and Enter opens it.
    await keys.go_to("Timeline of 8 GPUs", "div")
    await keys.press("+")
    await page.wait_for_url("**from=*")
    await keys.press("p")
    await see.text("has the hash that its bytes give")
    await expect(page.locator(".timeline-playhead")).to_be_visible()
    await expect(page.locator(".record-summary")).to_contain_text("Preemption decided urgent")
    verifier = page.get_by_role("region", name="Verifier")
    await expect(verifier.get_by_text(re.compile(r"✓ #\d+ is included in the seal over the first \d+ records"))).to_be_visible()
    await expect(verifier.get_by_text(re.compile(r"✓ (\d+) of \1 proposals? up to here reproduced"))).to_be_visible()
    await see.accessible("the player at a decision")
    decision = page.url
    await keys.press("Enter")
    await page.wait_for_url("**/decisions/*")
    await see.text("Victims")

    # A reload keeps the position. What the auditor could not reproduce is said beside it.
    dsn, text = stack.postgres.dsn, "Searched again: other victims."
    await query(dsn, "UPDATE proposal_checks SET result = 'not-reproduced', text = $1", text)
    try:
        await page.goto(decision)
        await expect(verifier.get_by_text("is not reproduced.")).to_be_visible()
        await expect(verifier.get_by_text(text)).to_be_visible()
        await see.accessible("the player at a proposal that is not reproduced")
    finally:
        await query(dsn, "UPDATE proposal_checks SET result = 'reproduced', text = ''")

    # It plays from decision to decision, on its slider, and stops at the newest.
    await see.open(f"/{POOL}/timeline?at=0")
    await see.text("No nodes were registered.")
    await keys.go_to("Evictions", "input")
    await keys.press("ArrowRight")
    await expect(page.get_by_role("radio", name="Decisions")).to_be_checked()
    await keys.go_to("Speed", "select")
    await keys.type("fastest")
    await expect(page.get_by_label("Speed")).to_have_value("0")
    newest = (await query(dsn, "SELECT max(seq) AS seq FROM records WHERE decision"))[0]["seq"]
    await keys.go_to("Record of the log", "input")
    await keys.press("Space")
    await page.wait_for_url(f"**at={newest}*")
    await expect(page.get_by_role("button", name="Play forward")).to_be_visible()
    await keys.press("p")
    await page.wait_for_url(lambda url: f"at={newest}" not in url)
    await keys.press("Home")
    await page.wait_for_url("**at=0*")
    await keys.go_to("Go to a record or a time", "input")
    await keys.type("#3")
    await keys.press("Enter")
    await page.wait_for_url("**at=3*")

    # As text.
    await see.open(f"/{POOL}/timeline")
    await see.text("GPUs over time")
    await keys.go_to("Picture", "input")
    await keys.press("ArrowRight")
    preemptions = page.get_by_role("region", name="Preemptions, newest first")
    await expect(preemptions.get_by_role("link", name="urgent").first).to_be_visible()
    await expect(preemptions.get_by_role("link", name="big").first).to_be_visible()
    await see.accessible("the timeline as a table")


@pytest.mark.parametrize("size", [LAPTOP, TABLET, PHONE], ids=("laptop", "tablet", "phone"))
async def test_every_page_is_accessible_and_nothing_in_it_scrolls(
    stack: Stack, page: Page, client: Client, size: tuple[int, int]
) -> None:
    see = Seeing(page, stack.console)
    await a_preemption(client)
    await page.set_viewport_size({"width": size[0], "height": size[1]})
    wide: dict[str, object] = {}
    for path in PAGES:
        await see.open(f"/{POOL}{path}")
        await page.get_by_text("live, record").wait_for()
        await page.wait_for_load_state("load")
        await expect(page.locator("main .loading")).to_have_count(0)
        await page.evaluate("document.querySelectorAll('main details').forEach(each => each.open = true)")
        await page.mouse.move(5, 5)
        if await page.locator("main .editor").count():
            await page.locator(".cm-content").wait_for()
        await expect(page.locator("main .loading")).to_have_count(0)
        if found := await page.evaluate(SCROLLS):
            wide[path] = found
        await see.accessible(f"{path or '/'} at {size[0]} px")
    assert wide == {}


async def test_a_table_that_does_not_fit_is_shown_as_blocks(stack: Stack, page: Page, client: Client) -> None:
    await a_preemption(client)
    await page.set_viewport_size({"width": 1280, "height": 900})
    await Seeing(page, stack.console).open(f"/{POOL}/nodes/node-1")
    await expect(page.locator("main tbody tr").first).to_be_visible()
    await expect(page.locator("main table.stacked")).to_have_count(0)
    await page.evaluate("document.querySelector('main th:last-child').append('x'.repeat(80))")
    for width, stacked in ((1270, 1), (2000, 0)):
        await page.set_viewport_size({"width": width, "height": 900})
        await expect(page.locator("main table.stacked")).to_have_count(stacked)
        assert await page.evaluate(SCROLLS) == []


async def test_the_queue_and_a_policy(stack: Stack, page: Page, client: Client) -> None:
    see = Seeing(page, stack.console)
    await a_preemption(client)
    await see.open(f"/{POOL}/queue")
    await page.get_by_role("button", name="What would unblock it? big").click()
    await expect(page.locator(".explanation li").first).to_be_visible()
    await see.accessible("what would unblock a job")
    await see.open(f"/{POOL}/projects")
    await see.accessible("projects, with none defined")
    await see.open(f"/{POOL}/what-if")
    await page.get_by_role("button", name="Policy", exact=True).click()
    await page.locator("summary", has_text="YAML").click()
    editor = page.get_by_label("Policy as YAML")
    await editor.fill("preemption: {scope: nowhere}\n")
    await see.text("Invalid policy")
    await see.accessible("a policy with a fault")

    # The code of a page cannot be loaded, as after an update of the console: the page says so, and loading again helps.
    await page.route("**/assets/JobsPage-*.js", lambda route: route.abort())
    await see.open(f"/{POOL}/jobs")
    await see.text("This page could not be loaded")
    await page.unroute("**/assets/JobsPage-*.js")
    await page.get_by_role("button", name="Retry").click()
    await page.get_by_label("Name contains").wait_for()


async def test_by_keyboard_alone(stack: Stack, page: Page, client: Client) -> None:
    await a_preemption(client)
    see, keys = Seeing(page, stack.console), Keys(page)
    await see.open(f"/{POOL}")
    await see.text("GPU allocation")
    await keys.go_to("Submit", "a")
    await keys.press("Enter")
    await page.wait_for_url("**/submit")
    await keys.go_to("YAML", "button")
    await keys.press("Enter")
    await keys.go_to("Job as YAML", "div")
    await keys.press("Control+a")  # what the form begins with
    async with page.expect_response(lambda answer: "sleep 3000" in (answer.request.post_data or "")):  # the plan of all of it
        await keys.type("name: by-keys\nclass: inference\ngpus: 1\ncpu: 1\nmemory: 1GiB\ncommand: sleep 3000\n")
    await see.text("would start immediately")
    await keys.go_to("Submit", "button")
    await keys.press("Enter")
    await page.wait_for_url("**/jobs/by-keys")
    await see.state("running")

    await keys.go_to("Pause", "button")
    await keys.press("Enter")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_text("Effects").wait_for()
    await keys.go_to("Pause", "button")
    await keys.press("Enter")
    await dialog.get_by_text("Accepted").wait_for()
    await keys.press("Escape")
    await see.state("paused")

    await see.open(f"/{POOL}/jobs")
    await keys.go_to("big", "a")
    await keys.press("Enter")
    await see.text("Why it was evicted")
    await page.get_by_role("tab", name="Shell").wait_for()  # which shows once it is known what one may do
    await keys.go_to("Overview", "button")
    for tab, shown in (("events", "Events"), ("shell", "Shell"), ("log", "Log")):
        await keys.press("ArrowLeft")
        await page.wait_for_url(f"**/jobs/big?tab={tab}")
        assert (await keys.at())["name"] == shown
    for _ in range(3):
        await keys.press("ArrowRight")
    await page.wait_for_url("**/jobs/big")
    await keys.go_to("Decision #", "a")
    await keys.press("Enter")
    await keys.go_to("Verify this record", "button")
    await keys.press("Enter")
    await expect(page.locator(".verdict")).to_contain_text("✓ The record is in the chain")


async def test_what_comes_late_does_not_move_the_focus_out_of_view(stack: Stack, page: Page, client: Client) -> None:
    """As measurements do that arrive while the last line of a job's page has the focus."""
    await a_preemption(client)
    see, keys = Seeing(page, stack.console), Keys(page)
    await see.open(f"/{POOL}/jobs/big")
    await keys.go_to("Full explanation", "summary")
    await page.evaluate(
        "document.querySelector('main h1').after(Object.assign(document.createElement('pre'), {textContent: '\\n'.repeat(99)}))"
    )
    assert (await keys.at())["tag"] == "summary"
    await page.mouse.move(700, 450)
    await page.mouse.wheel(0, -5000)
    await page.wait_for_function("() => scrollY === 0")
    await page.evaluate("document.querySelector('main h1').after(document.createElement('hr'))")
    assert await page.evaluate("() => new Promise(done => setTimeout(() => requestAnimationFrame(() => done(scrollY)), 0))") == 0


async def test_several_jobs_and_a_node_by_keyboard_alone(stack: Stack, page: Page, client: Client) -> None:
    await a_preemption(client)
    await done(client, job("by-hand", 1, "inference"))
    see, keys = Seeing(page, stack.console), Keys(page)
    dialog = page.get_by_role("dialog")
    await see.open(f"/{POOL}/jobs?name=by-hand")
    await page.get_by_label("Select by-hand").wait_for()
    await keys.go_to("Select by-hand", "input")
    await keys.press("Space")
    await keys.go_to("Pause", "button")
    await keys.press("Enter")
    await dialog.get_by_text("gets the signal TERM").wait_for()
    await keys.go_to("Pause 1 job", "button")
    await keys.press("Enter")
    await dialog.get_by_text("✓ accepted").wait_for()
    await see.accessible("the answer to a request for several jobs")
    await keys.press("Escape")

    await keys.press("Control+k")
    await keys.type("node-1")
    await see.accessible("the palette")
    await keys.press("Enter")
    await page.wait_for_url("**/nodes/node-1")
    for action, state in (("Drain", "draining"), ("Undrain", "ready")):
        await page.get_by_role("button", name=action, exact=True).wait_for()
        await keys.go_to(action, "button")
        await keys.press("Enter")
        await dialog.get_by_text("Effects").wait_for()
        await see.accessible(f"the dialog {action}")
        await keys.go_to(action, "button")
        await keys.press("Enter")
        await dialog.get_by_text("Accepted").wait_for()
        await keys.press("Escape")
        await expect(page.locator(".page-head .badge").first).to_contain_text(state)
    await page.get_by_role("button", name="Notices").press("Enter")
    await see.text("Notify me in this browser")
    await see.accessible("the bell")


async def test_unavailable_services_are_shown_and_recover(stack: Stack, page: Page, client: Client) -> None:
    see = Seeing(page, stack.console)
    await a_preemption(client)
    await see.open(f"/{POOL}/queue")
    await see.text("live, record")
    assert isinstance(stack.kafka, EmbeddedKafka)
    for stop, go_on in ((stack.kafka.pause, stack.kafka.resume), (stack.kafka.kill, stack.kafka.start)):
        await asyncio.to_thread(stop)
        try:
            await see.text("Kafka is unavailable")
            await expect(page.get_by_role("link", name="big").first).to_be_visible()  # the last state stays visible
            await see.accessible("Kafka unavailable")
        finally:
            await asyncio.to_thread(go_on)
        await expect(page.get_by_text("Kafka is unavailable")).to_have_count(0)
    await asyncio.to_thread(stack.processes.kill9, API)
    await see.text("The archive is unavailable")
    await see.accessible("the archive unavailable")
    await asyncio.to_thread(stack.start_service, API)
    await expect(page.get_by_text("The archive is unavailable")).to_have_count(0)


async def test_pages_say_that_the_auditor_is_away_stay_readable_and_go_on_once_it_is_back(
    stack: Stack, page: Page, client: Client
) -> None:
    see = Seeing(page, stack.console)
    away = page.get_by_text("The auditor does not report since")
    await a_preemption(client)
    await see.open(f"/{POOL}/record")
    await see.text("verified by the archive up to")
    await asyncio.to_thread(stack.processes.kill9, AUDITOR)
    try:
        await done(client, job("meanwhile", 1))
        await expect(away).to_be_visible()
        await see.text("meanwhile")  # the records of the live stream
        newest = (await client.projection(POOL)).state.seq
        for path in (*PAGES, "/jobs/meanwhile", "/jobs/meanwhile?tab=events", f"/timeline?at={newest}", f"/decisions/{newest}"):
            await see.open(f"/{POOL}{path}")
            await expect(away).to_be_visible()
            await expect(page.locator("main .loading")).to_have_count(0)
        await see.open(f"/{POOL}/timeline?at={newest}")
        await see.text("is not archived yet")
        await see.accessible("a record that the auditor has not seen")
    finally:
        await asyncio.to_thread(stack.start_service, AUDITOR)
    await expect(away).to_have_count(0)
    await see.text(f"✓ Chain verified up to #{newest}"[:-1])
