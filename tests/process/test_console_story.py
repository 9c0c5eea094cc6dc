"""The main console test in a real browser: all actions of a user, on a complete system.

Nothing is mocked: the page's data comes from the log, and its requests go through Kafka. The page may contact no other server,
and axe finds no violation of WCAG AA on any screen of the test: each in one colour scheme, in the long stories in both.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page, Route, expect
from tests.kits.browser import IN_ONE_BROWSER
from tests.kits.console_eyes import HOSTILE, LINK, POOL, Scheme, Seeing
from tests.kits.criu import needs_criu
from tests.kits.lighthouse import GOOD, MAIN_PAGES, Report, lighthouse, signed_in
from tests.kits.system import PATIENCE_S

from bailiff.client.client import Client
from bailiff_bus.kafka import KafkaBus
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import ENDED
from bailiff_core.records.facts import AttachGranted
from bailiff_core.records.pool_requests import ApplyPolicy
from bailiff_devstack.stack import CONSOLE, Stack

pytestmark = [IN_ONE_BROWSER, pytest.mark.kafka, pytest.mark.timeout(600)]

LIGHT: tuple[Scheme, ...] = ("light",)
DARK: tuple[Scheme, ...] = ("dark",)
NODE_AGENT = "node-agent"
TRAIN = "name: train-1\nclass: train\ngpus: 8\ncpu: 8\nmemory: 8GiB\ngrace: 5s\ncommand: [sleep, '3000']\n"
SAVED = "name: {name}\nclass: train\ncheckpoint: {how}\ncpu: 1\nmemory: 64MiB\ngrace: 5s\ncommand: [sleep, '3000']\n"
SERVE = "name: serve-1\nclass: inference\ngpus: 4\ncpu: 4\nmemory: 4GiB\ngrace: 5s\ncommand: [sleep, '3000']\n"


@pytest_asyncio.fixture(loop_scope="module")
async def keeping_the_policy(stack: Stack) -> AsyncIterator[Client]:
    """A client. After the test the policy is what it was before."""
    async with Client(KafkaBus(stack.kafka.bootstrap), source="/test") as client:
        before = (await client.projection(POOL)).state.rules
        yield client
        await applied(client, before)


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def leaving_an_empty_pool(stack: Stack) -> AsyncIterator[None]:
    """After the test no job runs or is pending, so that no test needs another."""
    yield
    async with Client(KafkaBus(stack.kafka.bootstrap), source="/test") as client, asyncio.timeout(PATIENCE_S):
        state = (await client.projection(POOL)).state
        for job in [each.id for each in state.jobs.values() if each.phase not in ENDED]:
            await client.cancel(job, pool=POOL)
        while any(each.phase not in ENDED for each in (await client.projection(POOL)).state.jobs.values()):  # noqa: ASYNC110 - their grace
            await asyncio.sleep(0.1)


@pytest_asyncio.fixture(loop_scope="module")
async def preemption(stack: Stack, request: pytest.FixtureRequest) -> tuple[str, str]:
    """A victim that is pending, and its preemptor, which runs: 8 and 4 GPUs, named after the test."""
    suffix = hashlib.sha256(request.node.name.encode()).hexdigest()[:6]
    victim, preemptor = f"train-{suffix}", f"serve-{suffix}"
    spec = JobSpec(command=("sleep", "3000"))
    async with Client(KafkaBus(stack.kafka.bootstrap), source="/test") as client, asyncio.timeout(PATIENCE_S):
        for job, kind, gpus in ((victim, "train", 8), (preemptor, "inference", 4)):
            group = TaskGroup(gpu_milli=gpus * 1000, cpu_milli=1000, memory_bytes=1 << 30)
            demand = JobDemand(job=job, tasks=(group,), priority_class=kind)
            await client.outcome_of(await client.submit(demand, spec, pool=POOL), PATIENCE_S)
            while (await client.projection(POOL)).state.jobs[job].phase != "running":  # noqa: ASYNC110 - the victim saves first
                await asyncio.sleep(0.1)
    return victim, preemptor


async def applied(client: Client, policy: Policy) -> None:
    requested = await client.request(POOL, ApplyPolicy(policy=policy))
    assert (await client.outcome_of(requested, PATIENCE_S)) is not None


async def test_pages_opened_before_the_pool_exists_show_it_as_soon_as_it_does(stack: Stack, page: Page) -> None:
    async def no_pool_yet(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, json={**await answer.json(), "pools": []})

    see = Seeing(page, stack.console, LIGHT)
    for path, absent, shown in (
        ("/", "No pool exists yet", "Needs attention"),
        (f"/{POOL}/queue", "does not exist", "live, record"),
    ):
        await page.route("**/api/pools", no_pool_yet)
        await see.open(path)
        await see.text(absent)
        await page.unroute("**/api/pools", no_pool_yet)
        await see.text(shown)


async def test_a_preemption_from_the_form_to_the_proof(stack: Stack, page: Page) -> None:
    see = Seeing(page, stack.console, LIGHT)
    await see.open("/")
    await see.text("Needs attention")
    await see.accessible("an empty pool")

    await see.submit(TRAIN, "would start immediately")
    await see.state("running")
    await see.submit(SERVE, "Starts by preemption")
    await see.state("running")
    await see.accessible("a running job")

    # Why was it evicted, by which preemptor, what did it lose, when does it resume?
    await see.open(f"/{POOL}/jobs/train-1")
    await see.text("Why it was evicted")
    await expect(page.locator(".eviction-card").get_by_role("link", name="serve-1").first).to_be_visible()
    await see.accessible("a job that was evicted")
    await page.get_by_role("link", name="Decision #").first.click()
    await see.text("Victims")
    await page.get_by_role("button", name="Verify this record").click()
    await expect(page.locator(".verdict")).to_contain_text("✓ The record is in the chain")
    await see.accessible("a decision")

    # The urgent job is paused and its victim resumes; then the urgent job is resumed and the victim is preempted again.
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


async def test_lighthouse_finds_every_main_page_accessible_and_fast(
    stack: Stack, page: Page, preemption: tuple[str, str]
) -> None:
    see, victim = Seeing(page, stack.console), preemption[0]
    await see.open(f"/{POOL}/jobs/{victim}?tab=evictions")
    await page.get_by_role("link", name="Decision #").first.click()
    await see.text("Victims")
    cookie, decision = await signed_in(page, stack.console_link), page.url.rpartition("/")[2]
    few_at_once = asyncio.Semaphore(4)  # it mostly waits for pages to become quiet

    async def judged(path: str) -> Report:
        address = stack.console + path.format(pool=POOL, job=victim, node="node-1", decision=decision)
        async with few_at_once:
            return await lighthouse(address, cookie, "accessibility", counted=True)

    reports = await asyncio.gather(*map(judged, MAIN_PAGES.values()))
    found = dict(zip(MAIN_PAGES, reports, strict=True))
    assert {name: report.faults for name, report in found.items() if report.faults} == {}
    assert min(report.score for report in found.values()) >= GOOD
    assert {name: report.slow for name, report in found.items() if report.slow} == {}


@pytest.mark.usefixtures("preemption")
async def test_a_node_is_drained_and_taken_back(stack: Stack, page: Page) -> None:
    see = Seeing(page, stack.console, DARK)
    await see.open(f"/{POOL}")
    await page.get_by_role("radio", name="Table").check()
    await page.get_by_role("link", name="node-1").click()
    await page.get_by_role("button", name="Drain", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_text("Effects").wait_for()
    await dialog.get_by_role("radio").nth(2).check()
    await see.sent("Drain")
    await expect(page.locator(".badge", has_text="drained").first).to_be_visible()
    await see.accessible("a drained node")
    await page.get_by_role("button", name="Undrain", exact=True).click()
    await see.sent("Undrain")
    await expect(page.locator(".badge", has_text="drained")).to_have_count(0)


async def test_overview_jobs_and_node(stack: Stack, page: Page, preemption: tuple[str, str]) -> None:
    see, (victim, preemptor) = Seeing(page, stack.console, DARK), preemption
    await see.open("/")
    await page.wait_for_url(f"**/{POOL}/overview")
    await see.text("By project")
    await expect(page.locator(".concerns li, main :text('Nothing: no alarms')").first).to_be_visible()
    await see.accessible("the overview")

    # All jobs: the filter is in the address, and the request for several is previewed and answered one by one.
    await page.get_by_role("link", name="Jobs", exact=True).click()
    await page.get_by_label("Name contains").fill(preemptor)
    await page.wait_for_url(f"**/jobs?name={preemptor}")
    await expect(page.get_by_role("link", name=victim)).to_have_count(0)
    await page.get_by_label(f"Select {preemptor}").check()
    for action, state in (("Pause", "paused"), ("Resume", "running")):
        await page.get_by_role("toolbar").get_by_role("button", name=action).click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name=f"{action} 1 job").click()
        await expect(dialog.get_by_text("✓ accepted")).to_be_visible()
        await see.accessible(f"{action} several jobs")
        await dialog.get_by_role("button", name="Close").last.click()
        await expect(page.locator("main .badge", has_text=state).first).to_be_visible()
        if action == "Pause":
            await page.get_by_label(f"Select {preemptor}").check()
    await see.accessible("all jobs")

    # By keyboard: the palette leads to the node's page.
    await page.keyboard.press("Escape")
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Page, job, node or project").fill("node-1")
    await see.accessible("the command palette")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/nodes/node-1")
    await page.get_by_role("tab", name="What ran here").click()
    await expect(
        page.get_by_role("region", name="Allocations on node-1").get_by_role("link", name=preemptor).first
    ).to_be_visible()
    await see.accessible("a node")
    await page.keyboard.press("?")
    await see.text("go to a page, job, node or project")
    await page.keyboard.press("Escape")


async def test_a_project_is_added_to_the_policy_and_an_overtaken_draft_is_checked(
    stack: Stack, page: Page, keeping_the_policy: Client
) -> None:
    see = Seeing(page, stack.console, DARK)
    # In the form, then seen in the YAML and among the effects, and applied.
    await see.open(f"/{POOL}/policy")
    await page.get_by_label("Name of the new project").fill("robots")
    await page.get_by_role("button", name="Add project").click()
    await expect(page.get_by_label("GPU quota of robots")).to_have_value("0")
    await see.text("projects.robots: new")
    await see.accessible("the policy")
    await page.get_by_role("button", name="Apply…").click()
    await page.get_by_role("dialog").get_by_label("Reason").fill("robots need GPUs")
    await see.sent("Apply")
    await see.text("This is the policy in force")
    await expect(page.get_by_text("The policy in force has changed")).to_have_count(0)
    await see.open(f"/{POOL}/record")
    await see.text("reason: robots need GPUs")

    # A draft that another's policy has overtaken cannot be applied until its differences were seen.
    await see.open(f"/{POOL}/policy")
    await page.get_by_label("GPU quota of robots").fill("1")
    await expect(page.get_by_role("button", name="Apply…")).to_be_enabled()
    in_force = (await keeping_the_policy.projection(POOL)).state.rules
    await applied(keeping_the_policy, in_force.model_copy(update={"max_rejections_per_minute": 1_000}))
    await see.text("The policy in force has changed")
    await expect(page.get_by_role("button", name="Apply…")).to_be_disabled()
    await see.accessible("an overtaken draft")
    await page.get_by_role("button", name="I have checked them").click()
    await expect(page.get_by_role("button", name="Apply…")).to_be_enabled()
    await see.open(f"/{POOL}/nowhere")
    await see.text("Page not found")
    await expect(page.locator("main .loading")).to_have_count(0)


@needs_criu
async def test_a_running_job_is_saved_by_its_node(stack: Stack, page: Page) -> None:
    see = Seeing(page, stack.console, LIGHT)
    async with Client(KafkaBus(stack.kafka.bootstrap), source="/test") as client, asyncio.timeout(PATIENCE_S):
        while not all(node.snapshots for node in (await client.projection(POOL)).state.nodes.values()):  # noqa: ASYNC110 - it tries CRIU first
            await asyncio.sleep(0.1)
    await see.submit(SAVED.format(name="unsaved", how="job"), "would start immediately")
    await see.state("running")
    await page.get_by_role("button", name="Checkpoint").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("unsaved cannot be saved: its checkpoint is neither snapshot nor auto")
    await expect(dialog.get_by_role("button", name="Checkpoint")).to_be_disabled()

    await see.submit(SAVED.format(name="saved", how="snapshot"), "would start immediately")
    await see.state("running")
    await page.get_by_role("button", name="Checkpoint").click()
    await expect(dialog).to_contain_text("node-1 saves the memory and files of saved")
    await see.accessible("the dialog Checkpoint")
    await dialog.get_by_label("Reason").fill("before the new driver")
    await see.sent("Checkpoint")
    await page.get_by_role("tab", name="Events").click()
    await see.text("before the new driver")
    await see.text("snapshot stored")
    await see.state("running")


async def test_a_shell_beside_a_job_ends_with_its_agent_and_with_the_job_and_shows_only_text(stack: Stack, page: Page) -> None:
    see = Seeing(page, stack.console, LIGHT)
    await see.submit("name: batch-1\nclass: train\ncpu: 1\nenv: {LR: '0.1'}\ncommand: [sleep, '3000']\n", "would start")
    await see.state("running")
    await page.get_by_role("tab", name="Shell").click()
    await page.get_by_role("button", name="Open a shell").click()
    shell = page.get_by_role("textbox", name="Shell of batch-1")
    await see.text("Connected.")
    await expect(shell).to_be_focused()
    await page.keyboard.type("echo LR=$LR in $BAILIFF_TASK; tty\n")
    await expect(shell).to_contain_text("LR=0.1 in batch-1-1-0")
    await expect(shell).to_contain_text("/dev/pts/")
    await page.keyboard.type("echo at $((1 + 1)); sleep 3000\n")
    await expect(shell).to_contain_text("at 2")
    await page.keyboard.press("Control+c")
    await page.keyboard.type(
        "printf '\\033]0;title\\007\\033]52;c;aGk=\\007\\033[31mred %s\\n' '" + HOSTILE.replace("'", '"') + "'\n"
    )
    await expect(shell.locator(".ansi-bad").first).to_contain_text("red <img src=x onerror=")
    await see.accessible("a shell")
    assert await page.locator("main img, main script").count() == 0
    await page.keyboard.press("Shift+Tab")
    await expect(shell).not_to_be_focused()

    # Its node agent is gone: the page says so, another shell is refused with the reason, and opens once the agent is back.
    await asyncio.to_thread(stack.processes.kill9, NODE_AGENT)
    await see.text("The connection to the node agent was lost.")
    await see.accessible("a shell whose agent is gone")
    await page.get_by_role("button", name="Back").click()
    await page.get_by_role("button", name="Open a shell").click()
    await see.text("does not answer")
    await page.get_by_role("button", name="Back").click()
    stack.start_service(NODE_AGENT)
    await asyncio.to_thread(stack.processes.wait_ready, NODE_AGENT, timeout_s=PATIENCE_S)
    await page.get_by_role("button", name="Open a shell").click()
    await see.text("Connected.")
    await page.keyboard.type("echo again $((2 + 2))\n")
    await expect(shell).to_contain_text("again 4")

    async with Client(KafkaBus(stack.kafka.bootstrap), source="/test") as client:
        seen = [entry async for entry in client.follow(POOL, on=False)]
        grants = [entry.record for entry in seen if isinstance(entry.record.data, AttachGranted)]
        assert {(each.actor, each.data.shell) for each in grants} == {(grants[0].actor, True)}
        assert not any(b"LR=" in entry.wire.value for entry in seen)
        requested = await client.cancel("batch-1", pool=POOL)
        assert (await client.outcome_of(requested, PATIENCE_S)) is not None
    await expect(page.get_by_role("tabpanel", name="Shell")).to_contain_text(re.compile(r"has ended(\.|: the task ended\.)"))


async def test_hostile_values_are_rendered_as_text(stack: Stack, page: Page) -> None:
    see = Seeing(page, stack.console, LIGHT)
    hostile_line = HOSTILE.replace("'", '"')
    group = TaskGroup(gpu_milli=0, cpu_milli=1000, memory_bytes=1 << 30)
    demand = JobDemand(job="hostile", tasks=(group,), priority_class="train", labels={"link": LINK})
    async with Client(KafkaBus(stack.kafka.bootstrap), source="/test", actor=HOSTILE) as client:
        requested = await client.submit(demand, JobSpec(command=("sh", "-c", f"echo '{hostile_line}'; sleep 3000")), pool=POOL)
        assert (await client.outcome_of(requested, PATIENCE_S)) is not None
        await see.open(f"/{POOL}/jobs/hostile?tab=log")
        await expect(page.locator(".log")).to_contain_text("<img src=x onerror=")
        await see.accessible("a hostile log")
        requested = await client.cancel("hostile", reason=HOSTILE, pool=POOL)
        assert (await client.outcome_of(requested, PATIENCE_S)) is not None
    await see.state("cancelled")
    for path, words in (
        (f"/{POOL}/record", "hostile"),
        (f"/{POOL}/jobs/<img src=x onerror=window.pwned=1>", "does not exist in"),
        ("/javascript:window.pwned=1/queue", "does not exist"),
    ):
        await see.open(path)
        await see.text(words)
        assert await page.locator("main img, main script, a[href^='javascript:']").count() == 0


async def test_a_page_that_loses_its_console_resumes_where_it_was(stack: Stack, page: Page, preemption: tuple[str, str]) -> None:
    see, victim = Seeing(page, stack.console, LIGHT), preemption[0]
    await see.open(f"/{POOL}/jobs/{victim}")
    await see.text("live, record")
    await asyncio.to_thread(stack.processes.kill9, CONSOLE)
    await see.text("connection lost")

    async with Client(KafkaBus(stack.kafka.bootstrap), source="/test") as client:
        requested = await client.cancel(victim, reason="meanwhile", pool=POOL)
        assert (await client.outcome_of(requested, PATIENCE_S)) is not None
    stack.start_service(CONSOLE)
    await see.text("live, record")
    await see.state("cancelled")
    await see.accessible("a job that has ended")
