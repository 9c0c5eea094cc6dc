"""Jobs on real kubelets: who has which GPU, by the word of the log, of the kubelets and of the containers themselves."""

from pathlib import Path
from typing import Any

from tests.kubernetes.bridge_system import JOBS, Users, all_running
from tests.kubernetes_cluster import IMAGE, Cluster
from tests.system import Watch

from bailiff_bus.messages import JobSpec, SubmitJob
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.state import Job
from bailiff_kubernetes import names, pod_name
from bailiff_node_agent.runtime.kubernetes.pod_resources import PodResources
from bailiff_node_agent.runtime.port import TaskKey

LOCKS = """
for gpu in $(echo $NVIDIA_VISIBLE_DEVICES | tr , ' '); do
  ( flock -n 9 || echo $gpu >> /locks/twice; exec sleep 3000 ) 9> /locks/$gpu &
done
trap 'exit 143' TERM
touch /locks/started-$HOSTNAME
wait
"""
"""Locks each GPU for as long as the container lives; the kernel gives the locks back. Two containers that have the same GPU at
the same time leave its name in the file `twice`."""


async def submit(
    pool: Watch,
    job: str,
    gpus: int,
    command: str = "exec sleep 3000",
    *,
    kind: str = "train",
    image: str = IMAGE,
    grace_s: int = 5,
) -> None:
    """A job with an image, whose pods the agent creates."""
    group = TaskGroup(gpu_milli=gpus * 1000, cpu_milli=10, memory_bytes=256 << 20)
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


def locking(users: Users, name: str, gpus: int, locks: Path, *, pods: int = 1, **labels: str) -> dict[str, Any]:
    """A Job whose containers lock their GPUs in this folder of the machine."""
    locks.mkdir(exist_ok=True)
    job: dict[str, Any] = dict(users.job(name, pods=pods, gpus=gpus, **labels))
    spec = job["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "locks", "hostPath": {"path": str(locks)}}]
    spec["containers"][0] |= {
        "command": ["/bin/sh", "-c", LOCKS],
        "volumeMounts": [{"name": "locks", "mountPath": "/locks"}],
    }
    return job


async def runs(users: Users, name: str, locks: Path, pods: int = 1) -> Job:
    """Wait until the Job's pods run, with the GPUs that the log says, and no GPU has been given twice so far."""
    await users.until_pods(f"job-name={name}", f"{name} runs", _some_running(pods))
    job = await users.until_phase(name, "running")
    found = [pod for pod in users.pods(f"job-name={name}") if pod["status"].get("phase") == "Running"]
    kubelets = {node.name: PodResources(node.pod_resources) for node in users.cluster.real_nodes}
    word = {
        device
        for pod in found
        for device in kubelets[pod["spec"]["nodeName"]].devices_of(users.namespace, pod["metadata"]["name"])
    }
    assert allocated(users.watch, job.id) == word
    for pod in found:
        started = locks / f"started-{pod['metadata']['name']}"
        await users.watch.until(f"{started.name} is there", lambda _, file=started: file.exists())  # type: ignore[misc]
    assert not (locks / "twice").exists(), (locks / "twice").read_text()
    return job


def _some_running(count: int) -> Any:
    return lambda pods: all_running(count)([pod for pod in pods if pod["status"].get("phase") == "Running"])


URGENT = {names.PRIORITY_CLASS: "inference"}
