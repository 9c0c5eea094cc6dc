"""Invariants of a pool between any two decision cycles (DESIGN §8). Each function raises `AssertionError` with the place."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from bailiff_core.decision_cycle import decide, wake_at
from bailiff_core.fold.pending_queue import queue_key
from bailiff_core.fold.snapshot import from_snapshot, state_digest, to_snapshot
from bailiff_core.model.evictions import evictions_of
from bailiff_core.model.gpu_shares import share_of, task_resources, units_of
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.resources import add
from bailiff_core.model.state import ENDED, Job, PoolState, Resources, Task
from bailiff_core.model.units import core_complete
from bailiff_core.placement.cluster_resources import ClusterResources
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.records.payload import Decision
from bailiff_core.scheduling_snapshot import current_snapshot


def no_device_over_its_whole(state: PoolState) -> None:
    """Tasks that a device is allocated to, or reserved for, take at most all of it together; evicted tasks do not count."""
    for book, states in (("held", ("starting", "running", "exited")), ("promised", ("reserved",))):
        taken: dict[tuple[int, int], Fraction] = {}
        for job, task in standing(state):
            if task.state in states:
                for number, part in parts_of(state, job, task).items():
                    at = (task.node, number)
                    taken[at] = taken.get(at, Fraction(0)) + part
                    assert taken[at] <= 1, f"device {number} of node {task.node} is {book} {taken[at]} times, by {job.id} too"
    staying: dict[tuple[int, int], Fraction] = {}
    for job, task in standing(state):
        if task.state == "reserved" or not is_leaving(job, task):
            for number, part in parts_of(state, job, task).items():
                staying[task.node, number] = staying.get((task.node, number), Fraction(0)) + part
    for at, part in staying.items():
        if any(task.state == "reserved" and task.node == at[0] and task.devices >> at[1] & 1 for _, task in standing(state)):
            assert part <= 1, f"{at} is promised, and those who stay leave less than that: {part}"


def standing(state: PoolState) -> list[tuple[Job, Task]]:
    """All tasks with allocated or reserved resources, reservations of relocated jobs included."""
    return [(job, task) for job in state.jobs.values() for task in (*job.tasks, *job.reservation) if task.state != "released"]


def parts_of(state: PoolState, job: Job, task: Task) -> dict[int, Fraction]:
    """How much of each device the task takes."""
    group, devices = job.group(task.index), state.nodes[task.node].devices
    whole = group.gpu_share_milli is None and group.gpu_share_bytes is None
    return {
        number: Fraction(1) if whole else Fraction(share_of(group, devices[number]), units_of(devices[number]))
        for number in bits(task.devices)
    }


def no_bad_device_is_promised(state: PoolState) -> None:
    """No device that was not seen free, or that is broken, is reserved (§8.7)."""
    for job, task in standing(state):
        node = state.nodes[task.node]
        if task.state == "reserved":
            bad = node.quarantined | ~node.capacity.devices
            assert not task.devices & bad, f"{job.id} is promised {bits(task.devices & bad)} of {node.name}"


def sums_by_node(state: PoolState) -> dict[int, tuple[Resources, Resources, Resources]]:
    """What the tasks on each node add up to: held, releasing, reserved."""
    found = {number: (Resources(), Resources(), Resources()) for number in state.nodes}
    for job, task in standing(state):
        held, releasing, reserved = found[task.node]
        amount = task_resources(state.nodes[task.node], job.group(task.index), task.devices)
        if task.state == "reserved":
            add(reserved, *amount)
            continue
        add(held, *amount)
        if is_leaving(job, task):
            add(releasing, *amount)
    return found


def sums_recompute(state: PoolState) -> None:
    """`held`, `releasing` and `reserved` of every node are the sums over its tasks."""
    found = sums_by_node(state)
    for number, node in state.nodes.items():
        assert (node.allocated, node.releasing, node.reserved) == found[number], f"sums of {node.name}"


def is_leaving(job: Job, task: Task) -> bool:
    """Whether the room that the task holds may be counted on: by the job's eviction, its own, or because it ended."""
    evictions = [eviction for eviction in (job.eviction, task.eviction) if eviction is not None]
    gone = task.state == "exited" or any(eviction.cancel_seq is None for eviction in evictions)
    return gone and not any(eviction.stuck for eviction in evictions)


def nothing_over_filled(state: PoolState) -> None:
    """No node that stayed as it was holds more than it has."""
    for node in state.nodes.values():
        assert node.allocated.cpu_milli <= node.capacity.cpu_milli, node.name
        assert node.allocated.memory_bytes <= node.capacity.memory_bytes, node.name
        assert node.allocated.slots <= node.capacity.slots, node.name


