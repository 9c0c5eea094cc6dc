"""Runtimes and device inventories are found by name, and declare their capabilities."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from bailiff_node_agent.devices import InventoryContext, inventory_plugin
from bailiff_node_agent.runtime import Capabilities, NodeParts, SimulatedMachine, open_runtimes
from bailiff_node_agent.runtime.registry import MODULES, plugin
from bailiff_node_agent.settings import KubernetesSettings, NodeAgentSettings, NodeDeclaration
from bailiff_service.exit_code import ExitCode


def test_every_registered_runtime_opens_and_declares_its_capabilities(tmp_path: Path) -> None:
    settings = NodeAgentSettings.model_construct(cgroups=False)
    parts = NodeParts("n1", tmp_path, settings, SimulatedMachine())
    runtimes = open_runtimes(MODULES, parts)
    assert list(runtimes) == list(MODULES)
    for name, runtime in runtimes.items():
        assert plugin(name).name == name
        assert isinstance(runtime.capabilities, Capabilities)
    assert [name for name, runtime in runtimes.items() if runtime.capabilities.images] == ["docker", "kubernetes"]


def test_every_node_has_simulated_tasks(tmp_path: Path) -> None:
    settings = NodeAgentSettings.model_construct(cgroups=False)
    assert list(open_runtimes(("process",), NodeParts("n1", tmp_path, settings, SimulatedMachine()))) == ["simulated", "process"]


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
        inventory_plugin("8 GPUs").open(
            InventoryContext("8 GPUs", "n1", lambda _: None, tmp_path / "faults.json", KubernetesSettings())
        )


@pytest.mark.slow  # a process
def test_more_gpus_than_a_node_can_have_end_the_agent_with_a_sentence(tmp_path: Path) -> None:
    nodes = [{"name": "n1", "pool": "pool-a", "gpus": "65xH100-80GB"}]
    (tmp_path / "pools.yaml").write_text("pools: [{name: pool-a, partition: 0}]")
    settings = {
        "BAILIFF_NODES": json.dumps(nodes), "BAILIFF_STATE_DIR": str(tmp_path), "BAILIFF_POOLS": str(tmp_path / "pools.yaml"),
        "BAILIFF_KAFKA__BOOTSTRAP": "127.0.0.1:1", "BAILIFF_HTTP_PORT": "0",
    }  # fmt: skip
    agent = subprocess.run(
        [sys.executable, "-m", "bailiff_node_agent"], env=os.environ | settings, capture_output=True, text=True, timeout=60
    )
    assert agent.returncode == ExitCode.SETTINGS
    output = agent.stdout + agent.stderr
    assert "node n1: gpus: 65 GPUs are too many for one node, which has at most 64: declare several nodes" in output
    assert "Traceback" not in output
