"""An agent that is killed, stopped, reimaged or duplicated: its tasks are gone before the job runs elsewhere.

Each job process writes down the boot clock continuously, with its attempt. pool-b has two nodes, each with its own agent
process; the faults are injected into the node that runs the job.
"""

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kits.job_processes import is_supervisor, processes_of
from tests.kits.system import POLICY, System, Watch, systems
from tests.kits.wire import Wire, kafka_with_a_wire

from bailiff_core.model.policy import NodeRules
from bailiff_core.records.decisions import JobPlaced, JobRequeued
from bailiff_core.records.facts import NodeJoined, NodeLost, NodeRefused, NodeUnreachable, TaskExited, TaskStarted, TaskVanished
from bailiff_core.records.payload import Payload

SECOND = 1_000_000
RULES = NodeRules(unreachable_after=2 * SECOND, lease=6 * SECOND, lost_margin=5 * SECOND)
AGENTS = {"node-2": "node-agent", "node-3": "node-agent-2", "far": "node-agent-far"}
LIVES = 'while read up _ < /proc/uptime; do echo "$BAILIFF_ATTEMPT $up" >> {beats}; sleep 0.05; done'
STUBBORN = "trap '' TERM; " + LIVES

_names = itertools.count(1)


@pytest.fixture(scope="module")
def _systems(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], System]]:
    policy = POLICY.model_copy(update={"nodes": RULES})
    with systems(tmp_path_factory, "lost", env={"BAILIFF_HEARTBEAT_S": "0.3"}, policy=policy) as get:
        yield get


@pytest.fixture
def short(_systems: Callable[[], System]) -> System:
    """A system whose nodes become silent and lost within seconds."""
    return _systems()


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[tuple[System, Wire]]:
    """The machine `far` reaches Kafka through a proxy; `pool-b-0` directly."""
    kafka, wire = kafka_with_a_wire(tmp_path / "kafka")
    env = {"BAILIFF_HEARTBEAT_S": "0.3"}
    system = System(tmp_path, kafka=kafka, env=env, policy=POLICY.model_copy(update={"nodes": RULES}), pools={"pool-b": 1})
    far = [{"name": "far", "pool": "pool-b", "gpus": "4xH100-80GB"}]
    env = {"BAILIFF_NODES": json.dumps(far), "BAILIFF_KAFKA__BOOTSTRAP": wire.bootstrap}
    with wire.up():
        try:
            system.start()
            system.machines["pool-b"] += 1
            system.stack.start_service("node-agent", replica="-far", env=env)
            yield system, wire
        finally:
            wire.mend()
            system.stop()


