"""A cluster of nodes that kwok plays, started for a bench by the program that `BAILIFF_TEST_KUBERNETES` names."""

import contextlib
import json
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.kits.kubernetes_cluster import tool_that_is_built

from bailiff_kubernetes.resources import Object

from .system import processor_s

PATIENCE_S = 900.0
UNLIMITED = {"SCHEDULER_ARGS": "--kube-api-qps=5000 --kube-api-burst=5000"}
"""By itself kube-scheduler makes 50 requests/s at most: the bench would measure that limit."""
_COUNTER = re.compile(r"^apiserver_request_total\{(.*?)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="(.*?)"')


@dataclass
class FakeCluster:
    """The cluster, and what its API server counted. folder: of its state."""

    folder: Path
    kubeconfig: Path
    programs: Path
    nodes: int

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        command = [str(self.programs / "kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, input=stdin).stdout

    def add_nodes(self) -> None:
        """As many as are missing; the program that starts a cluster waits a minute for them, which very many need longer than."""
        [first] = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        kept = {name: first["metadata"][name] for name in ("annotations", "labels")}
        counts = {name: first["status"][name] for name in ("capacity", "allocatable")}
        names = [f"fake-{number}" for number in range(2, self.nodes + 1)]
        items = [{"apiVersion": "v1", "kind": "Node", "metadata": kept | {"name": name}, "status": counts} for name in names]
        self.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        self.kubectl("wait", "--for=condition=Ready", "nodes", "--all", f"--timeout={PATIENCE_S:.0f}s")

    def install_policies(self, manifests: Path, pod: Object, namespace: str) -> None:
        """Admission policies that gate such a pod. Waits until they do, and all that the first one needs is prepared."""
        self.kubectl("apply", "-f", str(manifests))
        until, answer = time.monotonic() + PATIENCE_S, ""
        while time.monotonic() < until:
            try:
                created = self.kubectl(
                    "create", "-n", namespace, "-f", "-", "--dry-run=server", "-o", "json", stdin=json.dumps(pod)
                )
            except subprocess.CalledProcessError as error:  # the first ones end while the API server prepares
                answer = error.stderr
                continue
            if json.loads(created)["spec"].get("schedulingGates"):
                return
        raise TimeoutError(f"the admission policies have no effect; {answer}")

    def requests(self) -> Counter[str]:
        """Requests that the API server has answered so far, by method and resource, without those that make a watch last.

        Nor those of Leases, which every node renews whatever else happens.
        """
        found: Counter[str] = Counter()
        for labels, count in _COUNTER.findall(self.kubectl("get", "--raw", "/metrics")):
            by = dict(_LABEL.findall(labels))
            if by["verb"] != "WATCH" and by["resource"] != "leases":
                found["/".join(filter(None, (f"{by['verb']} {by['resource']}", by["subresource"])))] += int(float(count))
        return found

    def processor_s(self) -> dict[str, float]:
        """Processor time of each program of the cluster so far."""
        return {file.name: processor_s(int(file.read_text().split()[0])) for file in (self.folder / "pids").iterdir()}


@contextlib.contextmanager
def fake_cluster(folder: Path, nodes: int, gpus: int) -> Iterator[FakeCluster]:
    tool = tool_that_is_built()
    if tool is None:
        raise SystemExit("no Kubernetes is built here: BAILIFF_TEST_KUBERNETES names the program that builds and starts one")
    try:
        up = [str(tool), "up", str(folder), "--fake", "1", "--real", "0", "--gpus", str(gpus)]
        text = subprocess.run(up, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | UNLIMITED).stdout
        exports = dict(line.removeprefix("export ").split("=", 1) for line in text.splitlines() if line.startswith("export "))
        cluster = FakeCluster(folder, Path(exports["KUBECONFIG"]), Path(exports["PATH"].split(":")[0]), nodes)
        cluster.add_nodes()
        yield cluster
    finally:
        subprocess.run([str(tool), "down", str(folder)], stdout=subprocess.DEVNULL, check=False)
