"""A real Kubernetes for tests marked `kubernetes`, or the reason why they are skipped.

`BAILIFF_TEST_KUBERNETES` names the program `offline-kubernetes`, which starts a cluster on this machine: two real kubelets with
containerd, whose GPUs do not exist, and three nodes that kwok plays. Without it, the program is looked for beside the repository.
`BAILIFF_TEST_KUBERNETES_DIR` keeps the cluster in a folder from one run to the next. Where the program is missing or not built,
`KUBECONFIG` names a cluster; tests that reach into a kubelet's folder are then skipped.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kits.kubernetes_neighbours import settle_in

from bailiff_kubernetes import Api, Conflict, NotFound
from bailiff_kubernetes.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS

ROOT = Path(__file__).parents[2]
BESIDE = "shared/tools/offline-kubernetes"
REAL, FAKE, GPUS = 2, 3, 8
IMAGE = "localhost/busybox:1"
PATIENCE_S = max(120.0, float(os.environ.get("BAILIFF_TEST_PATIENCE_S", "0")))  # pods start slowly on a busy machine


@dataclass(frozen=True)
class RealNode:
    """A kubelet with its containerd on this machine."""

    name: str
    folder: Path
    programs: Path

    @property
    def kubelet(self) -> Path:
        """The kubelet's root directory, as seen from outside of its mount namespace."""
        return self.folder / "kubelet"

    @property
    def pod_resources(self) -> Path:
        """The socket of the pod-resources API."""
        return self.kubelet / "pod-resources" / "kubelet.sock"

    @property
    def broken_gpus(self) -> Path:
        """The file that names unhealthy GPUs, one a line."""
        return self.folder / "broken-gpus"

    @property
    def containerd(self) -> str:
        """The address of its containerd."""
        return str(self.folder / "cri.sock")


@dataclass
class Cluster:
    """The shared cluster. Namespaces and objects outlive the test: use `kubernetes_namespace`, and end every pod."""

    kubeconfig: Path
    folder: Path | None = None
    programs: Path | None = None
    real_nodes: tuple[RealNode, ...] = ()
    fake_nodes: tuple[str, ...] = ()

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as an administrator; returns its output."""
        program = "kubectl" if self.programs is None else str(self.programs / "kubectl")
        command = [program, "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, input=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """`kubectl get … -o json`."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def kubeconfig_of(self, account: str, namespace: str, path: Path) -> Path:
        """Written to this path: a kubeconfig of a service account, with its rights and no others."""
        token = self.kubectl("create", "token", account, "-n", namespace, "--duration=2h").strip()
        config = yaml.safe_load(self.kubeconfig.read_text())
        config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
        path.write_text(yaml.safe_dump(config))
        return path

    def node(self, number: int = 1) -> RealNode:
        """A real node, from 1. Skips the test where there is none."""
        if len(self.real_nodes) < number:
            pytest.skip(f"the cluster has {len(self.real_nodes)} kubelets on this machine, {number} are needed")
        return self.real_nodes[number - 1]

    def pid(self, program: str) -> int:
        """The pid of one of the cluster's programs: `apiserver`, `scheduler`, `controllers`, `kubelet-1`, …"""
        if self.folder is None:
            pytest.skip("the cluster's programs are not this machine's")
        return int((self.folder / "pids" / program).read_text().split()[0])

    def compact(self) -> None:
        """Have etcd forget every older version: a watch that would continue from one ends with 410."""
        arguments = Path(f"/proc/{self.pid('etcd')}/cmdline").read_text().split("\0")
        etcd = arguments[arguments.index("--listen-client-urls") + 1]
        revision = post(f"{etcd}/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        post(f"{etcd}/v3/kv/compaction", {"revision": revision, "physical": True})

    @contextlib.contextmanager
    def paused(self, *programs: str) -> Iterator[None]:
        """Stop these programs with SIGSTOP, and continue them after the block."""
        pids = [self.pid(program) for program in programs]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def stopped_kubelet(self, number: int = 1) -> Iterator[None]:
        """End a kubelet, and start it again after the block, with its device plugin, which registers with every new one."""
        kubelet, plugin = f"kubelet-{number}", f"gpus-{number}"
        commands = {program: self._end(program) for program in (plugin, kubelet)}
        try:
            yield
        finally:
            containerd = str(self.pid(f"containerd-{number}"))
            self._start(kubelet, ["nsenter", "--target", containerd, "--mount", "--", *commands[kubelet]])
            registry = self.node(number).folder / "devices" / "kubelet.sock"
            wait_for(lambda: accepts(registry), "the kubelet listens for device plugins")
            self._start(plugin, commands[plugin])

    def _end(self, program: str) -> list[str]:
        """Returns the command that it was."""
        pid = self.pid(program)
        command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: began(pid) is None, f"{program} ends")
        return command

    def _start(self, program: str, command: Sequence[str]) -> None:
        """As the cluster's program does: in a session of its own, with its pid on file, so that `down` ends it."""
        assert self.folder is not None
        pids, new = self.folder / "pids" / program, self.folder / f"{program}.pid"
        new.unlink(missing_ok=True)
        script = 'echo $$ >"$0.new" && mv "$0.new" "$0" && exec "$@"'
        with (self.folder / "logs" / f"{program}.log").open("ab") as log:
            detached = ["setsid", "--fork", "sh", "-c", script, str(new), *command]
            subprocess.run(detached, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=True)
        wait_for(new.exists, f"{program} starts")
        pid = int(new.read_text())
        pids.write_text(f"{pid} {began(pid)}\n")


