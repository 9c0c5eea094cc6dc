"""Loss of a machine: its agent, supervisors and job processes. Checkpoints are on a shared disk."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.kits.job_processes import processes_of
from tests.kits.survival import BEFORE, FIRST, GPUS, MACHINE, NOTICED, POOL, Expected, Stage, Story, kill, story
from tests.kits.system import POLICY, System, systems

from bailiff_core.model.policy import NodeRules
from bailiff_core.records.facts import NodeLost

SECOND = 1_000_000
RULES = NodeRules(unreachable_after=2 * SECOND, lease=6 * SECOND, lost_margin=5 * SECOND)
AGENTS = {FIRST: "node-agent", "other": "node-agent-other"}
LOST = Expected("lost", None, codes=(), resumes_at=BEFORE)


class TwoMachines(Stage):
    """The second one has its own agent process."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, **options)
        self.shares_checkpoints("other")
        self.machines[POOL] += 1

    def start_services(self) -> None:
        super().start_services()
        self.starts_again("other")

    def starts_again(self, node: str) -> None:
        """The machine's agent."""
        if node == FIRST:
            self.start_service("node-agent")
        else:
            env = {"BAILIFF_NODES": json.dumps([{"name": node, "pool": POOL, **MACHINE}])}
            self.stack.start_service("node-agent", replica="-other", env=env)


def dies(stage: Stage, node: str) -> None:
    """Kill all processes of the machine."""
    stage.kill(AGENTS[node])
    while left := processes_of(stage.machine(node)):
        kill(*left)


@pytest.fixture(scope="module")
def _two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], System]]:
    env, policy = {"BAILIFF_HEARTBEAT_S": "0.3"}, POLICY.model_copy(update={"nodes": RULES})
    options = {"pools": {POOL: 1}, "machine": {POOL: MACHINE}, "env": env, "policy": policy}
    with systems(tmp_path_factory, "hosts", TwoMachines, **options) as get:
        yield get


@pytest.fixture
def two(_two: Callable[[], System]) -> TwoMachines:
    """Two machines, one of which will be lost; nodes become silent and lost within seconds."""
    found = _two()
    assert isinstance(found, TwoMachines)
    return found


def node_of(run: Story) -> str:
    return run.watch.state.nodes[run.watch.job(run.victim).tasks[0].node].name


async def is_back(two: TwoMachines, node: str) -> None:
    two.starts_again(node)
    await asyncio.to_thread(two.stack.processes.wait_ready, AGENTS[node])


@pytest.mark.long
async def test_its_machine_is_lost_and_it_resumes_on_another_node(two: TwoMachines) -> None:
    async with story(two) as run:
        await run.start_victim()
        node = node_of(run)
        dies(two, node)
        await run.watch.record(NodeLost, node=node)
        await run.check_victim(LOST)
        await is_back(two, node)


@pytest.mark.long
async def test_its_machine_is_lost_while_it_saves(two: TwoMachines) -> None:
    """The preemptor starts on other resources."""
    async with story(two) as run:
        ready = {"ready"}
        await run.watch.until("both are ready", lambda seen: {node.state for node in seen.nodes.values()} == ready)
        await run.watch.submit("neighbour", run.watch.until_signalled(), gpus=GPUS, kind="inference")
        await run.watch.until_running("neighbour")
        await run.start_victim("WaitsWhileSaving")
        await run.submit_urgent()
        await run.wait_for_stage("checkpoint_started")
        node = node_of(run)
        dies(two, node)
        await run.watch.record(NodeLost, node=node)
        run.watch.let_finish("neighbour")
        await run.check_urgent_and_victim(replace(LOST, outcome="preempted"))
        await is_back(two, node)


@pytest.mark.long
async def test_its_machine_is_back_at_once(stage: Stage) -> None:
    """It restarts before it is declared lost: the agent reports from disk what the job had acknowledged."""
    async with story(stage) as run:
        await run.start_victim("WaitsWhileSaving")
        await run.submit_urgent()
        await run.wait_for_stage("checkpoint_started")
        dies(stage, FIRST)
        stage.start_service("node-agent")
        stages = (*NOTICED, "acknowledged", "checkpoint_started")
        await run.check_urgent_and_victim(Expected("preempted", stages, codes=(-9,), resumes_at=BEFORE))


@pytest.mark.long
async def test_the_machine_of_one_rank_is_lost(two: TwoMachines) -> None:
    """The gang runs on both machines, and resumes from a step that both saved."""
    async with story(two, tasks=2) as run:
        ready = {"ready"}
        await run.watch.until("both are ready", lambda seen: {node.state for node in seen.nodes.values()} == ready)
        await run.start_victim(gpus=2 * GPUS, grace_s=2.5)
        node = node_of(run)
        dies(two, node)
        await run.watch.record(NodeLost, node=node)
        await is_back(two, node)
        await run.check_victim(Expected("lost", None, codes=(85,), resumes_at=BEFORE))
