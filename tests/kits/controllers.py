"""The real controllers of workloads, with the rights that their own manifests give them.

They are built from their Go modules once, into the cache: five to ten minutes each on two busy cores. Definitions, roles and
webhooks are those of the modules; the webhooks are reached at 127.0.0.1 instead of a Service, with a certificate made here.
"""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kits.go_programs import built, go
from tests.kits.kubernetes_cluster import IMAGE, Cluster, wait_for
from tests.kits.system import http_get

from bailiff.security.certificates import BROKER, issue
from bailiff_devstack.ports import free_port

PROGRAM, ROLE, WEBHOOKS, DEFINITIONS = "controller", "role.yaml", "webhooks.yaml", "definitions.yaml"
SERVING = Path("/tmp/k8s-webhook-server")
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
STAND_IN = {"ENABLE_PROBES_INJECTION": "false", "ENABLE_INIT_CONTAINER_INJECTION": "false"}
"""KubeRay adds no probes and no waiting for Ray: no image with Ray can be had."""
NO_DNS = f"- name: init-pytorch\n  image: {IMAGE}\n  command: ['true']\n"
"""By default a worker's pod waits until the name of the master is known. The cluster of the tests has no name service."""


@dataclass(frozen=True)
class Source:
    """Where a controller comes from. definitions, role, webhooks: files of its module; with * for several.

    pods: the label of pods that its webhooks are for, as in its kustomization.
    """

    name: str
    module: str
    package: str
    definitions: str
    role: str
    webhooks: str = ""
    pods: str = JOBSET_NAME


JOBSET = Source(
    "jobset",
    "sigs.k8s.io/jobset@v0.10.1",
    ".",
    "config/components/crd/bases/*.yaml",
    "config/components/rbac/role.yaml",
    "config/components/webhook/manifests.yaml",
)
TRAINER = Source(
    "trainer",
    "github.com/kubeflow/trainer/v2@v2.1.0",
    "./cmd/trainer-controller-manager",
    "manifests/base/crds/trainer*.yaml",
    "manifests/base/rbac/role.yaml",
    "manifests/base/webhook/manifests.yaml",
)
TRAINING_OPERATOR = Source(
    "training-operator",
    "github.com/kubeflow/training-operator@v1.9.3",
    "./cmd/training-operator.v1",
    "manifests/base/crds/*pytorchjobs.yaml",
    "manifests/base/rbac/role.yaml",
    "manifests/base/webhook/manifests.yaml",
)
KUBERAY = Source(
    "kuberay", "github.com/ray-project/kuberay/ray-operator@v1.5.0", ".", "config/crd/bases/*.yaml", "config/rbac/role.yaml"
)
LWS = Source(
    "lws",
    "sigs.k8s.io/lws@v0.7.0",
    "./cmd",
    "config/crd/bases/*.yaml",
    "config/rbac/role.yaml",
    "config/webhook/manifests.yaml",
    LWS_NAME,
)
RENEWED = "validator.training-operator.kubeflow.org"
"""The training operator starts once it has written its authority, for Services, into the webhooks of this name: none."""


@contextlib.contextmanager
def _running(cluster: Cluster, source: Source) -> Iterator[Path]:
    """The controller, until it is ready; its log. Its webhooks go with it."""
    if os.geteuid() != 0:
        pytest.skip("controllers run in a mount namespace of their own, which needs root")
    files = built(f"kubernetes-controllers/{source.name}-{source.module.rpartition('@')[2]}", lambda new: _build(source, new))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{source.name}-")))
        namespace, health, webhooks = f"{source.name}-system", free_port(), free_port()
        _install_definitions(cluster, files / DEFINITIONS)
        kubeconfig = _account(cluster, source.name, namespace, files / ROLE, folder)
        if source.webhooks:
            for each in _webhooks(source, files / WEBHOOKS, webhooks, _certificate(folder)):
                cluster.kubectl("apply", "-f", "-", stdin=json.dumps(each))
                stack.callback(cluster.kubectl, "delete", each["kind"], each["metadata"]["name"])
        arguments = _arguments(source, folder, health, webhooks)
        environment = {"KUBECONFIG": str(kubeconfig), "MY_POD_NAMESPACE": namespace, "TMPDIR": str(folder), **STAND_IN}
        log = folder / "log"
        stack.enter_context(_process([str(files / PROGRAM), *arguments], environment, folder, log, health))
        yield log


@contextlib.contextmanager
def _process(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path, health: int
) -> Iterator[subprocess.Popen[bytes]]:
    SERVING.mkdir(exist_ok=True)
    serving = folder / SERVING.name
    serving.mkdir(exist_ok=True)
    script = 'mount --bind "$0" "$1" && shift && exec "$@"'
    enter = ["unshare", "--mount", "sh", "-c", script, str(serving), str(SERVING)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*enter, *command], env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )

    def is_ready() -> bool:
        assert process.poll() is None, f"the controller has ended: {log.read_text()[-3000:]}"
        with contextlib.suppress(OSError):
            return http_get(health, "/readyz")[0] == 200
        return False

    try:
        wait_for(is_ready, f"{command[0]} is ready")
        yield process
    finally:
        process.terminate()
        process.wait(60)


def _build(source: Source, folder: Path) -> None:
    """The program, and what belongs to it of its module."""
    module = Path(json.loads(go(["mod", "download", "-json", source.module], folder))["Dir"])
    go(["build", "-mod=readonly", "-ldflags", "-s -w", "-o", str(folder / PROGRAM), source.package], module)
    found = sorted(module.glob(source.definitions))
    (folder / DEFINITIONS).write_text("\n---\n".join(file.read_text() for file in found))
    shutil.copyfile(module / source.role, folder / ROLE)
    if source.webhooks:
        shutil.copyfile(module / source.webhooks, folder / WEBHOOKS)


