"""A task whose agent does not renew the lease: its supervisor stops it in time; with real processes."""

import asyncio
import json
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kits.waiting import exit_of, until

from bailiff_node_agent.runtime import Launch, Running, TaskKey
from bailiff_node_agent.runtime.process import ProcessRuntime
from bailiff_node_agent.runtime.supervisor.host import boottime_us
from bailiff_node_agent.runtime.supervisor.lease import LEASE_EXPIRED
from bailiff_node_agent.runtime.supervisor.processes import read_process
from bailiff_node_agent.runtime.supervisor.watchdog import LEASE_POLL_S

KEY = TaskKey("train-7", 1, "0")
SECOND = 1_000_000
PATIENCE_S = 60
# Long sleeps, which end with the TERM: dash loses a signal that comes while it starts a command.
IGNORES_TERM = "trap ': > asked' TERM; touch ready; while :; do sleep 60; done"
OBEYS_TERM = "trap 'exit 85' TERM; touch ready; while :; do sleep 60; done"


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    agent = ProcessRuntime(tmp_path / "state")
    yield agent
    await agent.close()
    last = ProcessRuntime(tmp_path / "state")
    for state in await last.adopt():
        if isinstance(state, Running):
            await last.kill(state.key)
            await exit_of(last)
    await last.close()


async def run(agent: ProcessRuntime, command: str, folder: Path) -> Running:
    running = await agent.start(Launch(KEY, command, working_dir=str(folder)))
    assert isinstance(running, Running)
    return running


async def leased_for(agent: ProcessRuntime, seconds: float, command: str, folder: Path, grace: int = SECOND) -> int:
    """The command runs, and some time after the supervisor's next look the lease is over; when."""
    agent.renew(in_s(3600), grace)
    await run(agent, command, folder)
    await until_it_listens(folder)
    over = in_s(LEASE_POLL_S + seconds)  # leases are never shortened, so that is not checked
    agent.renew(over, grace)
    return over


async def until_it_listens(folder: Path) -> None:
    await until((folder / "ready").exists)


def lives(pid: int) -> bool:
    return read_process(pid) is not None


def take_away(folder: Path) -> None:
    """Atomically: files written below it meanwhile are removed, too."""
    shutil.rmtree(folder.rename(folder.with_name("taken")))


def in_s(seconds: float) -> int:
    """That moment on the boot clock."""
    return boottime_us() + int(seconds * SECOND)


@pytest.mark.slow
async def test_after_the_lease_come_notice_and_term_and_after_the_grace_kill(agent: ProcessRuntime, tmp_path: Path) -> None:
    over = await leased_for(agent, 0.5, IGNORES_TERM, tmp_path)
    end = await exit_of(agent)
    assert end.code == -signal.SIGKILL
    assert end.lease_stages == ("noticed", "term_sent", "kill_sent")
    assert end.ended_at >= over + SECOND
    assert (tmp_path / "asked").exists()
    notice = json.loads((agent.folders.task(KEY) / "notice.json").read_text())
    assert notice["reason"] == LEASE_EXPIRED
    assert notice["hard_s"] in (0, 1)
    assert await ProcessRuntime(tmp_path / "state").adopt() == [end]


@pytest.mark.slow
async def test_a_job_that_obeys_ends_with_its_own_code(agent: ProcessRuntime, tmp_path: Path) -> None:
    over = await leased_for(agent, 0.5, OBEYS_TERM, tmp_path, grace=60 * SECOND)
    end = await exit_of(agent)
    assert (end.code, end.lease_stages) == (85, ("noticed", "term_sent"))
    assert end.ended_at >= over


@pytest.mark.slow
async def test_a_renewed_lease_is_the_one_that_counts(agent: ProcessRuntime, tmp_path: Path) -> None:
    await leased_for(agent, 60, OBEYS_TERM, tmp_path)
    over = in_s(1.0)
    agent.renew(over, SECOND)
    assert (await exit_of(agent)).ended_at >= over


@pytest.mark.slow
async def test_an_agent_that_is_back_in_time_adopts_what_runs(agent: ProcessRuntime, tmp_path: Path) -> None:
    over = await leased_for(agent, 4.0, OBEYS_TERM, tmp_path)
    back = ProcessRuntime(tmp_path / "state")
    (running,) = await back.adopt()
    assert isinstance(running, Running)
    back.renew(in_s(3600), SECOND)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(back.wait_exit(), (over - in_s(0)) / SECOND + 0.5)
    assert lives(int(running.instance))
    await back.close()


