"""What must hold of a pool between any two turns (DESIGN §8). Each function raises `AssertionError` with the place."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from bailiff_core.fold.snapshot import from_snapshot, state_digest, to_snapshot
from bailiff_core.lifecycle.evictions import evictions_of
from bailiff_core.model.places import bits
from bailiff_core.model.pool import ENDED, Job, Pool, Room, Task
from bailiff_core.model.room import add
from bailiff_core.model.sharing import amount_of, share_of, units_of
from bailiff_core.model.units import core_stands
from bailiff_core.placement.rooms import Rooms
from bailiff_core.queue.order import queue_key
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.records.payload import Decision
from bailiff_core.scene import scene_of
from bailiff_core.turn import decide, wake_at


def no_device_over_its_whole(pool: Pool) -> None:
    """Tasks that hold a device, or are promised it, together take at most all of it; what is on its way out aside."""
    for book, states in (("held", ("starting", "running", "exited")), ("promised", ("reserved",))):
        taken: dict[tuple[int, int], Fraction] = {}
        for job, task in standing(pool):
            if task.state in states:
                for number, part in parts_of(pool, job, task).items():
                    at = (task.node, number)
                    taken[at] = taken.get(at, Fraction(0)) + part
                    assert taken[at] <= 1, f"device {number} of node {task.node} is {book} {taken[at]} times, by {job.id} too"
    staying: dict[tuple[int, int], Fraction] = {}
    for job, task in standing(pool):
        if task.state == "reserved" or not is_leaving(job, task):
            for number, part in parts_of(pool, job, task).items():
                staying[task.node, number] = staying.get((task.node, number), Fraction(0)) + part
    for at, part in staying.items():
        if any(task.state == "reserved" and task.node == at[0] and task.devices >> at[1] & 1 for _, task in standing(pool)):
            assert part <= 1, f"{at} is promised, and those who stay leave less than that: {part}"


def standing(pool: Pool) -> list[tuple[Job, Task]]:
    """All tasks that hold or are promised room, places kept for moved jobs included."""
    return [(job, task) for job in pool.jobs.values() for task in (*job.tasks, *job.promise) if task.state != "released"]


def parts_of(pool: Pool, job: Job, task: Task) -> dict[int, Fraction]:
    """How much of each device the task takes."""
    group, devices = job.group(task.index), pool.nodes[task.node].devices
    whole = group.gpu_share_milli is None and group.gpu_share_bytes is None
    return {
        number: Fraction(1) if whole else Fraction(share_of(group, devices[number]), units_of(devices[number]))
        for number in bits(task.devices)
    }


def no_bad_device_is_promised(pool: Pool) -> None:
    """Nobody is promised a device that was not seen free, or that is broken (§8.7)."""
    for job, task in standing(pool):
        node = pool.nodes[task.node]
        if task.state == "reserved":
            bad = node.quarantined | ~node.capacity.devices
            assert not task.devices & bad, f"{job.id} is promised {bits(task.devices & bad)} of {node.name}"


def sums_by_node(pool: Pool) -> dict[int, tuple[Room, Room, Room]]:
    """What the tasks on each node add up to: held, releasing, reserved."""
    found = {number: (Room(), Room(), Room()) for number in pool.nodes}
    for job, task in standing(pool):
        held, releasing, reserved = found[task.node]
        amount = amount_of(pool.nodes[task.node], job.group(task.index), task.devices)
        if task.state == "reserved":
            add(reserved, *amount)
            continue
        add(held, *amount)
        if is_leaving(job, task):
            add(releasing, *amount)
    return found


def sums_recompute(pool: Pool) -> None:
    """`held`, `releasing` and `reserved` of every node are the sums over its tasks."""
    found = sums_by_node(pool)
    for number, node in pool.nodes.items():
        assert (node.held, node.releasing, node.reserved) == found[number], f"sums of {node.name}"


def is_leaving(job: Job, task: Task) -> bool:
    """Whether the room that the task holds may be counted on: by the job's eviction, its own, or because it ended."""
    evictions = [eviction for eviction in (job.eviction, task.eviction) if eviction is not None]
    gone = task.state == "exited" or any(eviction.spare_seq is None for eviction in evictions)
    return gone and not any(eviction.stuck for eviction in evictions)