def _objects(file: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(file.read_text()) if each]


def _install_definitions(cluster: Cluster, file: Path) -> None:
    """In place of looser ones that other tests have installed. They are too long for what `kubectl apply` notes on an object."""
    there = {each["metadata"]["name"] for each in cluster.get("customresourcedefinitions")["items"]}
    for each in _objects(file):
        name = each["metadata"]["name"]
        cluster.kubectl("replace" if name in there else "create", "-f", "-", stdin=json.dumps(each))
        wait_for(lambda name=name: _is_served(cluster, name), f"{name} is served")


def _is_served(cluster: Cluster, name: str) -> bool:
    status = cluster.get("customresourcedefinition", name).get("status") or {}
    return any((each["type"], each["status"]) == ("Established", "True") for each in status.get("conditions") or [])


def _account(cluster: Cluster, name: str, namespace: str, role: Path, folder: Path) -> Path:
    """A kubeconfig with the rights of the controller's own role, and no others."""
    metadata = {"name": name, "namespace": namespace}
    made = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}]
    made += [{"apiVersion": "v1", "kind": kind, "metadata": metadata} for kind in ("ServiceAccount", "Secret")]
    (found,) = (each for each in _objects(role) if each["kind"] == "ClusterRole")
    found["metadata"] = {"name": namespace}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    for each in (*made, found, binding):
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(each))
    return cluster.kubeconfig_of(name, namespace, folder / "kubeconfig")


def _certificate(folder: Path) -> str:
    """Of the webhooks, where controllers look for it; returns its authority."""
    issue(folder / "pki", ["127.0.0.1"], [BROKER])
    serving = folder / SERVING.name / "serving-certs"
    serving.mkdir(parents=True)
    shutil.copyfile(folder / "pki" / f"{BROKER}.pem", serving / "tls.crt")
    shutil.copyfile(folder / "pki" / f"{BROKER}.key", serving / "tls.key")
    return base64.b64encode((folder / "pki" / "ca.pem").read_bytes()).decode()


def _webhooks(source: Source, file: Path, port: int, authority: str) -> Iterator[dict[str, Any]]:
    """As in the module, but at an address, and pods only where they have their label."""
    for configuration in _objects(file):
        configuration["metadata"] = {"name": f"{source.name}-{configuration['kind'].lower()}"}
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}
            if any("pods" in rule["resources"] for rule in webhook["rules"]):
                webhook["objectSelector"] = {"matchExpressions": [{"key": source.pods, "operator": "Exists"}]}
        yield configuration
        if source == TRAINING_OPERATOR:
            yield {**configuration, "metadata": {"name": RENEWED}, "webhooks": []}


def _arguments(source: Source, folder: Path, health: int, webhooks: int) -> list[str]:
    probe = f"127.0.0.1:{health}"
    common = {
        "webhook": {"port": webhooks, "host": "127.0.0.1"},
        "health": {"healthProbeBindAddress": probe},
        "metrics": {"bindAddress": "0"},
        "leaderElection": {"leaderElect": False},
    }
    if source == JOBSET:
        kind = {"apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration"}
        return ["--config", _written(folder, {**kind, **common, "internalCertManagement": {"enable": False}})]
    if source == LWS:
        kind = {"apiVersion": "config.lws.x-k8s.io/v1alpha1", "kind": "Configuration"}
        return ["--config", _written(folder, {**kind, **common, "internalCertManagement": {"enable": False}})]
    if source == TRAINER:
        kind = {"apiVersion": "config.trainer.kubeflow.org/v1alpha1", "kind": "Configuration"}
        return ["--config", _written(folder, {**kind, **common, "certManagement": {"enable": False}})]
    if source == TRAINING_OPERATOR:
        template = folder / "init-container.yaml"
        template.write_text(NO_DNS)
        return [
            "--enable-scheme=pytorchjob",
            f"--health-probe-bind-address={probe}",
            "--metrics-bind-address=0",
            f"--webhook-server-port={webhooks}",
            f"--webhook-secret-name={source.name}",
            f"--pytorch-init-container-template-file={template}",
        ]
    # The API server reaches the head's pod; this machine has no addresses of Services.
    return [
        f"--health-probe-bind-address={probe}",
        "--metrics-addr=0",
        "--enable-leader-election=false",
        "--use-kubernetes-proxy",
    ]


def _written(folder: Path, configuration: Mapping[str, Any]) -> str:
    file = folder / "configuration.yaml"
    file.write_text(yaml.safe_dump(dict(configuration)))
    return str(file)


@pytest.fixture(scope="module")
def jobset_controller(kubernetes: Cluster) -> Iterator[Path]:
    """JobSet. Its log."""
    with _running(kubernetes, JOBSET) as log:
        yield log


@pytest.fixture(scope="module")
def lws_controller(kubernetes: Cluster) -> Iterator[Path]:
    """LeaderWorkerSet. Its log."""
    with _running(kubernetes, LWS) as log:
        yield log


@pytest.fixture(scope="module")
def trainer(kubernetes: Cluster, jobset_controller: Path) -> Iterator[Path]:
    """Kubeflow Trainer, which makes JobSets. Its log."""
    with _running(kubernetes, TRAINER) as log:
        yield log


@pytest.fixture(scope="module")
def training_operator(kubernetes: Cluster) -> Iterator[Path]:
    """Kubeflow's training operator, for PyTorchJobs. Its log."""
    with _running(kubernetes, TRAINING_OPERATOR) as log:
        yield log


@pytest.fixture(scope="module")
def kuberay(kubernetes: Cluster) -> Iterator[Path]:
    """KubeRay's operator. Its log."""
    with _running(kubernetes, KUBERAY) as log:
        yield log
