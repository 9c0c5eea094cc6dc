"""What a simulated machine can do that a real one cannot: virtual time, host loss, thousands of tasks."""

import asyncio
import heapq
import selectors
from collections.abc import Coroutine
from typing import Any

import pytest

from bailiff_node_agent.devices import SimulatedInventory, prove_release
from bailiff_node_agent.runtime import Exit, Launch, Running, SimulatedMachine, TaskKey
from bailiff_node_agent.runtime.simulated import SimulatedRuntime

KEY = TaskKey("train-7", 1, "0")
GPU = "GPU-sim-n1-0"


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Where nothing is ready, time jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__(selectors.SelectSelector())
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now = max(self._now, heapq.nsmallest(1, self._scheduled)[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def in_virtual_time(story: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(story)


def launch(key: TaskKey = KEY, **behaviour: str) -> Launch:
    return Launch(key, "", {f"BAILIFF_SIM_{name}": value for name, value in behaviour.items()}, None, (GPU,))


def test_a_week_of_training_takes_no_time() -> None:
    async def story() -> None:
        agent = SimulatedRuntime(SimulatedMachine())
        await agent.start(launch(RUN_FOR="604800"))
        assert (await agent.wait_exit()).ended_at == 604_800_000_000

    in_virtual_time(story())


def test_a_slow_save_after_term_takes_as_long_as_it_says() -> None:
    async def story() -> None:
        agent = SimulatedRuntime(SimulatedMachine())
        await agent.start(launch(ON_TERM="exit:85:20", RUN_FOR="1000"))
        await asyncio.sleep(100)
        await agent.terminate(KEY)
        end = await agent.wait_exit()
        assert (end.code, end.ended_at) == (85, 120_000_000)

    in_virtual_time(story())


def test_a_job_that_listens_yields_on_its_notice() -> None:
    async def story() -> None:
        machine = SimulatedMachine()
        agent = SimulatedRuntime(machine)
        await agent.start(launch(ON_NOTICE="exit"))
        await agent.notice(KEY, {"reason": "preempted"})
        assert machine.notice_of(KEY) == {"reason": "preempted"}
        assert (await agent.wait_exit()).code == 85

    in_virtual_time(story())


def test_when_the_host_goes_down_the_next_agent_finds_everything_lost() -> None:
    async def story() -> None:
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

    in_virtual_time(story())


def test_the_release_of_a_simulated_device_is_proved_in_virtual_time() -> None:
    async def story() -> None:
        machine = SimulatedMachine()
        inventory = SimulatedInventory("1xH100-80GB", "n1", identify=machine.identify)
        machine.attach_devices(inventory)
        agent = SimulatedRuntime(machine)
        await agent.start(launch(ON_TERM="exit:0:30"))
        await agent.terminate(KEY)
        proof = await prove_release(inventory, [GPU], lambda: agent.pids(KEY), {}, 60, 1)
        assert proof.free
        assert 30 <= asyncio.get_running_loop().time() <= 31

    in_virtual_time(story())


@pytest.mark.slow
def test_thousands_of_tasks_fit_into_one_process() -> None:
    async def story() -> None:
        machine = SimulatedMachine()
        agent = SimulatedRuntime(machine)
        keys = [TaskKey(f"job-{number}", 0, "0") for number in range(5000)]
        for number, key in enumerate(keys):
            running = await agent.start(Launch(key, "", {"BAILIFF_SIM_RUN_FOR": str(5000 - number)}))
            assert isinstance(running, Running)
        ended = [(await agent.wait_exit()).key for _ in keys]
        assert ended == keys[::-1]

    in_virtual_time(story())


@pytest.mark.parametrize("says", ["", "Exit", "exit:1", "exit:x:1", "exit:999:1", "exit:1:NaN", "exit:1:-1", "ignore:1"])
def test_a_behaviour_that_is_not_known_ends_the_task_and_not_the_agent(says: str) -> None:
    async def story() -> None:
        agent = SimulatedRuntime(SimulatedMachine())
        assert isinstance(await agent.start(launch(ON_TERM=says)), Running)
        end = await agent.wait_exit()
        assert (end.code, end.ended_at) == (126, 0)
        assert end.error is not None
        assert "exit:CODE:AFTER_S" in end.error

    in_virtual_time(story())