def nothing_over_filled(pool: Pool) -> None:
    """No node that stayed as it was holds more than it has."""
    for node in pool.nodes.values():
        assert node.held.cpu_milli <= node.capacity.cpu_milli, node.name
        assert node.held.memory_bytes <= node.capacity.memory_bytes, node.name
        assert node.held.slots <= node.capacity.slots, node.name


def the_scene_is_true(pool: Pool) -> None:
    """Free room and use of projects as they are kept from turn to turn are what a look at everything finds."""
    scene = scene_of(pool)
    fresh = Rooms.of(pool)
    assert {number: (node.unheld, node.later) for number, node in scene.rooms.nodes.items()} == {
        number: (node.unheld, node.later) for number, node in fresh.nodes.items()
    }


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
            "queue": job.phase == "pending" or lacks_surplus(job),
            "active": job.phase in ("reserved", "starting", "running", "evicting"),
            "ended": job.phase in ENDED,
            "reserved": any(task.state == "reserved" for task in job.tasks),
            "starting": job.phase in ("starting", "running")
            and any(task.state == "starting" and task.eviction is None for task in job.tasks),
            "leaving": job.eviction is not None or any(task.eviction is not None for task in job.tasks),
        }
        assert where == expected, f"{name} is {job.phase}: {where}"
    for index in (pool.queue, pool.active, pool.ended, pool.reserved, pool.starting, pool.leaving):
        assert all(name in pool.jobs for name in index)
    assert pool.queue == sorted(pool.queue, key=lambda name: queue_key(pool.jobs[name]))


def lacks_surplus(job: Job) -> bool:
    """Whether a running job may get more tasks."""
    free = job.phase in ("starting", "running") and not job.cancelled and job.plan is None
    ended = any(task.state in ("exited", "released") and task.eviction is None for task in job.tasks)
    return free and len(job.tasks) < job.size and not ended


def gangs_are_whole(pool: Pool) -> None:
    """A job has all that it needs, or nothing; and none keeps running beside a member that failed, unless it is leaving.

    Who lacks a member that it needs is noted as stale.
    """
    for job in pool.jobs.values():
        if job.phase in ("pending", "paused", *ENDED):
            assert not job.tasks, f"{job.id} is {job.phase} and has tasks"
            continue
        indices = [task.index for task in job.tasks]
        assert indices == sorted(set(indices)), job.id
        states = {task.state for task in job.tasks}
        assert job.phase != "reserved" or states == {"reserved"}, f"{job.id} is {job.phase}: {states}"
        assert job.phase != "evicting" or "reserved" not in states, f"{job.id} leaves and is promised room"
        assert states != {"released"}, f"{job.id} is over and not closed"
        if job.phase == "evicting" or not states & {"starting", "running"}:
            continue
        here = [t for t in job.tasks if t.eviction is None and t.state in ("starting", "running", "reserved")]
        finished = any(t.exit_code == 0 for t in job.tasks)
        assert core_stands(job, here) or finished or job.stale_since is not None, f"half of {job.id} runs on"
        grace = pool.rules.protections.stale_gang
        assert grace or finished or core_stands(job, here), f"half of {job.id} runs on"
        failed = [t for t in job.tasks if t.state in ("exited", "released") and t.eviction is None and t.exit_code]
        assert not failed or job.phase not in ("starting", "running"), f"half of {job.id} runs on"


def evictions_have_reasons(pool: Pool) -> None:
    """Whoever is leaving has an eviction, and one for a plan has the plan, is spared, or cannot go back."""
    for job in pool.jobs.values():
        assert (job.phase == "evicting") == (job.eviction is not None), f"{job.id} is {job.phase}: {job.eviction}"
        for entry in evictions_of(job):
            eviction = entry.eviction
            if eviction.cause != "preemption" or eviction.begun_seq is not None:
                continue
            assert eviction.plan in pool.plans, f"{job.id} waits to be evicted for a plan that is gone"
            assert job.id in pool.plans[eviction.plan].victims


def promises_are_kept_for_those_who_move(pool: Pool) -> None:
    """Only a job on its way out, or a member of one, has a place kept for it, and only for a while."""
    for job in pool.jobs.values():
        assert not job.promise or job.promise_until is not None, f"a place is kept for {job.id} for ever"
        for place in job.promise:
            member = job.task(place.index)
            leaves = job.phase == "evicting" or (member is not None and member.eviction is not None)
            assert leaves, f"{job.id} is {job.phase}, and another place is kept for its task {place.index}"


