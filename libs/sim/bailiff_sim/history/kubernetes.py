"""Pods that kube-scheduler placed: their preemptions by Event and condition.

Each pod is a job; a pod that replaces a preempted one is its next attempt.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bailiff_core.humanize import count_text

from .kube_objects import conditions, gpus_of_pod, name_of, time_of, unreadable_of, uses_other_gpus
from .kube_reader import EVENT_TIMES, KubeReader, created_at, involved
from .records import SECOND, AttemptRow, BadLine, Found, Skipped, State, Tier
from .values import Unreadable

PREEMPTED_BY = re.compile(r"Preempted by (?:pod )?(\S+) on node ")
INDEX = "batch.kubernetes.io/job-completion-index"
REPLACED = 60 * SECOND  # a controller makes the next pod before the old one is gone, at most so long
DISRUPTIONS: Mapping[str, State] = {
    "PreemptionByScheduler": "preempted",
    "DeletionByTaintManager": "lost",
    "DeletionByPodGC": "lost",
    "TerminationByKubelet": "lost",
    "EvictionByEvictionAPI": "requeued",
}


@dataclass
class _Pod:
    uid: str
    name: str
    created: int
    owner: str
    index: str
    project: str
    gpus: int = 0
    tier: str = ""
    node: str = ""
    start: int | None = None
    end: int | None = None
    state: State = "running"
    preemptor: str = ""


class Reader(KubeReader):
    """Pods by job."""

    def __init__(self) -> None:
        super().__init__("kube-scheduler")
        self.take_by_kind |= {"Pod": self._take_pod, "Event": self._take_event}
        self._pods: dict[str, _Pod] = {}
        self._preempted: dict[str, tuple[int, str]] = {}  # by the victim's uid: when, by whom

    def rows(self, files: Sequence[Path]) -> Iterator[Found]:
        """Attempts by pod."""
        yield from unreadable_of(files, self.take)
        if not self._pods:
            raise ValueError("the files have no Pod: kubectl get pods,events,nodes,priorityclasses --all-namespaces -o json")
        unseen = [uid for uid in self._preempted if uid not in self._pods]
        for uid, (at, by) in self._preempted.items():
            if uid in self._pods:
                pod = self._pods[uid]
                pod.state, pod.preemptor, pod.end = "preempted", by or pod.preemptor, pod.end or at
        for key, pods in self._jobs().items():
            for pod in pods:
                self.names[pod.uid] = self.names[pod.name] = key
                yield from self._attempt(key, pod)
        self._say_unknown(len(unseen))

    def take_class(self, found: Mapping[str, Any]) -> None:
        """Takes in a priority class."""
        super().take_class(found)
        if found.get("preemptionPolicy") == "Never":
            name = found["metadata"]["name"]
            self.site.unknown.append(f"PriorityClass {name} never preempts; edit that in the policy.yaml")

    def _take_pod(self, found: Mapping[str, Any]) -> None:
        meta, spec, status = found["metadata"], found["spec"], found.get("status") or {}
        owner = next((each for each in meta.get("ownerReferences") or () if each.get("controller")), None)
        labels = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
        uid, namespace = str(meta["uid"]), str(meta.get("namespace", ""))
        of_owner = f"{namespace}/{owner['name']}" if owner else ""
        made = _Pod(uid, name_of(found), created_at(meta), of_owner, str(labels.get(INDEX, "")), namespace)
        pod = self._pods.setdefault(uid, made)
        pod.gpus = gpus_of_pod(spec)
        self._other_gpus += uses_other_gpus(spec)
        value = spec.get("priority")
        pod.tier = self.tier_of(spec, spec.get("priorityClassName"))
        if pod.tier and pod.gpus:
            self.site.tiers.setdefault(pod.tier, Tier(None if value is None else int(value)))
        pod.node = str(spec.get("nodeName") or pod.node)
        self._take_status(pod, found, status)

    def _take_status(self, pod: _Pod, found: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        states = [each.get("state") or {} for each in status.get("containerStatuses") or ()]
        ended = [each["terminated"] for each in states if "terminated" in each]
        began = [time_of(each.get("running") or each.get("terminated") or {}, "startedAt") for each in states]
        scheduled = conditions(found).get("PodScheduled") or {}
        if pod.start is None:
            known = [at for at in began if at is not None]
            placed = time_of(scheduled, "lastTransitionTime") if scheduled.get("status") == "True" else None
            pod.start = min(known) if known else time_of(status, "startTime") or placed
        if ended and len(ended) == len(states):
            ends = [at for at in (time_of(each, "finishedAt") for each in ended) if at is not None]
            pod.end = max(ends, default=pod.end)
        phase = status.get("phase")
        if phase in ("Succeeded", "Failed") and pod.state == "running":
            pod.state = "succeeded" if phase == "Succeeded" else "failed"
        disruption = conditions(found).get("DisruptionTarget") or {}
        if disruption.get("status") == "True":
            pod.state = DISRUPTIONS.get(str(disruption.get("reason")), "requeued")
            pod.end = pod.end or time_of(disruption, "lastTransitionTime")
        deleted = time_of(found["metadata"], "deletionTimestamp")
        if deleted is not None and pod.state == "running":
            pod.state, pod.end = "cancelled", pod.end or deleted
        self.saw(pod.start, pod.end, pod.created)

    def _take_event(self, found: Mapping[str, Any]) -> None:
        about = involved(found)
        if found.get("reason") != "Preempted" or about.get("kind") != "Pod" or not about.get("uid"):
            return
        at = time_of(found, *EVENT_TIMES, "lastTimestamp")
        if at is None:
            raise Unreadable("eventTime: expected a time, found nothing")
        by = PREEMPTED_BY.search(str(found.get("message") or found.get("note") or ""))
        self._preempted[str(about["uid"])] = at, by[1] if by and by[1] != "a" else ""
        self.saw(at)

    def _jobs(self) -> dict[str, list[_Pod]]:
        """Pods by job: those of one owner and index, or one after the other where the former was cut off."""
        jobs: dict[str, list[_Pod]] = {}
        slots: dict[str, list[str]] = {}
        for pod in sorted(self._pods.values(), key=lambda each: (each.created, each.name)):
            key = pod.name
            if pod.owner and pod.index:
                key = f"{pod.owner}/{pod.index}"
            elif pod.owner:
                of_owner = slots.setdefault(pod.owner, [])
                free = [each for each in of_owner if _replaced_by(jobs[each][-1], pod)]
                key = free[0] if free else f"{pod.owner}/{len(of_owner)}"
                if not free:
                    of_owner.append(key)
            jobs.setdefault(key, []).append(pod)
        return jobs

    def _attempt(self, key: str, pod: _Pod) -> Iterator[Found]:
        if not pod.gpus:
            yield Skipped("without a GPU")
        elif pod.start is None or not pod.node:
            yield Skipped("never started")
        elif pod.end is None and pod.state != "running":
            yield BadLine(
                f"Pod {pod.name}", "status", f"its end is not given: no container has finishedAt, and its state is {pod.state}"
            )
        else:
            yield AttemptRow(
                key,
                min(pod.created, pod.start),
                pod.start,
                max(pod.start, pod.end or self._latest),
                pod.state,
                pod.gpus,
                nodes=(pod.node,),
                project=pod.project,
                tier=pod.tier,
                preemptor=pod.preemptor,
            )

    def _say_unknown(self, unseen: int) -> None:
        unknown = self.site.unknown
        unknown.append(
            "pods that were deleted before the files were written, unless an audit log has them: a preempted pod is deleted, and "
            "Events are kept for an hour"
        )
        unknown.append("which pods belong together: kube-scheduler places them one by one, so each is a job here")
        self.site.unmeasured_preemptions = unseen
        if unseen:
            unknown.append(
                f"GPUs and run times of {count_text(unseen, 'preempted pod')}: only an Event is left; they are in no figure"
            )
        self.say_other_gpus()
        if not self.site.machines:
            unknown.append(
                "the machines: no Node is in the files; those on which pods ran are taken, with the most GPUs seen in use"
            )


def _replaced_by(before: _Pod, after: _Pod) -> bool:
    return before.state in ("preempted", "lost", "requeued") and before.end is not None and after.created >= before.end - REPLACED
