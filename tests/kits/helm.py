"""Helm, and the chart as objects. Helm is found by `BAILIFF_TEST_HELM`, on the PATH, or where `go install` has put it:

GOBIN=~/.cache/helm/bin go install helm.sh/helm/v4/cmd/helm@latest
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/bailiff"
CACHED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "helm" / "bin"
RELEASE, NAMESPACE = "bailiff", "bailiff"
BOOTSTRAP = "kafka.bootstrap=kafka:9092"

Object = dict[str, Any]

VALUE_SETS: dict[str, Sequence[str]] = {
    "defaults": (),
    "everything": ("serviceMonitor.enabled=true", "prometheusRule.enabled=true", "dashboards.enabled=true"),
    "Strimzi with passwords": ("kafka.securityProtocol=SASL_SSL", "kafka.caSecret.name=main-cluster-ca-cert"),
    "Strimzi with certificates": ("kafka.securityProtocol=SSL", "kafka.caSecret.name=main-cluster-ca-cert"),
    "decisions alone": (
        *("archive.enabled=false", "rollup.enabled=false", "console.enabled=false", "bridge.enabled=false"),
        *("agents.enabled=false", "toolbox.enabled=false", "networkPolicies.enabled=false", "persistence.enabled=false"),
    ),
    "own keys": ("keys.generate=false", "topics.create=false"),
    "an agent for other nodes": (
        "agents.apiOnly.enabled=true",
        "agents.apiOnly.selector.type=virtual-kubelet",
        "serviceMonitor.enabled=true",
    ),
    "no agent on any node": (
        "agents.onNodes=false",
        "agents.apiOnly.enabled=true",
        "agents.apiOnly.selector.type=virtual-kubelet",
        "persistence.enabled=false",
        "agents.mayEvict=true",
        "agents.mayOpenShells=true",
    ),
    "the node's network": ("hostNetwork=true", "image.pullSecrets={registry}"),
}


def helm_program() -> str:
    """Skips the test where there is none."""
    named = os.environ.get("BAILIFF_TEST_HELM") or shutil.which("helm") or shutil.which("helm", path=str(CACHED))
    if named is None:
        pytest.skip(f"no Helm: BAILIFF_TEST_HELM names none, and there is none on the PATH or in {CACHED}")
    return named


def helm(*arguments: str, environment: dict[str, str] | None = None, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    """Run Helm; the caller looks at the exit code."""
    command = [helm_program(), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, env={**os.environ, **(environment or {})}
    )


def rendered(settings: Iterable[str] = (), *, release: str = RELEASE, namespace: str = NAMESPACE) -> list[Object]:
    """All objects of the chart with these settings."""
    values = [word for setting in (BOOTSTRAP, *settings) for word in ("--set", setting)]
    done = helm("template", release, str(CHART), "--namespace", namespace, *values)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def of_kind(objects: Iterable[Object], *kinds: str) -> list[Object]:
    return [found for found in objects if found["kind"] in kinds]


def pod_templates(objects: Iterable[Object]) -> dict[str, Object]:
    """The pod template of each workload, by the workload's name."""
    return {
        found["metadata"]["name"]: found["spec"]["template"]
        for found in of_kind(objects, "StatefulSet", "Deployment", "DaemonSet", "Job")
    }


def containers(template: Object) -> list[Object]:
    return [*template["spec"].get("initContainers", []), *template["spec"]["containers"]]
