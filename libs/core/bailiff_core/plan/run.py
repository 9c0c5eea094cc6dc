"""Passes over a snapshot, one per round, with what the world does in between."""

from collections.abc import Sequence
from typing import Literal

from bailiff_core.model.policy import Policy
from bailiff_core.model.pool import Pool
from bailiff_core.records.facts import PolicyApplied

from .between import to_next_round
from .build import build, happens
from .layout import lay_out
from .look import FOR_GOOD, Where, everybody, round_report
from .passes import one_pass, verbs_of
from .report import PlanReport, Round, TaskAt
from .snapshot import Snapshot

PlanVerb = Literal["allocate", "consolidate", "reclaim", "preempt", "stale-gang"]
ALL_VERBS: tuple[PlanVerb, ...] = ("allocate", "consolidate", "reclaim", "preempt", "stale-gang")


class Planning:
    """A snapshot's pool, and what becomes of it pass by pass. Raises `Contradiction` where there can be no such pool."""

    def __init__(self, snapshot: Snapshot) -> None:
        layout = lay_out(snapshot)
        self.pool: Pool = build(snapshot, layout)
        self.names: dict[str, list[str]] = {
            job.doc.name: [task.name or f"{job.doc.name}-{index}" for index, task in enumerate(job.tasks)] for job in layout.jobs
        }
        self.policy: Policy = layout.policy
        self.rounds: list[Round] = []
        self._began = self.pool.seq
        self._last: Where = {
            job.doc.name: [TaskAt(state=task.state if task.state in FOR_GOOD else "pending") for task in job.tasks]
            for job in layout.jobs
        }
        self._goes_on = False

    def round(self, verbs: Sequence[PlanVerb] = ALL_VERBS, step: int = 0) -> Round:
        """One pass of these verbs. Before every one but the first the world goes on, by `step` µs, unless it has."""
        if self._goes_on:
            self.go_on(step)
        self._allow(verbs)
        since = self.pool.seq
        before = everybody(self.pool, self.names, since, self._last)
        made = one_pass(self.pool, stale="stale-gang" in verbs)
        found = round_report(self.pool, self.names, len(self.rounds) + 1, before, since, made)
        self._last = {}
        for line in found.tasks:
            self._last.setdefault(line.job, []).append(line.after)
        self.rounds.append(found)
        self._goes_on = True
        return found

    def go_on(self, step: int = 0) -> None:
        """The world goes on by `step` µs: victims are gone, what was placed runs, promises that can start do."""
        to_next_round(self.pool, self._began, step)
        self._goes_on = False

    def _allow(self, verbs: Sequence[PlanVerb]) -> None:
        """The policy with those of its verbs that are asked for."""
        rules = self.policy.preemption
        allowed = verbs_of(verbs, rules.verbs)
        if self.pool.rules.preemption.verbs != allowed:
            changed = self.policy.model_copy(update={"preemption": rules.model_copy(update={"verbs": allowed})})
            happens(self.pool, PolicyApplied(policy=changed))


def run(snapshot: Snapshot, verbs: Sequence[PlanVerb] = ALL_VERBS, rounds: int = 1, step: int = 0) -> PlanReport:
    """`rounds` passes over the snapshot. `step`: µs that pass from one to the next. Raises `Contradiction`."""
    planning = Planning(snapshot)
    for _ in range(rounds):
        planning.round(verbs, step)
    return PlanReport(verbs=tuple(verbs), rounds=tuple(planning.rounds), settled=not planning.rounds[-1].changed)
