"""Workloads of Kueue (v1beta1 and v1beta2) with their Events: admissions and evictions, each with its reason and preemptor."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bailiff_core.humanize import count_text

from .kube_objects import (
    GPU_RESOURCES,
    Seen,
    conditions,
    gpus_of_pod,
    machine,
    name_of,
    quantity,
    time_of,
    unreadable_of,
    uses_other_gpus,
)
from .records import SECOND, AttemptRow, Found, ProjectFact, Site, Skipped, Source, State, Tier
from .values import Unreadable

PREEMPTOR = re.compile(r"workload \(UID: ([^,)\s]+)")
SAME = 5 * SECOND  # a condition and the Event about the same eviction
EVICTED_BY_USER = (
    "Deactivated",
    "InactiveWorkload",
    "MaximumExecutionTimeExceeded",
    "DeactivatedDueToMaximumExecutionTimeExceeded",
)


class Change(NamedTuple):
    """kind: `admitted`, `evicted` or `finished`."""

    time: int
    kind: str
    reason: str = ""
    preemptor: str = ""


@dataclass
class _Workload:
    name: str
    submitted: int
    gpus: int = 0
    pods: int = 1
    project: str = ""
    tier: str = ""
    preemptions: int = 0  # as Kueue counts them
    changes: set[Change] = field(default_factory=set)


class Reader:
    """Collects the objects; `rows` yields the attempts when all are read."""

    def __init__(self) -> None:
        self.site = Site("Kueue")
        self.names: dict[str, str] = {}
        self._workloads: dict[str, _Workload] = {}
        self._events: dict[str, set[Change]] = {}
        self._queues: dict[str, str] = {}
        self._latest = self._gaps = self._other_gpus = self._again = 0

    def read(self, files: Sequence[Path]) -> Source:
        """The rows of the files."""
        return Source(self.site, self.rows(files), self.names)

    def rows(self, files: Sequence[Path]) -> Iterator[Found]:
        """Attempts by workload."""
        yield from unreadable_of(files, self._take)
        if not self._workloads:
            raise ValueError("the files have no Workload of Kueue: kubectl get workloads,events,nodes --all-namespaces -o json")
        for uid, workload in sorted(self._workloads.items(), key=lambda each: each[1].name):
            workload.changes |= self._events.get(uid, set())
            yield from self._attempts(workload)
        self._say_unknown()

    def _take(self, seen: Seen) -> None:
        found, kind = seen.object, seen.object.get("kind")
        if seen.at is not None:
            self._latest = max(self._latest, seen.at)
        if kind == "Workload":
            self._take_workload(found)
        elif kind == "Event":
            self._take_event(found)
        elif kind == "Node":
            made = machine(found)
            if made is not None:
                self.site.machines.append(made)
        elif kind == "LocalQueue":
            self._queues[name_of(found)] = str(found["spec"]["clusterQueue"])
        elif kind == "ClusterQueue":
            self._take_queue(found)
        elif kind in ("WorkloadPriorityClass", "PriorityClass"):
            self.site.tiers[found["metadata"]["name"]] = Tier(int(found.get("value", 0)))

    def _take_queue(self, found: Mapping[str, Any]) -> None:
        amounts = [
            each for group in found["spec"].get("resourceGroups") or () for flavor in group.get("flavors") or ()
            for each in flavor.get("resources") or () if each["name"] in GPU_RESOURCES
        ]  # fmt: skip
        if amounts:
            limit = [quantity(each["borrowingLimit"]) for each in amounts if "borrowingLimit" in each]
            quota = sum(quantity(each["nominalQuota"]) for each in amounts)
            weight = (found["spec"].get("fairSharing") or {}).get("weight")
            whole = int(str(weight)) if str(weight).isdecimal() else None
            most = quota + sum(limit) if len(limit) == len(amounts) else None
            self.site.projects[found["metadata"]["name"]] = ProjectFact("", quota, most, whole)

    def _take_workload(self, found: Mapping[str, Any]) -> None:
        meta, spec, status = found["metadata"], found["spec"], found.get("status") or {}
        uid, name = str(meta["uid"]), name_of(found)
        submitted = time_of(meta, "creationTimestamp")
        if submitted is None:
            raise Unreadable("metadata.creationTimestamp: expected a time, found nothing")
        known = self._workloads.setdefault(uid, _Workload(name, submitted))
        sets = spec.get("podSets") or ()
        known.gpus = sum(int(each.get("count", 1)) * gpus_of_pod(each["template"]["spec"]) for each in sets)
        known.pods = sum(int(each.get("count", 1)) for each in sets if gpus_of_pod(each["template"]["spec"])) or 1
        self._other_gpus += any(uses_other_gpus(each["template"]["spec"]) for each in sets)
        ref = spec.get("priorityClassRef") or {}
        value = spec.get("priority")
        known.tier = str(ref.get("name") or spec.get("priorityClassName") or ("" if value is None else f"priority-{value}"))
        if known.tier and (known.tier not in self.site.tiers or self.site.tiers[known.tier].value is None):
            self.site.tiers[known.tier] = Tier(None if value is None else int(value))
        queue = (status.get("admission") or {}).get("clusterQueue")
        known.project = str(queue or known.project or f"{meta.get('namespace', '')}/{spec.get('queueName', '')}")
        self.names[uid] = name
        known.preemptions = sum(
            int(each.get("count", 0)) for each in (status.get("schedulingStats") or {}).get("evictions") or ()
            if each.get("reason") == "Preempted"
        )  # fmt: skip
        known.changes |= set(self._from_conditions(found))

    def _from_conditions(self, found: Mapping[str, Any]) -> Iterator[Change]:
        all_of = conditions(found)
        for kind, condition in all_of.items():
            at = time_of(condition, "lastTransitionTime")
            if at is None:
                continue
            self._latest = max(self._latest, at)
            reason, is_true = str(condition.get("reason", "")), condition.get("status") == "True"
            if kind == "Admitted" and is_true:
                yield Change(at, "admitted")
            elif kind == "Evicted" and is_true:
                text = str(condition.get("message", "")) + str((all_of.get("Preempted") or {}).get("message", ""))
                yield Change(at, "evicted", reason, _preemptor(text) if reason == "Preempted" else "")
            elif kind == "Finished" and is_true:
                yield Change(at, "finished", reason)

    def _take_event(self, found: Mapping[str, Any]) -> None:
        about = found.get("involvedObject") or found.get("regarding") or {}
        reason, text = str(found.get("reason", "")), str(found.get("message") or found.get("note") or "")
        if about.get("kind") != "Workload":
            return
        kind = (
            "admitted"
            if reason == "Admitted"
            else "evicted"
            if reason.startswith("EvictedDueTo") or reason == "Preempted"
            else ""
        )
        if not kind or not about.get("uid"):
            return
        series = found.get("series") or {}
        count = int(series.get("count") or found.get("count") or found.get("deprecatedCount") or 1)
        first = time_of(found, "eventTime", "firstTimestamp", "deprecatedFirstTimestamp")
        last = time_of(series, "lastObservedTime") or time_of(found, "lastTimestamp", "deprecatedLastTimestamp")
        self._again += max(0, count - 2)
        cause = reason.removeprefix("EvictedDueTo")
        for at in {first, last} - {None}:
            assert at is not None
            self._latest = max(self._latest, at)
            change = Change(at, kind, cause if kind == "evicted" else "", _preemptor(text) if cause == "Preempted" else "")
            self._events.setdefault(str(about["uid"]), set()).add(change)

    def _attempts(self, workload: _Workload) -> Iterator[Found]:
        if not workload.gpus:
            yield Skipped("without a GPU")
            return
        ended, start = list[tuple[int | None, int, State, str]](), None
        for at, kind, reason, by in sorted(workload.changes):
            if kind == "admitted":
                start = at if start is None else start
            elif kind == "evicted" and start is None and ended and at - ended[-1][1] <= SAME:
                before = ended[-1]
                ended[-1] = (*before[:3], before[3] or by)
            else:
                state = _state(kind, reason)
                self._gaps += start is None
                ended.append((start, at, state, by))
                start = None
        unseen = workload.preemptions - sum(state == "preempted" for _, _, state, _ in ended)
        rows: list[tuple[int | None, int | None, State, str]] = [(None, None, "preempted", "")] * max(0, unseen)
        rows += ended
        if start is not None:
            rows.append((start, max(self._latest, start), "running", ""))
        if not rows:
            yield Skipped("never admitted")
        for began, end, how, by in rows:
            yield AttemptRow(
                workload.name, workload.submitted, began, end, how, workload.gpus, node_count=workload.pods,
                project=self._queues.get(workload.project, workload.project), tier=workload.tier, preemptor=by,
            )  # fmt: skip

    def _say_unknown(self) -> None:
        unknown = self.site.unknown
        unknown.append(
            "evictions before the last one of each Workload, unless their Events or an audit log are in the files: a Workload "
            "keeps one"
        )
        if self._gaps:
            unknown.append(f"when {count_text(self._gaps, 'attempt')} began: their admission is not in the files")
        if self._again:
            unknown.append(
                f"the times of {count_text(self._again, 'repeated Event')}: Kubernetes keeps the first and the last of equal ones"
            )
        if self._other_gpus:
            unknown.append("GPU slices (MIG, time slicing) and resource claims: they are not counted")
        if not self.site.machines:
            unknown.append("the machines: no Node is in the files; add nodes to kubectl get, or say --cluster")


def _preemptor(text: str) -> str:
    found = PREEMPTOR.search(text)
    return found[1] if found and found[1] != "UNKNOWN" else ""


def _state(kind: str, reason: str) -> State:
    if kind == "finished":
        return "failed" if reason == "Failed" else "succeeded"
    return "preempted" if reason == "Preempted" else "cancelled" if reason in EVICTED_BY_USER else "requeued"
