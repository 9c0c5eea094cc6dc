"""A thousand simulated jobs with the job contract on one agent: does it keep up while jobs end and start?

It falls behind if the delay from command to start, or from exit to report, grows during the run: the last third is compared
with the first. The processor time of the agent process is measured, too.
"""

import asyncio
import json
from collections import defaultdict

from aiokafka import ConsumerRecord

from bailiff_bus import topics
from bailiff_devstack.stack import Plan, Stack

from .requests import submit_message
from .system import cpu_seconds, publishing, spent, watching
from .table import Row, Run, percentile

POOL = "pool-a"
LIVES_S = (30, 60)
ENDS = 600  # jobs that are followed until their end, once all places are taken


def measure(run: Run) -> list[Row]:
    """One node with its state on disk, and more jobs than its `max_tasks`."""
    jobs = 200 if run.quick else 1000
    nodes = [{"name": "node-1", "pool": POOL, "gpus": "8xH100-80GB", "cpu_milli": 100 * jobs, "max_tasks": jobs}]
    with Stack(run.folder, Plan(nodes=nodes)) as stack:
        return asyncio.run(_measure(run, stack, jobs))


async def _measure(run: Run, stack: Stack, jobs: int) -> list[Row]:
    when: dict[str, dict[str, float]] = defaultdict(dict)  # by job, the broker's time of each message, s
    order: dict[str, list[str]] = {"TaskStartedReport": [], "TaskExitedReport": []}

    def on_record(kind: str, record: ConsumerRecord) -> None:
        job = json.loads(record.value).get("job", "")
        name = kind.removeprefix("bailiff.").removesuffix(".v1")
        if name in order and name not in when[job]:
            order[name].append(job)
        when[job].setdefault(name, record.timestamp / 1000)

    lives = {f"job-{n}": LIVES_S[0] + n * 7 % (LIVES_S[1] - LIVES_S[0]) for n in range(jobs + ENDS + jobs)}
    kafka = stack.kafka.bootstrap
    async with (
        watching(kafka, topics.NODE_COMMANDS.name, on=on_record),
        watching(kafka, topics.NODE_REPORTS.name, on=on_record) as reports,
        publishing(kafka) as producer,
    ):
        for job, seconds in lives.items():
            headers, value = submit_message(POOL, job, gpus=0, run_for=seconds, talks="10:0.1")
            await producer.send(topics.REQUESTS.name, value, key=POOL.encode(), headers=list(headers))
        await reports.until("all places are taken", lambda: len(order["TaskStartedReport"]) >= jobs)
        for each in order.values():
            each.clear()
        cpu, began = cpu_seconds(stack), asyncio.get_running_loop().time()
        await reports.until("many have ended and others begun", lambda: len(order["TaskExitedReport"]) >= ENDS)
        took, used = asyncio.get_running_loop().time() - began, spent(cpu, cpu_seconds(stack))
    rows = []
    for what, jobs_of, figures in (
        ("command → started", order["TaskStartedReport"], _to_start(when)),
        ("a task's end → reported", order["TaskExitedReport"], _to_report(when, lives)),
    ):
        known = [figures[job] * 1000 for job in jobs_of if job in figures]
        first, last = known[: len(known) // 3], known[-len(known) // 3 :]
        rows.append(
            Row(
                f"{jobs:,} jobs on one agent, {what}, p99, last third",
                percentile(last, 99),
                "ms",
                "≤ 2× or 100 ms",
                percentile(first, 99),
                "ms: first third",
                {"first_ms": sorted(first), "last_ms": sorted(last)},
            )
        )
    share = used["node-agent"] / took
    run.say(f"{ENDS / took:.0f} ends and starts a second; processor seconds in {took:.0f} s: {used}")
    rows.append(
        Row(
            f"{jobs:,} jobs on one agent, {ENDS / took:.0f} ends and starts a second, processor",
            share,
            "cores",
            "< 1",
            detail={"cpu_s": used, "seconds": took},
        )
    )
    return rows


def _to_start(when: dict[str, dict[str, float]]) -> dict[str, float]:
    """Seconds from a job's command to its report that it runs."""
    both = {job: at for job, at in when.items() if "StartTask" in at and "TaskStartedReport" in at}
    return {job: at["TaskStartedReport"] - at["StartTask"] for job, at in both.items()}


def _to_report(when: dict[str, dict[str, float]], lives: dict[str, int]) -> dict[str, float]:
    """Seconds from when a job was due to end to its report. Its start was reported as late as it was, so this can be below 0."""
    both = {job: at for job, at in when.items() if "TaskStartedReport" in at and "TaskExitedReport" in at}
    return {job: at["TaskExitedReport"] - at["TaskStartedReport"] - lives[job] for job, at in both.items()}