class Struck:
    """The job of a test, its node, and that node's agent."""

    def __init__(self, pool: Watch, job: str, node: str) -> None:
        self.state, self.system, self.job, self.node, self.agent = pool, pool.system, job, node, AGENTS[node]
        self.other = next(name for name in AGENTS if name != node)

    @property
    def folder(self) -> Path:
        """The agent's state folder."""
        return self.system.folder / "state" / "node-agent" / "pool-b" / self.node

    def restart(self, name: str = "", **node: Any) -> None:
        """Start an agent for the node; name: a second one, with its own folder and a copy of the node's keys."""
        declared = [{"name": self.node, "pool": "pool-b", "gpus": "4xH100-80GB", **node}]
        env = {"BAILIFF_NODES": json.dumps(declared)}
        if name:
            env["BAILIFF_STATE_DIR"] = str(self.system.folder / "state" / name)
            env["BAILIFF_CREDENTIALS"] = str(self.system.folder / "credentials" / self.agent)
            self.system.stack.start_service("node-agent", replica=f"-{name}", env=env)
        elif not node:
            self.system.start_service(self.agent)
        elif self.agent == "node-agent-2":
            self.system.stack.start_service("node-agent", replica="-2", env=env)
        else:
            both = [{"name": "node-1", "pool": "pool-a", "gpus": "8xH100-80GB"}, *declared]
            self.system.stack.start_service("node-agent", env={"BAILIFF_NODES": json.dumps(both)})

    async def joins(self, after: int) -> NodeJoined:
        """Wait until the node has joined (again) after this many records."""
        await self.state.until(f"{self.node} has joined", lambda _: bool(self._joined(after)))
        return self._joined(after)[-1]

    def _joined(self, after: int) -> list[NodeJoined]:
        return [fact for _, fact in since(self.state, after, NodeJoined) if fact.node == self.node]

    def beats(self) -> dict[int, list[int]]:
        """Times at which processes of each attempt ran, by their own notes: µs UTC, in order."""
        to_utc = time.time_ns() // 1000 - time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
        found: dict[int, list[int]] = {}
        for line in beats_file(self.system, self.job).read_text().splitlines():
            attempt, at = line.split()
            found.setdefault(int(attempt), []).append(round(float(at) * SECOND) + to_utc)
        return {attempt: sorted(times) for attempt, times in found.items()}

    def pids(self) -> list[int]:
        """Living processes and supervisors of the node's tasks."""
        return processes_of(self.folder)

    async def runs_again(self, attempt: int = 2) -> None:
        """Wait until the job runs in this attempt, also by its own notes."""
        await self.state.until(f"{self.job} runs again", lambda _: self.at(attempt) and self.state.running(self.job))
        await self.state.until("the attempt has written a note", lambda _: attempt in self.beats())

    def at(self, attempt: int) -> bool:
        return self.state.job(self.job).attempt == attempt

    async def ran_once_at_a_time(self) -> None:
        """Check that attempts did not overlap, that the job was requeued once, and that the log verifies."""
        beats = self.beats()
        assert sorted(beats) == list(range(1, len(beats) + 1))
        for attempt in range(1, len(beats)):
            assert beats[attempt][-1] < beats[attempt + 1][0], f"attempts {attempt} and {attempt + 1} ran at the same time"
        assert len(self.state.facts(JobRequeued, job=self.job)) == len(beats) - 1 == 1, self.state.report()
        assert [fact.attempt for fact in self.state.facts(TaskStarted, job=self.job)] == sorted(beats)
        await self.state.verify(orphans=True)

    def was_gone_before_it_was_lost(self) -> None:
        """Check that the first attempt's last note is older than the record that declares the node lost."""
        [(lost_at, _)] = [found for found in since(self.state, 0, NodeLost) if found[1].node == self.node][-1:]
        assert self.beats()[1][-1] < lost_at


def since(pool: Watch, seq: int, kind: type[Payload]) -> list[tuple[int, Any]]:
    """Append time and data of the records of this kind from this seq on."""
    entries = [entry for entry in pool.entries if entry.record.seq > seq and isinstance(entry.record.data, kind)]
    return [(entry.append_time, entry.record.data) for entry in entries]


def beats_file(system: System, job: str) -> Path:
    return system.marks / f"{job}.beats"


async def begin_far(pool: Watch) -> Struck:
    """Start a job on the remote machine; the other machine has free resources."""
    await pool.submit("fills", gpus=8)
    await pool.until_running("fills")
    struck = await begin(pool)
    assert struck.node == "far"
    await pool.cancel("fills")
    await pool.until_ended("fills", "cancelled")
    return struck


async def begin(pool: Watch, run: str = STUBBORN) -> Struck:
    """Start a job on either node."""
    job = f"struck-{next(_names)}"
    await pool.until("both nodes are ready", lambda seen: {node.state for node in seen.nodes.values()} == {"ready"})
    await pool.submit(job, run.replace("{beats}", str(beats_file(pool.system, job))), grace_s=1)
    await pool.until_running(job)
    number = pool.job(job).tasks[0].node
    struck = Struck(pool, job, pool.state.nodes[number].name)
    await pool.until("the job has written a note", lambda _: beats_file(pool.system, job).exists())
    return struck


async def ends_well(struck: Struck) -> None:
    """Wait until the agent is ready for the next test."""
    before = struck.state.state.seq
    if struck.agent not in struck.system.stack.processes.running():
        struck.restart()
        await struck.joins(before)
    processes = struck.system.stack.processes
    there = [name for name in AGENTS.values() if name in processes.running()]
    await asyncio.to_thread(processes.wait_ready, *there)


async def test_an_agent_is_killed_and_never_restarted(short: System) -> None:
    async with short.watch("pool-b") as pool:
        struck = await begin(pool)
        short.kill(struck.agent)
        await pool.record(NodeLost, node=struck.node)
        await struck.runs_again()
        struck.was_gone_before_it_was_lost()
        await struck.ran_once_at_a_time()
        [requeued] = pool.facts(JobRequeued, job=struck.job)
        assert (requeued.outcome, pool.state.nodes[pool.job(struck.job).tasks[0].node].name) == ("lost", struck.other)
        assert struck.pids() == []
        await ends_well(struck)


