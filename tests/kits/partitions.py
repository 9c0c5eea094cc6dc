"""One preemption during which a host's link is impaired: the cells of the table cut × stage × kind of impairment.

A victim has all GPUs of one node. An urgent gang of two tasks needs both nodes, so it preempts the victim: one agent has the
victim, the other one only a task of the urgent job. When the log shows the stage, the link is impaired for `CUT_S` seconds. All
the time a client submits small jobs. After the link has healed, all must be as if nothing had happened.
"""

import asyncio
import contextlib
import itertools
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.kits import network, partition_job
from tests.kits.network import ADMISSIONS, BROKERS, NODES, Network, NetworkSystem
from tests.kits.network_switch import Impairment
from tests.kits.system import Watch

from bailiff_bus import topics
from bailiff_bus.kafka import connected_admin
from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_bus.port import BusUnavailable
from bailiff_core.records.decisions import JobEnded, JobStarting, PreemptionDecided, PreemptionRequested
from bailiff_core.records.facts import EvictionStageReached, JobSubmitted, NodeLost, TaskReleased, TaskStarted, WriterStarted

ROOT = Path(__file__).parents[2]
GPUS, GRACE_S, CUT_S, EVERY_S = 8, 3.0, 6.0, 1.0

MODES: Mapping[str, Callable[[Network, str], list[Impairment]]] = {
    "both ways": network.cut,
    "one way": network.cut_one_way,
    "flapping": network.flapping,
    "slow and lossy": network.slow_and_lossy,
}
CUTS = ("broker leader", "admission active", "admission standby", "agent of victim", "agent of preemptor", "executor")
STAGES = ("before request", "request open", "decided", "notice sent", "TERM", "released", "starting")
STOPPED_UNTIL_CUT = {"request open": "victim-selection", "decided": "eviction-executor", "starting": network.PREEMPTOR}
"""Services that are stopped before the request, so that the preemption does not pass a stage before the cut."""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Cell:
    """Whose link is impaired, from which stage on, and how."""

    cut: str
    stage: str
    mode: str

    def __str__(self) -> str:
        return f"{self.cut}, {self.stage}, {self.mode}"


@dataclass
class Load:
    """A client's small jobs, acknowledged or not, one at a time."""

    pool: Watch
    acknowledged: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    async def submit(self, name: str) -> bool:
        """Submit a job that ends at once; whether it was acknowledged. Otherwise it may be stored, or not."""
        try:
            await self.pool.submit(name, "true", gpus=0, cpus=0)
        except BusUnavailable:
            self.unknown.append(name)
            with contextlib.suppress(BusUnavailable):
                self.pool.producer = await self.pool.bus.producer()
            return False
        self.acknowledged.append(name)
        return True

    async def run(self, prefix: str) -> None:
        """Submit jobs until cancelled."""
        for number in itertools.count():
            await self.submit(f"{prefix}-{number}")
            await asyncio.sleep(EVERY_S)  # the rate of the load


