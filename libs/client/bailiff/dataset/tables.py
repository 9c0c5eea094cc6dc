"""Builds the tables of a dataset from the records of the anonymised log."""

from collections.abc import Callable
from typing import Any

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.placement_ranges import NodeShare, numbers
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import PoolState
from bailiff_core.model.work_lost import NO_LOSS, Loss, loss_of_end, victim_loss, victims_loss
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.payload import Payload

from .columns import STAGES, TABLES

Row = dict[str, Any]


class _OpenJob:
    """A job that has not ended: its row, the row of its attempt, and the rows of its open evictions."""

    def __init__(self, row: Row, demand: JobDemand) -> None:
        self.row, self.demand = row, demand
        self.attempt: Row | None = None
        self.evicting: list[Row] = []
        self.evicted: list[Row] = []
        self.to_start: dict[int, None] = {}
        self.eviction_cause = ""


def _columns_of(loss: Loss) -> Row:
    return {"work_lost_gpu_ms": loss.work, "restart_gpu_ms": loss.restart}


def _add_loss(row: Row, loss: Loss) -> None:
    for name, amount in _columns_of(loss).items():
        row[name] += amount


class Tables:
    """Collects rows by table from records, fed in order.

    Attributes:
        origin: µs, subtracted from all times.
    """

    def __init__(self, origin: int) -> None:
        self.rows: dict[str, list[Row]] = {name: [] for name in TABLES}
        self.origin = origin
        self.state = PoolState()
        self._policy: Policy | None = None
        self._jobs: dict[str, _OpenJob] = {}
        self._requests: dict[int, Row] = {}
        self._numbers: dict[str, int] = {}
        self.at = self.seq = 0

    def note(self, record: Record, state: PoolState) -> None:
        """Adds or completes rows for this record.

        Args:
            state: The state right after the record.
        """
        self.state = state
        handler = _HANDLERS.get(type(record.data))
        if handler is not None:
            self.at, self.seq = record.time - self.origin, record.seq
            handler(self, record.data)

    # --- policies and machines

    def policy(self, fact: facts.PolicyApplied) -> None:
        """Adds the quotas and classes of an applied policy."""
        self._policy = fact.policy
        since = {"from_seq": self.seq, "from": self.at}
        for project in fact.policy.projects:
            self.rows["projects"].append(
                since
                | {
                    "project": project.name,
                    "parent": project.parent,
                    "created": project.created,
                    "priority": project.priority,
                    "quota_gpu_milli": project.quota.gpu_milli or 0,
                    "limit_gpu_milli": project.limit.gpu_milli,
                    "gpu_weight": project.over_quota_weight.gpu,
                }
            )
        for entry in fact.policy.priority_classes:
            self.rows["classes"].append(
                since
                | {
                    "class": entry.name,
                    "priority": entry.value,
                    "preemptible": entry.preemptible,
                    "default": entry.global_default,
                    "preempts": entry.preemption_policy != "Never",
                    "grace": entry.grace,
                }
            )

    def joined(self, fact: facts.NodeJoined) -> None:
        """Adds a joined node with its inventory."""
        self._numbers[fact.node] = fact.number
        first = fact.devices[0] if fact.devices else None
        self._node(
            fact.node,
            "joined",
            gpus=len(fact.devices),
            gpu_model=first and first.model,
            gpu_memory_bytes=first and first.memory_bytes,
            cpu_milli=fact.cpu_milli,
            memory_bytes=fact.memory_bytes,
        )

    def _node(self, node: str, event: str, **more: Any) -> None:
        about = {"seq": self.seq, "time": self.at, "node": node, "number": self._numbers.get(node), "event": event}
        self.rows["nodes"].append(about | more)

    # --- jobs and attempts

    def submitted(self, fact: facts.JobSubmitted) -> None:
        """Adds a job."""
        demand = fact.demand
        entry = self._policy.find_class(demand.priority_class) if self._policy is not None else None
        row = {
            "job": demand.job,
            "submitted_seq": self.seq,
            "submitted": self.at,
            "project": demand.project,
            "user": demand.user or fact.user,
            "class": entry and entry.name,
            "preemptible": demand.preemptible,
            "tasks": sum(group.count for group in demand.tasks),
            "min_tasks": demand.min_tasks,
            "gpu_milli": sum(
                group.count * (group.gpu_milli or (group.gpu_share_milli or 0) * (group.gpu_devices or 1))
                for group in demand.tasks
            ),
            "cpu_milli": sum(group.count * group.cpu_milli for group in demand.tasks),
            "memory_bytes": sum(group.count * group.memory_bytes for group in demand.tasks),
            "run_time_limit": demand.run_time_limit,
            "grace": demand.grace,
            "attempts": 0,
            "evictions": 0,
            "work_lost_gpu_ms": 0,
            "restart_gpu_ms": 0,
        }
        self._jobs[demand.job] = _OpenJob(row, demand)
        self.rows["jobs"].append(row)

    def placed(self, job: str, attempt: int, action: str, placement: tuple[NodeShare, ...], reserved: bool) -> None:
        """Adds an attempt."""
        live = self._jobs.get(job)
        if live is None:
            return
        live.row.setdefault("first_placed", self.at)
        live.row["attempts"] += 1
        live.to_start = dict.fromkeys(index for share in placement for index in numbers(share.tasks))
        live.attempt = {
            "job": job,
            "submitted_seq": live.row["submitted_seq"],
            "attempt": attempt,
            "placed_seq": self.seq,
            "placed": self.at,
            "action": action,
            "reserved": reserved,
            "nodes": " ".join(str(share.node) for share in placement),
            "start_ordered": None if reserved else self.at,
        }
        self.rows["attempts"].append(live.attempt)

    def start_ordered(self, decision: decisions.JobStarting) -> None:
        """Notes that all resources of the attempt are free."""
        live = self._jobs.get(decision.job)
        if live is not None and live.attempt is not None and not decision.tasks:
            live.attempt["start_ordered"] = self.at

    def started(self, fact: facts.TaskStarted) -> None:
        """Notes a started task; with the last one, the start of the gang."""
        live = self._jobs.get(fact.job)
        if live is None or live.attempt is None or live.attempt["attempt"] != fact.attempt:
            return
        live.to_start.pop(fact.task, None)
        if not live.to_start and "started" not in live.attempt:
            live.attempt["started"] = self.at
            live.row.setdefault("first_started", self.at)
            for row in live.evicted:
                row["resumed"] = self.at
            live.evicted = []

    def _over(self, job: str, outcome: str, cause: str, loss: Loss = NO_LOSS) -> None:
        live = self._jobs.get(job)
        if live is None:
            return
        _add_loss(live.row, loss)
        live.row["evictions"] += bool(live.eviction_cause) and outcome.startswith(("preempted", "evicted"))
        if live.attempt is not None:
            live.attempt |= {"ended": self.at, "outcome": outcome, "cause": cause, **_columns_of(loss)}
        live.attempt, live.eviction_cause = None, ""
        live.evicted, live.evicting = live.evicting, []

    def dropped(self, decision: decisions.ReservationDropped) -> None:
        """Ends an attempt that was not started."""
        live = self._jobs.get(decision.job)
        if live is not None and not decision.tasks and live.attempt is not None and live.attempt["start_ordered"] is None:
            live.attempt |= {"ended": self.at, "outcome": "not-started", "cause": decision.reason}
            live.attempt = None

    def requeued(self, decision: decisions.JobRequeued) -> None:
        """Ends an attempt of a requeued job."""
        self._over(decision.job, decision.outcome, decision.cause, loss_of_end(self.state, decision.job))

    def shrunk(self, decision: decisions.JobShrunk) -> None:
        """Adds the lost work of evicted tasks to the job."""
        live = self._jobs.get(decision.job)
        if live is not None:
            _add_loss(live.row, loss_of_end(self.state, decision.job))
            removed = dict.fromkeys(numbers(decision.tasks))
            over = [row for row in live.evicting if row["members"] and all(index in removed for index in numbers(row["members"]))]
            live.evicting = [row for row in live.evicting if row not in over]

    def ended(self, decision: decisions.JobEnded) -> None:
        """Completes an ended job."""
        live = self._jobs.get(decision.job)
        if live is not None:
            loss = loss_of_end(self.state, decision.job) if decision.outcome == "evicted" else NO_LOSS
            self._over(decision.job, decision.outcome, live.eviction_cause or "exit", loss)
            live.row |= {"ended": self.at, "outcome": decision.outcome}
            del self._jobs[decision.job]

    # --- requests for victims, and evictions

    def requested(self, decision: decisions.PreemptionRequested) -> None:
        """Adds a preemption request."""
        row = {
            "request_seq": self.seq,
            "requested": self.at,
            "job": decision.job,
            "class": decision.class_name,
            "priority": decision.priority,
            "selection": decision.selection,
        }
        self._requests[self.seq] = row
        self.rows["requests"].append(row)

    def _close_request(self, found: decisions.PreemptionDecided | decisions.PreemptionRefused, result: str, **more: Any) -> None:
        row = self._requests.pop(found.request, None)
        if row is not None:
            why = found.explanation
            row |= {
                "decision_seq": self.seq,
                "decided": self.at,
                "result": result,
                "action": found.action,
                "candidates": why.candidates,
                "excluded": " ".join(f"{each.rule}:{each.jobs}" for each in why.excluded),
                "steps": why.steps,
                "proven": why.proven,
            } | more

    def decided(self, decision: decisions.PreemptionDecided) -> None:
        """Completes the request, and adds the evictions of its victims."""
        loss = victims_loss(self.state, decision.victims) or NO_LOSS
        found = {"victim_work_lost_gpu_ms": loss.work, "victim_restart_gpu_ms": loss.restart}
        self._close_request(decision, "decided", victims=len(decision.victims), **found)
        preemptor = decision.preemptor
        for choice, grace in zip(decision.victims, decision.graces, strict=True):
            if choice.extends:
                continue  # the same eviction as that of an earlier decision
            self._add_eviction(
                choice.job,
                choice.attempt,
                choice.tasks,
                "preemption",
                grace,
                action=decision.action,
                for_job=preemptor.job,
                for_class=preemptor.class_name,
                for_priority=preemptor.priority,
                priority=choice.priority,
                gpus=choice.gpus,
                **_columns_of(victim_loss(self.state, choice) or NO_LOSS),
            )
        if not decision.tasks:
            self.placed(preemptor.job, decision.attempt, decision.action, decision.placement, reserved=True)

    def refused(self, decision: decisions.PreemptionRefused) -> None:
        """Completes a refused request."""
        self._close_request(decision, decision.reason)

    def timed_out(self, _decision: decisions.SelectionTimedOut) -> None:
        """Completes all open requests after a timeout."""
        for row in self._requests.values():
            row |= {"decision_seq": self.seq, "decided": self.at, "result": "timed-out"}
        self._requests.clear()

    def _add_eviction(self, job: str, attempt: int, members: str, cause: str, grace: int, **more: Any) -> None:
        live = self._jobs.get(job)
        if live is None:
            return
        row = {
            "decided_seq": self.seq,
            "decided": self.at,
            "job": job,
            "submitted_seq": live.row["submitted_seq"],
            "attempt": attempt,
            "members": members,
            "cause": cause,
            "class": live.row["class"],
            "grace": grace,
        } | more
        live.evicting.append(row)
        if not members:
            live.eviction_cause = cause
        self.rows["evictions"].append(row)

    def eviction_decided(self, decision: decisions.EvictionDecided) -> None:
        """Adds an eviction for another reason than preemption."""
        self._add_eviction(decision.job, decision.attempt, decision.tasks, decision.cause, decision.grace)

    def migration_decided(self, decision: decisions.MigrationDecided) -> None:
        """Adds the eviction of a migration."""
        self._add_eviction(decision.job, decision.attempt, "", decision.cause, decision.grace)

    def step(self, job: str, column: str, task: int | None = None) -> None:
        """Stores the time of an eviction stage; later tasks overwrite it."""
        live = self._jobs.get(job)
        for row in live.evicting if live is not None else ():
            if task is None or not row["members"] or task in numbers(row["members"]):
                row[column] = self.at

    def eviction_cancelled(self, decision: decisions.EvictionCancelled) -> None:
        """Completes a cancelled eviction."""
        live = self._jobs.get(decision.job)
        if live is None:
            return
        for row in [row for row in live.evicting if row["members"] == decision.tasks]:
            row["cancelled"] = self.at
            live.evicting.remove(row)
        if not decision.tasks:
            live.eviction_cause = ""


