"""A kubelet whose GPUs are given out by dynamic resource allocation: Kubernetes' own example driver on a cluster of its own.

The driver, and a containerd that knows CDI (2.4; Debian's does not), are built from their Go modules once, into the cache: six
minutes. The four devices do not exist; a container finds the names of those that it claims in its environment.
"""

import contextlib
import json
import os
import re
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.kits.go_programs import built, go
from tests.kits.kubernetes_cluster import PATIENCE_S, Cluster, RealNode, tool_that_is_built

from bailiff_node_agent.kubernetes_settings import KubernetesSettings

GO_MODULE = Path(__file__).parents[1] / "dra_driver"
DRIVER = "sigs.k8s.io/dra-example-driver/cmd/dra-example-kubeletplugin"
CONTAINERD = tuple(
    f"github.com/containerd/containerd/v2/cmd/{name}@v2.4.2" for name in ("containerd", "containerd-shim-runc-v2", "ctr")
)
DEVICES = 4
CDI = Path("/var/run/cdi")
"""Where containerd looks for the files that its driver writes about each claim."""
_GIVEN = re.compile(r"GPU_DEVICE_\d+=(\S+)")


@dataclass
class DraCluster(Cluster):
    """One kubelet. driver: the name of the driver, and of its device class; no other cluster of this machine has it."""

    driver: str = ""

    def settings(self, namespace: str, **others: Any) -> KubernetesSettings:
        """Of an agent on the kubelet's node."""
        return KubernetesSettings(
            kubeconfig=self.kubeconfig,
            namespace=namespace,
            kubelet_dir=self.node().kubelet,
            placement_timeout_s=PATIENCE_S,
            dra_driver=self.driver,
            dra_device_class=self.driver,
            **others,
        )

    def published(self) -> dict[str, str]:
        """The UUID of each device, by the name that its driver gives it, in order."""
        slices = self.get("resourceslices")["items"]
        devices = [device for each in slices if each["spec"]["driver"] == self.driver for device in each["spec"]["devices"]]
        return {
            device["name"]: device["attributes"]["uuid"]["string"] for device in sorted(devices, key=lambda each: each["name"])
        }

    def given(self, environment: str) -> set[str]:
        """The UUIDs of the devices that a container has, by its environment as `env` prints it."""
        published = self.published()
        return {published[name] for name in _GIVEN.findall(environment)}

    def claims(self, namespace: str) -> list[str]:
        """The names of the claims in the namespace."""
        return [each["metadata"]["name"] for each in self.get("resourceclaims", "-n", namespace)["items"]]

    def foreign_pod(self, name: str, namespace: str, devices: list[str]) -> None:
        """A pod that is not Bailiff's, with a claim of these devices."""
        attributes = f'device.attributes["{self.driver}"]'
        selector = f'device.driver == "{self.driver}" && {attributes}.uuid in {json.dumps(devices)}'
        request = {"deviceClassName": self.driver, "count": len(devices), "selectors": [{"cel": {"expression": selector}}]}
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "all", "exactly": request}]}},
        }
        self.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(claim))
        self.pod_with_claim(name, namespace, name)

    def pod_with_claim(self, name: str, namespace: str, claim: str) -> None:
        """A pod that is not Bailiff's, and refers to this claim."""
        container = {"name": "main", "image": "localhost/busybox:1", "command": ["sleep", "3000"]}
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "resourceClaims": [{"name": "gpus", "resourceClaimName": claim}],
            "containers": [{**container, "resources": {"claims": [{"name": "gpus"}]}}],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(pod))
        self.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "-n", namespace, f"--timeout={PATIENCE_S:.0f}s")

    def delete_foreign_pod(self, name: str, namespace: str) -> None:
        """And its claim."""
        self.kubectl("delete", f"pod/{name}", f"resourceclaim/{name}", "-n", namespace)


@pytest.fixture(scope="session")
def dra_cluster() -> Iterator[DraCluster]:
    """One cluster for all tests with claims."""
    tool = tool_that_is_built()
    if tool is None or os.geteuid() != 0:
        pytest.skip("no Kubernetes: a kubelet needs root, and the program that BAILIFF_TEST_KUBERNETES names, built")
    programs = _programs()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bd-", ignore_cleanup_errors=True)))
        stack.callback(subprocess.run, [str(tool), "down", str(folder)], stdout=subprocess.DEVNULL, check=False)
        path = {**os.environ, "PATH": f"{programs['containerd']}:{os.environ['PATH']}"}
        up = [str(tool), "up", str(folder), "--fake", "0", "--real", "1", "--gpus", "0"]
        done = subprocess.run(up, env=path, stdout=subprocess.PIPE, text=True, timeout=400, check=True)
        kubernetes = Path(next(line for line in done.stdout.splitlines() if "PATH=" in line).partition("=")[2].split(":")[0])
        node = RealNode("127.0.0.1", folder / "n1", kubernetes)
        network = node.folder / "cni" / "net.conflist"  # other clusters of this machine give their pods addresses of 10.89
        network.write_text(network.read_text().replace("10.89.1.", f"10.90.{uuid.uuid4().int % 256}."))
        driver = f"gpu-{uuid.uuid4().hex[:8]}.example.com"
        cluster = DraCluster(folder / "kubeconfig", folder, kubernetes, (node,), driver=driver)
        stack.callback(_remove_specs, driver)
        stack.enter_context(_driver(programs["driver"], cluster))
        yield cluster


@contextlib.contextmanager
def _driver(programs: Path, cluster: DraCluster) -> Iterator[None]:
    """The driver, until it has published its devices; and its device class."""
    node = cluster.node()
    command = [str(programs / DRIVER.rpartition("/")[2]), "--kubeconfig", str(cluster.kubeconfig), "--node-name", node.name]
    command += ["--driver-name", cluster.driver, "--num-devices", str(DEVICES), "--cdi-root", str(CDI)]
    command += ["--kubelet-registrar-directory-path", str(node.kubelet / "plugins_registry")]
    command += ["--kubelet-plugins-directory-path", str(node.kubelet / "plugins")]
    selector = {"cel": {"expression": f'device.driver == "{cluster.driver}"'}}
    metadata, spec = {"name": cluster.driver}, {"selectors": [selector], "extendedResourceName": "nvidia.com/gpu"}
    device_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": spec}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(device_class))
    with (node.folder / "dra-driver.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        of_driver = f"--field-selector=spec.driver={cluster.driver}"
        cluster.kubectl("wait", "--for=create", "resourceslices", of_driver, f"--timeout={PATIENCE_S:.0f}s")
        yield
    finally:
        process.terminate()
        process.wait(30)


def _remove_specs(driver: str) -> None:
    for left in CDI.glob(f"*{driver}*"):
        left.unlink(missing_ok=True)


def _programs() -> dict[str, Path]:
    """The folders of driver and containerd; built first where they are not there. Skips the test where that is impossible."""

    def build_driver(folder: Path) -> None:
        name = str(folder / DRIVER.rpartition("/")[2])
        go(["build", "-mod=readonly", "-o", name, DRIVER], GO_MODULE, {})

    def install_containerd(folder: Path) -> None:
        tags = "no_btrfs no_zfs no_devmapper no_aufs"
        go(["install", "-tags", tags, *CONTAINERD], folder, {"GOBIN": str(folder)})

    return {"driver": built("dra-example-driver", build_driver), "containerd": built("containerd", install_containerd)}