@dataclass
class Story:
    """One cell of the table, on a system on hosts of its own."""

    system: NetworkSystem
    pool: Watch
    cell: Cell

    def __post_init__(self) -> None:
        number = next(_numbers)
        self.victim, self.urgent = f"victim-{number}", f"urgent-{number}"
        self.load, self._small = Load(self.pool), f"small-{number}"

    async def run(self) -> float:
        """Seconds from healing until the preemption was done and a new request's job had ended."""
        await self._submit(self.victim, "victim", 1)
        await self.pool.until_running(self.victim)
        await self.pool.noted(self.victim, 1)
        impaired = MODES[self.cell.mode](self.system.network, await self._host())
        sending = asyncio.create_task(self.load.run(self._small))
        try:
            await self._impair_at_the_stage(impaired)
            until = time.monotonic() + CUT_S
            await self.pool.until("the time is over", lambda _: time.monotonic() > until, within_s=10 * CUT_S)
        finally:
            self.system.network.heal()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        seconds = await self._recovers()
        await self._nothing_was_lost()
        return seconds

    async def _host(self) -> str:
        """The host whose link is impaired."""
        active = self.pool.facts(WriterStarted)[-1].certificate
        assert active is not None
        (task,) = self.pool.job(self.victim).tasks
        agent = next(agent for agent, node in NODES.items() if node == self.pool.state.nodes[task.node].name)
        hosts = {
            "broker leader": BROKERS[await self._leader() - 1],
            "admission active": active.name,
            "admission standby": next(each for each in ADMISSIONS if each != active.name),
            "agent of victim": agent,
            "agent of preemptor": next(each for each in NODES if each != agent),
            "executor": "eviction-executor",
        }
        return hosts[self.cell.cut]

    async def _leader(self) -> int:
        return await leader_of_the_log(self.pool.bus.settings)

    async def _impair_at_the_stage(self, impaired: list[Impairment]) -> None:
        stopped = STOPPED_UNTIL_CUT.get(self.cell.stage)
        if self.cell.stage == "before request":
            self.system.network.impair(impaired)
        if stopped:
            self.system.signal(stopped, signal.SIGSTOP)
        try:
            await self._submit_for_certain()
            await self.pool.until(self.cell.stage, lambda _: self._reached())
            self.system.network.impair(impaired)
        finally:
            if stopped:
                self.system.signal(stopped, signal.SIGCONT)

    async def _submit_for_certain(self) -> None:
        """A client repeats a request that was not acknowledged, with the same id."""
        while True:
            try:
                await self._submit(self.urgent, "urgent", 2)
            except BusUnavailable:
                self.pool.producer = await self.pool.bus.producer()
            else:
                return

    def _reached(self) -> bool:
        """Whether the log shows the stage."""
        facts = self.pool.facts
        match self.cell.stage:
            case "before request":
                return True
            case "request open":
                return bool(facts(PreemptionRequested, job=self.urgent))
            case "decided":
                return any(each.preemptor.job == self.urgent for each in facts(PreemptionDecided))
            case "notice sent":
                return bool(facts(EvictionStageReached, job=self.victim, stage="noticed"))
            case "TERM":
                return bool(facts(EvictionStageReached, job=self.victim, stage="term_sent"))
            case "released":
                return bool(facts(TaskReleased, job=self.victim))
            case _:
                return bool(facts(JobStarting, job=self.urgent))

    async def _recovers(self) -> float:
        """Seconds until the urgent job runs, and the job of a request sent after healing has ended."""
        healed, probe = time.monotonic(), f"{self._small}-probe"
        while not await self.load.submit(probe):
            probe += "-again"
        await self.pool.until_running(self.urgent)
        await self.pool.until_ended(probe)
        recovered = time.monotonic() - healed
        (self.system.marks / f"{self.urgent}.go").touch()
        await self.pool.until_ended(self.urgent)
        await self.pool.until_running(self.victim)
        await self.pool.noted(self.victim, self.pool.job(self.victim).attempt)
        return recovered

    async def _nothing_was_lost(self) -> None:
        """No acknowledged request is lost, no GPU was given twice, the invariants hold for each record, and it replays."""
        for job in self.load.acknowledged:
            await self.pool.until_ended(job)
        accepted = Counter(fact.demand.job for fact in self.pool.facts(JobSubmitted))
        assert set(accepted.values()) == {1}, accepted
        assert set(self.load.acknowledged) <= set(accepted)
        assert len(self.pool.facts(JobEnded, job=self.urgent)) == 1
        assert set(Counter((fact.job, fact.attempt, fact.task) for fact in self.pool.facts(TaskStarted)).values()) == {1}
        assert self.pool.facts(NodeLost) == []
        self.pool.assert_started_once(self.victim, self.urgent)
        twice = self.system.marks / "twice"
        assert not twice.exists(), twice.read_text()
        await self.pool.clear()
        self.system.checker.check_new(self.pool.entries)
        await asyncio.to_thread(self.system.wait_ready)
        for service in self.system.services:
            assert "Traceback" not in self.system.log_of(service), self.system.log_of(service)

    async def _submit(self, name: str, kind: str, tasks: int) -> None:
        env = {"PYTHONPATH": str(ROOT / "libs/job"), "PARTITION_MARKS": str(self.system.marks)}
        run, priority = f"exec {sys.executable} -S {partition_job.__file__} {kind}", "inference" if kind == "urgent" else "train"
        await self.pool.submit(
            name, run, gpus=GPUS, tasks=tasks, kind=priority, grace_s=GRACE_S, env=env, request_id=f"submit-{name}"
        )


def table(seconds: Mapping[Cell, float]) -> str:
    """The seconds to recover, in Markdown: a row for each cut and kind of impairment, a column for each stage."""
    head = ["cut", "link", *STAGES]
    rows = [" | ".join(head), "|".join("---" for _ in head)]
    for cut, mode in itertools.product(CUTS, MODES):
        found = [seconds.get(Cell(cut, stage, mode)) for stage in STAGES]
        if any(value is not None for value in found):
            rows.append(" | ".join([cut, mode, *("" if value is None else f"{value:.1f}" for value in found)]))
    return "\n".join(f"| {row} |" for row in rows)


async def leader_of_the_log(settings: KafkaSettings) -> int:
    """The number of the broker that leads the first partition of the audit log."""
    async with connected_admin(settings, "name the leader of the log") as admin:
        (described,) = await admin.describe_topics([topics.AUDIT.name])
    return int(described["partitions"][0]["leader"])