Handler = Callable[[Tables, Any], None]
_HANDLERS: dict[type[Payload | None], Handler] = {
    facts.PolicyApplied: Tables.policy,
    facts.NodeJoined: Tables.joined,
    facts.NodeUnreachable: lambda tables, fact: tables._node(fact.node, "unreachable"),
    facts.NodeReachable: lambda tables, fact: tables._node(fact.node, "reachable"),
    facts.NodeLost: lambda tables, fact: tables._node(fact.node, "lost"),
    facts.NodeDrained: lambda tables, fact: tables._node(fact.node, "drained") if fact.begin is None else None,
    facts.NodeUndrained: lambda tables, fact: tables._node(fact.node, "undrained"),
    decisions.MaintenanceBegan: lambda tables, it: tables._node(it.node, "drained"),
    decisions.MaintenanceEnded: lambda tables, it: None if it.drained else tables._node(it.node, "undrained"),
    facts.JobSubmitted: Tables.submitted,
    decisions.JobPlaced: lambda tables, it: tables.placed(it.job, it.attempt, it.action, it.placement, it.reserved),
    decisions.JobStarting: Tables.start_ordered,
    decisions.ReservationDropped: Tables.dropped,
    decisions.JobRequeued: Tables.requeued,
    decisions.JobShrunk: Tables.shrunk,
    decisions.JobEnded: Tables.ended,
    facts.TaskStarted: Tables.started,
    decisions.PreemptionRequested: Tables.requested,
    decisions.PreemptionDecided: Tables.decided,
    decisions.PreemptionRefused: Tables.refused,
    decisions.SelectionTimedOut: Tables.timed_out,
    decisions.EvictionDecided: Tables.eviction_decided,
    decisions.MigrationDecided: Tables.migration_decided,
    decisions.EvictionCancelled: Tables.eviction_cancelled,
    decisions.EvictionStuck: lambda tables, it: tables.step(it.job, "stuck"),
    facts.EvictionStarted: lambda tables, it: tables.step(it.job, "started"),
    facts.EvictionStageReached: lambda tables, it: tables.step(it.job, it.stage, it.task) if it.stage in STAGES else None,
    facts.TaskExited: lambda tables, it: tables.step(it.job, "exited", it.task),
    facts.TaskReleased: lambda tables, it: tables.step(it.job, "released", it.task),
}
