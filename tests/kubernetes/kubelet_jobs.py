"""Jobs on real kubelets: who has which GPU, by the word of the log, of the kubelets and of the containers themselves."""

import copy
import itertools
from pathlib import Path
from typing import Any

from tests.kits.kubernetes_cluster import IMAGE, Cluster
from tests.kits.system import Watch
from tests.kubernetes.bridge_system import JOBS, Users, attempts_of

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.state import Job
from bailiff_core.records.job_requests import SubmitJob
from bailiff_kubernetes import names, pod_name
from bailiff_node_agent.runtime.kubernetes.pod_resources import PodResources
from bailiff_node_agent.runtime.port import TaskKey

USES = """
id=$POD/$(cat /proc/sys/kernel/random/uuid)
trap 'exit 143' TERM
while :; do
  for gpu in $(echo $NVIDIA_VISIBLE_DEVICES | tr , ' '); do echo $id >> /uses/$gpu; done
  sleep 0.2 & wait $!
done
"""
"""For as long as the container lives, it writes its id into the file of each GPU that it was given."""


async def submit(
    pool: Watch,
    job: str,
    gpus: int,
    command: str = "exec sleep 3000",
    *,
    kind: str = "train",
    image: str = IMAGE,
    grace_s: int = 5,
    cpu_milli: int = 10,
    memory: int = 32 << 20,
) -> None:
    """A job with an image, whose pods the agent creates."""
    group = TaskGroup(gpu_milli=gpus * 1000, cpu_milli=cpu_milli, memory_bytes=memory)
    demand = JobDemand(job=job, priority_class=kind, grace=grace_s * 1_000_000, tasks=(group,))
    await pool.request(SubmitJob(demand=demand, spec=JobSpec(command=command, runtime="kubernetes", image=image)))


def allocated(pool: Watch, job: str) -> set[str]:
    """The GPUs of the job's tasks, as the log has them."""
    found = [
        pool.state.nodes[task.node].devices[number].id for task in pool.state.jobs[job].tasks for number in bits(task.devices)
    ]
    assert len(found) == len(set(found))
    return set(found)


def held(cluster: Cluster, job: str, attempt: int = 1) -> set[str]:
    """The GPUs of the pod of a job with an image, as the kubelet has them."""
    name = pod_name(str(TaskKey(job, attempt, "0")))
    return set(PodResources(cluster.node().pod_resources).devices_of(JOBS, name))


def using(users: Users, name: str, gpus: int, uses: Path, *, pods: int = 1, **labels: str) -> dict[str, Any]:
    """A Job whose containers write into this folder of the machine which GPUs they use."""
    uses.mkdir(exist_ok=True)
    job: dict[str, Any] = dict(users.job(name, pods=pods, gpus=gpus, **labels))
    spec = job["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "uses", "hostPath": {"path": str(uses)}}]
    spec["containers"][0] |= {
        "command": ["/bin/sh", "-c", USES],
        "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "volumeMounts": [{"name": "uses", "mountPath": "/uses"}],
    }
    return job


async def runs(users: Users, name: str, uses: Path, pods: int = 1, selector: str = "") -> Job:
    """Wait until the workload's pods run on the GPUs that the log says, by the kubelets' word and by their own.

    No GPU has been used by two containers at a time so far. selector: of the pods, if it is no Job.
    """
    kubelets = {node.name: PodResources(node.pod_resources) for node in users.cluster.real_nodes}

    async def agreed() -> bool:
        found = [pod for pod in users.pods(selector or f"job-name={name}") if pod["status"].get("phase") == "Running"]
        if len(found) != pods or users.of(name).phase != "running" or attempts_of(found) != {users.of(name).attempt}:
            return False
        given = {
            gpu for pod in found for gpu in kubelets[pod["spec"]["nodeName"]].devices_of(users.namespace, pod["metadata"]["name"])
        }
        return allocated(users.watch, users.of(name).id) == given == used_by({pod["metadata"]["name"] for pod in found}, uses)

    await users.until_phase(name, "running")
    await users.watch.until_true(f"{name} runs on the GPUs that the log says", agreed)
    assert_one_at_a_time(uses)
    return copy.copy(users.of(name))  # the state changes


def used_by(pods: set[str], uses: Path) -> set[str]:
    """The GPUs that these pods were the last to use."""
    return {gpu.name for gpu in uses.iterdir() if last_user(gpu) in pods}


def assert_one_at_a_time(uses: Path) -> None:
    """Whoever was followed by another user of a GPU has not used it since."""
    for gpu in uses.iterdir():
        users = [user for user, _ in itertools.groupby(gpu.read_text().splitlines())]
        assert len(users) == len(set(users)), f"{gpu.name} was used by two containers at a time: {users}"


def last_user(gpu: Path) -> str:
    """The pod that has written into the file of this GPU last."""
    lines = gpu.read_text().splitlines()
    return lines[-1].partition("/")[0] if lines else ""


URGENT = {names.PRIORITY_CLASS: "inference"}
