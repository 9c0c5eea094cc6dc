"""The chart's NetworkPolicies on a network that enforces them: what they do not permit is dropped, and what they permit passes.

Each pod of the chart is played by a container with its labels and its ports, which listens on them; Kafka, PostgreSQL, Prometheus
and a stranger are pods in namespaces of their own. The policies are enforced by Kubernetes SIG Network's controller, unmodified.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kits.go_programs import builds, built, go
from tests.kits.helm import Object, containers, of_kind, pod_templates, rendered
from tests.kits.kubernetes_cluster import IMAGE, Cluster, wait_for

from bailiff_devstack.ports import free_port

pytestmark = [builds, pytest.mark.kubernetes]

CONTROLLER = "sigs.k8s.io/kube-network-policies@v0.8.0"
QUEUE = 100
KAFKA, ARCHIVE, HTTPS = 9092, 5432, 443
OUTSIDE = {"kafka": (KAFKA, 22), "archive": (ARCHIVE,), "prometheus": (), "world": (HTTPS, KAFKA)}
"""Pods that are not the chart's, each in a namespace of its own, and where they listen."""
CONNECTIONS = {
    "kafka": ("kafka", KAFKA),
    "another port of Kafka": ("kafka", 22),
    "archive": ("archive", ARCHIVE),
    "api": ("api", "http"),
    "console": ("console", "http"),
    "metrics": ("admission", "metrics"),
    "HTTPS": ("world", HTTPS),
    "another Kafka": ("world", KAFKA),
}
PERMITTED = {
    "admission": {"kafka"},
    "victim-selection": {"kafka"},
    "eviction-executor": {"kafka"},
    "rollup": {"kafka"},
    "auditor": {"kafka", "archive"},
    "api": {"archive"},
    "console": {"kafka", "api"},
    "prometheus": {"metrics"},
    "world": set[str](),
}
"""What a pod may connect to, of these; those outside have no policy, so theirs is what the chart's pods accept."""
PROBE = 'for at in "$@"; do (echo | nc -w 3 "${at%:*}" "${at#*:}" > /dev/null && echo "$at") & done; wait'


class Network:
    """The pods, and who reaches whom."""

    def __init__(self, cluster: Cluster, release: str) -> None:
        self._cluster, self._release = cluster, release
        self._at: dict[str, tuple[str, str]] = {}
        self._ports: dict[str, dict[int | str, int]] = {}

    def objects(self) -> list[Object]:
        """The chart's objects, with the peers of Kafka, archive, API server and monitoring in the values."""
        label = "namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name"
        return rendered(
            (
                f"kafka.bootstrap=main.{self._release}-kafka.svc:{KAFKA}",
                f"networkPolicies.postgresqlTo[0].{label}={self._release}-archive",
                f"networkPolicies.metricsFrom[0].{label}={self._release}-prometheus",
                "networkPolicies.apiServerTo[0].ipBlock.cidr=192.0.2.1/32",
            ),
            release=self._release,
            namespace=self._release,
        )

    def start(self, objects: list[Object]) -> None:
        """Start all pods."""
        templates = pod_templates(objects)
        for name in {*PERMITTED} - {*OUTSIDE}:
            template = templates[f"{self._release}-{name}"]
            declared = [port for each in containers(template) for port in each.get("ports", ())]
            self._ports[name] = {port["name"]: port["containerPort"] for port in declared}
            self._pod(name, self._release, template["metadata"]["labels"])
        for name, ports in OUTSIDE.items():
            self._ports[name] = {port: port for port in ports}
            self._pod(name, f"{self._release}-{name}", {})
        for name, (namespace, _) in [*self._at.items()]:
            self._cluster.kubectl("wait", "-n", namespace, f"pod/{name}", "--for=condition=Ready", "--timeout=120s")
            self._at[name] = namespace, self._cluster.get("pod", name, "-n", namespace)["status"]["podIP"]

    @property
    def subnet(self) -> str:
        """The addresses of the node's pods."""
        return f"{next(address for _, address in self._at.values()).rpartition('.')[0]}.0/24"

    def _pod(self, name: str, namespace: str, labels: dict[str, str]) -> None:
        """It answers every request on each of its ports."""
        ports = self._ports[name]
        serve = "; ".join(f"httpd -p {port} -h /www" for port in {*ports.values()}) or "true"
        command = f"mkdir /www; echo here > /www/index.html; {serve}; exec sleep 100000"
        names = [{"name": port, "containerPort": number} for port, number in ports.items() if isinstance(port, str)]
        spec = {
            "nodeName": self._cluster.node().name,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "plays", "image": IMAGE, "command": ["sh", "-c", command], "ports": names}],
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": spec,
        }
        self._cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
        self._at[name] = namespace, ""

    def reached(self) -> dict[str, set[str]]:
        """Which of the connections each pod can make now, but those to itself, which never leave it."""
        found = {}
        for name in PERMITTED:
            others = {what: at for what, at in CONNECTIONS.items() if at[0] != name}
            named = {f"{self._at[pod][1]}:{self._ports[pod][port]}": what for what, (pod, port) in others.items()}
            said = self._cluster.kubectl("exec", "-n", self._at[name][0], name, "--", "sh", "-c", PROBE, "probe", *named)
            found[name] = {named[at] for at in said.split()}
        return found


