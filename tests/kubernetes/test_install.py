"""`helm install` on a cluster of its own, with the project's image: a preemption and its proof, an upgrade, an uninstall.

Kafka and PostgreSQL are the devstack's. Pods use the node's network, because the cluster has no DNS and no Services.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kits import host_image
from tests.kits.helm import CHART, NAMESPACE, RELEASE, ROOT, helm, helm_program
from tests.kits.kubernetes_cluster import Cluster, RealNode, busybox, is_built, tool_path
from tests.kits.kubernetes_neighbours import settle_in

from bailiff_devstack.kafka import EmbeddedKafka
from bailiff_devstack.postgres import EmbeddedPostgres

pytestmark = [pytest.mark.kubernetes, pytest.mark.long, pytest.mark.timeout(1500)]

IMAGE = "bailiff:test-install"
PATIENCE_S = 5 * float(os.environ.get("BAILIFF_TEST_PATIENCE_S", "60"))  # images start, and logs are read, on a busy machine
NODE, GPUS = "127.0.0.1", 8
PLAYED, TAINT = "fake-1", "virtual-kubelet.io/provider"
SERVICES = (
    *("admission", "victim-selection", "eviction-executor", "auditor", "api", "rollup", "console", "witness"),
    "kubernetes-bridge",
)
JOB_IMAGE = "localhost/busybox:1"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's image as a file: `BAILIFF_TEST_IMAGE`, built with a Docker engine, or else of what is on this machine."""
    given = os.environ.get("BAILIFF_TEST_IMAGE")
    if given:
        return Path(given)
    file = tmp_path_factory.mktemp("image") / "image.tar"
    if shutil.which("docker") is None or subprocess.run(["docker", "version"], capture_output=True, check=False).returncode:
        host_image.build(file, IMAGE, busybox())
        return file
    build = ["docker", "build", "-q", "-t", IMAGE, "-f", "deploy/images/Dockerfile", "."]
    plain = {**os.environ, "DOCKER_BUILDKIT": "0"}  # needs no plugin
    subprocess.run(build, cwd=ROOT, env=plain, check=True, capture_output=True, timeout=900)
    subprocess.run(["docker", "save", IMAGE, "-o", str(file)], check=True, timeout=300)
    subprocess.run(["docker", "rmi", IMAGE], check=True, capture_output=True)
    return file


