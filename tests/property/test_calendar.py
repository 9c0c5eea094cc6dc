"""Reservations over simulated years: what was promised is kept, a lost node is the only excuse, and nobody leaves too early."""

from random import Random
from typing import Any

import pytest
from tests.kits.log_builder import DAY, HOUR, MINUTE, Story, policy

from bailiff_core.admission import PERMITTED, Context, Rejected, admit
from bailiff_core.calendar.windows import calendar_of
from bailiff_core.decision_cycle import wake_at
from bailiff_core.model.project_tree import ROOT
from bailiff_core.model.state import PoolState
from bailiff_core.placement.cluster_resources import usable_devices
from bailiff_core.quota.holdings import Held, held_by
from bailiff_core.quota.leaving import gone_by, leaving_time, until_evictable, until_limit
from bailiff_core.quota.promises import being_evicted, missing, promises_of
from bailiff_core.records import decisions, facts
from bailiff_core.scheduling_snapshot import current_usage

PROJECTS = [
    {"name": "demo", "quota": {"gpus": 6}},
    {"name": "org"},
    *({"name": name, "parent": "org", "quota": {"gpus": 4}} for name in ("vision", "speech")),
]
NAMES = ("demo", "org", "vision", "speech")
GPUS = 4


class Year:
    """A pool of a few nodes in which jobs come and go, nodes are lost, and GPUs are reserved; agents do what they are told.

    lost: when a node was last not there. early: what left for a promise too early.
    """

    def __init__(self, seed: int, *, losses: bool, nodes: int = 4) -> None:
        self.random, self.losses = Random(seed), losses
        rules = policy(
            projects=PROJECTS,
            reservations={"ahead": "60d", "margin": f"{self.random.choice((30, 60, 300))}s"},
            preemption={"scope": "pool", "selection_backoff": "1h"},
            max_rejections_per_minute=0,
        )
        self.story = Story(rules)
        self.story.check = self.after
        self.nodes = [f"n{number}" for number in range(nodes)]
        self.boots = dict.fromkeys(self.nodes, 1)
        self.lost = -DAY
        self.jobs = 0
        self.leave_at: dict[tuple[str, int], int] = {}
        self.made = self.refused = self.evicted = 0
        self.begun: list[decisions.ReservationBegan] = []
        for name in self.nodes:
            self.story.node(name, gpus=GPUS)

    @property
    def state(self) -> PoolState:
        return self.story.state

    def after(self, state: PoolState) -> None:
        """After every cycle: whoever was promised GPUs has them, or could get them now, unless a node is missing."""
        if any(not node.schedulable for node in state.nodes.values()):
            self.lost = state.now
        self.check_evictions()
        self.check_forecasts()
        promised = calendar_of(state).promised(state.now)
        if not promised or state.now - self.lost < HOUR:
            return
        tree = current_usage(state).tree
        held = Held(tree)
        for job in state.active_jobs():
            held.add(job, [task.index for task in job.tasks if task.state not in ("reserved", "released")])
        free = held_by_nobody(state)
        assert free >= missing(tree, promised, held.by), (state.now, promised, free, held.by(ROOT), self.story.phases())

    def check_forecasts(self) -> None:
        """What is kept up to date job by job is what adding up all jobs gives."""
        usage = current_usage(self.state)
        promises = promises_of(self.state, usage)
        for leave in (until_evictable, until_limit):
            for moment in promises.moments(leave):
                held = Held(usage.tree)
                for job in self.state.active_jobs():
                    held.add(job, held_by(job) if gone_by(self.state, job, leave) > moment.time else ())
                for job, tasks, end in being_evicted(self.state):
                    held.add(job, tasks if end > moment.time else ())
                assert {name: moment.held.by(name) for name in (ROOT, *NAMES)} == {name: held.by(name) for name in (ROOT, *NAMES)}

    def check_evictions(self) -> None:
        """Nobody is evicted earlier than its own time to leave requires, and nobody while enough is free without it."""
        for decision in self.story.last_decisions:
            if isinstance(decision, decisions.ReservationBegan):
                self.begun.append(decision)
                assert not decision.missing or decision.unavailable or self.state.now - self.lost < HOUR, decision
            if not isinstance(decision, decisions.EvictionDecided) or decision.cause != "reservation":
                continue
            self.evicted += 1
            job = self.state.jobs[decision.job]
            soonest = next((begin for begin, _ in calendar_of(self.state).upcoming(self.state.now)), None)
            late = bool(calendar_of(self.state).promised(self.state.now))
            assert late or soonest is not None
            assert late or soonest is None or self.state.now >= soonest - leaving_time(self.state, job), decision

    # --- what happens

    def submits(self) -> None:
        random, self.jobs = self.random, self.jobs + 1
        limit = random.choice((None, None, HOUR, 6 * HOUR, 2 * DAY))
        cls = random.choice(("train", "train", "build", "interactive"))
        if cls == "build" and limit is None and random.random() < 0.8:
            limit = 12 * HOUR
        shape: dict[str, Any] = {"gpus": random.randint(1, GPUS), "tasks": random.choice((1, 1, 2))}
        if shape["tasks"] > 1 and cls == "train" and random.random() < 0.4:
            shape |= {"min_tasks": 1}
        grace = random.choice((None, None, 10 * MINUTE, 5_000_000))
        self.story.submit(
            f"j{self.jobs}", cls=cls, project=random.choice(NAMES), run_time_limit=limit, grace=grace, max_failures=3, **shape
        )

    def reserves(self) -> None:
        random = self.random
        repeat = random.choice(("never", "never", "daily", "weekly"))
        body = facts.ReserveGpus(
            reservation=f"r{self.state.seq}",
            project=random.choice(NAMES),
            gpus=random.randint(1, GPUS * len(self.nodes) * 3 // 4),
            begin=self.story.time + random.randint(0, 72) * HOUR + random.randint(0, 3600) * 1_000_000,
            duration=random.choice((HOUR, 5 * HOUR, 12 * HOUR)),
            repeat=repeat,
            weekdays=(1, 4) if repeat == "weekly" and random.random() < 0.5 else (),
            times=1 if repeat == "never" else random.randint(1, 5),
        )
        found = admit(Context(self.state, PERMITTED, self.story.request()), body)
        if isinstance(found, Rejected):
            assert found.code in ("not-enough-gpus", "over-limit"), found
            self.refused += 1
        else:
            self.made += 1
            self.story.cycle(found)

    def loses(self) -> None:
        ready = [node.name for node in self.state.nodes.values() if node.state == "ready"]
        if len(ready) > 1:
            name = self.random.choice(ready)
            self.lost = self.story.time
            self.story.silent(name)
            self.story.lost(name)
            self.lost = self.story.time

    def returns(self) -> None:
        for node in list(self.state.nodes.values()):
            if node.state == "lost":
                self.boots[node.name] += 1
                self.story.node(node.name, gpus=GPUS, boot=self.boots[node.name])

    def cancels(self) -> None:
        names = list(self.state.gpu_reservations)
        if names:
            self.story.cycle(facts.ReservationCancelled(request=self.story.request(), reservation=self.random.choice(names)))

    # --- the agents

    def obeys(self) -> None:
        """Tasks start, and evicted ones leave after some part of their grace, at its end at the latest."""
        story = self.story
        for name in [*self.state.active]:
            job = self.state.jobs[name]
            if any(task.state == "starting" and task.eviction is None for task in job.tasks) and job.eviction is None:
                story.started(name)
            of_tasks = {task.eviction.decided_seq: task.eviction for task in job.tasks if task.eviction is not None}
            evictions = [job.eviction] if job.eviction is not None else list(of_tasks.values())
            for each in evictions:
                if each.started_at is None:
                    story.cycle(facts.EvictionStarted(job=name, attempt=job.attempt, decided_by=each.decided_seq))
                    takes = int(each.grace * self.random.choice((0, 0.2, 0.5, 1, 1)))
                    self.leave_at[name, each.decided_seq] = story.time + takes
                elif self.leave_at[name, each.decided_seq] <= story.time:
                    going = [
                        task.index
                        for task in job.tasks
                        if task.state in ("starting", "running") and (job.eviction is each or task.eviction is each)
                    ]
                    exits = [facts.TaskExited(**story.at(name, n), exit_code=85) for n in going]
                    if going:
                        story.cycle(*exits, *(facts.TaskReleased(**story.at(name, n)) for n in going))
        if self.state.selection is not None:
            story.propose_all()

    def until(self, time: int) -> None:
        while True:
            before = self.state.seq
            self.obeys()
            if self.state.seq != before:
                continue
            self.leave_at = {key: at for key, at in self.leave_at.items() if at > self.story.time}
            times = [at for at in (wake_at(self.state), *self.leave_at.values()) if at is not None]
            wake = min(times, default=None)
            if wake is None or wake > time:
                break
            self.story.cycle(facts.ClockAdvanced(), after=max(0, wake - self.story.time))
        self.story.time = time

    def runs(self, days: int) -> "Year":
        random = self.random
        while self.story.time < days * DAY + self.story.records[0].time:
            self.until(self.story.time + random.randint(1, 240) * MINUTE)
            kind = random.random()
            if kind < 0.55:
                self.submits()
            elif kind < 0.75:
                running = [name for name in self.state.active if self.state.jobs[name].phase == "running"]
                if running:
                    self.story.ends(random.choice(running))
            elif kind < 0.88:
                self.reserves()
            elif kind < 0.91:
                self.cancels()
            elif self.losses and kind < 0.94:
                self.loses()
            else:
                self.returns()
        return self


class Maintained(Year):
    """The same with maintenance of nodes instead of reservations."""

    def check_evictions(self) -> None:
        """Nobody is there when maintenance begins, and nobody left earlier than it had to."""
        for decision in self.story.last_decisions:
            if isinstance(decision, decisions.MaintenanceBegan):
                self.made += 1
                assert not decision.leaving, (decision, self.story.phases())
            if isinstance(decision, decisions.EvictionDecided) and decision.cause == "drain":
                self.evicted += 1
                job = self.state.jobs[decision.job]
                begins = [self.state.maintenance[task.node].begin for task in job.tasks if task.node in self.state.maintenance]
                assert self.state.now >= min(begins) - leaving_time(self.state, job), decision
                assert self.state.now + decision.grace < min(begins), decision

    def reserves(self) -> None:
        begin, node = self.story.time + self.random.randint(1, 48) * HOUR, self.random.choice(self.nodes)
        if node in [self.state.nodes[number].name for number in self.state.maintenance]:
            return
        body = facts.DrainNode(node=node, begin=begin, duration=self.random.choice((HOUR, 12 * HOUR)))
        found = admit(Context(self.state, PERMITTED, self.story.request()), body)
        assert not isinstance(found, Rejected), found
        self.story.cycle(found)

    def cancels(self) -> None:
        for number in [*self.state.maintenance][:1]:
            self.story.undrain(self.state.nodes[number].name)


def held_by_nobody(state: PoolState) -> int:
    """Whole GPUs that are free now."""
    masks = (usable_devices(node) & ~node.allocated.devices for node in state.nodes.values() if node.schedulable)
    return sum(mask.bit_count() for mask in masks)


SEEDS = [(0, 6), *(pytest.param(seed, 365, marks=pytest.mark.long) for seed in range(8))]


@pytest.mark.parametrize(("seed", "days"), SEEDS)
def test_what_was_promised_is_kept(seed: int, days: int) -> None:
    year = Year(seed, losses=False).runs(days)
    assert min(year.made, len(year.begun), year.evicted) > 0
    assert not any(each.missing for each in year.begun)
    year.story.holds()


@pytest.mark.parametrize(("seed", "days"), SEEDS)
def test_a_lost_node_is_the_only_excuse_and_is_on_record(seed: int, days: int) -> None:
    year = Year(seed + 100, losses=True).runs(days)
    assert min(year.made, len(year.begun)) > 0
    year.story.holds()


@pytest.mark.parametrize(("seed", "days"), SEEDS)
def test_nobody_is_on_a_node_when_its_maintenance_begins(seed: int, days: int) -> None:
    year = Maintained(seed + 200, losses=True).runs(days)
    assert min(year.made, year.evicted) > 0
    year.story.holds()
