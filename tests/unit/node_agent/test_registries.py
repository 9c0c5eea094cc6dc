"""Runtimes and device inventories are found by name, and declare their capabilities."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from bailiff_node_agent.devices import InventoryContext, inventory_plugin
from bailiff_node_agent.runtime import Capabilities, NodeParts, SimulatedMachine, open_runtimes
from bailiff_node_agent.runtime.registry import MODULES, plugin
from bailiff_node_agent.settings import NodeAgentSettings, NodeDeclaration


def test_every_registered_runtime_opens_and_declares_its_capabilities(tmp_path: Path) -> None:
    settings = NodeAgentSettings.model_construct(cgroups=False)
    parts = NodeParts("n1", tmp_path, settings, SimulatedMachine())
    runtimes = open_runtimes(MODULES, parts)
    assert list(runtimes) == list(MODULES)
    for name, runtime in runtimes.items():
        assert plugin(name).name == name
        assert isinstance(runtime.capabilities, Capabilities)
    assert [name for name, runtime in runtimes.items() if runtime.capabilities.images] == ["docker"]


def test_every_node_has_simulated_tasks(tmp_path: Path) -> None:
    settings = NodeAgentSettings.model_construct(cgroups=False)
    assert list(open_runtimes(("process",), NodeParts("n1", tmp_path, settings, SimulatedMachine()))) == ["simulated", "process"]


@pytest.mark.parametrize(
    ("runtimes", "why"), [(("process", "podman"), "unknown runtime 'podman'"), (("docker",), "process is missing")]
)
def test_a_node_with_an_unknown_runtime_or_without_processes_is_refused(runtimes: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        NodeDeclaration(name="n1", pool="pool-a", runtimes=runtimes)


@pytest.mark.parametrize(("spec", "real"), [("nvml", True), ("8xH100-80GB", False), ("0", False)])
def test_the_setting_gpus_names_an_inventory(spec: str, real: bool) -> None:
    assert inventory_plugin(spec).real is real


def test_gpus_that_are_no_inventory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'8 GPUs' is neither nvml nor simulated GPUs"):
        inventory_plugin("8 GPUs").open(InventoryContext("8 GPUs", "n1", lambda _: None, tmp_path / "faults.json"))