@pytest.fixture(scope="module")
def cluster(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One kubelet with eight GPUs, and the image; and a node that kwok plays."""
    helm_program()
    tool = tool_path()
    if tool is None or not is_built(tool):
        pytest.skip("no Kubernetes: the program offline-kubernetes is missing or not built")
    if os.geteuid() != 0:
        pytest.skip("a kubelet needs root")
    folder = Path(f"/tmp/bi-{os.getpid()}")
    try:
        done = subprocess.run(
            [str(tool), "up", str(folder), "--fake", "1", "--real", "1", "--gpus", str(GPUS)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=400,
        )
        programs = Path(done.stdout.split("export PATH=")[1].split(":")[0])
        settle_in(folder, 1)
        subprocess.run([str(tool), "load", str(folder), str(image)], check=True, timeout=300)
        found = Cluster(folder / "kubeconfig", folder, programs, (RealNode(NODE, folder / "n1", programs),), (PLAYED,))
        found.kubectl("taint", "node", PLAYED, f"{TAINT}=kwok:NoSchedule")  # its pods are only played
        yield found
    finally:
        subprocess.run([str(tool), "down", str(folder)], stdout=subprocess.DEVNULL, check=False)
        subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], check=False)


@pytest.fixture(scope="module")
def kafka_and_postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("backends")
    with EmbeddedKafka() as kafka, EmbeddedPostgres(folder) as postgres:
        yield kafka.bootstrap, postgres.dsn


@dataclass(frozen=True)
class Installed:
    """The release, as an administrator sees it."""

    cluster: Cluster
    values: Path

    def helm(self, *arguments: str) -> str:
        done = helm(*arguments, "--namespace", NAMESPACE, environment={"KUBECONFIG": str(self.cluster.kubeconfig)})
        assert done.returncode == 0, done.stderr
        return done.stdout

    def bailiff(self, *arguments: str) -> str:
        """The command in the toolbox, as the operator."""
        program = str(self.cluster.programs / "kubectl") if self.cluster.programs else "kubectl"
        toolbox = ("exec", "-n", NAMESPACE, f"deploy/{RELEASE}-toolbox", "--", "bailiff", *arguments)
        done = subprocess.run(
            [program, "--kubeconfig", str(self.cluster.kubeconfig), *toolbox],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, f"bailiff {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def bailiff_json(self, *arguments: str) -> Any:
        return json.loads(self.bailiff(*arguments, "-o", "json"))

    def rolled_out(self) -> None:
        """Wait until every workload of the newest revision is ready."""
        for service in SERVICES:
            self._rollout(NAMESPACE, f"statefulset/{RELEASE}-{service}")
        self._rollout(NAMESPACE, f"deployment/{RELEASE}-toolbox")

    def agents_rolled_out(self) -> None:
        self._rollout("bailiff-agents", f"daemonset/{RELEASE}-node-agent")

    def _rollout(self, namespace: str, workload: str) -> None:
        def ready() -> bool:
            answer = self.cluster.kubectl("rollout", "status", "-n", namespace, workload, "--watch=false")
            return "successfully rolled out" in answer or "roll out complete" in answer or "rolling update complete" in answer

        eventually(ready, f"{workload} is ready", lambda: self.report())

    def report(self) -> str:
        """What is not ready, for a failed test."""
        return self.cluster.kubectl("get", "pods", "-A", "-o", "wide") + self.cluster.kubectl("get", "events", "-A")[-3000:]


def eventually(holds: Callable[[], Any], what: str, report: Callable[[], str] = str) -> Any:
    """The first true value."""
    end = time.monotonic() + PATIENCE_S
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > end:
            pytest.fail(f"not within {PATIENCE_S} s: {what}\n{report()}")
        time.sleep(0.5)


@pytest.fixture(scope="module")
def installed(cluster: Cluster, kafka_and_postgresql: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """`helm install`, with every service ready and the node enrolled, as docs/how-to/install-kubernetes.md says."""
    bootstrap, dsn = kafka_and_postgresql
    server = cluster.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
    assert cluster.folder is not None
    values = {
        "image": {"repository": IMAGE.split(":")[0], "tag": IMAGE.split(":")[1]},
        "kafka": {"bootstrap": bootstrap},
        "hostNetwork": True,
        "apiServer": {"host": "127.0.0.1", "port": int(server.rsplit(":", 1)[1])},
        "persistence": {"enabled": False},
        "toolbox": {"resources": {"requests": {"cpu": "500m"}}},
        "console": {"env": {"BAILIFF_API": "http://127.0.0.1:8620"}},
        "agents": {
            "nodeSelector": {"nvidia.com/gpu.present": None, "kubernetes.io/hostname": NODE},
            "kubeletRoot": str(cluster.node().kubelet),
            "stateDir": str(cluster.folder / "bailiff"),
        },
        **{name: {"replicas": 1} for name in ("admission", "victimSelection", "evictionExecutor", "bridge")},
    }
    file = tmp_path_factory.mktemp("values") / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    release = Installed(cluster, file)
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("create", "secret", "generic", "bailiff-postgresql", "-n", NAMESPACE, f"--from-literal=uri={dsn}")
    release.helm("install", RELEASE, str(CHART), "-f", str(file))
    release.rolled_out()
    _approve(release, NODE)
    release.agents_rolled_out()
    # A job with an image gets the runtime of the nodes that have joined, so the node comes first.
    eventually(lambda: [node["state"] for node in release.bailiff_json("nodes")] == ["ready"], "the node joins", release.report)
    return release


def _approve(installed: Installed, node: str) -> None:
    """Enrol the node with the key in `… waits to be enrolled with the key KEY; …`."""
    waits = f"{node} waits to be enrolled with the key "

    def shown() -> str:
        found = " ".join(installed.bailiff("nodes").split())
        return found if waits in found else ""

    text = eventually(shown, f"{node} asks to be enrolled", installed.report)
    installed.bailiff("node", "approve", node, text.split(waits)[1].split(";")[0])


def _state(installed: Installed, job: str) -> str:
    return str(installed.bailiff_json("describe", job)["summary"]["state"])


def _submit(installed: Installed, name: str, gpus: int, *options: str, seconds: int = 3600) -> None:
    installed.bailiff("submit", "--name", name, "--image", JOB_IMAGE, "--gpus", str(gpus), *options, "--", "sleep", str(seconds))


def _job_pods(installed: Installed) -> list[str]:
    """Names of jobs whose pods run."""
    pods = installed.cluster.get("pods", "-n", "bailiff-jobs")["items"]
    return sorted(pod["metadata"]["annotations"]["bailiff.io/job"] for pod in pods if pod["status"]["phase"] == "Running")


def test_a_preemption_on_eight_gpus_and_its_proof(installed: Installed) -> None:
    _submit(installed, "train", 1, "--array", "8")
    eventually(lambda: len(_job_pods(installed)) == 8, "eight training jobs run as pods", installed.report)

    _submit(installed, "serve-1", 4, "--class", "inference", seconds=5)

    eventually(lambda: "serve-1" in _job_pods(installed), "the urgent job runs", installed.report)
    victims = [job["job"] for job in installed.bailiff_json("list") if job["job"].startswith("train") and job["evictions"]]
    assert len(victims) == 4
    assert "serve-1" in installed.bailiff("explain", victims[0])
    eventually(lambda: _state(installed, "serve-1") == "succeeded", "the urgent job ends", installed.report)
    eventually(lambda: len(_job_pods(installed)) == 8, "the victims run again", installed.report)
    installed.bailiff("audit", "verify")
    installed.bailiff("audit", "replay")


def test_a_user_asks_with_a_kubeconfig_and_no_exec(installed: Installed, tmp_path: Path) -> None:
    """By the Role `bailiff-reader`, through a port that kubectl forwards to the HTTP API."""
    cluster, reader = installed.cluster, f"{RELEASE}-reader"
    cluster.kubectl("create", "serviceaccount", "lead", "-n", "default")
    cluster.kubectl("create", "rolebinding", "lead", f"--role={reader}", "--serviceaccount=default:lead", "-n", NAMESPACE)
    config = cluster.kubeconfig_of("lead", "default", tmp_path / "kubeconfig")
    refused = asked(cluster, config, "kubectl", "exec", "-n", NAMESPACE, f"{RELEASE}-api-0", "--", "true")
    assert 'cannot create resource "pods/exec"' in refused.stderr
    file = tmp_path / "job.yaml"
    file.write_text("name: one-more\ngpus: 8\nclass: inference\nimage: x\ncommand: ['true']\n")
    program = str(Path(sys.executable).with_name("kubectl-bailiff"))
    planned = asked(cluster, config, program, "plan", str(file), "--pool", "pool-a")
    assert planned.returncode == 0, planned.stderr
    assert "one-more" in planned.stdout


def asked(cluster: Cluster, config: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    """With this kubeconfig, and nothing that says where Kafka is."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BAILIFF_")}
    environment |= {"KUBECONFIG": str(config), "PATH": f"{cluster.programs}:{environment['PATH']}"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S, env=environment)


