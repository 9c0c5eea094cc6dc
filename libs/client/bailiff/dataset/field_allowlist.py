"""Allowlist of the record fields that datasets may contain, with an anonymisation rule for each. All others are omitted.

A record type that is not in `RECORDS` is omitted entirely. Tests compare these tables with the models, so that a new field or
type fails them until it is added here.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from bailiff_core.engine import RELEASE
from bailiff_core.lifecycle.outcome import EXIT_0_AFTER_NOTICE
from bailiff_core.model import demand, placement_ranges, policy, proposal, state
from bailiff_core.model.document import Document
from bailiff_core.model.resource_vector import Bounds, Weights
from bailiff_core.placement.islands import NO_ISLAND, PER_TASK
from bailiff_core.protections import RULES
from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Payload

from .pseudonyms import Pseudonyms


class Omitted:
    """Marks a value that is omitted."""


@dataclass
class Export:
    """Context of the rules. shift: µs subtracted from every time. seqs: new seq by old seq, so far.

    next_seq: of the current record, if it is exported. ages: ranks of projects by creation.
    """

    names: Pseudonyms
    shift: int
    seqs: list[int] = field(default_factory=list)
    next_seq: int = 0
    ages: dict[int, int] = field(default_factory=dict)

    def time(self, value: int) -> int:
        """The shifted time; 0 means none and is kept."""
        return max(1, value - self.shift) if value else 0

    def seq(self, value: int) -> int:
        """New seq of a record; if it was omitted, of the last one before it."""
        return self.seqs[min(value, len(self.seqs) - 1)] if self.seqs else 0


Rule = Callable[[Any, Export], Any]


def keep(value: Any, _export: Export) -> Any:
    """Keeps the value. For numbers, booleans and words of a closed list."""
    return value


def out(_value: Any, _export: Export) -> Any:
    """Omits the value."""
    return Omitted


def named(kind: str) -> Rule:
    """Replaces a name, or each of several, by a pseudonym of this kind."""

    def rule(value: Any, export: Export) -> Any:
        if isinstance(value, tuple):
            return [export.names.name(kind, each) for each in value]
        return None if value is None else export.names.name(kind, value)

    return rule


def fixed(instead: Any) -> Rule:
    """Replaces the value of a required field by a constant."""
    return lambda _value, _export: instead


def word_of(*known: str) -> Rule:
    """Keeps one of these words, else `other`."""
    return lambda value, _export: value if value in known else "other"


def class_name(value: Any, export: Export) -> Any:
    """A priority class."""
    return None if value is None else export.names.class_name(value) if value else ""


def model(value: Any, export: Export) -> Any:
    """The model of a GPU, or of several."""
    return [export.names.model(each) for each in value] if isinstance(value, tuple) else export.names.model(value)


def _profile(value: str) -> str:
    """A MIG profile such as `3g.40gb`, without an addition such as `+me`; empty: it is none."""
    found = re.match(r"([1-7]c\.)?[1-7]g\.[0-9]{1,4}gb(?=\+|$)", value)
    return found[0] if found else ""


def mig_profile(value: Any, _export: Export) -> Any:
    """The MIG profile of a device."""
    return _profile(value)


def mig_requested(value: Any, _export: Export) -> Any:
    """The MIG profile that a task requests."""
    return (_profile(value) or None) if value is not None else None


def mig_weights(value: Any, _export: Export) -> Any:
    """Weights by MIG profile."""
    return {_profile(key): weight for key, weight in value.items() if _profile(key)}


def island(value: Any, export: Export) -> Any:
    """An island of a node's GPUs."""
    return export.names.name("island", value) if value else ""


def island_used(value: Any, export: Export) -> Any:
    """The island that a placement used, with its node, or why none."""
    node, sign, name = value.partition("/")
    if not sign:
        return value if value in (PER_TASK, NO_ISLAND) else ""
    return f"{export.names.name('node', node)}/{export.names.name('island', name)}"


def labels(value: Any, export: Export) -> Any:
    """Labels: pseudonyms of keys, and of values per key."""
    if isinstance(value, tuple):
        return [labels(each, export) for each in value]
    return {export.names.name("label", key): export.names.name("value", f"{len(key)}:{key}{each}") for key, each in value.items()}


def time(value: Any, export: Export) -> Any:
    """A time."""
    return None if value is None else export.time(value)


def seq(value: Any, export: Export) -> Any:
    """The seq of a record."""
    return None if value is None else export.seq(value)


def age(value: Any, export: Export) -> Any:
    """Creation of a project: only its rank."""
    return export.ages.setdefault(value, 0)


