"""A cluster and a pool for tests of the bridge, without processes: objects as the API has them, and the real core and admission.

`World.step` carries out actions on both, as the bridge does, in any order and any number of times. The Job controller is played.
"""

import copy
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tests.kits.bridge_objects import POOL, Object
from tests.kits.log_builder import Story, digest

from bailiff_core.admission import Evidence, ReceivedRequest, admit_received
from bailiff_core.admission.rejected import Rejected
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.state import Job
from bailiff_core.records import decisions
from bailiff_kubernetes import names
from bailiff_kubernetes.names import task_hash
from bailiff_kubernetes.resources import RAY_JOBS
from bailiff_kubernetes_bridge.actions import (
    Action,
    CopyCheckpoint,
    CordonNode,
    DeletePod,
    EndPod,
    MarkPod,
    Nominate,
    OpenGate,
    Respond,
    Send,
    SetPodStatus,
    SetWorkloadStatus,
    Show,
    StopWorkload,
)
from bailiff_kubernetes_bridge.annotations import DELETION_COST, STATUS, STOPPED_FOR
from bailiff_kubernetes_bridge.carry_out import pinned
from bailiff_kubernetes_bridge.memo import Memo
from bailiff_kubernetes_bridge.messages import PoolView, Preemption, Rejection
from bailiff_kubernetes_bridge.reconcile import reconcile
from bailiff_kubernetes_bridge.submission import Rules
from bailiff_kubernetes_bridge.view import ClusterView, cluster_view
from bailiff_kubernetes_bridge.workloads.adapters import BY_KIND
from bailiff_kubernetes_bridge.workloads.model import Pod

RUNTIME = {"bailiff.runtime/kubernetes": "true"}


def _deletion_order(pod: Object) -> tuple[bool, int, str]:
    """As a ReplicaSet deletes: what is on no node first, then by its deletion cost."""
    is_bound = "nodeName" in pod["spec"]
    return is_bound, int((pod["metadata"].get("annotations") or {}).get(DELETION_COST, 0)), pod["metadata"]["name"]


def _index(pod: Object) -> int:
    return int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


