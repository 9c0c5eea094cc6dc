"""One preemption of a workload whose own controller makes its pods, on the real kubelet with eight GPUs.

It has five GPUs; the urgent Job `serve` takes all eight. Meanwhile `later` joins the queue, and has no place beside it.
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kits.kubernetes_cluster import IMAGE
from tests.kubernetes.bridge_system import POOL, BridgeSystem, Users, all_running, attempts_of, is_gated
from tests.kubernetes.kubelet_jobs import URGENT, runs, using

from bailiff_core.model.state import Job
from bailiff_core.records.facts import JobSubmitted
from bailiff_kubernetes import names

PODS, GPUS = 5, 5
DONE = "done"
RUN = f"""
id=$POD/$(cat /proc/sys/kernel/random/uuid)
trap 'exit 143' TERM
until [ -e /work/{DONE} ]; do
  for gpu in $(echo $NVIDIA_VISIBLE_DEVICES | tr , ' '); do echo $id >> /work/uses/$gpu; done
  sleep 0.2 & wait $!
done
"""
"""As `kubelet_jobs.USES`, until the test lets it end."""


def pod_template(pool: str, work: Path | None = None, *, name: str = "main", script: str = RUN) -> dict[str, Any]:
    """A pod with one GPU. work: a folder of the machine, where containers note which GPUs they use; None on fake nodes."""
    container = {
        "name": name,
        "image": IMAGE,
        "command": ["/bin/sh", "-c", script],
        "resources": {"requests": {"cpu": "10m"}, "limits": {"nvidia.com/gpu": 1}},
    }
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if work is not None:
        container["env"] = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
        container["volumeMounts"] = [{"name": "work", "mountPath": "/work"}]
        spec["volumes"] = [{"name": "work", "hostPath": {"path": str(work)}}]
        (work / "uses").mkdir(exist_ok=True)
    return {"metadata": {"labels": {names.POOL: pool}}, "spec": spec}


async def preempted_and_back(users: Users, name: str, selector: str, work: Path, pods: int = PODS) -> Job:
    """The workload as it runs again. It has kept its place in the queue, and its GPUs were its own all the time."""
    uses = work / "uses"
    first = await runs(users, name, uses, pods, selector)
    users.apply(using(users, "serve", 8, uses, **URGENT))
    await runs(users, "serve", uses)
    waiting = await users.until_pods(
        selector, "its controller has made its pods anew, gated", lambda found: sum(map(is_gated, found)) == pods
    )
    assert not any(pod["status"].get("phase") == "Running" for pod in waiting)
    users.apply(users.job("later", pods=1, gpus=GPUS))
    await users.until_phase("later", "pending")
    users.kubectl("delete", "job", "serve", "--wait=false")
    again = await runs(users, name, uses, pods, selector)
    assert (again.id, again.attempt > first.attempt) == (first.id, True)
    assert users.of("later").phase == "pending", "it has kept its place in the queue"
    return again


async def completes(users: Users, name: str, work: Path, phase: str = "succeeded") -> None:
    """Its work is done, and `later` is next. phase: of the job then."""
    (work / DONE).touch()
    await users.until_phase(name, phase)
    await users.until_phase("later", "starting", "running")


async def until_condition(users: Users, plural: str, name: str, kind: str) -> None:
    """Wait until the workload has this condition by its controller's word."""

    async def holds() -> bool:
        found = users.cluster.get(plural, name, "-n", users.namespace).get("status", {}).get("conditions") or []
        return any((each["type"], each["status"]) == (kind, "True") for each in found)

    await users.watch.until_true(f"{name} is {kind}", holds)


def patch(users: Users, plural: str, name: str, spec: dict[str, Any]) -> None:
    """The user changes its spec."""
    users.kubectl("patch", plural, name, "--type=merge", "-p", json.dumps({"spec": spec}))


async def life_of_suspensions(
    users: Users, system: BridgeSystem, plural: str, selector: str, suspend: Callable[[bool], dict[str, Any]], pods: int = PODS
) -> None:
    """`train` was created suspended, on fake nodes: resumed, suspended and resumed, cancelled in Bailiff and resumed, deleted."""
    patch(users, plural, "train", suspend(False))
    await users.until_pods(selector, "it runs once it is resumed", all_running(pods))
    job = copy.copy(await users.until_phase("train", "running"))  # the state changes

    patch(users, plural, "train", suspend(True))
    await users.until_phase("train", "paused")
    await users.until_pods(selector, "its controller has deleted its pods", lambda found: not found)
    patch(users, plural, "train", suspend(False))
    again = await users.until_pods(selector, "it runs again", all_running(pods))
    assert attempts_of(again) != {job.attempt}
    assert (await users.until_phase("train", "running")).id == job.id

    reason = ("--reason", "wrong data", "--key", str(system.key_file), "--actor", "kubernetes")
    system.command(POOL, "cancel", job.id, *reason)
    await users.until_phase("train", "cancelled")
    await users.until_pods(selector, "it is suspended, and its pods are gone", lambda found: not found)
    await users.until_status(plural, "train", f"Cancelled: {job.id} has been cancelled by kubernetes: wrong data ({POOL}#")
    patch(users, plural, "train", suspend(False))
    await users.until_pods(selector, "it runs as another job", all_running(pods))
    assert (await users.until_phase("train", "running")).id == f"{job.id}-2"

    users.kubectl("delete", plural, "train", "--wait=false")
    await users.until_phase("train", "cancelled")
    await users.until_pods(selector, "its pods are gone", lambda found: not found)
    submitted = [fact.demand.job for fact in users.watch.facts(JobSubmitted) if fact.demand.job.startswith(job.id)]
    assert submitted == [job.id, f"{job.id}-2"]
    await users.watch.verify()


async def fails(users: Users, plural: str, name: str, condition: str) -> None:
    """Its controller gives it up, and its job is cancelled with the controller's reason."""
    await until_condition(users, plural, name, condition)
    job = await users.until_phase(name, "cancelled")
    assert "has failed" in job.request_reason, job.request_reason