@pytest.mark.slow
async def test_what_an_agent_began_before_it_died_gets_no_longer_than_the_lease_allows(
    agent: ProcessRuntime, tmp_path: Path
) -> None:
    await leased_for(agent, 3600, IGNORES_TERM, tmp_path)
    await agent.terminate(KEY, grace_s=600)
    agent.renew(in_s(LEASE_POLL_S + 0.5), SECOND)
    end = await exit_of(agent)  # long before the grace is over
    assert end.lease_stages == ("kill_sent",)


@pytest.mark.slow
async def test_what_outlives_the_main_process_gets_no_longer_either(agent: ProcessRuntime, tmp_path: Path) -> None:
    stubborn = "setsid sh -c 'echo $$ > child; trap \"\" TERM; touch ready; while :; do sleep 0.02; done' & wait"
    await leased_for(agent, 3600, stubborn, tmp_path)
    await agent.terminate(KEY, grace_s=600)
    over = in_s(0.5)
    agent.renew(over, SECOND)
    end = await exit_of(agent)
    assert end.code == -signal.SIGTERM
    assert end.leftovers >= 1
    assert not lives(int((tmp_path / "child").read_text()))
    assert end.ended_at >= over + SECOND


async def test_after_the_lease_nothing_is_started(agent: ProcessRuntime, tmp_path: Path) -> None:
    agent.renew(in_s(-1.0), 60 * SECOND)
    await run(agent, "touch ran", tmp_path)
    end = await exit_of(agent)
    assert (end.code, end.error, end.lease_stages) == (-signal.SIGKILL, LEASE_EXPIRED, ("kill_sent",))
    assert not (tmp_path / "ran").exists()


async def test_a_lease_of_another_boot_is_over(agent: ProcessRuntime, tmp_path: Path) -> None:
    (tmp_path / "state" / "lease.json").write_text(
        json.dumps({"until_boottime_us": in_s(3600), "grace_us": SECOND, "boot_id": "another"})
    )
    await run(agent, "touch ran", tmp_path)
    assert (await exit_of(agent)).lease_stages == ("kill_sent",)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "damaged", ["", "{}", "[]", "7", '{"boot_id": 1}', "[" * 100_000, '{"boot_id": "b", "until_boottime_us": "x", "grace_us": 1}']
)
async def test_a_damaged_lease_file_ends_no_supervisor(agent: ProcessRuntime, tmp_path: Path, damaged: str) -> None:
    (tmp_path / "state" / "lease.json").write_text(damaged)
    await run(agent, "touch ran", tmp_path)
    end = await exit_of(agent)
    assert (end.code, end.lease_stages) == (0, ())


def can_act(pid: int) -> bool:
    """It has a program. One that is ending has none any more, a moment before it is gone."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_task_whose_folder_was_removed_is_killed_before_the_next_agent_has_adopted(
    agent: ProcessRuntime, tmp_path: Path
) -> None:
    agent.renew(in_s(3600), 3600 * SECOND)
    running = await run(agent, f"env -i sleep 300 & setsid sleep 300 & {IGNORES_TERM}", tmp_path)
    await until_it_listens(tmp_path)
    tree, its = agent.pids(KEY), json.loads((agent.folders.task(KEY) / "running.json").read_text())["supervisor_pid"]
    assert int(running.instance) in tree
    assert len(tree) >= 3
    await agent.close()
    take_away(tmp_path / "state")
    assert await ProcessRuntime(tmp_path / "state").adopt() == []
    assert not [pid for pid in (*tree, its) if can_act(pid)]


@pytest.mark.slow
async def test_with_its_folder_taken_away_and_no_agent_the_task_ends_too(agent: ProcessRuntime, tmp_path: Path) -> None:
    agent.renew(in_s(3600), SECOND)
    running = await run(agent, IGNORES_TERM, tmp_path)
    await until_it_listens(tmp_path)
    await agent.close()
    take_away(tmp_path / "state")
    await until(lambda: not lives(int(running.instance)))
    ProcessRuntime(tmp_path / "state")  # for the fixture, a folder again
