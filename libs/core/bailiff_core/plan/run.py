"""Runs rounds over a snapshot: one scheduling cycle each, with the simulated passage of time in between."""

from collections.abc import Sequence
from typing import Literal

from bailiff_core.model.policy import Policy
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import PolicyApplied

from .advance import advance_to_next_round
from .build import append_facts, build
from .cycles import actions_to_run, run_cycle
from .report import PlanReport, Round, TaskStatus
from .report_builder import FINAL_STATES, Where, round_report, task_statuses
from .snapshot import Snapshot
from .snapshot_validation import validate_snapshot

PlanAction = Literal["allocate", "consolidate", "reclaim", "preempt", "stale-gang"]
ALL_ACTIONS: tuple[PlanAction, ...] = ("allocate", "consolidate", "reclaim", "preempt", "stale-gang")


class Planning:
    """A snapshot's state and its rounds so far. Raises `InvalidSnapshot` if the snapshot is contradictory."""

    def __init__(self, snapshot: Snapshot) -> None:
        resolved = validate_snapshot(snapshot)
        self.state: PoolState = build(snapshot, resolved)
        self.names: dict[str, list[str]] = {
            job.doc.name: [task.name or f"{job.doc.name}-{index}" for index, task in enumerate(job.tasks)]
            for job in resolved.jobs
        }
        self.policy: Policy = resolved.policy
        self.rounds: list[Round] = []
        self._start_seq = self.state.seq
        self._last: Where = {
            job.doc.name: [TaskStatus(state=task.state if task.state in FINAL_STATES else "pending") for task in job.tasks]
            for job in resolved.jobs
        }
        self._advance_due = False

    def round(self, actions: Sequence[PlanAction] = ALL_ACTIONS, step: int = 0) -> Round:
        """Run one cycle with these actions. Before every cycle but the first, time advances by `step` µs unless it has."""
        if self._advance_due:
            self.advance(step)
        self._allow(actions)
        since = self.state.seq
        before = task_statuses(self.state, self.names, since, self._last)
        decisions = run_cycle(self.state, stale="stale-gang" in actions)
        found = round_report(self.state, self.names, len(self.rounds) + 1, before, since, decisions)
        self._last = {}
        for line in found.tasks:
            self._last.setdefault(line.job, []).append(line.after)
        self.rounds.append(found)
        self._advance_due = True
        return found

    def advance(self, step: int = 0) -> None:
        """Advance by `step` µs: victims exit, placed tasks run, reservations whose resources are free start."""
        advance_to_next_round(self.state, self._start_seq, step)
        self._advance_due = False

    def _allow(self, actions: Sequence[PlanAction]) -> None:
        """Restrict the policy to the requested actions."""
        rules = self.policy.preemption
        allowed = actions_to_run(actions, rules.actions)
        if self.state.rules.preemption.actions != allowed:
            changed = self.policy.model_copy(update={"preemption": rules.model_copy(update={"actions": allowed})})
            append_facts(self.state, PolicyApplied(policy=changed))


def run(snapshot: Snapshot, actions: Sequence[PlanAction] = ALL_ACTIONS, rounds: int = 1, step: int = 0) -> PlanReport:
    """The report of `rounds` cycles over the snapshot, `step` µs apart.

    Raises:
        InvalidSnapshot: If it is invalid.
    """
    planning = Planning(snapshot)
    for _ in range(rounds):
        planning.round(actions, step)
    return PlanReport(actions=tuple(actions), rounds=tuple(planning.rounds), converged=not planning.rounds[-1].changed)