def the_snapshot_is_true(state: PoolState) -> None:
    """Free resources and use of projects, kept from cycle to cycle, equal those computed from the whole state."""
    snapshot = current_snapshot(state)
    fresh = ClusterResources.of(state)
    assert {number: (node.unallocated, node.future) for number, node in snapshot.cluster.nodes.items()} == {
        number: (node.unallocated, node.future) for number, node in fresh.nodes.items()
    }


def every_job_in_one_index(state: PoolState) -> None:
    """Queue, active (with its parts) and ended name each job exactly once, where its phase says."""
    for name, job in state.jobs.items():
        where = {
            "queue": state.queue.count(name),
            "active": name in state.active,
            "ended": name in state.ended,
            "reserved": name in state.reserved,
            "starting": name in state.starting,
            "evicting": name in state.evicting,
            "backfilled": name in state.backfilled,
        }
        expected = {
            "queue": job.phase == "pending" or lacks_surplus(job),
            "active": job.phase in ("reserved", "starting", "running", "evicting"),
            "ended": job.phase in ENDED,
            "reserved": any(task.state == "reserved" for task in job.tasks),
            "starting": job.phase in ("starting", "running")
            and any(task.state == "starting" and task.eviction is None for task in job.tasks),
            "evicting": job.eviction is not None or any(task.eviction is not None for task in job.tasks),
            "backfilled": job.backfilled and job.phase in ("reserved", "starting", "running", "evicting"),
        }
        assert where == expected, f"{name} is {job.phase}: {where}"
    for index in (state.queue, state.active, state.ended, state.reserved, state.starting, state.evicting, state.backfilled):
        assert all(name in state.jobs for name in index)
    assert state.queue == sorted(state.queue, key=lambda name: queue_key(state.jobs[name]))


def lacks_surplus(job: Job) -> bool:
    """Whether a running job may get more tasks."""
    free = job.phase in ("starting", "running") and not job.cancelled and job.preemption is None
    ended = any(task.state in ("exited", "released") and task.eviction is None for task in job.tasks)
    return free and len(job.tasks) < job.size and not ended


def gangs_are_whole(state: PoolState) -> None:
    """A job has all that it needs, or nothing; and none keeps running beside a member that failed, unless it is leaving.

    Who lacks a member that it needs is noted as stale.
    """
    for job in state.jobs.values():
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
        assert core_complete(job, here) or finished or job.stale_since is not None, f"half of {job.id} runs on"
        grace = state.rules.protections.stale_gang
        assert grace != 0 or finished or core_complete(job, here), f"half of {job.id} runs on"
        failed = [t for t in job.tasks if t.state in ("exited", "released") and t.eviction is None and t.exit_code]
        assert not failed or job.phase not in ("starting", "running"), f"half of {job.id} runs on"


def evictions_have_reasons(state: PoolState) -> None:
    """Whoever is leaving has an eviction, and one for a plan has the plan, is spared, or cannot go back."""
    for job in state.jobs.values():
        assert (job.phase == "evicting") == (job.eviction is not None), f"{job.id} is {job.phase}: {job.eviction}"
        for entry in evictions_of(job):
            eviction = entry.eviction
            if eviction.cause != "preemption" or eviction.started_seq is not None:
                continue
            assert eviction.preemption in state.preemptions, f"{job.id} waits to be evicted for a plan that is gone"
            assert job.id in state.preemptions[eviction.preemption].victims


def reservations_belong_to_evicted_jobs(state: PoolState) -> None:
    """Only a job that is being evicted, or a member of one, has a reservation beside its tasks, and only until it expires."""
    for job in state.jobs.values():
        assert not job.reservation or job.reservation_until is not None, f"a place is kept for {job.id} for ever"
        for place in job.reservation:
            member = job.task(place.index)
            leaves = job.phase == "evicting" or (member is not None and member.eviction is not None)
            assert leaves, f"{job.id} is {job.phase}, and another place is kept for its task {place.index}"


def run_limits_are_those_of_running_jobs(state: PoolState) -> None:
    """Every running job with a limit is in the list, once, in order."""
    limits = [
        (job.last_start + job.demand.run_time_limit, job.id)
        for job in state.jobs.values()
        if job.phase == "running" and job.demand.run_time_limit is not None and job.last_start is not None
    ]
    assert state.run_time_limits == sorted(limits)


def preemptions_have_preemptors(state: PoolState) -> None:
    """A preemption lasts exactly as long as its preemptor is reserved."""
    for seq, plan in state.preemptions.items():
        assert state.jobs[plan.job].preemption == seq
        assert any(task.state == "reserved" for task in state.jobs[plan.job].tasks)