def test_an_upgrade_replaces_services_and_agents_while_jobs_run(installed: Installed) -> None:
    before = {pod["metadata"]["uid"] for pod in installed.cluster.get("pods", "-n", "bailiff-jobs")["items"]}
    services = {pod["metadata"]["uid"] for pod in installed.cluster.get("pods", "-n", NAMESPACE)["items"]}

    changed = [f"--set={name}.env.BAILIFF_LOG_LEVEL=warning" for name in ("admission", "victimSelection", "agents", "bridge")]
    installed.helm("upgrade", RELEASE, str(CHART), "-f", str(installed.values), *changed)
    installed.rolled_out()
    installed.agents_rolled_out()

    assert before <= {pod["metadata"]["uid"] for pod in installed.cluster.get("pods", "-n", "bailiff-jobs")["items"]}
    assert services != {pod["metadata"]["uid"] for pod in installed.cluster.get("pods", "-n", NAMESPACE)["items"]}
    assert installed.bailiff_json("nodes")[0]["state"] == "ready"
    installed.bailiff("audit", "verify")


def test_an_agent_for_other_nodes_is_added_beside_the_daemon_set(installed: Installed) -> None:
    """The other node is one that kwok plays: nothing runs on it, and its agent has only the API server's word."""
    values = {
        "agents": {
            "apiOnly": {
                "enabled": True,
                "selector": {"offline-kubernetes/node": "fake"},
                "env": {"BAILIFF_KUBERNETES__TOLERATED_TAINTS": json.dumps(["nvidia.com/gpu", TAINT])},
            }
        }
    }
    file = installed.values.with_name("api-only.yaml")
    file.write_text(yaml.safe_dump(values))
    installed.helm("upgrade", RELEASE, str(CHART), "-f", str(installed.values), "-f", str(file))
    _approve(installed, PLAYED)
    ready = [(NODE, "ready"), (PLAYED, "ready")]
    eventually(
        lambda: sorted((node["node"], node["state"]) for node in installed.bailiff_json("nodes")) == ready,
        "both nodes are ready",
        installed.report,
    )

    _submit(installed, "elsewhere", GPUS)
    eventually(lambda: "elsewhere" in _job_pods(installed), "a job runs on the other node", installed.report)
    installed.bailiff("cancel", "elsewhere")
    eventually(lambda: _state(installed, "elsewhere") == "cancelled", "its pod has ended", installed.report)
    installed.bailiff("audit", "verify")
    installed.bailiff("audit", "replay")


