"""Invariants of a pool between any two decision cycles (DESIGN §8). Each function raises `AssertionError` with the place."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from bailiff_core.decision_cycle import decide, wake_at
from bailiff_core.fold.pending_queue import queue_key
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.evictions import evictions_of
from bailiff_core.model.gpu_shares import share_of, task_resources, units_of
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.resources import add
from bailiff_core.model.state import ENDED, Job, PoolState, Resources, Task
from bailiff_core.model.units import core_complete
from bailiff_core.placement.cluster_resources import ClusterResources
from bailiff_core.records.decisions import EvictionDecided, JobEnded, PreemptionDecided
from bailiff_core.records.payload import Decision
from bailiff_core.scheduling_snapshot import current_snapshot


def no_device_over_allocated(state: PoolState) -> None:
    """Tasks that a device is allocated to, or reserved for, use at most the whole device; evicted tasks do not count."""
    for kind, states in (("allocated", ("starting", "running", "exited")), ("reserved", ("reserved",))):
        taken: dict[tuple[int, int], Fraction] = {}
        for job, task in tasks_with_resources(state):
            if task.state in states:
                for number, part in parts_of(state, job, task).items():
                    at = (task.node, number)
                    taken[at] = taken.get(at, Fraction(0)) + part
                    assert taken[at] <= 1, f"device {number} of node {task.node} is {kind} {taken[at]} times, by {job.id} too"
    staying: dict[tuple[int, int], Fraction] = {}
    for job, task in tasks_with_resources(state):
        if task.state == "reserved" or not is_releasing(job, task):
            for number, part in parts_of(state, job, task).items():
                staying[task.node, number] = staying.get((task.node, number), Fraction(0)) + part
    for at, part in staying.items():
        if any(
            task.state == "reserved" and task.node == at[0] and task.devices >> at[1] & 1
            for _, task in tasks_with_resources(state)
        ):
            assert part <= 1, f"{at} is reserved, and with the tasks that are not evicted it is used {part} times"


def tasks_with_resources(state: PoolState) -> list[tuple[Job, Task]]:
    """All tasks with allocated or reserved resources, reservations of relocated jobs included."""
    return [(job, task) for job in state.jobs.values() for task in (*job.tasks, *job.reservation) if task.state != "released"]


def parts_of(state: PoolState, job: Job, task: Task) -> dict[int, Fraction]:
    """The part of each device that the task uses."""
    group, devices = job.group(task.index), state.nodes[task.node].devices
    whole = group.gpu_share_milli is None and group.gpu_share_bytes is None
    return {
        number: Fraction(1) if whole else Fraction(share_of(group, devices[number]), units_of(devices[number]))
        for number in bits(task.devices)
    }


def no_bad_device_is_reserved(state: PoolState) -> None:
    """No device that was not seen free, or that is broken, is reserved (§8.7)."""
    for job, task in tasks_with_resources(state):
        node = state.nodes[task.node]
        if task.state == "reserved":
            bad = node.quarantined | ~node.capacity.devices
            assert not task.devices & bad, f"{bits(task.devices & bad)} of {node.name} are reserved for {job.id}"


def sums_by_node(state: PoolState) -> dict[int, tuple[Resources, Resources, Resources]]:
    """Sums over the tasks on each node: allocated, releasing, reserved."""
    found = {number: (Resources(), Resources(), Resources()) for number in state.nodes}
    for job, task in tasks_with_resources(state):
        held, releasing, reserved = found[task.node]
        amount = task_resources(state.nodes[task.node], job.group(task.index), task.devices)
        if task.state == "reserved":
            add(reserved, *amount)
            continue
        add(held, *amount)
        if is_releasing(job, task):
            add(releasing, *amount)
    return found


def sums_recompute(state: PoolState) -> None:
    """`allocated`, `releasing` and `reserved` of every node are the sums over its tasks."""
    found = sums_by_node(state)
    for number, node in state.nodes.items():
        assert (node.allocated, node.releasing, node.reserved) == found[number], f"sums of {node.name}"


def is_releasing(job: Job, task: Task) -> bool:
    """Whether the task's resources count as releasing: its job or the task is being evicted, or it has exited."""
    evictions = [eviction for eviction in (job.eviction, task.eviction) if eviction is not None]
    gone = task.state == "exited" or any(eviction.cancel_seq is None for eviction in evictions)
    return gone and not any(eviction.stuck for eviction in evictions)


def no_node_over_allocated(state: PoolState) -> None:
    """No node has more allocated than its capacity."""
    for node in state.nodes.values():
        assert node.allocated.cpu_milli <= node.capacity.cpu_milli, node.name
        assert node.allocated.memory_bytes <= node.capacity.memory_bytes, node.name
        assert node.allocated.slots <= node.capacity.slots, node.name


