"""Validates a snapshot: finds all its contradictions, and resolves its policy, nodes, jobs and placements."""

from collections.abc import Sequence
from dataclasses import dataclass

from bailiff_core.model.policy import Policy
from bailiff_core.model.references import Fault, duplicate_faults, suggest, tree_faults
from bailiff_core.records.wire import time_text

from .snapshot import Snapshot
from .snapshot_devices import ResolvedNode, assign_devices, resolve_node
from .snapshot_jobs import ResolvedJob, resolve_job, with_number_classes

HISTORY = ("submitted", "last_start", "last_eviction", "last_checkpoint", "stale_since")


class InvalidSnapshot(Exception):
    """The snapshot contradicts itself."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(f"{'.'.join(map(str, fault.place))}: {fault.text}" for fault in faults))
        self.faults = list(faults)


@dataclass(slots=True)
class ResolvedSnapshot:
    """The whole snapshot, resolved."""

    nodes: list[ResolvedNode]
    jobs: list[ResolvedJob]
    policy: Policy


def validate_snapshot(snapshot: Snapshot) -> ResolvedSnapshot:
    """Resolves the snapshot.

    Raises:
        InvalidSnapshot: With all contradictions.
    """
    faults: list[Fault] = []
    policy = _policy(snapshot, faults)
    nodes = [resolve_node(doc, number, faults) for number, doc in enumerate(snapshot.nodes)]
    faults += duplicate_faults([doc.name for doc in snapshot.nodes], ("nodes",))
    faults += duplicate_faults([doc.name for doc in snapshot.jobs], ("jobs",))
    numbers: dict[str, int] = {}
    for node in nodes:
        numbers.setdefault(node.doc.name, node.number)
    projects = list(dict.fromkeys(project.name for project in policy.projects))
    policy = with_number_classes(policy, snapshot.jobs)
    resolved = [resolve_job(doc, ("jobs", at), policy, projects, numbers, faults) for at, doc in enumerate(snapshot.jobs)]
    jobs = [job for job in resolved if job is not None]
    unknown = [name for name in snapshot.reclaimed_at if name not in projects]
    faults += [Fault(("reclaimed_at", name), f"no such project; {suggest(name, projects)}") for name in unknown]
    faults += _future_times(snapshot)
    assign_devices(nodes, jobs, faults)
    if faults:
        raise InvalidSnapshot(faults)
    return ResolvedSnapshot(nodes, jobs, policy)


def _future_times(snapshot: Snapshot) -> list[Fault]:
    """Faults for times of a job's history that are after `now`."""
    return [
        Fault(("jobs", at, name), f"expected a time before `now`, {time_text(snapshot.now)}; found {time_text(moment)}")
        for at, doc in enumerate(snapshot.jobs)
        for name in HISTORY
        if (moment := getattr(doc, name)) is not None and moment > snapshot.now
    ]


def _policy(snapshot: Snapshot, faults: list[Fault]) -> Policy:
    """The policy, as if applied to a live pool, with the snapshot's own projects and topologies."""
    policy = snapshot.policy
    faults += [
        Fault(("policy", name), f"{name} are given here and at the top level of the snapshot: give them once")
        for name in ("projects", "topologies")
        if getattr(snapshot, name) and getattr(policy, name)
    ]
    faults += tree_faults([(each.name, each.parent) for each in snapshot.projects], ("projects",))
    faults += duplicate_faults([each.name for each in snapshot.topologies], ("topologies",))
    merged = policy.model_copy(
        update={"projects": snapshot.projects or policy.projects, "topologies": snapshot.topologies or policy.topologies}
    )
    return merged if faults else merged.complete()
