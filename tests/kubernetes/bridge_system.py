"""The bridge on a real API server and a real Kafka: Bailiff's services, agents for fake nodes and for a kubelet, bridges."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from tests.kits.kubernetes_cluster import Cluster
from tests.kits.system import POLICY, System, Watch

from bailiff_core.model.policy import Policy
from bailiff_core.model.state import Job, Node
from bailiff_core.placement.cluster_resources import usable_devices
from bailiff_devstack.ports import free_port
from bailiff_kubernetes import names
from bailiff_kubernetes.resources import is_gated
from bailiff_log.keys import existing_or_new_key, key_id

POOL, KUBELET_POOL, GANG_POOL = "pool-k", "pool-kubelet", "pool-kubelets"
MANIFESTS = Path(__file__).parents[2] / "deploy" / "kubernetes"
AGENT, BRIDGE = "node-agent-pods", "kubernetes-bridge"
PLACEMENT_TIMEOUT_S = 120
KUBELET_GRACE_S = 600
"""More than a kubelet of a busy machine takes to restart."""
JOBS = "bailiff"
"""The namespace of the pods that agents create."""
USER = "ada"
ARGO = "system:serviceaccount:argo:argo"


class BridgeSystem(System):
    """A pool whose machines are the cluster's fake nodes, and two of real kubelets: of the first one, and of both."""

    def __init__(self, folder: Path, *, cluster: Cluster) -> None:
        self.cluster = cluster
        self.key_file = folder / "kubernetes-bridge.key"
        folder.mkdir(parents=True, exist_ok=True)
        key = key_id(existing_or_new_key(self.key_file))
        data = POLICY.model_dump(mode="json")
        data["identity"] |= {"keys": {key: "kubernetes"}, "sign_ins": ["kubernetes"]}
        data["kubernetes"] = {"bridges": ["kubernetes"]}
        machines = {POOL: len(cluster.fake_nodes), KUBELET_POOL: 1, GANG_POOL: 2}
        super().__init__(folder, policy=Policy.model_validate(data, strict=False), pools=machines)
        self.services = ("admission", "victim-selection", "eviction-executor")

    def start(self) -> None:
        """Start everything, one bridge included."""
        self.cluster.kubectl("apply", "-f", str(MANIFESTS / "admission-policies.yaml"))
        self.cluster.kubectl("apply", "-f", "-", stdin='{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"bailiff"}}')
        self.cluster.kubectl("apply", "-f", str(MANIFESTS / "bridge-rbac.yaml"), "-f", str(MANIFESTS / "bailiff-jobs.yaml"))
        self.cluster.kubectl("apply", "-f", str(MANIFESTS / "eviction-responder.yaml"))
        self.start_kafka()
        self.start_services()
        self._start_agent()
        self.start_bridge()
        self.wait_ready()

    def _start_agent(self) -> None:
        node = {"pool": POOL, "gpus": "8xH100-80GB", "runtimes": ["process", "kubernetes"]}
        nodes = json.dumps([{"name": name, **node} for name in self.cluster.fake_nodes])
        access = json.dumps({"kubeconfig": str(self.cluster.kubeconfig), "namespace": JOBS})
        settings = {"BAILIFF_NODES": nodes, "BAILIFF_DURABLE": "false", "BAILIFF_KUBERNETES": access}
        self._start(AGENT, "tests.kits.pods_agent", settings, certified=True)

    def start_kubelet_agent(self, number: int = 1, pool: str = KUBELET_POOL, *, boot_id: str = "", **given: Any) -> None:
        """Start the agent of this kubelet, whose node joins the pool. boot_id: as if its machine had booted anew.

        given: further settings of the runtime, such as a kubeconfig with a way of its own to the API server.
        """
        node = self.cluster.node(number)
        declared = {
            "name": node.name,
            "pool": pool,
            "gpus": "kubernetes",
            "runtimes": ["process", "kubernetes"],
            "cpu_milli": 1000,
        }
        settings = {
            "kubeconfig": str(self.cluster.kubeconfig),
            "namespace": JOBS,
            "kubelet_dir": str(node.kubelet),
            "placement_timeout_s": PLACEMENT_TIMEOUT_S,
            "kubelet_grace_s": KUBELET_GRACE_S,
            **{name: str(value) if isinstance(value, Path) else value for name, value in given.items()},
        }
        env = {
            "BAILIFF_NODES": json.dumps([declared]),
            "BAILIFF_KUBERNETES": json.dumps(settings),
            "BAILIFF_DEVICE_POLL_S": "0.5",
            "BAILIFF_RELEASE_TIMEOUT_S": "20",
        }
        name = f"node-agent-{pool}-{number}"
        if boot_id:
            self._start(name, "bailiff_node_agent", env, certified=True, enter=self._as_another_boot(boot_id))
        else:
            self.stack.start_service("node-agent", replica=f"-{pool}-{number}", env=env)

    def _as_another_boot(self, boot_id: str) -> tuple[str, ...]:
        """Begins a command that sees this boot id, in a mount namespace of its own."""
        file = self.folder / "boot_id"
        file.write_text(f"{boot_id}\n")
        script = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
        return ("unshare", "--mount", "sh", "-c", script, str(file))

    def stop_kubelet_agent(self, number: int = 1, pool: str = KUBELET_POOL) -> None:
        """Stop the agent; the kubelet is then another test's."""
        self.stack.processes.stop(f"node-agent-{pool}-{number}")

    def kill_kubelet_agent(self) -> None:
        """`kill -9`. Its pods run on."""
        self.stack.processes.kill9(f"node-agent-{KUBELET_POOL}-1")

    def restart_kubelet_agent(self, **given: Any) -> None:
        """`kill -9`, and start again."""
        self.kill_kubelet_agent()
        self.start_kubelet_agent(**given)

    def log_of_kubelet_agent(self) -> str:
        """What the present process has logged."""
        return self.log_of(f"node-agent-{KUBELET_POOL}-1").rpartition('"event": "started"')[2]

    def start_bridge(self, replica: str = "", *, kubeconfig: Path | None = None) -> str:
        """Start a bridge (again). Does not wait until it is ready. kubeconfig: a way of its own to the API server."""
        settings = {
            "BAILIFF_KEY": str(self.key_file),
            "BAILIFF_CLUSTER": "offline",
            "BAILIFF_INSTANCE": BRIDGE + replica,
            "BAILIFF_STATE_DIR": str(self.folder / f"bridge{replica}"),
            "BAILIFF_KUBERNETES_CONTROLLERS": json.dumps([ARGO]),
            "BAILIFF_KUBECONFIG": str(kubeconfig or self.bridge_kubeconfig()),
        }
        self._start(BRIDGE + replica, "bailiff_kubernetes_bridge", settings)
        return BRIDGE + replica

    def bridge_kubeconfig(self) -> Path:
        """With the rights of bridge-rbac.yaml and no others."""
        path = self.folder / "bridge.kubeconfig"
        if not path.exists():
            self.cluster.kubeconfig_of("bailiff-kubernetes-bridge", "bailiff", path)
        return path

    def _start(
        self, name: str, module: str, settings: Mapping[str, str], *, certified: bool = False, enter: Sequence[str] = ()
    ) -> None:
        port = self._rivals.setdefault(name, free_port())
        env = {
            **self.stack.environment(name, port),
            **self.stack.plan.env,
            "BAILIFF_KUBECONFIG": str(self.cluster.kubeconfig),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            **settings,
        }
        if certified:
            self.stack.certify(name, env)
        url = f"http://127.0.0.1:{port}/readyz"
        self.stack.processes.start(name, [*enter, sys.executable, "-m", module], env=env, ready_url=url)

    def restart_bridge(self, replica: str = "") -> None:
        """`kill -9`, and start again."""
        self.stack.processes.kill9(BRIDGE + replica)
        self.start_bridge(replica)