def ranges(value: Any, _export: Export) -> Any:
    """Numbers of tasks or devices, as `0-3,7`."""
    return value if re.fullmatch(r"[0-9,-]*", value) else ""


def codes(value: Any, _export: Export) -> Any:
    """Exit codes by the number of the task."""
    return {task: code for task, code in value.items() if re.fullmatch(r"[0-9]{1,6}", task)}


def rounded(value: Any, _export: Export) -> Any:
    """Rounds up to two significant digits."""
    unit = 10 ** max(0, len(str(value)) - 2)
    return -(-value // unit) * unit


def request(value: Any, export: Export) -> Any:
    """A request id that has only the seq."""
    return None if value is None else {"source": "left-out", "id": f"r{export.next_seq}", "digest": "0" * 64}


def release(value: Any, _export: Export) -> Any:
    """A published release, else `other`."""
    return value if value == RELEASE or re.fullmatch(r"\d+\.\d+\.\d+", value) else "other"


def inside(value: Any, export: Export) -> Any:
    """A nested document, or several, by their own tables."""
    if isinstance(value, tuple):
        return [of_document(each, export) for each in value]
    return None if value is None else of_document(value, export)


JOB, NODE, PROJECT, USER, GROUP = named("job"), named("node"), named("project"), named("user"), named("group")
DEVICE, TOPOLOGY, LABEL, MACHINE = named("device"), named("topology"), named("label"), named("machine")
NO_TEXT = fixed("")
CAUSE = word_of(*get_args(state.EvictionCause), "exit")
SHIELD = word_of(*(rule.name for rule in RULES))
OUTCOME_RULE = word_of(EXIT_0_AFTER_NOTICE, "")
EXCUSED = word_of(*(rule.name for rule in RULES), "idle", "preemption-delay", "cap-at-fair-share", "ageing", "schedule-timeout")

Fields = Mapping[str, Rule]


def kept(*names: str) -> dict[str, Rule]:
    """Rules that keep these fields."""
    return dict.fromkeys(names, keep)


DOCUMENTS: dict[type[Document], Fields] = {
    facts.DeviceInfo: {
        "id": DEVICE, "kind": word_of("gpu", "mig"), "model": model, "parent": DEVICE, "labels": labels, "fault": out,
        "profile": mig_profile, "island": island, **kept("memory_bytes", "healthy"),
    },
    facts.DeviceReading: {"device": DEVICE, "memory_used": rounded, **kept("processes")},
    facts.HostReading: {"memory_bytes": rounded, "scratch_bytes": rounded, **kept("processes")},
    facts.Checkpoint: {"bytes": rounded, "sha256": fixed("0" * 64), **kept("step", "duration", "agreed")},
    demand.JobDemand: {
        "job": JOB, "tasks": inside, "priority_class": class_name, "project": PROJECT, "user": USER, "labels": labels,
        "sub_groups": inside, "topology": inside, "after": inside,
        **kept(
            "min_tasks", "preemptible", "grace", "kill_after", "run_time_limit", "preemption_delay", "stale_grace",
            "on_eviction", "on_term", "max_failures", "on_failure", "restart_backoff", "elastic", "pack",
            "placement", "ports",
        ),
    },
    demand.Dependency: {"job": JOB, **kept("until")},
    demand.TaskGroup: {
        "gpu_models": model, "node_labels": labels, "nodes": NODE, "sub_group": GROUP,
        **kept("count", "gpu_milli", "cpu_milli", "memory_bytes", "gpu_share_milli", "gpu_share_bytes", "gpu_devices", "order"),
        "mig_profile": mig_requested,
    },
    demand.SubGroup: {"name": GROUP, "parent": GROUP, "topology": inside, **kept("min_tasks", "min_groups")},
    demand.TopologyRule: {"topology": TOPOLOGY, "required": LABEL, "preferred": LABEL},
    placement_ranges.NodeShare: {"node": keep, "tasks": ranges, "devices": ranges},
    proposal.Proposal: {
        "request": seq, "job": JOB, "tasks": ranges, "victims": inside, "placement": inside, "would_need": out,
        "explanation": inside, **kept("action", "refused"),
    },
    proposal.VictimChoice: {
        "job": JOB, "class_name": class_name, "project": PROJECT, "tasks": ranges, "moved_to": inside,
        "not_relocated": ranges, **kept("attempt", "priority", "gpus", "lost_gpu_ms", "reserved", "cpu_milli", "backfilled"),
    },
    proposal.Excluded: {"rule": EXCUSED, "examples": JOB, **kept("jobs")},
    proposal.ClassGpus: kept("priority", "gpu_milli"),
    proposal.Cost: {
        "classes": inside,
        **kept("under_share_gpu_milli", "lost_gpu_ms", "jobs_stopped", "tasks", "fragmented_nodes", "cpu_milli"),
    },
    proposal.AttemptedAction: {"would_need": out, "excluded": inside, **kept("action", "refused", "candidates")},
    proposal.Explanation: {
        "excluded": inside, "runner_up": JOB, "cost": inside, "lower_bound": inside, "runner_up_cost": inside,
        "attempted_actions": inside,
        **kept("candidates", "steps", "proven", "runner_up_lost_gpu_ms"),
    },
    decisions.Preemptor: {
        "job": JOB, "class_name": class_name, "project": PROJECT, **kept("priority", "base_priority"),
    },
    policy.Policy: {
        **dict.fromkeys(
            ("priority_classes", "preemption", "eviction", "restarts", "nodes", "devices", "idle", "retention", "projects",
             "topologies", "protections"),
            inside,
        ),
        "identity": out,
        "kubernetes": out,
        **kept("max_rejections_per_minute", "backfill", "packing", "placement", "unshared_checkpoints"),
    },
    policy.PriorityClass: {
        "name": class_name, "start_slo": inside,
        **kept(
            "value", "preemptible", "preemption_policy", "global_default", "grace", "kill_after", "immediate", "immediate_grace",
        ),
    },
    policy.StartSlo: kept("p95", "p99"),
    policy.MinRuntime: kept("preempt", "reclaim"),
    policy.Project: {
        "name": PROJECT, "parent": PROJECT, "created": age, "quota": inside, "limit": inside, "over_quota_weight": inside,
        "min_runtime": inside, "description": out, "admins": out, "submitters": out, **kept("priority"),
    },
    Bounds: kept("gpu_milli", "cpu_milli", "memory_bytes"),
    Weights: kept("gpu", "cpu", "memory"),
    policy.Topology: {"name": TOPOLOGY, "levels": LABEL},
    policy.EvictionCap: kept("evictions", "window"),
    policy.Cooldown: kept("job", "project"),
    policy.Ageing: kept("boost", "evictions", "waiting"),
    policy.Budget: {"name": named("budget"), "labels": labels, "project": PROJECT, **kept("max_disruptions")},
    policy.ScheduleTimeout: kept("after", "action"),
    policy.Protections: {
        "min_runtime": inside, "eviction_cap": inside, "cooldown": inside, "ageing": inside, "excluded": labels,
        "budgets": inside, "schedule_timeout": inside, **kept("preemption_delay", "stale_gang"),
    },
    policy.PreemptionRules: kept(
        "actions", "scope", "quota_shields", "cap_at_fair_share", "max_migrations", "reservation_expiry", "selection_timeout",
        "selection_backoff", "search_steps", "restart_cost", "max_counted_loss", "cpus_per_gpu",
    ),
    policy.EvictionRules: kept("grace", "short_grace", "kill_after", "stuck_after"),
    policy.RestartRules: kept("backoff", "max_backoff", "grow_after", "max_failures", "max_yields"),
    policy.NodeRules: kept("unreachable_after", "lease", "lost_margin", "silent_share_percent"),
    policy.DeviceRules: {"mig_weights": mig_weights, **kept("over_share")},
    policy.IdleRules: kept("after", "action"),
    policy.RetentionRules: kept("ended_jobs", "request_ids", "job_specs"),
}  # fmt: skip

REQUESTED: Fields = {"request": request, "job": JOB, "reason": out}
AT: Fields = {"job": JOB, "node": NODE, **kept("attempt", "task")}
ON: Fields = {"node": NODE, "device": DEVICE}

RECORDS: dict[type[Payload], Fields] = {
    # the log itself
    facts.PoolCreated: {
        "pool": named("pool"), "partition": fixed(0), "nonce": named("log"), "root_key": out, "certificate": out,
        **kept("format", "hash"),
    },
    facts.PolicyApplied: {"policy": inside, "request": request, **kept("enforce")},
    facts.WriterStarted: {
        "writer": named("writer"), "release": release, "digest": fixed("0" * 64), "logic": fixed(0), "inputs": out,
        "certificate": out, **kept("state_schema"),
    },
    facts.ClockAdvanced: {},
    facts.ClockStepped: kept("jump"),
    facts.DecisionFailed: {"job": JOB, "error": NO_TEXT},
    facts.LogTruncated: {"request": request, "epoch": keep, "seq": seq, "reason": out},
    facts.TruncationReconciled: {},
    # requests
    facts.JobSubmitted: {
        "request": request, "demand": inside, "spec_digest": fixed("0" * 64), "user": USER, "user_verified": out,
    },
    facts.JobCancelled: REQUESTED,
    facts.JobScaled: {"request": request, "job": JOB, **kept("group", "tasks", "min_tasks")},
    facts.JobPriorityClassChanged: {"request": request, "job": JOB, "priority_class": class_name},
    facts.JobEvictionRequested: REQUESTED,
    facts.JobPaused: REQUESTED,
    facts.JobResumed: REQUESTED,
    facts.JobMigrationRequested: {**REQUESTED, "node": NODE},
    facts.NodeDrained: {"request": request, "node": NODE, "reason": out, **kept("mode", "deadline")},
    facts.NodeUndrained: {"request": request, "node": NODE, "reason": out},
    facts.NodeReplaced: {"request": request, "node": NODE, "machine_id": MACHINE},
    facts.NodeReturned: {"request": request, "node": NODE},
    # nodes and devices
    facts.NodeJoined: {
        "node": NODE, "incarnation": named("life"), "machine_id": MACHINE, "boot_id": named("boot"), "report_number": fixed(0),
        "labels": labels, "devices": inside, "checkpoint_store": named("folder"), "announced": out,
        **kept("number", "cpu_milli", "memory_bytes", "max_tasks"),
    },
    facts.NodeUnreachable: {"node": NODE, "last_contact": time},
    facts.NodeReachable: {"node": NODE},
    facts.NodeLost: {"node": NODE, "last_contact": time},
    facts.NodesSilent: {"nodes": NODE},
    facts.DeviceQuarantined: {
        **ON, "detail": out, "reading": inside, "baseline": rounded, "job": JOB, **kept("reason", "attempt", "task"),
    },
    facts.DeviceClearRequested: {**ON, "request": request, "reason": NO_TEXT},
    facts.DeviceCleared: {**ON, "reading": inside, "requested_by": seq},
    facts.DeviceUnhealthy: {**ON, "detail": out, **kept("reason", "code")},
    facts.DeviceHealthy: {**ON, "detail": out},
    # tasks
    facts.TaskStarted: {**AT, "devices": DEVICE},
    facts.TaskStartRefused: {**AT, "reason": NO_TEXT},
    facts.TaskExited: {**AT, "reason": out, **kept("exit_code", "step", "unobserved", "done")},
    facts.TaskProgressed: {**AT, "total_steps": out, "checkpoint": inside, **kept("step", "step_rate_milli", "checkpoint_age")},
    facts.TaskResumed: {**AT, **kept("step", "from_attempt", "skipped_checkpoints", "steps_lost")},
    facts.TaskReleased: {**AT, "before": inside, "after": inside, "host_before": out, "host_after": out, **kept("evidence")},
    facts.ShareExceeded: {**AT, "device": DEVICE, "used_bytes": rounded, **kept("share_bytes")},
    facts.TaskIdle: {**AT, **kept("idle", "duration")},
    facts.TaskVanished: AT,
    facts.JobSpecGranted: {"request": request, "job": JOB, "encryption_key": fixed("A" * 43)},
    facts.AttachGranted: {**AT, "request": request, "client_certificate": fixed("A" * 100), **kept("port")},
    facts.AttachReady: {**AT, "grant": seq, "address": fixed("0:0"), "fingerprint": fixed("0" * 64)},
    facts.AttachStarted: {**AT, "grant": seq},
    facts.AttachEnded: {**AT, "grant": seq, **kept("reason")},
    facts.EvictionStageReached: {
        **AT, "checkpoint": inside, **kept("stage", "elapsed", "step", "attached", "term_after", "kill_after",
        "step_rate_milli", "stuck_in"),
    },
    facts.TaskEvictionCancelled: AT,
    facts.TaskCancelEvictionRefused: AT,
    # proposals and progress
    facts.ProposalReceived: {"computed_at": seq, "proposals": inside, **kept("selection", "logic")},
    facts.EvictionStarted: {"job": JOB, "decided_by": seq, **kept("attempt")},
    facts.PreemptionAbandoned: {"preemption": seq, "reason": NO_TEXT},
    # decisions
    decisions.JobPlaced: {
        "job": JOB, "placement": inside, "expires": time, "island": island_used,
        **kept("attempt", "action", "reserved", "backfilled"),
    },
    decisions.JobGrown: {
        "job": JOB, "placement": inside, "expires": time, "island": island_used, **kept("attempt", "action", "reserved"),
    },
    decisions.JobStarting: {"job": JOB, "tasks": ranges, **kept("attempt")},
    decisions.ReservationDropped: {"job": JOB, "preemption": seq, "tasks": ranges, **kept("reason")},
    decisions.JobPending: {"job": JOB, "reason": NO_TEXT},
    decisions.DependenciesMet: {"job": JOB},
    decisions.PreemptionRequested: {
        "job": JOB, "class_name": class_name, "reason": NO_TEXT, "deadline": time, "tasks": ranges,
        **kept("action", "selection", "priority", "actions"),
    },
    decisions.PreemptionDecided: {
        "request": seq, "preemptor": inside, "victims": inside, "placement": inside, "expires": time, "explanation": inside,
        "unneeded_victims": JOB, "cancelled_evictions": JOB, "tasks": ranges, "island": island_used,
        **kept("action", "attempt", "graces"),
    },
    decisions.PreemptionRefused: {
        "request": seq, "preemptor": inside, "would_need": out, "explanation": inside, "retry_at": time, **kept("action",
        "reason"),
    },
    decisions.SelectionTimedOut: {"retry_at": time, **kept("selection", "failures")},
    decisions.EvictionDecided: {"job": JOB, "reason": out, "tasks": ranges, **kept("attempt", "cause", "grace")},
    decisions.JobIdle: {"job": JOB, **kept("attempt", "duration", "action")},
    decisions.DrainDeadlineReached: {"node": NODE},
    decisions.MigrationDecided: {
        "job": JOB, "placement": inside, "expires": time, "reason": out, "island": island_used,
        **kept("attempt", "grace", "cause"),
    },
    decisions.MigrationRefused: {"job": JOB, "reason": NO_TEXT, **kept("attempt")},
    decisions.EvictionStuck: {"job": JOB, "tasks": ranges, **kept("attempt")},
    decisions.EvictionCancelled: {"job": JOB, "preemption": seq, "reason": NO_TEXT, "tasks": ranges, **kept("attempt",
    "notified")},
    decisions.JobRequeued: {
        "job": JOB, "cause": CAUSE, "not_before": time, "rule": OUTCOME_RULE, **kept("attempt", "outcome", "lost_gpu_ms"),
    },
    decisions.JobEnded: {"job": JOB, "exit_codes": codes, "reason": out, **kept("attempt", "outcome")},
    decisions.JobShrunk: {
        "job": JOB, "tasks": ranges, "cause": CAUSE, "not_before": time, **kept("attempt", "outcome", "lost_gpu_ms"),
    },
    decisions.JobPriorityBoosted: {"job": JOB, "reason": NO_TEXT, **kept("priority", "effective_priority")},
    decisions.ScheduleTimedOut: {"job": JOB, "reason": out, **kept("waited", "action")},
}  # fmt: skip

OMITTED_RECORDS: Mapping[type[Payload], str] = {
    facts.InputsAdvanced: "positions of topics, which say nothing about jobs",
    facts.InputsLost: "of topics, not of jobs",
    facts.InputRejected: "invalid input, with names that exist nowhere else; it has no effect",
    facts.KeyRevoked: "of participants, not of jobs",
    facts.RootKeyChanged: "of participants, not of jobs",
    facts.EnrolmentPermitted: "of participants, not of jobs",
    facts.NodeWaiting: "of participants, not of jobs",
    facts.NodeEnrolled: "of participants, not of jobs",
    facts.StateDigest: "the hash of a state with the real names",
    facts.NodeRefused: "a machine that was turned away; it has no effect",
}


def of_record(data: Payload, export: Export) -> dict[str, Any] | None:
    """The exported part of a record's data, or None for an omitted type."""
    fields = RECORDS.get(type(data))
    if fields is None:
        return None
    if isinstance(data, facts.PolicyApplied):
        created = sorted({project.created for project in data.policy.projects})
        export.ages = {moment: place for place, moment in enumerate(created)}
    return _of(data, fields, export)


def of_document(data: Document, export: Export) -> dict[str, Any]:
    """The exported part of a nested document; empty for a type without a table."""
    return _of(data, DOCUMENTS.get(type(data), {}), export)


def _of(data: Document, fields: Fields, export: Export) -> dict[str, Any]:
    found = {}
    for name in data.model_fields_set:
        rule = fields.get(name, out)
        value = rule(getattr(data, name), export)
        if value is not Omitted:
            found[name] = value
    return found
