"""What must hold of a pool between any two turns (DESIGN §8). Each function raises `AssertionError` with the place."""

from collections.abc import Callable, Sequence

from bailiff_core.fold.snapshot import from_snapshot, state_digest, to_snapshot
from bailiff_core.model.pool import ENDED, Pool, Room
from bailiff_core.model.room import add
from bailiff_core.model.sharing import amount_of
from bailiff_core.queue.order import queue_key
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.records.payload import Decision
from bailiff_core.turn import decide, wake_at


def no_device_held_twice(pool: Pool) -> None:
    """Tasks that hold or are promised a device share it only as the promise and what is on its way out."""
    holders: dict[tuple[int, int], str] = {}
    promised: dict[tuple[int, int], str] = {}
    for job in pool.active_jobs():
        for task in job.tasks:
            if task.state == "released":
                continue
            book = promised if task.state == "reserved" else holders
            for number in range(task.devices.bit_length()):
                if task.devices >> number & 1:
                    other = book.setdefault((task.node, number), f"{job.id}.{task.index}")
                    assert other == f"{job.id}.{task.index}", f"device {number} of node {task.node}: {other}, {job.id}"
    for at, waiting in promised.items():
        if at in holders:
            assert pool.nodes[at[0]].releasing.devices >> at[1] & 1, f"{at} is promised to {waiting}, {holders[at]} stays"


def sums_recompute(pool: Pool) -> None:
    """`held`, `releasing` and `reserved` of every node are the sums over its tasks, and nothing is over-filled."""
    found = {number: (Room(), Room(), Room()) for number in pool.nodes}
    for job in pool.active_jobs():
        leaving = job.eviction is not None and not job.eviction.stuck and job.eviction.spare_seq is None
        stuck = job.eviction is not None and job.eviction.stuck
        for task, group in zip(job.tasks, job.groups(), strict=True):
            held, releasing, reserved = found[task.node]
            amounts = amount_of(pool.nodes[task.node], group, task.devices)
            if task.state == "reserved":
                add(reserved, *amounts)
            elif task.state != "released":
                add(held, *amounts)
                if leaving or (task.state == "exited" and not stuck):
                    add(releasing, *amounts)
    for number, node in pool.nodes.items():
        assert (node.held, node.releasing, node.reserved) == found[number], f"sums of {node.name}"


def nothing_over_filled(pool: Pool) -> None:
    """No node that stayed as it was holds more than it has."""
    for node in pool.nodes.values():
        assert node.held.cpu_milli <= node.capacity.cpu_milli, node.name
        assert node.held.memory_bytes <= node.capacity.memory_bytes, node.name
        assert node.held.slots <= node.capacity.slots, node.name


def every_job_in_one_index(pool: Pool) -> None:
    """Queue, active (with its parts) and ended name each job exactly once, where its phase says."""
    for name, job in pool.jobs.items():
        where = {
            "queue": pool.queue.count(name),
            "active": name in pool.active,
            "ended": name in pool.ended,
            "reserved": name in pool.reserved,
            "starting": name in pool.starting,
            "leaving": name in pool.leaving,
        }
        expected = {
            "queue": job.phase == "pending",
            "active": job.phase in ("reserved", "starting", "running", "evicting"),
            "ended": job.phase in ENDED,
            "reserved": job.phase == "reserved",
            "starting": job.phase == "starting",
            "leaving": job.phase == "evicting",
        }
        assert where == expected, f"{name} is {job.phase}: {where}"
    for index in (pool.queue, pool.active, pool.ended, pool.reserved, pool.starting, pool.leaving):
        assert all(name in pool.jobs for name in index)
    assert pool.queue == sorted(pool.queue, key=lambda name: queue_key(pool.jobs[name]))


def gangs_are_whole(pool: Pool) -> None:
    """A job has all its tasks, or none; and none keeps running beside a member that failed, unless it is leaving."""
    for job in pool.jobs.values():
        if job.phase in ("pending", *ENDED):
            assert not job.tasks, f"{job.id} is {job.phase} and has tasks"
            continue
        assert [task.index for task in job.tasks] == list(range(job.size)), job.id
        states = {task.state for task in job.tasks}
        assert ("reserved" in states) == (job.phase == "reserved"), f"{job.id} is {job.phase}: {states}"
        assert states != {"released"}, f"{job.id} is over and not closed"
        broken = [t for t in job.tasks if t.state in ("exited", "released") and t.exit_code != 0]
        if broken and job.phase in ("starting", "running"):
            assert not states & {"starting", "running"}, f"half of {job.id} runs on"


def evictions_have_reasons(pool: Pool) -> None:
    """Whoever is leaving has an eviction, and one for a plan has the plan, is spared, or cannot go back."""
    for job in pool.jobs.values():
        assert (job.phase == "evicting") == (job.eviction is not None), f"{job.id} is {job.phase}: {job.eviction}"
        eviction = job.eviction
        if eviction is None or eviction.cause != "preemption" or eviction.begun_seq is not None:
            continue
        assert eviction.plan in pool.plans, f"{job.id} waits to be evicted for a plan that is gone"
        assert job.id in pool.plans[eviction.plan].victims


def plans_have_askers(pool: Pool) -> None:
    """A plan lives exactly as long as its asker waits on its reservation."""
    for seq, plan in pool.plans.items():
        assert pool.jobs[plan.job].plan == seq
        assert pool.jobs[plan.job].phase == "reserved"


def requests_are_open(pool: Pool) -> None:
    """Who asks is known, and a selection has somebody who asks."""
    if pool.selection is None:
        return
    assert pool.selection.requests
    for request in pool.selection.requests:
        assert pool.jobs[request.job].phase not in ENDED, f"{request.job} asks and has ended"


def nothing_accepted_is_forgotten(pool: Pool) -> None:
    """Every job waits in the queue, holds room, or has ended."""
    assert set(pool.jobs) == {*pool.queue, *pool.active, *pool.ended}


def at_rest(pool: Pool) -> None:
    """Right after a turn nothing is left to decide, also not by one who looks at everything anew."""
    assert not pool.touched, f"still to be looked at: {list(pool.touched)}"
    fresh = from_snapshot(to_snapshot(pool))
    left = list(decide(fresh))
    assert not left, f"left undecided: {left}"
    wake = wake_at(pool)
    assert wake is None or wake > pool.now, f"wants to be woken at {wake}, now is {pool.now}"


def snapshot_is_whole(pool: Pool) -> None:
    """The state goes through its snapshot unchanged."""
    assert state_digest(from_snapshot(to_snapshot(pool))) == state_digest(pool)


BETWEEN_TURNS: tuple[Callable[[Pool], None], ...] = (
    no_device_held_twice,
    sums_recompute,
    nothing_over_filled,
    every_job_in_one_index,
    gangs_are_whole,
    evictions_have_reasons,
    plans_have_askers,
    requests_are_open,
    nothing_accepted_is_forgotten,
    at_rest,
    snapshot_is_whole,
)


def check_pool(pool: Pool) -> None:
    """All of the above."""
    for invariant in BETWEEN_TURNS:
        invariant(pool)


def victims_may_go(before: Pool, said: Sequence[Decision]) -> None:
    """Victims were preemptible, of strictly lower priority, and asked for nothing twice. `before`: priorities then."""
    for decision in said:
        if isinstance(decision, PreemptionDecided):
            assert len({choice.job for choice in decision.victims}) == len(decision.victims) > 0
            for choice in decision.victims:
                victim = before.jobs[choice.job]
                assert victim.preemptible, f"{choice.job} is not preemptible"
                assert victim.priority < decision.asker.priority, f"{choice.job} does not have lower priority"