async def test_an_agent_stopped_beyond_its_lease_obeys_no_earlier_command(short: System) -> None:
    async with short.watch("pool-b") as pool:
        struck = await begin(pool)
        await pool.submit("fills", gpus=4)
        await pool.until_running("fills")
        assert pool.state.nodes[pool.job("fills").tasks[0].node].name == struck.other

        # The start command of this job is not read, because its node's agent is stopped.
        short.signal(struck.agent, signal.SIGSTOP)
        await pool.submit("command-expired")
        await pool.record(JobPlaced, job="command-expired")
        await pool.record(NodeLost, node=struck.node)
        struck.was_gone_before_it_was_lost()
        assert struck.pids() == []
        await pool.cancel("fills")
        await struck.runs_again()
        await pool.until_running("command-expired")

        before, known = pool.state.seq, {node.incarnation for node in pool.state.nodes.values()}
        short.signal(struck.agent, signal.SIGCONT)
        joined = await struck.joins(before)
        assert joined.incarnation not in known
        # A later command is obeyed, so the earlier ones have been read and refused.
        await pool.submit("after", gpus=4)
        await pool.until_running("after")
        assert pool.state.nodes[pool.job("after").tasks[0].node].name == struck.node
        assert pool.state.nodes[joined.number].incarnation == joined.incarnation
        await pool.noted("command-expired", pool.job("command-expired").attempt)
        assert set(pool.starts("command-expired")) == {(2, 0)}
        await struck.ran_once_at_a_time()


@pytest.mark.long
async def test_an_agent_restarted_after_its_lease_reports_what_its_supervisor_did(short: System) -> None:
    async with short.watch("pool-b") as pool:
        struck = await begin(pool)
        short.kill(struck.agent)
        await pool.record(NodeUnreachable, node=struck.node)
        # Admission is stopped, or it might declare the node lost first.
        short.signal("admission", signal.SIGSTOP)
        await pool.until("its processes are gone", lambda _: not struck.pids())
        struck.restart()
        await asyncio.to_thread(short.stack.processes.wait_ready, struck.agent)
        short.signal("admission", signal.SIGCONT)
        exited = await pool.record(TaskExited, job=struck.job)
        assert (exited.attempt, exited.exit_code) == (1, -signal.SIGKILL)
        assert "the node's lease expired because its agent could not reach Kafka" in exited.reason
        await struck.runs_again()
        [requeued] = pool.facts(JobRequeued, job=struck.job)
        assert requeued.outcome == "preempted-unclean"
        await struck.ran_once_at_a_time()
        await ends_well(struck)


@pytest.mark.long
async def test_an_agent_restarted_within_its_lease_loses_nothing(short: System) -> None:
    async with short.watch("pool-b") as pool:
        struck = await begin(pool)
        before = pool.state.seq
        short.kill_and_restart(struck.agent)
        await struck.joins(before)
        lease_later = time.time_ns() // 1000 + RULES.lease + RULES.lost_margin
        await pool.until("a lease has passed", lambda _: struck.beats()[1][-1] > lease_later)
        assert pool.running(struck.job)
        assert struck.at(1)
        assert sorted(struck.beats()) == [1]


@pytest.mark.long
async def test_the_whole_host_dies(short: System) -> None:
    async with short.watch("pool-b") as pool:
        struck = await begin(pool)
        short.kill(struck.agent)
        while pids := struck.pids():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        await pool.record(NodeLost, node=struck.node)
        await struck.runs_again()
        await struck.ran_once_at_a_time()
        await ends_well(struck)
        assert sorted(struck.beats()) == [1, 2]


@pytest.mark.long
async def test_agent_and_supervisors_die_and_the_processes_do_not(short: System) -> None:
    async with short.watch("pool-b") as pool:
        struck = await begin(pool)
        short.kill(struck.agent)
        for pid in struck.pids():
            if is_supervisor(pid):
                os.kill(pid, signal.SIGKILL)
        await pool.record(NodeLost, node=struck.node)
        await struck.runs_again()
        struck.was_gone_before_it_was_lost()
        await struck.ran_once_at_a_time()
        await ends_well(struck)


async def test_reimaged_with_the_same_identity(short: System) -> None:
    async with short.watch("pool-b") as pool:
        struck = await begin(pool)
        began = pool.state.seq
        short.kill(struck.agent)
        shutil.rmtree(struck.folder)
        struck.restart()
        await pool.record(TaskVanished, job=struck.job)
        await struck.runs_again()
        await struck.ran_once_at_a_time()
        assert since(pool, began, NodeLost) == []
        await ends_well(struck)