@contextlib.contextmanager
def routed(subnet: str) -> Iterator[None]:
    """Among these addresses, past any other firewall of this machine, and by the controller.

    Its own rule for nftables is without effect on a kernel that has no `queue` there (CONFIG_NFT_QUEUE); this one does the same.
    """
    among = ["-s", subnet, "-d", subnet]
    forward = ["filter", "FORWARD", *among, "-j", "ACCEPT"]  # a Docker engine drops what is not its own
    queue = ["mangle", "POSTROUTING", *among, "-m", "conntrack", "--ctstate", "NEW", "-j", "NFQUEUE", "--queue-num", str(QUEUE)]
    iptables = shutil.which("iptables")
    if iptables is None:
        pytest.skip("no iptables")
    with contextlib.ExitStack() as stack:
        for table, *rule in (forward, queue):
            subprocess.run([iptables, "-w", "-t", table, "-I", *rule], check=True)
            stack.callback(subprocess.run, [iptables, "-w", "-t", table, "-D", *rule], check=True)
        yield


@contextlib.contextmanager
def enforced(cluster: Cluster, folder: Path) -> Iterator[None]:
    """The controller, with the rights of its own manifest. It takes an account's files only from where pods have them."""
    if os.geteuid() != 0:
        pytest.skip("the controller changes nftables, which needs root")
    files = built(f"kubernetes-controllers/kube-network-policies-{CONTROLLER.rpartition('@')[2]}", _build)
    for each in yaml.safe_load_all((files / "install.yaml").read_text()):
        if each and each["kind"] in ("ClusterRole", "ClusterRoleBinding", "ServiceAccount"):
            cluster.kubectl("apply", "-f", "-", stdin=json.dumps(each))
    config = yaml.safe_load(cluster.kubeconfig_of("kube-network-policies", "kube-system", folder / "kubeconfig").read_text())
    server = config["clusters"][0]["cluster"]
    authority = server.get("certificate-authority-data")
    (folder / "ca.crt").write_bytes(
        base64.b64decode(authority) if authority else Path(server["certificate-authority"]).read_bytes()
    )
    (folder / "token").write_text(config["users"][0]["user"]["token"])
    host, _, port = server["server"].rpartition("/")[2].partition(":")
    own = "/var/run/secrets/kubernetes.io/serviceaccount"
    script = f'mount -t tmpfs tmpfs /run && mkdir -p {own} && cp "$0/ca.crt" "$0/token" {own} && exec "$@"'
    arguments = [f"--nfqueue-id={QUEUE}", f"--hostname-override={cluster.node().name}"]
    arguments += [f"--metrics-bind-address=127.0.0.1:{free_port()}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", script, str(folder), str(files / "controller"), *arguments],
            env={**os.environ, "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )

    def is_ready() -> bool:
        assert process.poll() is None, (folder / "log").read_text()[-3000:]
        return "Syncing nftables rules" in (folder / "log").read_text()

    try:
        wait_for(is_ready, "the controller is ready")
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def _build(folder: Path) -> None:
    """The program, and the manifest with its rights."""
    module = Path(json.loads(go(["mod", "download", "-json", CONTROLLER], folder))["Dir"])
    go(["build", "-mod=readonly", "-ldflags", "-s -w", "-o", str(folder / "controller"), "./cmd"], module)
    shutil.copyfile(module / "install.yaml", folder / "install.yaml")


@pytest.fixture
def namespaces(kubernetes: Cluster, kubernetes_namespace: str) -> Iterator[str]:
    """One for the chart's release, whose name it is, and others named after it for those outside."""
    more: list[Any] = [f"{kubernetes_namespace}-{name}" for name in OUTSIDE]
    for name in more:
        kubernetes.kubectl("create", "namespace", name)
    wait_for(lambda: all(kubernetes.get("serviceaccounts", "-n", name)["items"] for name in more), "accounts are made")
    try:
        yield kubernetes_namespace
    finally:
        kubernetes.kubectl("delete", "namespace", *more, "--wait=false")


def to_others(name: str, *, outside: bool = False) -> set[str]:
    """The connections to other pods. outside: to those only that have no policy."""
    return {what for what, (pod, _) in CONNECTIONS.items() if pod != name and (pod in OUTSIDE or not outside)}


def test_only_what_the_policies_permit_passes(kubernetes: Cluster, namespaces: str, tmp_path: Path) -> None:
    network = Network(kubernetes, namespaces)
    objects = network.objects()
    network.start(objects)
    permitted = {name: may | (to_others(name, outside=True) if name in OUTSIDE else set()) for name, may in PERMITTED.items()}
    with enforced(kubernetes, tmp_path), routed(network.subnet):
        assert network.reached() == {name: to_others(name) for name in PERMITTED}, "without policies everything is reached"
        for policy in of_kind(objects, "NetworkPolicy"):
            kubernetes.kubectl("apply", "-f", "-", stdin=json.dumps(policy))
        with contextlib.suppress(AssertionError):  # the next line says what differs
            wait_for(lambda: network.reached() == permitted, "the policies are enforced")
        assert network.reached() == permitted