def run_limits_are_those_of_running_jobs(pool: Pool) -> None:
    """Every running job with a limit is in the list, once, in order."""
    limits = [
        (job.last_start + job.demand.run_time_limit, job.id)
        for job in pool.jobs.values()
        if job.phase == "running" and job.demand.run_time_limit is not None and job.last_start is not None
    ]
    assert pool.run_limits == sorted(limits)


def plans_have_askers(pool: Pool) -> None:
    """A plan lives exactly as long as its asker waits on its reservation."""
    for seq, plan in pool.plans.items():
        assert pool.jobs[plan.job].plan == seq
        assert any(task.state == "reserved" for task in pool.jobs[plan.job].tasks)


def requests_are_open(pool: Pool) -> None:
    """Who asks is known, and a selection has somebody who asks."""
    if pool.selection is None:
        return
    assert pool.selection.requests
    for request in pool.selection.requests:
        assert pool.jobs[request.job].phase not in ENDED, f"{request.job} asks and has ended"


def nothing_accepted_is_forgotten(pool: Pool) -> None:
    """Every job waits in the queue, is paused, holds room, or has ended."""
    paused = [name for name, job in pool.jobs.items() if job.phase == "paused"]
    assert set(pool.jobs) == {*pool.queue, *paused, *pool.active, *pool.ended}, "a job is nowhere"


def paused_jobs_have_no_place(pool: Pool) -> None:
    """Who is paused holds nothing and is promised nothing, or is on its way out; and who is not paused is not set aside."""
    for job in pool.jobs.values():
        if job.paused_seq is not None:
            ends = job.cancelled and all(task.state in ("exited", "released") for task in job.tasks)
            assert ends or job.phase in ("paused", "evicting"), f"{job.id} is paused and {job.phase}"
            assert not job.promise, f"{job.id} is paused, and a place is kept for it"
        assert job.phase != "paused" or job.paused_seq is not None, f"{job.id} is set aside, and nobody paused it"


def wishes_are_dealt_with(pool: Pool) -> None:
    """Nothing that was asked for by hand is left for later."""
    assert not [job.id for job in pool.jobs.values() if job.wish is not None]


def drained_nodes_get_nothing_new(pool: Pool) -> None:
    """Nothing is promised on a node that is being emptied; once that is due, whatever is there is on its way out."""
    assert list(pool.drained) == [number for number in pool.drained if pool.nodes[number].drain is not None]
    assert len(pool.drained) == sum(node.drain is not None for node in pool.nodes.values())
    for job, task in standing(pool):
        drain = pool.nodes[task.node].drain
        if drain is not None:
            assert task.state != "reserved", f"{job.id} is promised room on {pool.nodes[task.node].name}"
            goes = task.state == "exited" or job.eviction is not None or task.eviction is not None
            assert goes or not drain.due, f"{job.id} stays on {pool.nodes[task.node].name}, which is being emptied"


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
    no_device_over_its_whole,
    no_bad_device_is_promised,
    sums_recompute,
    nothing_over_filled,
    every_job_in_one_index,
    gangs_are_whole,
    evictions_have_reasons,
    promises_are_kept_for_those_who_move,
    run_limits_are_those_of_running_jobs,
    plans_have_askers,
    requests_are_open,
    nothing_accepted_is_forgotten,
    paused_jobs_have_no_place,
    wishes_are_dealt_with,
    drained_nodes_get_nothing_new,
    at_rest,
    snapshot_is_whole,
)


def check_pool(pool: Pool) -> None:
    """All of the above."""
    for invariant in BETWEEN_TURNS:
        invariant(pool)


def victims_may_go(before: Pool, said: Sequence[Decision]) -> None:
    """Victims were preemptible, each named once; of lower priority under preempt, of others under reclaim.

    before: what jobs were like then.
    """
    for decision in said:
        if isinstance(decision, PreemptionDecided):
            assert len({choice.job for choice in decision.victims}) == len(decision.victims) > 0
            for choice in decision.victims:
                victim = before.jobs[choice.job]
                assert victim.preemptible, f"{choice.job} is not preemptible"
                if decision.verb == "preempt":
                    assert victim.priority < decision.asker.priority, f"{choice.job} does not have lower priority"
                if decision.verb == "reclaim" and not choice.goes_on:
                    assert victim.project != decision.asker.project, f"{choice.job} is of the same project"
                if decision.verb == "consolidate" and not choice.reserved:
                    assert choice.goes_on, f"{choice.job} has no place to move to"