@pytest.mark.long
async def test_reimaged_with_another_identity(short: System) -> None:
    async with short.watch("pool-b") as pool:
        struck = await begin(pool)
        began = pool.state.seq
        short.kill(struck.agent)
        shutil.rmtree(struck.folder)
        struck.restart(machine_id="another-machine")
        refused = await pool.record(NodeRefused, node=struck.node)
        assert refused.machine_id == "another-machine"
        await pool.record(NodeLost, node=struck.node)
        assert not struck._joined(began)
        await struck.runs_again()
        struck.was_gone_before_it_was_lost()
        await struck.ran_once_at_a_time()

        # Once the old machine is lost, it can join under the name.
        before = pool.state.seq
        short.kill(struck.agent)
        struck.restart(machine_id="another-machine")
        assert (await struck.joins(before)).machine_id == "another-machine"
        short.broken = True  # its machine id differs from the one of the next test


async def test_a_second_agent_on_the_same_folder_is_refused(short: System) -> None:
    async with short.watch("pool-b") as pool:
        struck = await begin(pool)
        declared = json.dumps([{"name": struck.node, "pool": "pool-b", "gpus": "4xH100-80GB"}])
        before = pool.state.seq
        short.stack.start_service("node-agent", replica="-double", env={"BAILIFF_NODES": declared})
        await pool.until("it has ended", lambda _: "node-agent-double" not in short.stack.processes.running())
        assert short.stack.processes.stop("node-agent-double").code == 2
        assert "give each agent a state folder of its own" in short.log_of("node-agent-double")
        assert not struck._joined(before)
        assert pool.running(struck.job)
        assert sorted(struck.beats()) == [1]


@pytest.mark.long
async def test_a_second_machine_under_the_same_name_is_refused(short: System) -> None:
    async with short.watch("pool-b") as pool:
        struck = await begin(pool)
        before = pool.state.seq
        struck.restart("twin", machine_id="the-twin")
        await pool.record(NodeRefused, node=struck.node, machine_id="the-twin")
        await pool.submit("for-the-first", gpus=1)
        await pool.until_running("for-the-first")
        assert not struck._joined(before)
        assert short.stack.processes.stop("node-agent-twin").code == 0
        assert pool.running(struck.job)
        assert sorted(struck.beats()) == [1]
        assert [*(short.folder / "state" / "twin").rglob("running.json")] == []


@pytest.mark.long
async def test_a_second_agent_of_the_same_machine_takes_over_the_node_name(short: System) -> None:
    async with short.watch("pool-b") as pool:
        struck = await begin(pool)
        before = pool.state.seq
        struck.restart("clone")
        await struck.joins(before)
        await pool.record(TaskVanished, job=struck.job)
        await struck.runs_again()
        await struck.ran_once_at_a_time()
        assert struck.pids() == []
        assert "another agent has joined under this node's name" in short.log_of(struck.agent)
        short.broken = True  # the next test needs one agent per name


async def test_cut_off_from_kafka_beyond_its_lease_it_stops_its_job_and_joins_anew(wired: tuple[System, Wire]) -> None:
    system, wire = wired
    async with system.watch("pool-b") as pool:
        struck = await begin_far(pool)
        before = pool.state.seq
        wire.cut()
        await pool.record(NodeLost, node="far")
        await struck.runs_again()
        struck.was_gone_before_it_was_lost()
        assert struck.agent in system.stack.processes.running()
        assert "the node's lease expired: stopping its tasks" in system.log_of(struck.agent)
        assert struck.pids() == []

        wire.mend()
        await struck.joins(before)
        await pool.submit("after", gpus=8)
        await pool.submit("far-again", gpus=4)
        await pool.until_running("far-again")
        assert pool.state.nodes[pool.job("far-again").tasks[0].node].name == "far"
        await struck.ran_once_at_a_time()


@pytest.mark.long
async def test_cut_off_within_its_lease_nothing_has_happened(wired: tuple[System, Wire]) -> None:
    system, wire = wired
    async with system.watch("pool-b") as pool:
        struck = await begin_far(pool)
        wire.cut()
        await pool.record(NodeUnreachable, node="far")
        wire.mend()
        await pool.until("both nodes are ready again", lambda seen: {node.state for node in seen.nodes.values()} == {"ready"})
        assert pool.running(struck.job)
        assert struck.at(1)
        assert sorted(struck.beats()) == [1]
