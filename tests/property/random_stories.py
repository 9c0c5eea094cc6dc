"""Histories made of random steps. A step is three small numbers, so that Hypothesis can leave steps out and shrink them.

Facts are made as by admission: from the present state, one after the other, several per cycle.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from hypothesis import strategies as st
from tests.kits.claims import complete
from tests.kits.core_invariants import check_pool, victims_may_go
from tests.kits.log_builder import DAY, HOUR, MINUTE, SECOND, Cut, Story, digest, policy

from bailiff_core.decision_cycle import wake_at
from bailiff_core.engine import LOGIC, STATE_SCHEMA
from bailiff_core.fold.snapshot import from_snapshot, state_digest, to_snapshot
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.evictions import active_evictions, evictions_of
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.state import ENDED, Job, PoolState, Task
from bailiff_core.records import facts
from bailiff_core.records.payload import Decision, Fact
from bailiff_core.victims.batch import select_batch

Step = tuple[int, int, int]
CODES = (0, 0, 1, 85, 85, 143, 137, -9)
CLASSES = ("train", "train", "train", "interactive", "interactive", "build", "inference")
PAUSES = (0, 0, 0, 1, SECOND, 5 * SECOND, 30 * SECOND, 3 * MINUTE, HOUR, 8 * DAY)
FORGETFUL = policy(
    retention={"ended_jobs": "1m", "request_ids": "1m"},
    preemption={"reservation_expiry": "20s"},
    eviction={"stuck_after": "5s"},
    backfill="reserve",
)
ALL_PROTECTIONS = policy(
    priority_classes=[
        entry.model_dump() | ({"value": 76, "preemptible": False} if entry.name == "train" else {})
        for entry in DEFAULT_POLICY.priority_classes
    ]
)
PROJECTS = [
    {"name": "red", "quota": {"gpus": 8}, "over_quota_weight": 2},
    {"name": "red-day", "parent": "red", "quota": {"gpus": 6}, "min_runtime": {"reclaim": "30s"}},
    {"name": "red-night", "parent": "red", "quota": {"gpus": 2}, "limit": {"gpus": 12}, "priority": 1},
    {"name": "blue", "quota": {"gpus": 8, "cpus": 8}},
    {"name": "guest", "over_quota_weight": 0},
]
SHARED_OUT = policy(projects=PROJECTS, preemption={"max_migrations": 2})
SHIELDED = policy(
    projects=PROJECTS,
    preemption={"scope": "pool", "max_migrations": None},
    backfill="greedy",
    idle={"after": "2s"},
    protections={
        "min_runtime": {"preempt": "5s", "reclaim": "1s"},
        "eviction_cap": {"evictions": 2, "window": "5m"},
        "cooldown": {"job": "5s", "project": "30s"},
        "ageing": {"boost": 30, "evictions": 2, "waiting": "1h"},
        "preemption_delay": "1s",
        "excluded": [{"b": "1"}],
        "budgets": [{"name": "few", "project": "red", "max_disruptions": 1}],
        "stale_gang": "30s",
        "schedule_timeout": {"after": "3m", "action": "fail"},
    },
)
SPREAD = policy(
    projects=PROJECTS,
    packing="spread",
    idle={"after": "1m", "action": "pause"},
    protections={"schedule_timeout": {"after": "30s", "action": "pass"}},
)
PLAIN: tuple[Policy, ...] = (*(DEFAULT_POLICY, FORGETFUL) * 4, ALL_PROTECTIONS, policy(preemption={"actions": ["allocate"]}))
SHARED: tuple[Policy, ...] = (SHARED_OUT, SHIELDED, SPREAD, SHARED_OUT)


def steps(most: int) -> st.SearchStrategy[list[list[Step]]]:
    """Cycles of one to three steps each."""
    step = st.tuples(st.integers(0, 59), st.integers(0, 11), st.integers(0, 23))
    return st.lists(st.lists(step, min_size=1, max_size=3), min_size=1, max_size=most)


class Chance:
    """Runs a story step by step. check: called with the story after every cycle."""

    def __init__(self, check: Callable[[Story], None] | None = None, *, shared: bool = False) -> None:
        self.policies = SHARED if shared else PLAIN
        self.shared = shared
        self.story = Story(self.policies[0])
        self.check = check
        self.past: dict[int, bytes] = {}  # states since the selection was opened
        self.jobs = 0
        self.lives: dict[str, int] = {}
        self.story.cycle(lambda: self._join(0, 1), lambda: self._join(1, 1))

    @property
    def state(self) -> PoolState:
        """The present state."""
        return self.story.state

    def play(self, cycles: Iterable[Sequence[Step]]) -> Story:
        """Run all cycles; returns the story."""
        for cycle in cycles:
            self.cycle(cycle)
        return self.story

    def cycle(self, cycle: Sequence[Step]) -> list[Decision]:
        """One cycle; the first step may also cut it short, or restart the writer, or let time pass."""
        what, a, b = cycle[0]
        after = PAUSES[a % len(PAUSES)] if what % 5 == 0 else 0
        wake = wake_at(self.state)
        if what % 7 == 0 and b % 3 == 0 and wake is not None:
            after = max(0, wake - self.story.time)
        cut = b % 6 + 1 if what in (58, 59) else None
        try:
            if what == 57:
                self.story.restart()
            else:
                given = [self._late(step) for step in cycle]
                if after:
                    given.append(lambda: [facts.ClockAdvanced()])
                self.story.cycle(*given, after=after, cut=cut)
        except Cut:
            self.story.restart()
        self._look()
        return self.story.last_decisions

    def _look(self) -> None:
        victims_may_go(self.state, self.story.last_decisions)
        if self.state.selection is None:
            self.past.clear()
        else:
            self.past[self.state.seq] = to_snapshot(self.state)
        if self.check is not None:
            self.check(self.story)

    def _late(self, step: Step) -> Callable[[], Iterable[Fact]]:
        return lambda: self._facts(*step)

    def _facts(self, what: int, a: int, b: int) -> Iterable[Fact]:
        if what < 12:
            return [self._submit(a, b)]
        if what < 28:
            return self._task(a, b)
        if what < 34:
            return self._whole_job(a, b)
        if what < 42:
            return self._answer(a, b)
        if what < 47:
            return self._progress(a, b)
        if what < 49:
            return self._cancel(a)
        if what < 51:
            return self._join(a % 3, b)
        if what < 54:
            return self._silence(a, b)
        return list(self._rare(a, b))

    # --- single steps

    def _submit(self, a: int, b: int) -> Fact:
        self.jobs += 1
        shape = (
            *([TaskGroup(gpu_milli=1000)], [TaskGroup(gpu_milli=4000)], [TaskGroup(gpu_milli=8000)]),
            *([TaskGroup(count=2, gpu_milli=2000)], [TaskGroup(count=2, gpu_milli=8000)], [TaskGroup(count=3, gpu_milli=1000)]),
            *([TaskGroup(cpu_milli=3000)], [TaskGroup(gpu_milli=3000, cpu_milli=2000)]),
            *([TaskGroup(gpu_milli=4000), TaskGroup(count=2, cpu_milli=2000)], [TaskGroup(gpu_share_milli=500)]),
            *([TaskGroup(count=3, gpu_share_bytes=20 * 2**30)], [TaskGroup(count=2, gpu_share_milli=300, gpu_devices=2)]),
            [TaskGroup(count=6, gpu_milli=1000)],
        )[b % 13 if self.shared else b % 9]
        rest: dict[str, object] = {}
        if self.shared:
            rest["project"] = ("red-day", "red-night", "blue", "guest")[(a + b) % 4]
            size = sum(entry.count for entry in shape)
            rest["min_tasks"] = 1 + a % size if b % 3 else None
            rest["elastic"] = "restart" if a % 3 == 0 else "live"
            rest["run_time_limit"] = 3 * MINUTE if b % 5 == 0 else None
        return self.story.submitted(
            f"job-{self.jobs}",
            *shape,
            cls=CLASSES[a % len(CLASSES)],
            max_failures=b % 3,
            on_eviction="end" if b == 23 else "requeue",
            labels={"b": "1", "a": "2"} if b % 2 else {},
            **rest,
        )

    def _standing(self) -> list[tuple[Job, Task]]:
        return [(job, task) for job in self.state.active_jobs() for task in job.tasks if task.state in _REPORTED]

    def _task(self, a: int, b: int) -> Iterable[Fact]:
        found = self._standing()
        return self._report(*found[(a * 24 + b) % len(found)], b) if found else []

    def _report(self, job: Job, task: Task, b: int) -> list[Fact]:
        at = self.story.at(job.id, task.index)
        evictions = [eviction for eviction in (job.eviction, task.eviction) if eviction is not None]
        cancelling = any(eviction.cancel_seq is not None for eviction in evictions)
        if cancelling and b % 8 != 2 and task.state in ("starting", "running"):
            cancelled = b % 4 or task.eviction_cancelled
            return [facts.TaskEvictionCancelled(**at) if cancelled else facts.TaskCancelEvictionRefused(**at)]
        if task.state == "starting":
            return [facts.TaskStartRefused(**at, reason="no")] if b == 5 else [facts.TaskStarted(**at)]
        if task.state == "exited":
            return [facts.TaskReleased(**at)]
        if evictions and not task.term_sent and b % 2:
            return [facts.EvictionStageReached(**at, stage="term_sent")]
        return [facts.TaskExited(**at, exit_code=CODES[b % len(CODES)])]

    def _whole_job(self, a: int, b: int) -> Iterable[Fact]:
        jobs = [job for job in self.state.active_jobs() if job.phase != "reserved"]
        if not jobs:
            return []
        job = jobs[a % len(jobs)]
        # Every third time only one task reports; the others report later.
        found = [self._report(job, task, b) for task in job.tasks if task.state in _REPORTED]
        return [fact for entry in found[: 1 if b % 3 == 0 else None] for fact in entry if _fits(job, fact)]

    def _answer(self, a: int, b: int) -> Iterable[Fact]:
        selection = self.state.selection
        if selection is None or not self.past or self.state.proposals is not None:
            return []
        at = sorted(self.past)[-1 if a % 3 else a % len(self.past)]
        state = from_snapshot(self.past[at])
        if state.selection is None or state.selection.number != selection.number:
            return []
        proposals = select_batch(state, state.selection.requests, 5 if b == 7 else 20_000)
        if b == 1:
            proposals = proposals[: a % (len(proposals) + 1)]
        if b == 2:
            others = proposals[1:] + proposals[:1]
            proposals = [one.model_copy(update={"victims": two.victims}) for one, two in zip(proposals, others, strict=True)]
        if b == 3:
            proposals = [one.model_copy(update={"placement": one.placement[:1]}) for one in proposals]
        return [facts.ProposalReceived(selection=selection.number, computed_at=at, logic=LOGIC, proposals=tuple(proposals))]

    def _progress(self, a: int, b: int) -> Iterable[Fact]:
        waiting = [entry for entry in active_evictions(self.state) if entry.eviction.started_seq is None]
        if not waiting:
            return []
        entry = waiting[a % len(waiting)]
        job, eviction = entry.job, entry.eviction
        plan = self.state.preemptions.get(eviction.preemption) if eviction.preemption is not None else None
        begun = plan is not None and any(_begun(self.state, name, plan.seq) for name in plan.victims)
        if b % 3 == 0 and plan is not None and not begun and plan.abandoned is None:
            return [facts.PreemptionAbandoned(preemption=plan.seq, reason="room")]
        return [facts.EvictionStarted(job=job.id, attempt=job.attempt, decided_by=eviction.decided_seq)]

    def _cancel(self, a: int) -> Iterable[Fact]:
        jobs = [job for job in self.state.jobs.values() if job.phase not in ENDED]
        return [facts.JobCancelled(request=self.story.request(), job=jobs[a % len(jobs)].id)] if jobs else []

    def _join(self, number: int, b: int) -> Iterable[Fact]:
        name = f"n{number}"
        self.lives[name] = self.lives.get(name, 0) + 1
        sick = [b % 8] if b % 5 == 0 else []
        joined = self.story.joined(name, gpus=8, cpu=8, slots=6, sick=sick, boot=self.lives[name])
        yield joined
        if b % 2 == 0:  # a restarted machine has no tasks
            for job, task in self._standing():
                if task.node == joined.number:
                    yield facts.TaskVanished(**self.story.at(job.id, task.index))

    def _silence(self, a: int, b: int) -> Iterable[Fact]:
        node = self.state.nodes[a % len(self.state.nodes)]
        if node.state == "ready":
            return [facts.NodeUnreachable(node=node.name, last_contact=self.state.now)]
        if node.state == "lost":
            return self._join(node.number, b)
        return [facts.NodeReachable(node=node.name) if b % 4 else facts.NodeLost(node=node.name, last_contact=self.state.now)]

    def _scale(self, a: int, b: int) -> Iterator[Fact]:
        jobs = [job for job in self.state.jobs.values() if job.phase not in ENDED and not job.cancelled]
        if not jobs:
            return
        job = jobs[a % len(jobs)]
        if job.phase == "pending" and not job.tasks and b % 4 == 0:
            yield facts.JobPriorityClassChanged(
                request=self.story.request(), job=job.id, priority_class=CLASSES[b % len(CLASSES)]
            )
        elif len(job.demand.tasks) == 1 and not job.demand.sub_groups:
            tasks = max(1 + b % 6, job.minimum if job.tasks else 1)
            least = min(job.minimum, tasks)
            yield facts.JobScaled(request=self.story.request(), job=job.id, tasks=tasks, min_tasks=least)

    def _operator_request(self, a: int, b: int) -> Iterator[Fact]:
        """An operator request that admission would accept."""
        if b % 6 == 4:
            node = self.state.nodes[a % len(self.state.nodes)]
            if node.drain is not None and a % 4:
                yield facts.NodeUndrained(request=self.story.request(), node=node.name)
            elif node.drain is None:
                mode = ("graceful", "quick", "fast")[a % 3]
                within = PAUSES[b % len(PAUSES)] or None
                drain = {"request": self.story.request(), "node": node.name, "mode": mode, "deadline": within}
                yield facts.NodeDrained.model_validate(drain)
            return
        jobs = [job for job in self.state.jobs.values() if job.phase not in ENDED and not job.cancelled]
        if not jobs:
            return
        job = jobs[(a + b) % len(jobs)]
        requested = {"request": self.story.request(), "job": job.id}
        if job.paused_seq is not None:
            yield facts.JobResumed(**requested)
        elif a % 3 == 0:
            yield facts.JobPaused(**requested)
        elif a % 3 == 1 and job.phase in ("reserved", "starting", "running"):
            yield facts.JobEvictionRequested(**requested)
        elif job.phase in ("starting", "running"):
            yield facts.JobMigrationRequested(**requested, node=None if a % 2 else f"n{b % len(self.state.nodes)}")

    def _rare(self, a: int, b: int) -> Iterator[Fact]:
        if self.shared and b % 2:
            yield from self._scale(a, b)
            return
        if b % 3 == 1:
            yield from self._operator_request(a, b)
            return
        match a % 8:
            case 0:
                rules = self.policies[b % len(self.policies)]
                enforce = self.shared and b % 3 == 0
                yield facts.PolicyApplied(policy=complete(rules), request=self.story.request(), enforce=enforce)
            case 1:
                yield facts.ClockStepped(jump=HOUR)
            case 2:
                yield facts.NodesSilent(nodes=tuple(node.name for node in self.state.nodes.values() if node.state != "lost"))
            case 3:
                yield facts.NodeReturned(request=self.story.request())
            case 4:
                if not self.state.cycle_open:
                    yield facts.StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(self.state))
                else:
                    yield facts.InputsAdvanced()
            case 5:
                yield facts.InputRejected(
                    topic="bailiff.requests", partition=0, offset=b, digest=digest("x"), code="not-json", reason="no"
                )
            case 6 | 7:
                yield from self._device(a, b)

    def _device(self, a: int, b: int) -> Iterator[Fact]:
        """A device is quarantined or unhealthy, or recovers; a task on it may exceed its share."""
        node = self.state.nodes[b % len(self.state.nodes)]
        device = node.devices[(a + b) % len(node.devices)]
        at: dict[str, Any] = {"node": node.name, "device": device.id}
        if a % 8 == 7:
            yield facts.DeviceHealthy(**at) if not device.healthy else facts.DeviceUnhealthy(**at, reason="xid", code=79)
        elif node.quarantined >> device.number & 1:
            yield facts.DeviceClearRequested(**at, request=self.story.request(), reason="no")
            yield facts.DeviceCleared(**at)
        else:
            seen = facts.DeviceReading(device=device.id, memory_used=1 << 30, processes=1)
            yield facts.DeviceQuarantined(**at, reason="not-free", reading=seen)
        for job, task in self._standing()[: b % 3]:
            if task.state == "running":
                over = {"device": device.id, "used_bytes": 2, "share_bytes": 1}
                yield facts.ShareExceeded(**self.story.at(job.id, task.index), **over)
                if b % 3:
                    yield facts.TaskIdle(**self.story.at(job.id, task.index), idle=bool(a % 3), duration=SECOND)


_REPORTED = ("starting", "running", "exited")


def _fits(job: Job, fact: Fact) -> bool:
    """Whether the fact is still valid after the previous ones: a refused cancellation is reported once."""
    return (
        not isinstance(fact, facts.TaskCancelEvictionRefused)
        or fact.task == 0
        or job.tasks[0].state not in ("starting", "running")
    )


def _begun(state: PoolState, name: str, plan: int) -> bool:
    entries = evictions_of(state.jobs[name]) if name in state.jobs else []
    return any(entry.eviction.preemption == plan and entry.eviction.started_seq is not None for entry in entries)


def checked(story: Story) -> None:
    """All invariants of the state."""
    check_pool(story.state)
