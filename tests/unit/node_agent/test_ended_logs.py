"""Logs of ended tasks: kept for days and within bytes, whatever tasks have put in their place."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import generate_latest
from tests.kits.agent import carry_out, context_on
from tests.kits.hostile_files import KINDS, immutable, nest
from tests.kits.memory_bus import MemoryCluster
from tests.kits.waiting import until

from bailiff_bus import topics
from bailiff_bus.messages.commands import Fence, RecordRef, StartTask, TaskAssignment
from bailiff_core.model.job_spec import JobSpec
from bailiff_devstack.simulated_node import SimulatedInventory
from bailiff_node_agent import log_shipper
from bailiff_node_agent.agent import Agent
from bailiff_node_agent.disk import FolderStorage
from bailiff_node_agent.ended_logs import DAY_US, ended_logs
from bailiff_node_agent.runtime import TaskKey, UnknownTask
from bailiff_node_agent.runtime.process import ProcessRuntime
from bailiff_service.clock_and_ids import SYSTEM
from bailiff_service.metrics import Metrics

LATER = replace(SYSTEM, wall=lambda: time.time_ns() // 1000 + 8 * DAY_US)
KEY = TaskKey("lives", 1, "0")


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    """Of eight days from now; its only task runs."""
    folder = tmp_path / "node"
    (folder / "logs").mkdir(parents=True)
    runtime = ProcessRuntime(folder)
    inventory = SimulatedInventory("1xH100-80GB", "n1", lambda _: None)
    context = context_on(FolderStorage(folder), inventory=inventory, runtimes={"process": runtime}, folder=folder)
    made = Agent(context, LATER, Metrics(), lambda: None)
    await made.adopt()
    common: dict[str, Any] = {
        "node": "n1",
        "incarnation": context.incarnation.incarnation,
        "sender": "admission",
        "sender_epoch": 1,
    }
    await carry_out(made, Fence(**common, lease=DAY_US, lost_margin=DAY_US))
    rest: dict[str, Any] = {"attempt": 1, "grace": 0, "master_node": "n1", "tasks": (TaskAssignment(task=0, devices=()),)}
    start = StartTask(**common, ordered_by=RecordRef(epoch=1, seq=9), job=KEY.job, spec=JobSpec(command=("sleep", "600")), **rest)
    await carry_out(made, start)
    yield made
    with suppress(UnknownTask):  # forgotten meanwhile
        await runtime.kill(KEY)
    await runtime.close()


def changed_after(path: Path, other: Path) -> None:
    """The clock of a file system has steps of milliseconds."""
    while path.stat().st_ctime_ns <= other.stat().st_ctime_ns:
        path.chmod(0o600)


async def test_old_logs_go_and_those_of_tasks_that_run_stay(agent: Agent) -> None:
    logs = agent.context.folder / "logs"
    own = [f"{KEY}.log", f"{KEY}.log.1"]
    for name in (*own, "ended-1-0.log", "ended-1-0.log.1", "lives-1-00.log"):
        (logs / name).write_bytes(b"x" * 10_000)
    future = time.time() + 1_000_000_000
    os.utime(logs / "ended-1-0.log", (future, future))  # as a task of the agent's user may do

    await agent.remove_ended_logs(days=9, most_bytes=0)
    assert len([*logs.iterdir()]) == 5
    assert 'bailiff_ended_log_bytes{node="n1",pool="pool-a"} 36864.0' in generate_latest(agent._metrics.registry).decode()
    await agent.remove_ended_logs(days=7, most_bytes=0)
    assert sorted(path.name for path in logs.iterdir()) == own
    assert 'bailiff_ended_log_bytes{node="n1",pool="pool-a"} 0.0' in generate_latest(agent._metrics.registry).decode()


@pytest.mark.parametrize("kind", [*KINDS, "deep"])
async def test_whatever_is_in_the_place_of_a_log_is_removed_and_nothing_else(agent: Agent, tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"keep")
    place = agent.context.folder / "logs" / "ended-1-0.log"
    if kind == "deep":
        nest(place)
    else:
        KINDS[kind](place, outside)
    await agent.remove_ended_logs(days=7, most_bytes=0)
    assert place not in [*place.parent.iterdir()]
    assert (outside / "precious").read_bytes() == b"keep"
    assert agent.left() == {}


async def test_a_log_that_cannot_be_removed_is_told_once_and_keeps_nothing_else(agent: Agent) -> None:
    logs = agent.context.folder / "logs"
    for name in ("a-1-0.log", "ended-1-0.log", "z-1-0.log"):
        (logs / name).touch()
    try:
        with immutable(logs / "ended-1-0.log"):
            await agent.remove_ended_logs(days=7, most_bytes=0)
            assert {path.name for path in logs.iterdir()} == {"ended-1-0.log", f"{KEY}.log"}
            assert agent.heartbeat(0).left_folders == 1
            assert "ended-1-0.log: Operation not permitted" in agent.heartbeat(0).left_example
            await agent.remove_ended_logs(days=7, most_bytes=0)
            assert agent.heartbeat(0).left_folders == 1
    except OSError as why:
        pytest.skip(str(why))


def test_the_newest_that_fit_stay_and_a_long_one_takes_no_place_from_others(tmp_path: Path) -> None:
    sizes = {"oldest": 8192, "older": 8192, "newer": 8192, "newest-and-long": 1 << 20}
    before = None
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(b"x" * size)
        if before is not None:
            changed_after(tmp_path / name, tmp_path / before)
        before = name
    found = ended_logs(tmp_path, ["newer"], 0, 16_384)
    assert (found.kept_bytes, [path.name for path in found.expired]) == (16_384, ["newest-and-long"])
    found = ended_logs(tmp_path, [], 0, 16_384)
    assert [path.name for path in found.expired] == ["oldest", "newest-and-long"]
    assert ended_logs(tmp_path, [], 0, 0).expired == []
    assert ended_logs(tmp_path / "missing", [], 0, 0) == (0, []), "and the agent lives"


async def test_the_shipper_forgets_a_task_that_is_gone_once_its_output_is_sent(tmp_path: Path) -> None:
    cluster = MemoryCluster(clock=lambda: 0)
    cluster.create_topics(pools=1)
    producer = await cluster.client("agent").producer()
    paths = [tmp_path / "a.log", tmp_path / "b.log", tmp_path / "came and went.log"]
    for path in paths:
        path.write_text("line\n")
    keys = [TaskKey("a", 1, "0"), TaskKey("b", 1, "0"), TaskKey("c", 1, "0")]
    tasks = [*zip(keys, paths, strict=True)][:2]
    ended = [(keys[2], paths[2])]
    of_node: Any = SimpleNamespace(
        context=SimpleNamespace(node=SimpleNamespace(pool="pool-a", name="n1")),
        logs=lambda: tasks,
        take_ended_logs=lambda: [ended.pop() for _ in [*ended]],
    )
    offsets: log_shipper.Offsets = {}
    await log_shipper._ship_new(producer, [of_node], offsets)
    paths[0].write_text("line\nlast\nno line")
    del tasks[0]
    await log_shipper._ship_new(producer, [of_node], offsets)
    await log_shipper._ship_new(producer, [of_node], offsets)
    assert [*offsets] == [("pool-a", "n1", keys[1])]
    partitions = range(topics.JOB_LOGS.partition_count(1))
    sent = [message.value for part in partitions for message in cluster.messages(topics.JOB_LOGS.name, part)]
    assert sorted(sent) == [b"last\nno line", b"line\n", b"line\n", b"line\n"], "each is read to its end"


async def test_the_log_of_a_task_that_came_and_went_is_named_once(agent: Agent) -> None:
    runtime: Any = agent.context.runtimes["process"]
    path = runtime.log_path(KEY)
    running = asyncio.create_task(agent.run())
    await runtime.kill(KEY)
    await until(lambda: agent.tasks[KEY].state == "released")
    agent.received(agent.context.reports.unsent()[-1][0])
    await until(lambda: not runtime.folders.task(KEY).exists())
    running.cancel()
    await asyncio.wait([running])
    assert agent.take_ended_logs() == [(KEY, path)]
    assert agent.take_ended_logs() == []