def test_an_uninstall_leaves_no_finalizer_behind(installed: Installed) -> None:
    assert _job_pods(installed)

    installed.helm("uninstall", RELEASE, "--wait", "--timeout", "5m")

    for pod in installed.cluster.get("pods", "-A")["items"]:
        assert "bailiff.io/release-proof" not in pod["metadata"].get("finalizers", [])
    installed.cluster.kubectl("delete", "namespace", "bailiff-jobs", "bailiff-agents", NAMESPACE, "--timeout=120s")
    left = "clusterroles,clusterrolebindings,validatingadmissionpolicies,mutatingadmissionpolicies"
    assert "bailiff" not in installed.cluster.kubectl("get", left, "-o", "name")


def test_kubectl_apply_with_kustomize_does_the_same(installed: Installed) -> None:
    """Every object is accepted, and every pod admitted. None is ready: there is no Kafka at the address that the folder names."""
    kubectl, folder = installed.cluster.kubectl, str(ROOT / "deploy/kustomize")
    kubectl("apply", "-k", folder)

    def all_are_created() -> bool:
        pods = [pod["metadata"]["name"] for pod in installed.cluster.get("pods", "-n", NAMESPACE)["items"]]
        return all(any(pod.startswith(f"{RELEASE}-{name}-") for pod in pods) for name in (*SERVICES, "toolbox", "setup"))

    eventually(all_are_created, "every workload has a pod", installed.report)
    kubectl("delete", "-k", folder, "--timeout=120s")
