"""Histories of a pool with every feature at once (`rich_worlds`).

Agents, executor and victim selection do what they do in a pool, and sometimes fail. Time moves to what is due, or to just before
or after it.
"""

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

from tests.kits.claims import complete
from tests.kits.log_builder import GIB, Story
from tests.property import rich_worlds
from tests.property.rich_facts import rare_facts
from tests.property.rich_worlds import CLASSES, SECOND, Draw, scaled

from bailiff_core.decision_cycle import wake_at
from bailiff_core.engine import LOGIC
from bailiff_core.model.evictions import active_evictions
from bailiff_core.model.state import ENDED, Device, Job, Node, PoolState, Selection, Task
from bailiff_core.placement.feasibility import could_ever_fit
from bailiff_core.records import facts
from bailiff_core.records.payload import Fact
from bailiff_core.victims.batch import select_batch

Facts = Iterator[Fact]
STAGES = ("noticed", "acknowledged", "checkpoint_committed", "yielding", "term_sent", "kill_sent")
LIVE = ("starting", "running")


class Rich:
    """One such history. look: called with the story after every cycle. worlds: makes policy, machines and jobs."""

    def __init__(self, random: Random, look: Callable[[Story], None], worlds: Any = rich_worlds) -> None:
        self.draw, self.worlds = Draw(random), worlds
        self.story = Story(worlds.rules(self.draw))
        self.look = look
        self.submitted = 0
        self.boots: dict[str, int] = {}
        self.machines: dict[str, facts.NodeJoined] = {}
        self.found: facts.ProposalReceived | None = None
        self.steps: tuple[tuple[int, Callable[[], Facts]], ...] = (
            *((26, self._submit), (22, self._start), (22, self._evict), (26, self._answer), (4, self._end), (5, self._live)),
            *((4, self._operator), (4, self._change), (3, self._node), (3, self._device), (1, self._policy)),
            (3, lambda: rare_facts(self.draw, self.story)),
        )
        for number in range(self.draw.of(1, 2, 2, 3, 3, 4, 5)):
            self.story.cycle(self._joined(f"n{number}"))

    @property
    def state(self) -> PoolState:
        """The present state."""
        return self.story.state

    def play(self, cycles: int) -> None:
        """Run so many cycles."""
        for _ in range(cycles):
            self._cycle()
            self.look(self.story)

    def _cycle(self) -> None:
        if self.draw.chance(2):
            self.story.restart()
            return
        weights, steps = zip(*self.steps, strict=True)
        chosen = self.draw.random.choices(steps, weights, k=self.draw.of(1, 1, 2, 3))
        chosen.sort(key=lambda step: step != self._answer)
        after = self._pause()
        due: Iterable[Fact] = [facts.ClockAdvanced()] if after or self.draw.chance(20) else []
        self.story.cycle(*chosen, lambda: due, after=after)

    def _pause(self) -> int:
        """Often until what is due next, to the microsecond, or one less or more."""
        wake = wake_at(self.state)
        if wake is not None and wake - self.story.time < 7200 * SECOND and self.draw.chance(25):
            return max(0, wake - self.story.time + self.draw.of(0, 0, 0, -1, 1))
        return self.draw.of(0, 0, 0, 0, SECOND, 5 * SECOND, self.draw.time())

    # --- jobs

    def _submit(self) -> Facts:
        fields = self.worlds.demand(self.draw, self.state)
        groups = fields.pop("groups")
        fact = self.story.submitted(f"j{self.submitted + 1}", *groups, **fields)
        if could_ever_fit(self.state, fact.demand) is None or self.draw.chance(5):
            self.submitted += 1
            yield fact.model_copy(update={"user": self.draw.of("", "ann", "bob")})

    def _jobs(self, *phases: str) -> list[Job]:
        return [job for job in self.state.jobs.values() if (job.phase in phases if phases else job.phase not in ENDED)]

    def _operator(self) -> Facts:
        jobs = [job for job in self._jobs() if not job.cancelled]
        if not jobs:
            return
        job = self.draw.of(*jobs)
        fields: dict[str, Any] = {"request": self.story.request(), "job": job.id}
        if job.paused_seq is not None and self.draw.chance(70):
            yield facts.JobResumed(**fields)
            return
        what = self.draw.of("pause", "evict", "migrate", "migrate", "cancel")
        if what == "cancel":
            yield facts.JobCancelled(**fields)
        elif what == "pause" and job.paused_seq is None:
            yield facts.JobPaused(**fields)
        elif what == "evict" and job.phase in (*LIVE, "reserved"):
            yield facts.JobEvictionRequested(**fields)
        elif what == "migrate" and job.phase in LIVE:
            yield facts.JobMigrationRequested(
                **fields, node=self.draw.of(None, *(node.name for node in self.state.nodes.values()))
            )

    def _change(self) -> Facts:
        jobs = self._jobs()
        if not jobs:
            return
        job = self.draw.of(*jobs)
        if job.phase in ("waiting", "pending", "paused") and self.draw.chance(30):
            yield facts.JobPriorityClassChanged(request=self.story.request(), job=job.id, priority_class=self.draw.of(*CLASSES))
        elif (fields := scaled(self.draw, job)) is not None:
            yield facts.JobScaled(request=self.story.request(), job=job.id, **fields)

    # --- tasks

    def _tasks(self, *states: str) -> list[tuple[Job, Task]]:
        return [(job, task) for job in self.state.active_jobs() for task in job.tasks if task.state in states]

    def _at(self, job: Job, task: Task) -> dict[str, Any]:
        return self.story.at(job.id, task.index)

    def _start(self) -> Facts:
        """Most tasks that should start do."""
        for job, task in self._tasks("starting"):
            if self.draw.chance(80):
                refused = self.draw.chance(4)
                yield (
                    facts.TaskStartRefused(**self._at(job, task), reason="no")
                    if refused
                    else facts.TaskStarted(**self._at(job, task))
                )

    def _end(self) -> Facts:
        """A job ends, or one of its tasks; earlier ones are released."""
        for job, task in self._tasks("exited"):
            yield facts.TaskReleased(**self._at(job, task))
        found = self._tasks("running")
        if not found:
            return
        job, one = self.draw.of(*found)
        code, released = self.draw.of(0, 0, 0, 0, 0, 1, 85, 143, -9), self.draw.chance(70)
        for task in [one] if self.draw.chance(30) else list(job.tasks):
            if task.state == "running":
                yield from self._exit(job, task, code, released)

    def _exit(self, job: Job, task: Task, code: int, released: bool) -> Facts:
        at = self._at(job, task)
        step = None if task.step is None else task.step + 1
        yield facts.TaskExited(**at, exit_code=code, step=step, unobserved=self.draw.chance(3), done=self.draw.chance(20))
        if released:
            yield facts.TaskReleased(**at)

    def _live(self) -> Facts:
        """What running tasks report of themselves."""
        for job, task in self._tasks("running"):
            at, what = self._at(job, task), self.draw.of("step", "step", "idle", "share", "vanished", *[""] * 5)
            if what == "step":
                yield facts.TaskProgressed(**at, step=(task.step or 0) + self.draw.of(1, 10), **self._checkpoint())
            elif what == "idle":
                yield facts.TaskIdle(**at, idle=self.draw.chance(80), duration=self.draw.time(5))
            elif what == "share" and (shared := self._shared(job, task)):
                yield facts.ShareExceeded(**at, device=shared, used_bytes=2, share_bytes=1)
            elif what == "vanished" and self.draw.chance(20):
                yield facts.TaskVanished(**at)

    def _checkpoint(self) -> dict[str, Any]:
        saved = facts.Checkpoint(
            step=self.draw.of(1, 5), bytes=GIB, duration=SECOND, sha256="0" * 64, agreed=self.draw.chance(80)
        )
        return {"checkpoint": saved, "checkpoint_age": self.draw.time()} if self.draw.chance(60) else {}

    def _shared(self, job: Job, task: Task) -> str:
        group = job.groups()[task.index]
        used = [device for device in self.state.nodes[task.node].devices if task.devices >> device.number & 1]
        return used[0].id if used and (group.gpu_share_milli or group.gpu_share_bytes) else ""

    # --- victims

    def _answer(self) -> Facts:
        """Victim selection answers, sometimes in part, of little effort, or wrongly. The state that it saw may be older."""
        selection = self.state.selection
        if selection is None or self.state.proposals is not None:
            return
        if self.found is None or self.found.selection != selection.number:
            if self.state.cycle_open:  # it sees whole cycles
                return
            self.found = self._search(selection)
        if self.draw.chance(80):
            yield self.found

    def _search(self, selection: Selection) -> facts.ProposalReceived:
        steps = self.state.rules.preemption.search_steps
        proposals = select_batch(self.state, selection.requests, 5 if self.draw.chance(10) else steps)
        if self.draw.chance(8):
            proposals = proposals[: self.draw.random.randint(0, len(proposals))]
        elif self.draw.chance(4):
            proposals = [each.model_copy(update={"victims": proposals[-1].victims}) for each in proposals]
        at = self.state.seq
        return facts.ProposalReceived(selection=selection.number, computed_at=at, logic=LOGIC, proposals=tuple(proposals))

    def _evict(self) -> Facts:
        """Evictions go on: begun, abandoned, cancelled, through their stages, or ended."""
        for job, task in self._tasks("exited"):
            yield facts.TaskReleased(**self._at(job, task))
        for entry in active_evictions(self.state):
            job, eviction = entry.job, entry.eviction
            if eviction.started_seq is None and self.draw.chance(75):
                if (plan := self._to_abandon(eviction.preemption)) is not None:
                    yield facts.PreemptionAbandoned(preemption=plan, reason="room")
                    return
                yield facts.EvictionStarted(job=job.id, attempt=job.attempt, decided_by=eviction.decided_seq)
        code = self.draw.of(85, 85, 0, 0, 143, -9, 1)
        for job, task in self._tasks(*LIVE):
            if (job.eviction is not None or task.eviction is not None) and self.draw.chance(60):
                yield from self._leave(job, task, code)

    def _to_abandon(self, number: int | None) -> int | None:
        plan = self.state.preemptions.get(number) if number is not None else None
        if plan is None or plan.abandoned is not None or self.draw.chance(85):
            return None
        begun = any(
            each.eviction.preemption == number and each.eviction.started_seq is not None for each in active_evictions(self.state)
        )
        return None if begun else number

    def _leave(self, job: Job, task: Task, code: int) -> Facts:
        at = self._at(job, task)
        evictions = [eviction for eviction in (job.eviction, task.eviction) if eviction is not None]
        if any(eviction.cancel_seq is not None for eviction in evictions):
            refused = self.draw.chance(15) and not task.eviction_cancelled
            yield facts.TaskCancelEvictionRefused(**at) if refused else facts.TaskEvictionCancelled(**at)
        elif self.draw.chance(35):
            stage = self.draw.of(*STAGES)
            saved = self._checkpoint().get("checkpoint") if stage == "checkpoint_committed" else None
            yield facts.EvictionStageReached(
                **at, stage=stage, elapsed=self.draw.time(), step=self.draw.of(None, 3), checkpoint=saved
            )
        elif task.state == "running":
            yield from self._exit(job, task, code, self.draw.chance(80))

    # --- machines

    def _joined(self, name: str) -> facts.NodeJoined:
        self.boots[name] = self.boots.get(name, 0) + 1
        joined = self.story.joined(name, boot=self.boots[name])
        if name not in self.machines or self.draw.chance(20):
            self.machines[name] = self.worlds.machine(self.draw, joined)
        return self.machines[name].model_copy(update={"incarnation": joined.incarnation, "boot_id": joined.boot_id})

    def _node(self) -> Facts:
        nodes = [*self.state.nodes.values()]
        away = [node for node in nodes if not node.schedulable]
        node: Node = self.draw.of(*(away if away and self.draw.chance(70) else nodes))
        if node.state == "lost":
            yield self._joined(node.name)
        elif node.state != "ready":
            gone = self.draw.chance(40)
            yield facts.NodeLost(node=node.name, last_contact=self.state.now) if gone else facts.NodeReachable(node=node.name)
        elif node.drain is not None:
            yield facts.NodeUndrained(request=self.story.request(), node=node.name)
        elif self.draw.chance(50):
            how = {
                "mode": self.draw.of("graceful", "graceful", "quick", "fast"),
                "deadline": self.draw.of(None, self.draw.time(5)),
            }
            yield facts.NodeDrained.model_validate({"request": self.story.request(), "node": node.name, **how})
        elif self.draw.chance(70) or len(self.state.nodes) > 5:
            yield facts.NodeUnreachable(node=node.name, last_contact=self.state.now)
        else:
            yield self._joined(f"n{len(self.state.nodes)}")

    def _device(self) -> Facts:
        node: Node = self.draw.of(*self.state.nodes.values())
        if not node.devices:
            return
        device: Device = self.draw.of(*node.devices)
        at: dict[str, Any] = {"node": node.name, "device": device.id}
        if node.quarantined >> device.number & 1:
            if self.draw.chance(40):
                yield facts.DeviceClearRequested(**at, request=self.story.request(), reason="seen free")
            yield facts.DeviceCleared(**at)
        elif not device.healthy:
            yield facts.DeviceHealthy(**at)
        elif self.draw.chance(50):
            seen = facts.DeviceReading(device=device.id, memory_used=GIB, processes=1)
            yield facts.DeviceQuarantined(**at, reason=self.draw.of("not-free", "hung", "foreign"), reading=seen)
        else:
            yield facts.DeviceUnhealthy(**at, reason="xid", code=79)

    def _policy(self) -> Facts:
        yield facts.PolicyApplied(
            policy=complete(self.worlds.rules(self.draw)), request=self.story.request(), enforce=self.draw.chance(50)
        )
