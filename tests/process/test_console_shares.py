"""Two teams and one machine, in a real browser: borrowed quota, its reclaim, and a what-if with another policy.

The tests are one story, in order.
"""

import re
from collections.abc import Iterator

import pytest
import yaml
from playwright.async_api import Locator, Page, expect
from tests.kits.browser import IN_ONE_BROWSER
from tests.kits.console_eyes import POOL, Seeing
from tests.kits.log_builder import policy
from tests.kits.system import PATIENCE_S

from bailiff_devstack.stack import API, CONSOLE, Plan, Stack

pytestmark = [IN_ONE_BROWSER, pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(600)]

FOUR = {"gpus": 4}
PROJECTS = [
    {"name": "research", "quota": {"gpus": 8}},
    {"name": "vision", "parent": "research", "quota": FOUR},
    {"name": "speech", "parent": "research", "quota": FOUR},
]
BUDGETS = [{"name": "vision-month", "project": "vision", "gpu_hours": 4000}]
JOB = "name: {name}\nproject: {project}\nclass: train\ngpus: 4\ngrace: 5s\nsim-run-for: 1h\n"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Eight GPUs; vision and speech have a quota of four each."""
    folder = tmp_path_factory.mktemp("shares")
    rules = folder / "policy.yaml"
    rules.write_text(yaml.safe_dump(policy(projects=PROJECTS, budgets=BUDGETS).model_dump(mode="json")))
    with Stack(folder / "stack", Plan(policy=rules, archive=True, api=True, console=True), progress=print) as stack:
        stack.processes.wait_ready(API, CONSOLE, timeout_s=PATIENCE_S)
        yield stack


def row(page: Page, project: str) -> Locator:
    """The project's row in the table of all projects."""
    table = page.get_by_role("table", name="Quotas and shares")
    return table.get_by_role("row").filter(has=page.get_by_role("link", name=project, exact=True))


def figure(page: Page, project: str, head: str) -> Locator:
    """The value of this project in the column `head`."""
    return row(page, project).locator(f"td[data-head='{head}']")


async def test_borrowed_gpus_are_reclaimed(stack: Stack, page: Page) -> None:
    see = Seeing(page, stack.console)
    for name in ("images", "videos"):
        await see.submit(JOB.format(name=name, project="vision"), "would start immediately")
        await see.state("running")

    await see.open(f"/{POOL}/projects")
    await see.text("vision borrows 4 GPUs: speech has 4 GPUs of its quota unused.")
    await expect(row(page, "vision")).to_contain_text("borrowing")
    await expect(row(page, "speech")).to_contain_text("idle")
    await see.accessible("projects of which one borrows")

    await see.submit(JOB.format(name="voices", project="speech"), "Starts by preemption")
    await see.state("running")
    await see.open(f"/{POOL}/projects")
    await see.text("Every project is within its quota.")
    for project, standing, suffered, caused in (("vision", "at fair share", "1", "0"), ("speech", "within quota", "0", "1")):
        await expect(row(page, project)).to_contain_text(standing)
        await expect(figure(page, project, "Preempted")).to_contain_text(suffered)
        await expect(figure(page, project, "Preempts")).to_contain_text(caused)

    await row(page, "vision").get_by_role("link", name="vision", exact=True).click()
    await see.text("Its jobs were preempted once")
    lost = page.get_by_role("table", name="Evictions, newest first")
    await expect(lost.get_by_role("link", name="voices")).to_be_visible()
    budgets = page.get_by_role("table", name="Budgets of GPU-hours in this month")
    await expect(budgets.get_by_role("row").nth(1)).to_contain_text(re.compile(r"vision-month\s*vision\s*4,000.*within"))
    await see.text("Lost to preemption:")
    to = page.get_by_role("table", name="Lost to jobs of these projects")
    await expect(to.get_by_role("row").nth(1)).to_contain_text("speech")
    await see.accessible("a project whose GPUs were reclaimed")

    await lost.get_by_role("row").nth(1).get_by_role("link").last.click()
    await expect(page.locator(".page-head .badge")).to_have_text("reclaim")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("preempted by voices")
    await see.text("project speech")
    await see.accessible("a reclaim")


