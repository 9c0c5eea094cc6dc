"""Runtimes and device inventories are found by name, and declare their capabilities."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from bailiff_node_agent.devices import DeviceUnavailable, inventory_plugin
from bailiff_node_agent.runtime import Capabilities, NodeParts, open_runtimes
from bailiff_node_agent.runtime.registry import MODULES, plugin
from bailiff_node_agent.settings import NodeAgentSettings, NodeDeclaration
from bailiff_service.exit_code import ExitCode


def parts(tmp_path: Path, gpus: str = "nvml") -> NodeParts:
    return NodeParts("n1", gpus, tmp_path, NodeAgentSettings.model_construct(cgroups=False))


def test_every_registered_runtime_opens_and_declares_its_capabilities(tmp_path: Path) -> None:
    runtimes = open_runtimes(MODULES, parts(tmp_path))
    for name in MODULES:
        assert plugin(name).name == name
        assert isinstance(runtimes[name].capabilities, Capabilities)
    assert [name for name, runtime in runtimes.items() if runtime.capabilities.images] == ["docker", "kubernetes"]


def test_every_node_has_the_runtimes_of_installed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(open_runtimes(["process"], parts(tmp_path))) == ["simulated", "process"]
    monkeypatch.setattr("bailiff_node_agent.runtime.registry.installed", lambda group: ())
    assert list(open_runtimes(["process"], parts(tmp_path))) == ["process"]


def test_without_the_devstack_there_are_real_gpus_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bailiff_node_agent.devices.registry.installed", lambda group: ())
    assert inventory_plugin("nvml").real
    assert not inventory_plugin("0").real
    with pytest.raises(ValueError, match=r"'8xH100-80GB' is neither .* need the package bailiff-devstack"):
        inventory_plugin("8xH100-80GB")


def test_a_node_without_gpus_has_no_devices_and_no_problems(tmp_path: Path) -> None:
    inventory = inventory_plugin("0").open(parts(tmp_path, "0"))
    assert (inventory.list(), inventory.problems()) == ([], {})
    with pytest.raises(DeviceUnavailable, match="there is no device GPU-1"):
        inventory.usage("GPU-1")


@pytest.mark.parametrize(
    ("runtimes", "why"), [(("process", "podman"), "unknown runtime 'podman'"), (("docker",), "process is missing")]
)
def test_a_node_with_an_unknown_runtime_or_without_processes_is_refused(runtimes: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        NodeDeclaration(name="n1", pool="pool-a", runtimes=runtimes)


@pytest.mark.parametrize(("spec", "real"), [("nvml", True), ("kubernetes", True), ("8xH100-80GB", False), ("0", False)])
def test_the_setting_gpus_names_an_inventory(spec: str, real: bool) -> None:
    assert inventory_plugin(spec).real is real


def test_gpus_that_are_no_inventory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'8 GPUs' is neither nvml nor simulated GPUs"):
        inventory_plugin("8 GPUs").open(parts(tmp_path, "8 GPUs"))


@pytest.mark.slow  # a process
def test_more_gpus_than_a_node_can_have_end_the_agent_with_a_sentence(tmp_path: Path) -> None:
    nodes = [{"name": "n1", "pool": "pool-a", "gpus": "65xH100-80GB"}]
    (tmp_path / "pools.yaml").write_text("pools: [{name: pool-a, partition: 0}]")
    settings = {
        "BAILIFF_NODES": json.dumps(nodes),
        "BAILIFF_STATE_DIR": str(tmp_path),
        "BAILIFF_POOLS": str(tmp_path / "pools.yaml"),
        "BAILIFF_KAFKA__BOOTSTRAP": "127.0.0.1:1",
        "BAILIFF_HTTP_PORT": "0",
    }
    agent = subprocess.run(
        [sys.executable, "-m", "bailiff_node_agent"], env=os.environ | settings, capture_output=True, text=True, timeout=60
    )
    assert agent.returncode == ExitCode.SETTINGS
    output = agent.stdout + agent.stderr
    assert "node n1: gpus: 65 GPUs are too many for one node, which has at most 64: declare several nodes" in output
    assert "Traceback" not in output
