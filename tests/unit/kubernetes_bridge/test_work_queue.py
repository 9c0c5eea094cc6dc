"""Changes in the cluster, by object: one at a time, side by side, the newest evaluation counts, gates before sentences."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bailiff_kubernetes_bridge.actions import Action, DeletePod, OpenGate, SetPodStatus
from bailiff_kubernetes_bridge.messages import Status
from bailiff_kubernetes_bridge.work_queue import AT_ONCE, LOOK_AGAIN_S, REPORT_WAITS_S, REPORTS_AT_ONCE, SETTLE_S, WorkQueue
from bailiff_kubernetes_bridge.workloads.model import Pod

POOL = "pool-a"


class Bench:
    """A queue whose clock stands still, and whose actions last until they are released."""

    def __init__(self) -> None:
        self.time, self.is_leader = 0.0, True
        self.begun: list[Action] = []
        self._released = asyncio.Event()
        self.queue = WorkQueue(self._carry_out, lambda: self.is_leader, lambda: self.time)

    async def _carry_out(self, pool: str, action: Action) -> None:
        assert pool == POOL
        self.begun.append(action)
        await self._released.wait()

    def put(self, workload: str, *actions: Action) -> None:
        self.queue.put((POOL, workload), actions)

    async def let_go(self) -> None:
        """Everything that is being carried out ends."""
        self._released.set()
        await self.settled()
        self._released.clear()

    async def settled(self) -> None:
        """Until the queue does nothing more by itself."""
        for _ in range(100):
            await asyncio.sleep(0)

    async def after(self, seconds: float) -> None:
        self.time += seconds
        self.queue.put((POOL, "somebody-else"), [])  # wakes it, as every round does
        await self.settled()


@asynccontextmanager
async def running() -> AsyncIterator[Bench]:
    bench = Bench()
    task = asyncio.ensure_future(bench.queue.run())
    try:
        yield bench
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def pod(name: str, version: int = 1) -> Pod:
    return Pod("team-a", name, f"uid-{name}", str(version), "ring", "main")


def opens(name: str, version: int = 1) -> OpenGate:
    return OpenGate(pod(name, version), "ring-1", f"ring-1-1-{name}", "n1")


def says(name: str, text: str, version: int = 1, *, warning: bool = False) -> SetPodStatus:
    return SetPodStatus(pod(name, version), Status("Pending", text, warning=warning))


async def test_pods_of_a_gang_are_opened_side_by_side_up_to_a_limit() -> None:
    async with running() as bench:
        gang = [opens(str(number)) for number in range(AT_ONCE + 1)]
        bench.put("ring", *gang)
        await bench.settled()
        assert bench.begun == gang[:AT_ONCE]
        await bench.let_go()
        assert bench.begun == gang


async def test_one_object_is_changed_by_one_action_at_a_time() -> None:
    async with running() as bench:
        bench.put("ring", opens("a"))
        await bench.settled()
        bench.put("ring", DeletePod(pod("a", 2), "over"))
        await bench.settled()
        assert bench.begun == [opens("a")]
        await bench.let_go()
        assert bench.begun == [opens("a"), DeletePod(pod("a", 2), "over")]


async def test_the_same_version_is_not_changed_again_before_its_effect_is_to_be_seen() -> None:
    async with running() as bench:
        bench.put("ring", opens("a"))
        await bench.settled()
        bench.put("ring", opens("a"))  # the view has not seen the effect yet
        await bench.let_go()
        bench.put("ring", opens("a"))
        await bench.settled()
        assert bench.begun == [opens("a")]
        assert bench.queue.to_look_at() == set()
        await bench.after(LOOK_AGAIN_S)
        assert bench.queue.to_look_at() == {(POOL, "ring")}
        bench.put("ring", opens("a"))  # it had none, as when the API server was away
        await bench.settled()
        assert bench.begun == [opens("a"), opens("a")]


async def test_what_is_due_no_longer_is_not_done() -> None:
    async with running() as bench:
        bench.put("ring", *(opens(str(number)) for number in range(AT_ONCE + 2)))
        await bench.settled()
        bench.put("ring", opens(str(AT_ONCE)))
        await bench.let_go()
        assert bench.begun[AT_ONCE:] == [opens(str(AT_ONCE))]


async def test_a_pod_that_is_of_another_workload_now_is_not_forgotten_with_the_one_before() -> None:
    async with running() as bench:
        bench.is_leader = False
        bench.put("pod", opens("a"))
        bench.put("ring", opens("a"))
        bench.put("pod")
        bench.is_leader = True
        await bench.after(0.0)
        assert bench.begun == [opens("a")]


async def test_a_sentence_waits_until_it_has_been_due_for_a_while_and_only_the_newest_is_written() -> None:
    async with running() as bench:
        bench.put("ring", says("a", "submitted"))
        await bench.after(SETTLE_S / 2)
        bench.put("ring", says("a", "pending"))
        await bench.after(SETTLE_S * 0.9)
        assert bench.begun == []
        await bench.after(SETTLE_S * 0.2)
        assert bench.begun == [says("a", "pending")]


async def test_a_sentence_waits_for_an_object_that_changes_but_not_for_ever() -> None:
    async with running() as bench:
        for version in range(20):
            bench.put("ring", says("a", "pending", version))
            await bench.after(SETTLE_S * 0.9)
            if bench.begun:
                break
        assert (version + 1) * SETTLE_S * 0.9 >= REPORT_WAITS_S
        assert len(bench.begun) == 1


async def test_a_warning_does_not_wait() -> None:
    async with running() as bench:
        bench.put("ring", says("a", "preempted", warning=True))
        await bench.settled()
        assert bench.begun == [says("a", "preempted", warning=True)]


async def test_sentences_keep_no_gate_waiting() -> None:
    async with running() as bench:
        bench.put("others", *(says(f"other-{number}", "pending") for number in range(100)))
        await bench.after(SETTLE_S)
        assert len(bench.begun) == REPORTS_AT_ONCE
        bench.put("ring", opens("a"))
        await bench.settled()
        assert bench.begun[REPORTS_AT_ONCE:] == [opens("a")]


async def test_sentences_wait_while_gates_are_opened_but_not_for_ever() -> None:
    async with running() as bench:
        bench.put("ring", opens("a"))
        await bench.settled()
        bench.put("other", says("b", "pending"))
        await bench.after(SETTLE_S)
        assert bench.begun == [opens("a")]
        await bench.after(REPORT_WAITS_S)
        assert bench.begun == [opens("a"), says("b", "pending")]


async def test_a_gate_that_is_to_be_opened_comes_before_what_the_pod_was_to_say() -> None:
    async with running() as bench:
        bench.put("ring", says("a", "pending"))
        bench.put("ring", opens("a"))
        await bench.settled()
        assert bench.begun == [opens("a")]


async def test_who_is_not_the_leader_does_nothing_and_begins_anew_later() -> None:
    async with running() as bench:
        bench.is_leader = False
        bench.put("ring", opens("a"))
        await bench.settled()
        assert (bench.begun, bench.queue.count(POOL)) == ([], 1)
        bench.queue.clear()
        bench.is_leader = True
        await bench.after(1.0)
        assert (bench.begun, bench.queue.count(POOL)) == ([], 0)