def requests_are_open(state: PoolState) -> None:
    """The preemptors of a selection are known, and it has at least one."""
    if state.selection is None:
        return
    assert state.selection.requests
    for request in state.selection.requests:
        assert state.jobs[request.job].phase not in ENDED, f"{request.job} asks and has ended"


def nothing_accepted_is_forgotten(state: PoolState) -> None:
    """Every job is pending, is paused, has resources, or has ended."""
    paused = [name for name, job in state.jobs.items() if job.phase == "paused"]
    assert set(state.jobs) == {*state.queue, *paused, *state.active, *state.ended}, "a job is nowhere"


def paused_jobs_have_no_place(state: PoolState) -> None:
    """A paused job has no resources and no reservation, or is being evicted; only a paused job is suspended."""
    for job in state.jobs.values():
        if job.paused_seq is not None:
            ends = job.cancelled and all(task.state in ("exited", "released") for task in job.tasks)
            assert ends or job.phase in ("paused", "evicting"), f"{job.id} is paused and {job.phase}"
            assert not job.reservation, f"{job.id} is paused, and a place is kept for it"
        assert job.phase != "paused" or job.paused_seq is not None, f"{job.id} is suspended without a pause"


def operator_requests_are_handled(state: PoolState) -> None:
    """No operator request is left for later."""
    assert not [job.id for job in state.jobs.values() if job.operator_request is not None]


def drained_nodes_get_nothing_new(state: PoolState) -> None:
    """Nothing is reserved on a draining node; once the drain is due, every task on it is being evicted."""
    assert list(state.draining) == [number for number in state.draining if state.nodes[number].drain is not None]
    assert len(state.draining) == sum(node.drain is not None for node in state.nodes.values())
    for job, task in standing(state):
        drain = state.nodes[task.node].drain
        if drain is not None:
            assert task.state != "reserved", f"{job.id} is promised room on {state.nodes[task.node].name}"
            goes = task.state == "exited" or job.eviction is not None or task.eviction is not None
            assert goes or not drain.due, f"{job.id} stays on {state.nodes[task.node].name}, which is being emptied"


def at_rest(state: PoolState) -> None:
    """Right after a cycle nothing is left to decide, also for a cycle on a freshly loaded state."""
    assert not state.indices.touched, f"still to be looked at: {list(state.indices.touched)}"
    fresh = from_snapshot(to_snapshot(state))
    left = list(decide(fresh))
    assert not left, f"left undecided: {left}"
    wake = wake_at(state)
    assert wake is None or wake > state.now, f"wants to be woken at {wake}, now is {state.now}"


def snapshot_is_whole(state: PoolState) -> None:
    """The state goes through its snapshot unchanged."""
    assert state_digest(from_snapshot(to_snapshot(state))) == state_digest(state)


BETWEEN_CYCLES: tuple[Callable[[PoolState], None], ...] = (
    no_device_over_its_whole,
    no_bad_device_is_promised,
    sums_recompute,
    nothing_over_filled,
    every_job_in_one_index,
    gangs_are_whole,
    evictions_have_reasons,
    reservations_belong_to_evicted_jobs,
    run_limits_are_those_of_running_jobs,
    preemptions_have_preemptors,
    requests_are_open,
    nothing_accepted_is_forgotten,
    paused_jobs_have_no_place,
    operator_requests_are_handled,
    drained_nodes_get_nothing_new,
    at_rest,
    snapshot_is_whole,
)


def check_pool(state: PoolState) -> None:
    """All of the above."""
    for invariant in BETWEEN_CYCLES:
        invariant(state)


def victims_may_go(before: PoolState, cycle_decisions: Sequence[Decision]) -> None:
    """Victims were preemptible, each named once; under preempt of lower priority or backfilled, under reclaim of others.

    before: what jobs were like then.
    """
    for decision in cycle_decisions:
        if isinstance(decision, PreemptionDecided):
            assert len({choice.job for choice in decision.victims}) == len(decision.victims) > 0
            for choice in decision.victims:
                victim = before.jobs[choice.job]
                assert victim.preemptible, f"{choice.job} is not preemptible"
                if decision.action == "preempt":
                    lower = victim.priority < decision.preemptor.priority
                    backfilled = choice.backfilled and victim.seq > before.jobs[decision.preemptor.job].seq
                    assert lower or (backfilled and victim.priority == decision.preemptor.priority), f"{choice.job} is not lower"
                if decision.action == "reclaim" and not choice.relocated:
                    assert victim.project != decision.preemptor.project, f"{choice.job} is of the same project"
                if decision.action == "consolidate" and not choice.reserved:
                    assert choice.relocated, f"{choice.job} has no place to move to"