def cached_snapshot_is_current(state: PoolState) -> None:
    """Free resources and use of projects, kept from cycle to cycle, equal those computed from the whole state."""
    snapshot = current_snapshot(state)
    fresh = ClusterResources.of(state)
    assert {number: (node.unallocated, node.future) for number, node in snapshot.cluster.nodes.items()} == {
        number: (node.unallocated, node.future) for number, node in fresh.nodes.items()
    }


def every_job_in_one_index(state: PoolState) -> None:
    """Queue, active (with its subsets) and ended contain each job exactly once, according to its phase."""
    for name, job in state.jobs.items():
        where = {
            "queue": state.queue.count(name),
            "active": name in state.active,
            "ended": name in state.ended,
            "reserved": name in state.reserved,
            "starting": name in state.starting,
            "waiting": name in state.waiting,
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
            "waiting": job.phase in ("reserved", "starting", "running", "evicting") and any(task.waits for task in job.tasks),
            "evicting": job.eviction is not None or any(task.eviction is not None for task in job.tasks),
            "backfilled": job.backfilled and job.phase in ("reserved", "starting", "running", "evicting"),
        }
        assert where == expected, f"{name} is {job.phase}: {where}"
    part = (state.reserved, state.starting, state.waiting, state.evicting, state.backfilled)
    for index in (state.queue, state.active, state.ended, *part):
        assert all(name in state.jobs for name in index)
    assert state.queue == sorted(state.queue, key=lambda name: queue_key(state.jobs[name]))


def lacks_surplus(job: Job) -> bool:
    """Whether a running job may get more tasks."""
    free = job.phase in ("starting", "running") and not job.cancelled and job.preemption is None
    ended = any(task.state in ("exited", "released") and task.eviction is None for task in job.tasks)
    return free and len(job.tasks) < job.size and not ended


def gangs_are_whole(state: PoolState) -> None:
    """A job has its minimum of tasks, or none; and no task runs beside a failed one, unless it is being evicted.

    A job below its minimum is marked as stale.
    """
    for job in state.jobs.values():
        if job.phase in ("pending", "paused", *ENDED):
            assert not job.tasks, f"{job.id} is {job.phase} and has tasks"
            continue
        indices = [task.index for task in job.tasks]
        assert indices == sorted(set(indices)), job.id
        states = {task.state for task in job.tasks}
        assert job.phase != "reserved" or states == {"reserved"}, f"{job.id} is {job.phase}: {states}"
        assert job.phase != "evicting" or "reserved" not in states, f"{job.id} is being evicted and has a reservation"
        assert states != {"released"}, f"all tasks of {job.id} are released, and it is not closed"
        if job.phase == "evicting" or not states & {"starting", "running"}:
            continue
        here = [t for t in job.tasks if t.eviction is None and t.state in ("starting", "running", "reserved")]
        finished = any(t.exit_code == 0 for t in job.tasks)
        assert core_complete(job, here) or finished or job.stale_since is not None, f"{job.id} runs incomplete"
        grace = state.rules.protections.stale_gang
        assert grace != 0 or finished or core_complete(job, here), f"{job.id} runs incomplete"
        failed = [t for t in job.tasks if t.state in ("exited", "released") and t.eviction is None and t.exit_code]
        assert not failed or job.phase not in ("starting", "running"), f"{job.id} runs incomplete"


def evictions_have_reasons(state: PoolState) -> None:
    """An evicted job has an eviction; one for a preemption is in that preemption, is cancelled, or has started."""
    for job in state.jobs.values():
        assert (job.phase == "evicting") == (job.eviction is not None), f"{job.id} is {job.phase}: {job.eviction}"
        for entry in evictions_of(job):
            eviction = entry.eviction
            if eviction.cause != "preemption" or eviction.started_seq is not None:
                continue
            assert eviction.preemption in state.preemptions, f"{job.id} is being evicted for a preemption that has ended"
            assert job.id in state.preemptions[eviction.preemption].victims


def reservations_belong_to_evicted_jobs(state: PoolState) -> None:
    """Only a job that is being evicted, or a member of one, has a reservation beside its tasks, and only until it expires."""
    for job in state.jobs.values():
        assert not job.reservation or job.reservation_until is not None, f"the reservation of {job.id} has no expiry"
        for place in job.reservation:
            member = job.task(place.index)
            evicted = job.phase == "evicting" or (member is not None and member.eviction is not None)
            assert evicted, f"{job.id} is {job.phase}, and its task {place.index} has a reservation elsewhere"


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
    """A selection has at least one request, and no preemptor has ended."""
    if state.selection is None:
        return
    assert state.selection.requests
    for request in state.selection.requests:
        assert state.jobs[request.job].phase not in ENDED, f"{request.job} has an open request and has ended"