async def test_a_what_if_with_another_policy(stack: Stack, page: Page) -> None:
    see = Seeing(page, stack.console)
    await see.open(f"/{POOL}/jobs/voices")
    await see.act("Pause")
    await see.state("paused")
    await see.open(f"/{POOL}/what-if?of=policy")
    await see.text("in force since record")
    in_force = (await (await page.request.get(f"{stack.console}/api/pools/{POOL}/policy")).json())["yaml"]
    await page.locator("summary", has_text="YAML").click()
    await page.get_by_label("Policy as YAML").fill(re.sub(r"(?m)^ *- reclaim\n", "", in_force, count=1))
    await expect(page.locator(".changes li")).to_have_text(re.compile("^preemption.actions: .*reclaim.* → (?!.*reclaim)"))
    await expect(page.locator(".diff")).to_contain_text("reclaim")
    await see.accessible("another policy")

    await page.get_by_role("button", name="Simulate").click()
    await see.text("Evicted attempts")
    runs = page.get_by_role("table", name="All jobs, in three runs")
    evictions = runs.get_by_role("row").filter(has_text="Evicted attempts").get_by_role("cell")
    await expect(evictions).to_have_text(["Evicted attempts", "2", "2", "0", re.compile("−2 better")])
    await see.text("Confidence")
    for title, name in (("Most improved jobs", "videos"), ("Most worsened jobs", "voices")):
        table = page.get_by_role("table", name=title)
        await expect(table.get_by_role("link", name=name)).to_be_visible()
    await see.accessible("what another policy would have done")
    async with page.expect_popup() as opened:
        await page.get_by_role("link", name="Full report with plots").click()
    await expect((await opened.value).locator("svg").first).to_be_visible()

    # Without its project a job could not run at all: that is said first, and nobody is "hurt most: nobody".
    without = yaml.safe_load(in_force)
    without["projects"] = [each for each in without["projects"] if each["name"] != "speech"]
    await see.open(f"/{POOL}/policy")
    await page.locator("summary", has_text="YAML").click()
    await page.get_by_label("Policy as YAML").fill(yaml.safe_dump(without))
    await page.get_by_role("button", name="Simulate").click()
    await expect(page.locator(".result-headline")).to_contain_text("rejected under the other policy")
    lost = page.get_by_role("table", name="Jobs that could not run under the other policy")
    await expect(lost.get_by_role("row", name="voices")).to_contain_text("rejected")
    await see.accessible("a what-if in which a job could not run")


async def test_gpu_hours_over_time_and_the_report_of_a_month(stack: Stack, page: Page) -> None:
    see = Seeing(page, stack.console)
    await see.open(f"/{POOL}/projects")
    await page.get_by_role("link", name="Accounting").click()
    table = page.get_by_role("region", name="GPU-hours by project")
    await expect(table.get_by_role("row", name="vision")).to_be_visible()
    await page.get_by_role("radio", name="1 hour").check()
    await expect(page).to_have_url(re.compile(r"/accounting\?range=1h$"))
    await expect(page.get_by_role("group", name=re.compile(r"Used GPUs over time by project: \d"))).to_be_visible()
    await page.get_by_role("radio", name="From … to").check()
    await page.get_by_label("From", exact=True).fill("2026-01-01 12:30")
    await page.get_by_role("button", name="Show").click()
    await expect(page).to_have_url(re.compile(r"from=2026-01-01T12%3A30Z&to="))
    await page.get_by_role("radio", name="1 hour").check()
    await page.get_by_role("radio", name="Borrowed").check()
    await page.reload()
    await expect(page.get_by_role("group", name=re.compile("^Borrowed GPUs over time"))).to_be_visible()
    await see.accessible("GPU-hours")
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Download CSV").click()
    lines = (await (await saving.value).path()).read_text().splitlines()
    assert lines[0].startswith("time,project,used_gpu_hours,borrowed_gpu_hours,lost_gpu_hours,")
    assert any(",vision," in line for line in lines[1:])

    await table.get_by_role("link", name="vision").click()
    await expect(page).to_have_url(re.compile(r"/accounting\?project=vision&month=\d{4}-\d{2}$"))
    await expect(page.get_by_role("region", name="GPU-hours by job").get_by_role("row", name="videos")).to_be_visible()
    await see.accessible("the report of a month")
    await page.emulate_media(media="print")
    await expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()
    await expect(page.get_by_role("button", name="Print")).to_be_hidden()
    await page.emulate_media(media="screen")