class World:
    """One cluster, and one pool with two nodes of eight GPUs."""

    def __init__(self, rules: Policy = DEFAULT_POLICY, *, users: Mapping[str, str] | None = None) -> None:
        self.story = Story(rules, pool=POOL)
        for node in ("n1", "n2"):
            self.story.node(node, gpus=8, labels=RUNTIME)
        self.rules = Rules("c1", users or {})
        self.objects: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.nodes: dict[str, Object] = {
            name: {"metadata": {"name": name, "resourceVersion": "1", "annotations": {}}, "spec": {}} for name in ("n1", "n2")
        }
        self.shown: dict[str, Object] = {}
        self.evictions: list[Object] = []
        self.storage: list[Object] = []
        self.budgets: list[Object] = []
        self.quotas: list[Object] = []
        self.workflows: list[Object] = []
        self.rejected: dict[str, Rejection] = {}
        self.events: dict[tuple[str, str], None] = {}
        self.sent: list[Send] = []
        self._numbers = itertools.count(1)
        self._copies: dict[str, Object] = {}

    # --- the cluster

    def add(self, *items: Object) -> None:
        """Create objects; the Job controller makes their pods."""
        for item in items:
            (self.pods if item["kind"] == "Pod" else self.objects)[item["metadata"]["name"]] = item
        self.controllers()

    def change(self, name: str, **spec: Any) -> None:
        """A user edits the spec of a workload."""
        self.objects[name]["spec"] |= spec
        self._touch(self.objects[name], is_spec=True)
        self.controllers()

    def controllers(self) -> None:
        """The Job controller: the pods that each Job wants, gated; none while it is suspended; its outcome."""
        for item in [item for item in self.objects.values() if item["kind"] == "Job"]:
            spec, uid = item["spec"], item["metadata"]["uid"]
            own = [pod for pod in self.pods.values() if pod["metadata"].get("ownerReferences", [{}])[0].get("uid") == uid]
            succeeded = [pod for pod in own if pod["status"]["phase"] == "Succeeded"]
            active = [pod for pod in own if pod["status"]["phase"] in ("Pending", "Running")]
            if len(succeeded) >= spec["completions"]:
                item["status"]["conditions"] = [{"type": "Complete", "status": "True"}]
            if item["status"].get("conditions") or spec.get("suspend") or item["metadata"].get("deletionTimestamp"):
                for pod in active:
                    del self.pods[pod["metadata"]["name"]]
                continue
            failed = Counter(_index(pod) for pod in own if pod["status"]["phase"] == "Failed")
            given_up = {index for index, times in failed.items() if times > spec.get("backoffLimitPerIndex", times)}
            taken = {_index(pod) for pod in (*succeeded, *active)} | given_up
            missing = [index for index in range(spec["completions"]) if index not in taken]
            for index in missing[: max(0, spec["parallelism"] - len(active))]:
                self._make_pod(item, index)
            for pod in active:
                if _index(pod) >= spec["completions"]:
                    del self.pods[pod["metadata"]["name"]]

        for item in [item for item in self.objects.values() if item["kind"] in ("ReplicaSet", "StatefulSet")]:
            self._replicate(item)
        self._collect_garbage()

    def _replicate(self, item: Object) -> None:
        """As their controllers do it: pods until there are enough, and of too many the cheapest deleted; no other is replaced."""
        spec, metadata = item["spec"], item["metadata"]
        of_it = (
            pod for pod in self.pods.values() if pod["metadata"].get("ownerReferences", [{}])[0].get("uid") == metadata["uid"]
        )
        own = [pod for pod in of_it if "deletionTimestamp" not in pod["metadata"]]
        if item["kind"] == "ReplicaSet":
            ordered = sorted(own, key=_deletion_order)
            for pod in ordered[: max(0, len(own) - spec["replicas"])]:
                self.delete_pod(pod["metadata"]["name"])
            for _ in range(spec["replicas"] - len(own)):
                self._make_replica(item, f"{metadata['name']}-{next(self._numbers)}")
            return
        for pod in own:
            if int(pod["metadata"]["name"].rpartition("-")[2]) >= spec["replicas"]:
                self.delete_pod(pod["metadata"]["name"])
        for index in range(spec["replicas"]):
            name = f"{metadata['name']}-{index}"
            if name not in self.pods:
                self._make_replica(item, name)
            if self.pods[name]["status"]["phase"] != "Running" and spec.get("podManagementPolicy") != "Parallel":
                return

    def _make_replica(self, item: Object, name: str) -> None:
        pod, metadata = copy.deepcopy(item["spec"]["template"]), item["metadata"]
        pod["metadata"] |= {
            "name": name,
            "namespace": metadata["namespace"],
            "uid": f"pod-{next(self._numbers)}",
            "resourceVersion": "1",
            "ownerReferences": [{"kind": item["kind"], "name": metadata["name"], "uid": metadata["uid"], "controller": True}],
        }
        self.pods[name] = {"apiVersion": "v1", "kind": "Pod", **pod, "status": {"phase": "Pending"}}

    def delete_pod(self, name: str, code: int = 0) -> None:
        """Somebody other than Bailiff deletes it; if it runs, its agent reports that it ended with this exit code."""
        pod = self.pods.pop(name)
        hashed = pod["metadata"]["labels"].get(names.TASK_HASH)
        for job in self.jobs():
            for task in job.tasks:
                if task_hash(f"{job.id}-{job.attempt}-{task.index}") == hashed and task.state in ("starting", "running"):
                    self.story.ends(job.id, code, task.index)

    def _collect_garbage(self) -> None:
        """What is shown goes with the last of its owners."""
        uids = {item["metadata"]["uid"] for items in (self.objects, self.pods) for item in items.values()}
        for name, item in list(self.shown.items()):
            if not any(owner["uid"] in uids for owner in item["metadata"]["ownerReferences"]):
                del self.shown[name]

    def _make_pod(self, item: Object, index: int) -> None:
        pod = copy.deepcopy(item["spec"]["template"])
        name, number = item["metadata"]["name"], next(self._numbers)
        pod["metadata"] |= {
            "name": f"{name}-{index}-{number}",
            "namespace": "team-a",
            "uid": f"pod-{number}",
            "resourceVersion": "1",
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
            "ownerReferences": [{"kind": "Job", "name": name, "uid": item["metadata"]["uid"], "controller": True}],
        }
        self.pods[pod["metadata"]["name"]] = {"apiVersion": "v1", "kind": "Pod", **pod, "status": {"phase": "Pending"}}

    def delete(self, name: str) -> None:
        """A user deletes a workload; the garbage collector deletes its pods."""
        gone = self.objects.pop(name)
        uid = gone["metadata"]["uid"]
        self.pods = {
            key: pod for key, pod in self.pods.items() if pod["metadata"].get("ownerReferences", [{}])[0].get("uid") != uid
        }
        self._collect_garbage()

    def view(self, memo: Memo | None = None) -> ClusterView:
        """The cluster as the bridge sees it. memo: of the view before; then unchanged objects are the same ones."""
        kinds: dict[str, list[Object]] = {kind: [] for kind in BY_KIND if kind != RAY_JOBS.kind}
        for item in self.objects.values():
            kinds.setdefault(item["kind"], []).append(self._seen(item, memo))
        pods, nodes = ([self._seen(item, memo) for item in items.values()] for items in (self.pods, self.nodes))
        shown, storage = ([self._seen(item, memo) for item in items] for items in (self.shown.values(), self.storage))
        budgets = [self._seen(item, memo) for item in self.budgets]
        return cluster_view(pods, kinds, nodes, memo, shown, self.evictions, storage, self.workflows, budgets, self.quotas)

    def _seen(self, item: Object, memo: Memo | None) -> Object:
        """As a local view has it: another object for each change. Tests change objects in place."""
        if memo is None:
            return item
        key = item["metadata"].get("uid") or item["metadata"]["name"]
        if self._copies.get(key) != item:
            self._copies[key] = copy.deepcopy(item)
        return self._copies[key]

    # --- the bridge

    def due(self) -> list[Action]:
        """What the bridge has to do."""
        return reconcile(self.view(), self.pool_view(), self.rules)

    def pool_view(self) -> PoolView:
        """The log as the bridge sees it."""
        pending, ended, preempted = {}, {}, {}
        for record in self.story.records:
            match record.data:
                case decisions.JobPending(job=job, reason=reason):
                    pending[job] = (record.seq, reason)
                case decisions.JobEnded(job=job, reason=reason):
                    ended[job] = (record.seq, reason)
                case decisions.PreemptionDecided() as decided:
                    preempted |= {victim.job: Preemption.of(record.seq, decided, victim) for victim in decided.victims}
                case decisions.JobStarting(job=job):
                    preempted.pop(job, None)
        return PoolView(self.story.state, pending, self.rejected, ended, preempted)

    def settle(self) -> None:
        """Carry out everything, until nothing is left to do."""
        for _ in range(30):
            actions = self.due()
            if not actions:
                return
            self.step(actions)
        raise AssertionError(f"it does not come to rest: {actions}")

    def step(self, actions: Iterable[Action]) -> None:
        """Carry out these actions, then let the controllers act."""
        for action in actions:
            self._carry_out(action)
        self.controllers()

    def _carry_out(self, action: Action) -> None:
        match action:
            case Send():
                self._send(action)
            case OpenGate(pod, job, key, node, cost) if (item := self._current(pod)) is not None:
                item["metadata"]["labels"][names.TASK_HASH] = task_hash(key)
                item["metadata"].setdefault("annotations", {}).update({names.TASK: key, names.JOB: job})
                item["metadata"]["annotations"] |= {DELETION_COST: cost} if cost else {}
                item["spec"]["schedulingGates"] = []
                item["spec"]["affinity"] = pinned(item["spec"].get("affinity") or {}, node)
                item["spec"]["nodeName"], item["status"]["phase"] = node, "Running"
                self._touch(item)
            case MarkPod(pod, job) if (item := self._current(pod)) is not None:
                item["metadata"]["annotations"][names.JOB] = job
                self._touch(item)
            case Nominate(pod, node, job) if (item := self._current(pod)) is not None:
                item["status"]["nominatedNodeName"] = node
                item["metadata"]["annotations"] |= {names.JOB: job} if job else {}
                self._touch(item)
            case CopyCheckpoint(pod, checkpoint) if (item := self._current(pod)) is not None:
                item["metadata"]["annotations"] |= dict(checkpoint)
                self._touch(item)
            case CordonNode(name, version, mark) if self.nodes[name]["metadata"]["resourceVersion"] == version:
                self.nodes[name]["metadata"]["annotations"] = {names.CORDONED_BY: mark} if mark else {}
                self.nodes[name]["spec"]["unschedulable"] = bool(mark)
                self._touch(self.nodes[name])
            case DeletePod(pod):
                self.pods.pop(pod.name, None)
            case EndPod(pod) if self._current(pod) is not None:
                del self.pods[pod.name]
            case SetPodStatus(pod, status, job) if (item := self._current(pod)) is not None:
                if job:
                    item["metadata"].setdefault("annotations", {})[names.JOB] = job
                self.events[(pod.uid, status.line)] = None
                condition = {
                    "type": names.PLACED,
                    "status": str(status.placed),
                    "reason": status.reason,
                    "message": status.message,
                }
                item["status"]["conditions"] = [condition]
                self._touch(item)
            case SetWorkloadStatus(workload, status, _) if workload.name in self.objects:
                self.events[(workload.uid, status.line)] = None
                self.objects[workload.name]["metadata"]["annotations"][STATUS] = status.line
                self._touch(self.objects[workload.name])
            case Respond(eviction, message, is_complete):
                (answer,) = (each for each in eviction["status"]["responders"] if each["name"] == names.RESPONDER)
                answer["message"] = message
                if is_complete:
                    answer["completionTime"] = "now"
            case Show(_, item, version):
                self.shown[item["metadata"]["name"]] = copy.deepcopy(item)
                self.shown[item["metadata"]["name"]]["metadata"]["resourceVersion"] = str(int(version or 0) + 1)
            case StopWorkload(workload, job) if workload.name in self.objects:
                self.objects[workload.name]["metadata"]["annotations"][STOPPED_FOR] = job
                self.objects[workload.name]["spec"]["suspend"] = True
                self._touch(self.objects[workload.name], is_spec=True)

    def _current(self, pod: Pod) -> Object | None:
        """The pod, if it is as the action saw it."""
        item = self.pods.get(pod.name)
        same = item is not None and (item["metadata"]["uid"], item["metadata"]["resourceVersion"]) == (
            pod.uid,
            pod.resource_version,
        )
        return item if same else None

    def _touch(self, item: Object, *, is_spec: bool = False) -> None:
        item["metadata"]["resourceVersion"] = str(int(item["metadata"]["resourceVersion"]) + 1)
        if is_spec:
            item["metadata"]["generation"] = item["metadata"].get("generation", 1) + 1

    def _send(self, request: Send) -> None:
        actor = f"kubernetes/{request.user}" if request.user else "kubernetes"
        body = request.body
        received = ReceivedRequest(
            "/kubernetes/c1", request.id, digest(body.to_json().decode() + actor), None, actor, "signed", body
        )
        found = admit_received(self.story.state, received, Evidence(digest("spec")))
        if isinstance(found, Rejected):
            self.rejected[request.id] = Rejection(found.code, found.reason, self.story.state.seq, found.retry_at)
        else:
            self.sent += [request] if found else []
            self.story.cycle(*found)

    # --- people and agents

    def job(self, name: str) -> Job:
        """The newest job of the workload (its name, or a pod group's)."""
        found = [job for job in self.story.state.jobs.values() if job.demand.labels["kubernetes/name"] == name]
        return max(found, key=lambda job: job.seq)

    def jobs(self) -> list[Job]:
        """All jobs."""
        return list(self.story.state.jobs.values())

    def pods_of(self, name: str) -> list[Object]:
        """Pods whose names begin so, by name."""
        return [pod for key, pod in sorted(self.pods.items()) if key.startswith(name)]

    def run(self, name: str) -> Job:
        """The workload's pods run, and their agents have reported it."""
        self.settle()
        self.story.started(self.job(name).id)
        self.settle()
        assert self.job(name).phase == "running", self.job(name).phase
        return self.job(name)

    def evicted(self, name: str) -> None:
        """The agents evict the job's pods: notice, TERM as a delete, exit, release."""
        self.settle()
        keys = {task_hash(f"{self.job(name).id}-{self.job(name).attempt}-{task.index}") for task in self.job(name).tasks}
        for key, pod in list(self.pods.items()):
            if pod["metadata"]["labels"].get(names.TASK_HASH) in keys and pod["status"]["phase"] == "Running":
                del self.pods[key]
        self.controllers()
        self.story.yields(self.job(name).id)

    def finish(self, name: str, index: int, code: int = 0) -> None:
        """The pod of this rank ends with this exit code, and its agent reports it."""
        job = self.job(name)
        hashed = task_hash(f"{job.id}-{job.attempt}-{index}")
        pod = next(pod for pod in self.pods.values() if pod["metadata"]["labels"].get(names.TASK_HASH) == hashed)
        pod["status"]["phase"] = "Failed" if code else "Succeeded"
        self._touch(pod)
        self.controllers()
        self.story.ends(job.id, code, index)