def no_job_is_lost(state: PoolState) -> None:
    """Every job waits for others, is pending, is paused, has resources, or has ended."""
    held = [name for name, job in state.jobs.items() if job.phase in ("waiting", "paused")]
    assert set(state.jobs) == {*state.queue, *held, *state.active, *state.ended}, "a job is in no index"


def paused_jobs_have_no_resources(state: PoolState) -> None:
    """A paused job has no resources and no reservation, or is being evicted; only a paused job is suspended."""
    for job in state.jobs.values():
        if job.paused_seq is not None:
            ends = job.cancelled and all(task.state in ("exited", "released") for task in job.tasks)
            assert ends or job.phase in ("paused", "evicting"), f"{job.id} is paused and {job.phase}"
            assert not job.reservation, f"{job.id} is paused and has a reservation"
        assert job.phase != "paused" or job.paused_seq is not None, f"{job.id} is suspended without a pause"


def operator_requests_are_handled(state: PoolState) -> None:
    """No operator request is pending."""
    assert not [job.id for job in state.jobs.values() if job.operator_request is not None]


def drained_nodes_get_no_reservations(state: PoolState) -> None:
    """Nothing is reserved on a draining node; once the drain is due, every task on it is being evicted."""
    assert list(state.draining) == [number for number in state.draining if state.nodes[number].drain is not None]
    assert len(state.draining) == sum(node.drain is not None for node in state.nodes.values())
    for job, task in tasks_with_resources(state):
        drain = state.nodes[task.node].drain
        if drain is not None:
            assert task.state != "reserved", f"{job.id} has a reservation on the draining {state.nodes[task.node].name}"
            evicted = task.state == "exited" or job.eviction is not None or task.eviction is not None
            assert evicted or not drain.due, f"{job.id} stays on {state.nodes[task.node].name}, whose drain is due"


def at_rest(state: PoolState) -> None:
    """Right after a cycle nothing is left to decide, also for a cycle on the state restored from its snapshot, which is equal."""
    assert not state.indices.touched, f"jobs to be tried again: {list(state.indices.touched)}"
    snapshot = to_snapshot(state)
    restored = from_snapshot(snapshot)
    assert to_snapshot(restored) == snapshot
    left = list(decide(restored))
    assert not left, f"left undecided: {left}"
    wake = wake_at(state)
    assert wake is None or wake > state.now, f"the next timer is at {wake}, now is {state.now}"


BETWEEN_CYCLES: tuple[Callable[[PoolState], None], ...] = (
    no_device_over_allocated,
    no_bad_device_is_reserved,
    sums_recompute,
    no_node_over_allocated,
    every_job_in_one_index,
    gangs_are_whole,
    evictions_have_reasons,
    reservations_belong_to_evicted_jobs,
    run_limits_are_those_of_running_jobs,
    preemptions_have_preemptors,
    requests_are_open,
    no_job_is_lost,
    paused_jobs_have_no_resources,
    operator_requests_are_handled,
    drained_nodes_get_no_reservations,
    at_rest,
)


def check_pool(state: PoolState) -> None:
    """Check all of these invariants."""
    for invariant in BETWEEN_CYCLES:
        invariant(state)


def victims_may_go(before: PoolState, cycle_decisions: Sequence[Decision]) -> None:
    """Victims were preemptible, each at most once; under preempt lower or backfilled, under reclaim of other projects.

    before: the state before the cycle.
    """
    for decision in cycle_decisions:
        if isinstance(decision, PreemptionDecided):
            assert len({choice.job for choice in decision.victims}) == len(decision.victims) > 0
            for choice in decision.victims:
                victim = before.jobs[choice.job]
                assert victim.preemptible, f"{choice.job} is not preemptible"
                if decision.action == "preempt":
                    behind = queue_key(before.jobs[decision.preemptor.job]) < queue_key(victim)
                    backfilled = choice.backfilled and victim.backfilled and behind
                    lower = victim.priority < decision.preemptor.priority
                    assert lower or backfilled, f"{choice.job} has no lower priority, and was not backfilled behind the preemptor"
                if decision.action == "reclaim" and not choice.relocated:
                    assert victim.project != decision.preemptor.project, f"{choice.job} is of the same project"
                if decision.action == "consolidate" and not choice.reserved:
                    assert choice.relocated, f"{choice.job} has no place to move to"


def nobody_is_displaced_for_a_job_that_ends(cycle_decisions: Sequence[Decision]) -> None:
    """No job for which others are displaced is evicted or ended by the same cycle."""
    preemptors: dict[str, None] = {}
    for decision in cycle_decisions:
        if isinstance(decision, PreemptionDecided):
            preemptors[decision.preemptor.job] = None
        if isinstance(decision, EvictionDecided | JobEnded):
            assert decision.job not in preemptors, f"others were displaced for {decision.job}, which the same cycle ends"
