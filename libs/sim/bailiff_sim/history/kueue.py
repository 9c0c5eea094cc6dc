"""Workloads of Kueue (v1beta1 and v1beta2) with their Events: admissions and evictions, each with its reason and preemptor."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bailiff_core.humanize import count_text

from .kube_objects import GPU_RESOURCES, conditions, gpus_of_pod, name_of, quantity, time_of, unreadable_of, uses_other_gpus
from .kube_reader import EVENT_TIMES, KubeReader, created_at, involved
from .records import SECOND, AttemptRow, Found, ProjectFact, Skipped, State, Tier

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


class Reader(KubeReader):
    """Workloads with what happened to each."""

    def __init__(self) -> None:
        super().__init__("Kueue")
        self.take_by_kind |= {
            "Workload": self._take_workload,
            "Event": self._take_event,
            "LocalQueue": self._take_local_queue,
            "ClusterQueue": self._take_queue,
            "WorkloadPriorityClass": self.take_class,
        }
        self._workloads: dict[str, _Workload] = {}
        self._events: dict[str, set[Change]] = {}
        self._queues: dict[str, str] = {}
        self._gaps = self._again = 0

    def rows(self, files: Sequence[Path]) -> Iterator[Found]:
        """Attempts by workload."""
        yield from unreadable_of(files, self.take)
        if not self._workloads:
            raise ValueError("the files have no Workload of Kueue: kubectl get workloads,events,nodes --all-namespaces -o json")
        for uid, workload in sorted(self._workloads.items(), key=lambda each: each[1].name):
            workload.changes |= self._events.get(uid, set())
            yield from self._attempts(workload)
        self._say_unknown()

    def _take_local_queue(self, found: Mapping[str, Any]) -> None:
        self._queues[name_of(found)] = str(found["spec"]["clusterQueue"])

    def _take_queue(self, found: Mapping[str, Any]) -> None:
        amounts = [
            each
            for group in found["spec"].get("resourceGroups") or ()
            for flavor in group.get("flavors") or ()
            for each in flavor.get("resources") or ()
            if each["name"] in GPU_RESOURCES
        ]
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
        known = self._workloads.setdefault(uid, _Workload(name, created_at(meta)))
        sets = spec.get("podSets") or ()
        known.gpus = sum(int(each.get("count", 1)) * gpus_of_pod(each["template"]["spec"]) for each in sets)
        known.pods = sum(int(each.get("count", 1)) for each in sets if gpus_of_pod(each["template"]["spec"])) or 1
        self._other_gpus += any(uses_other_gpus(each["template"]["spec"]) for each in sets)
        ref = spec.get("priorityClassRef") or {}
        value = spec.get("priority")
        known.tier = self.tier_of(spec, ref.get("name") or spec.get("priorityClassName"))
        if known.tier and (known.tier not in self.site.tiers or self.site.tiers[known.tier].value is None):
            self.site.tiers[known.tier] = Tier(None if value is None else int(value))
        queue = (status.get("admission") or {}).get("clusterQueue")
        known.project = str(queue or known.project or f"{meta.get('namespace', '')}/{spec.get('queueName', '')}")
        self.names[uid] = name
        known.preemptions = sum(
            int(each.get("count", 0))
            for each in (status.get("schedulingStats") or {}).get("evictions") or ()
            if each.get("reason") == "Preempted"
        )
        known.changes |= set(self._from_conditions(found))

    def _from_conditions(self, found: Mapping[str, Any]) -> Iterator[Change]:
        all_of = conditions(found)
        for kind, condition in all_of.items():
            at = time_of(condition, "lastTransitionTime")
            if at is None:
                continue
            self.saw(at)
            reason, is_true = str(condition.get("reason", "")), condition.get("status") == "True"
            if kind == "Admitted" and is_true:
                yield Change(at, "admitted")
            elif kind == "Evicted" and is_true:
                text = str(condition.get("message", "")) + str((all_of.get("Preempted") or {}).get("message", ""))
                yield Change(at, "evicted", reason, _preemptor(text) if reason == "Preempted" else "")
            elif kind == "Finished" and is_true:
                yield Change(at, "finished", reason)

    def _take_event(self, found: Mapping[str, Any]) -> None:
        about = involved(found)
        reason, text = str(found.get("reason", "")), str(found.get("message") or found.get("note") or "")
        if about.get("kind") != "Workload":
            return
        evicts = reason.startswith("EvictedDueTo") or reason == "Preempted"
        kind = "evicted" if evicts else "admitted"
        if not (evicts or reason == "Admitted") or not about.get("uid"):
            return
        series = found.get("series") or {}
        count = int(series.get("count") or found.get("count") or found.get("deprecatedCount") or 1)
        first = time_of(found, *EVENT_TIMES)
        last = time_of(series, "lastObservedTime") or time_of(found, "lastTimestamp", "deprecatedLastTimestamp")
        self._again += max(0, count - 2)
        cause = reason.removeprefix("EvictedDueTo")
        for at in {first, last} - {None}:
            assert at is not None
            self.saw(at)
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
                workload.name,
                workload.submitted,
                began,
                end,
                how,
                workload.gpus,
                node_count=workload.pods,
                project=self._queues.get(workload.project, workload.project),
                tier=workload.tier,
                preemptor=by,
            )

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
        self.say_other_gpus()
        if not self.site.machines:
            unknown.append("the machines: no Node is in the files; add nodes to kubectl get, or say --cluster")


def _preemptor(text: str) -> str:
    found = PREEMPTOR.search(text)
    return found[1] if found and found[1] != "UNKNOWN" else ""


def _state(kind: str, reason: str) -> State:
    if kind == "finished":
        return "failed" if reason == "Failed" else "succeeded"
    return "preempted" if reason == "Preempted" else "cancelled" if reason in EVICTED_BY_USER else "requeued"
