"""What a simulated machine can do that a real one cannot: virtual time, host loss, thousands of tasks."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.bus.virtual_time import in_virtual_time

from bailiff_devstack.simulated_node import SimulatedInventory, SimulatedMachine, SimulatedRuntime
from bailiff_node_agent.devices import prove_release
from bailiff_node_agent.runtime import Exit, Image, Launch, Running, TaskKey, pids_of

KEY = TaskKey("train-7", 1, "0")
GPU = "GPU-sim-n1-0"


def launch(key: TaskKey = KEY, **behaviour: str) -> Launch:
    return Launch(key, "", {f"BAILIFF_SIM_{name}": value for name, value in behaviour.items()}, None, (GPU,))


@in_virtual_time
async def test_a_week_of_training_takes_no_time() -> None:
    agent = SimulatedRuntime(SimulatedMachine())
    await agent.start(launch(RUN_FOR="604800"))
    assert (await agent.wait_exit()).ended_at == 604_800_000_000


@in_virtual_time
async def test_a_slow_save_after_term_takes_as_long_as_it_says() -> None:
    agent = SimulatedRuntime(SimulatedMachine())
    await agent.start(launch(ON_TERM="exit:85:20", RUN_FOR="1000"))
    await asyncio.sleep(100)
    await agent.terminate(KEY)
    end = await agent.wait_exit()
    assert (end.code, end.ended_at) == (85, 120_000_000)


@in_virtual_time
async def test_a_job_that_listens_yields_on_its_notice() -> None:
    machine = SimulatedMachine()
    agent = SimulatedRuntime(machine)
    await agent.start(launch(ON_NOTICE="exit"))
    await agent.notice(KEY, {"reason": "preempted"})
    assert machine.notice_of(KEY) == {"reason": "preempted"}
    assert (await agent.wait_exit()).code == 85


@in_virtual_time
async def test_when_the_host_goes_down_the_next_agent_finds_everything_lost() -> None:
    machine = SimulatedMachine()
    inventory = SimulatedInventory("1xH100-80GB", "n1", identify=machine.identify)
    machine.attach_devices(inventory)
    first, ended = SimulatedRuntime(machine), TaskKey("ended", 0, "0")
    running = await first.start(launch())
    assert isinstance(running, Running)
    await first.start(launch(ended, RUN_FOR="1"))
    await first.wait_exit()
    assert machine.identify(int(running.instance))
    machine.crash()
    assert machine.identify(int(running.instance)) is None
    assert inventory.usage(GPU).pids == ()

    found = {state.key: state for state in await SimulatedRuntime(machine).adopt()}
    lost, before = found[KEY], found[ended]
    assert isinstance(lost, Exit)
    assert isinstance(before, Exit)
    assert (lost.code, lost.supervisor_lost) == (-9, True)
    assert (before.code, before.supervisor_lost) == (0, False)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(first.wait_exit(), 3600)


@in_virtual_time
async def test_the_release_of_a_simulated_device_is_proved_in_virtual_time() -> None:
    machine = SimulatedMachine()
    inventory = SimulatedInventory("1xH100-80GB", "n1", identify=machine.identify)
    machine.attach_devices(inventory)
    agent = SimulatedRuntime(machine)
    await agent.start(launch(ON_TERM="exit:0:30"))
    await agent.terminate(KEY)
    proof = await prove_release(inventory, [GPU], lambda: pids_of(agent, KEY), {}, 60, 1)
    assert proof.free
    assert 30 <= asyncio.get_running_loop().time() <= 31


@pytest.mark.slow
@in_virtual_time
async def test_thousands_of_tasks_fit_into_one_process() -> None:
    machine = SimulatedMachine()
    agent = SimulatedRuntime(machine)
    keys = [TaskKey(f"job-{number}", 0, "0") for number in range(5000)]
    for number, key in enumerate(keys):
        running = await agent.start(Launch(key, "", {"BAILIFF_SIM_RUN_FOR": str(5000 - number)}))
        assert isinstance(running, Running)
    ended = [(await agent.wait_exit()).key for _ in keys]
    assert ended == keys[::-1]


@pytest.mark.parametrize("says", ["", "Exit", "exit:1", "exit:x:1", "exit:999:1", "exit:1:NaN", "exit:1:-1", "ignore:1"])
@in_virtual_time
async def test_a_behaviour_that_is_not_known_ends_the_task_and_not_the_agent(says: str) -> None:
    agent = SimulatedRuntime(SimulatedMachine())
    assert isinstance(await agent.start(launch(ON_TERM=says)), Running)
    end = await agent.wait_exit()
    assert (end.code, end.ended_at) == (126, 0)
    assert end.error is not None
    assert "exit:CODE:AFTER_S" in end.error


IMAGE, AGAIN = Image(Path("/nowhere"), "1.0", (1, 0)), TaskKey("train-7", 2, "0")


@in_virtual_time
async def test_a_saved_task_goes_on_in_the_next_attempt_for_what_was_left_of_its_time() -> None:
    agent = SimulatedRuntime(SimulatedMachine())
    await agent.start(launch(RUN_FOR="100", SNAPSHOT="works:5"))
    await asyncio.sleep(30)
    dumped = await agent.save(KEY, IMAGE, "1")
    assert (dumped.why_not, dumped.elapsed_us) == ("", 5_000_000)
    await agent.kill(KEY)
    await agent.wait_exit()
    await asyncio.sleep(1000)
    await agent.start(replace(launch(AGAIN, RUN_FOR="100"), restore=replace(IMAGE, facts=dumped.facts, about={"bytes": 1})))
    restored = await agent.restored(AGAIN)
    assert restored is not None
    assert (restored.why_not, restored.about) == ("", {"bytes": 1})
    assert (await agent.wait_exit()).ended_at == (30 + 5 + 1000 + 70) * 1_000_000


@in_virtual_time
async def test_a_task_that_could_not_be_saved_goes_on_and_has_the_term_that_came_meanwhile() -> None:
    agent = SimulatedRuntime(SimulatedMachine())
    await agent.start(launch(RUN_FOR="100", ON_TERM="exit:3:10", SNAPSHOT="fails:5"))
    await asyncio.sleep(30)
    saving = asyncio.create_task(agent.save(KEY, IMAGE, "1"))
    await asyncio.sleep(1)
    assert (await agent.save(KEY, IMAGE, "1")) == await saving  # the next agent waits for the same
    assert saving.result().why_not
    await agent.terminate(KEY)
    await asyncio.sleep(500)
    await agent.thaw(KEY)
    end = await agent.wait_exit()
    assert (end.code, end.ended_at) == (3, (30 + 5 + 500 + 10) * 1_000_000)


@in_virtual_time
async def test_a_snapshot_that_is_lost_starts_the_task_anew() -> None:
    agent = SimulatedRuntime(SimulatedMachine())
    await agent.start(replace(launch(AGAIN, RUN_FOR="100", SNAPSHOT="lost"), restore=replace(IMAGE, facts={"left_s": 1.0})))
    restored = await agent.restored(AGAIN)
    assert restored is not None
    assert restored.why_not
    assert (await agent.wait_exit()).ended_at == 100_000_000


@pytest.mark.parametrize(("how", "why"), [({"SNAPSHOT": "killed"}, "was killed"), ({"CHECKPOINTS": "1:1"}, "has a socket")])
@in_virtual_time
async def test_what_cannot_be_saved_says_why(how: dict[str, str], why: str) -> None:
    agent = SimulatedRuntime(SimulatedMachine())
    await agent.start(launch(RUN_FOR="100", **how))
    dumped = await agent.save(KEY, IMAGE, "1")
    assert why in dumped.why_not
    assert dumped.is_whole == ("SNAPSHOT" not in how)