class Users:
    """A user of one namespace, with kubectl."""

    def __init__(self, cluster: Cluster, namespace: str, watch: Watch) -> None:
        self.cluster, self.namespace, self.watch = cluster, namespace, watch
        self._kinds = ["cronjobs", "deployments", "statefulsets", "replicasets", "jobs", "pods"]
        binding = ["create", "rolebinding", USER, f"--user={USER}", "--clusterrole=edit", "-n", namespace]
        cluster.kubectl(*binding)

    def may_use(self, *plurals: str) -> None:
        """Give the user every right in the namespace, as on objects of these kinds, which `edit` does not know."""
        self._kinds = [*plurals, *self._kinds]
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "all"}, "rules": rules}
        self.cluster.kubectl("apply", "-n", self.namespace, "-f", "-", stdin=json.dumps(role))
        self.cluster.kubectl("create", "rolebinding", "all", "--role=all", f"--user={USER}", "-n", self.namespace)

    def delete_everything(self) -> None:
        """Delete the namespace's workloads and pods."""
        self.cluster.kubectl("delete", ",".join(self._kinds), "--all", "-n", self.namespace, "--wait=false")

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """As the user."""
        return self.cluster.kubectl("--as", USER, "-n", self.namespace, *arguments, stdin=stdin)

    def refused(self, *arguments: str) -> str:
        """What kubectl answers to something that the user may not do."""
        try:
            self.kubectl(*arguments)
        except AssertionError as error:
            return str(error)
        raise AssertionError(f"the server allowed it: kubectl {' '.join(arguments)}")

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create or change these objects."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([dict(each) for each in objects]))

    def job(
        self,
        name: str,
        pods: int,
        gpus: int,
        *,
        annotations: Mapping[str, str] | None = None,
        pod: Mapping[str, str] | None = None,
        **labels: str,
    ) -> Mapping[str, Any]:
        """A Job with Bailiff's label. pod: annotations of its pods, which say how a fake node plays them."""
        limits = {"nvidia.com/gpu": gpus}
        container = {
            "name": "main",
            "image": "localhost/busybox:1",
            "command": ["/bin/sh", "-c", "trap 'exit 143' TERM; sleep 3000 & wait"],
            "resources": {"requests": {"cpu": "10m"}, "limits": limits},
        }
        spec = {"restartPolicy": "Never", "containers": [container]}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": {names.POOL: self.watch.pool, **labels}, "annotations": dict(annotations or {})},
            "spec": {
                "parallelism": pods,
                "completions": pods,
                "completionMode": "Indexed",
                "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
                "template": {"metadata": {"annotations": dict(pod or {})}, "spec": spec},
            },
        }

    def pods(self, selector: str) -> list[dict[str, Any]]:
        """The pods, by name."""
        return self.cluster.get("pods", "-n", self.namespace, "-l", selector)["items"]

    async def until_pods(
        self, selector: str, what: str, condition: Callable[[list[dict[str, Any]]], bool]
    ) -> list[dict[str, Any]]:
        """Wait until the condition holds on the pods."""
        found: list[dict[str, Any]] = []

        async def holds() -> bool:
            found[:] = self.pods(selector)
            return condition(found)

        try:
            await self.watch.until_true(what, holds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{json.dumps([pod['status'] for pod in found], indent=1)[:3000]}") from None
        return list(found)

    async def until_status(self, kind: str, name: str, begins: str) -> dict[str, Any]:
        """Wait until what the bridge has written to the workload begins so. Returns the workload."""
        found: dict[str, Any] = {}

        async def says() -> bool:
            found.update(self.cluster.get(kind, name, "-n", self.namespace))
            return str(found["metadata"].get("annotations", {}).get("bailiff.io/status", "")).startswith(begins)

        await self.watch.until_true(f"its status is {begins}", says)
        return found

    def of(self, name: str) -> Job:
        """The newest job of the workload in Bailiff."""
        found = [
            job
            for job in self.watch.state.jobs.values()
            if (job.demand.labels.get("kubernetes/namespace"), job.demand.labels.get("kubernetes/name")) == (self.namespace, name)
        ]
        return max(found, key=lambda job: job.seq)

    async def until_phase(self, name: str, *phases: str) -> Job:
        """Wait until the workload's job is in one of these phases."""

        def reached(_: object) -> bool:
            try:
                return self.of(name).phase in phases
            except ValueError:
                return False

        await self.watch.until(f"{name} is {' or '.join(phases)}", reached)
        return self.of(name)


def clear_gpus(node: Node) -> int:
    """How many GPUs of the node a job could use now, or once others have ended."""
    return usable_devices(node).bit_count() if node.schedulable else 0


def all_running(count: int) -> Callable[[list[dict[str, Any]]], bool]:
    """Whether so many pods run, and no others are there."""
    return lambda pods: len(pods) == count and all(pod["status"].get("phase") == "Running" for pod in pods)


def attempts_of(pods: list[dict[str, Any]]) -> set[int]:
    """The attempts of their job that these pods are. It has several pods: they are of one attempt, or they are no gang."""
    return {int(pod["metadata"]["annotations"][names.TASK].rsplit("-", 2)[1]) for pod in pods}


__all__ = [
    "ARGO",
    "GANG_POOL",
    "JOBS",
    "KUBELET_POOL",
    "POOL",
    "USER",
    "BridgeSystem",
    "Users",
    "all_running",
    "attempts_of",
    "clear_gpus",
    "is_gated",
]