def wait_for(holds: Callable[[], bool], what: str) -> None:
    """Until it holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def accepts(unix_socket: Path) -> bool:
    """Whether a program listens on this socket."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(unix_socket)) == 0


def began(pid: int) -> str | None:
    """When the process began, as the cluster's program keeps it with the pid; None once it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split(" ")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else fields[19]


def post(url: str, body: object) -> Any:
    """POST as JSON to one of the cluster's own programs."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@pytest.fixture(scope="session")
def kubernetes() -> Iterator[Cluster]:
    """One cluster for all tests."""
    tool = tool_path()
    if tool is not None and is_built(tool):
        with _started(tool) as started:
            yield started
    elif os.environ.get("KUBECONFIG"):
        yield Cluster(Path(os.environ["KUBECONFIG"]))
    elif tool is None:
        pytest.skip("no Kubernetes: BAILIFF_TEST_KUBERNETES names no program, and KUBECONFIG no cluster")
    else:
        pytest.skip(f"no Kubernetes: run `{tool} build` first (11 minutes)")


@pytest.fixture
async def kubernetes_api(kubernetes: Cluster) -> AsyncIterator[Api]:
    """A connection as an administrator."""
    async with await Api.connect(kubernetes.kubeconfig) as connection:
        yield connection


@pytest.fixture
async def kubernetes_namespace(kubernetes_api: Api) -> AsyncIterator[str]:
    """A namespace of the test's own; its pods are ended with the test, whatever their finalizers."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    await kubernetes_api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    async with asyncio.timeout(PATIENCE_S):
        while await kubernetes_api.find(SERVICE_ACCOUNTS, "default", name) is None:  # noqa: ASYNC110 - a controller makes it
            await asyncio.sleep(0.05)
    yield name
    async with asyncio.timeout(PATIENCE_S):
        while pods := (await kubernetes_api.list(PODS, name)).items:
            for pod in pods:
                await _end_pod(kubernetes_api, name, pod["metadata"])
            await asyncio.sleep(0.1)
    await kubernetes_api.delete(NAMESPACES, name)


async def _end_pod(api: Api, namespace: str, metadata: dict[str, Any]) -> None:
    with contextlib.suppress(NotFound, Conflict):  # it may have gone or changed meanwhile
        if metadata.get("finalizers"):
            await api.patch(PODS, metadata["name"], {"metadata": {"finalizers": None}}, namespace)
        if not metadata.get("deletionTimestamp") or metadata.get("deletionGracePeriodSeconds", 0) > 1:
            await api.delete(PODS, metadata["name"], namespace, grace_s=1)


def tool_that_is_built() -> Path | None:
    """The program that starts a cluster at once; None where it is missing, or has to be built first."""
    tool = tool_path()
    return tool if tool is not None and is_built(tool) else None


def tool_path() -> Path | None:
    """The program offline-kubernetes."""
    named = os.environ.get("BAILIFF_TEST_KUBERNETES")
    if named:
        return Path(named)
    return next((path for parent in ROOT.parents if (path := parent / BESIDE).exists()), None)


def is_built(tool: Path) -> bool:
    """Asks without building: `build` with WAIT=0 would start one."""
    programs = _state().glob("programs-*")
    return any((folder / "kubernetes").exists() and not folder.name.endswith(".new") for folder in programs)


def busybox() -> Path:
    """The static busybox that the cluster's own image is made of."""
    return _state() / "busybox" / "bin" / "busybox"


def _state() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "offline-kubernetes"


@contextlib.contextmanager
def _started(tool: Path) -> Iterator[Cluster]:
    kept = os.environ.get("BAILIFF_TEST_KUBERNETES_DIR")
    with contextlib.ExitStack() as stack:
        folder = Path(kept or stack.enter_context(tempfile.TemporaryDirectory(prefix="bk-", ignore_cleanup_errors=True)))
        real = REAL if os.geteuid() == 0 else 0
        up = [str(tool), "up", str(folder), "--fake", str(FAKE), "--real", str(real), "--gpus", str(GPUS)]
        if not kept:
            stack.callback(subprocess.run, [str(tool), "down", str(folder)], stdout=subprocess.DEVNULL, check=False)
        gates = {"APISERVER_ARGS": "--feature-gates=EvictionRequestAPI=true --runtime-config=lifecycle.k8s.io/v1alpha1=true"}
        done = subprocess.run(up, stdout=subprocess.PIPE, text=True, timeout=400, check=True, env={**os.environ, **gates})
        exports = dict(
            line.removeprefix("export ").split("=", 1) for line in done.stdout.splitlines() if line.startswith("export ")
        )
        programs = Path(exports["PATH"].split(":")[0])
        settle_in(folder, real)
        nodes = tuple(RealNode(f"127.0.0.{n}", folder / f"n{n}", programs) for n in range(1, real + 1))
        fakes = tuple(f"fake-{n}" for n in range(1, FAKE + 1))
        yield Cluster(Path(exports["KUBECONFIG"]), folder, programs, nodes, fakes)
