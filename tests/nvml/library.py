"""The `libnvidia-ml.so.1` that `BAILIFF_TEST_NVML` names, and agents that load it instead of this machine's own.

NVIDIA's mock of the library (repository NVIDIA/k8s-test-infra, folder pkg/gpu/mocknvml) has a folder `configs` beside it: each
file there is a machine. `Mock` writes what differs from that file, and the mock reads it again while an agent runs.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kits.system import System

VARIABLE = "BAILIFF_TEST_NVML"
NO_LIBRARY = f"{VARIABLE} does not name a libnvidia-ml.so.1 (CONTRIBUTING.md says how to build NVIDIA's mock of it)"


def library() -> Path:
    """The library; skips the test where none is named."""
    named = os.environ.get(VARIABLE, "")
    if not named or not Path(named).is_file():
        pytest.skip(NO_LIBRARY)
    return Path(named).absolute()


def profile(name: str) -> Path:
    """The mock's machine of this name; skips the test where the library is not the mock."""
    file = library().parent / "configs" / f"mock-nvml-config-{name}.yaml"
    if not file.is_file():
        pytest.skip(f"{library()} is not NVIDIA's mock: there is no {file}")
    return file


def loading(found: Path) -> dict[str, str]:
    """The environment with which a process loads this library: the loader looks for libnvidia-ml.so.1 in its folder."""
    return {"LD_LIBRARY_PATH": str(found.parent)}


@dataclass
class Mock:
    """One machine of the mock. changes: what its devices answer instead, by index."""

    machine: Path
    folder: Path
    changes: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        """For the agent that has this machine."""
        return {
            **loading(library()),
            "MOCK_NVML_CONFIG": str(self.machine),
            "MOCK_NVML_OVERRIDES": str(self.folder / "overrides.yaml"),
            "MOCK_NVML_OVERRIDES_TTL": "1ms",
        }

    @property
    def devices(self) -> list[dict[str, Any]]:
        """The devices as its file declares them."""
        content = yaml.safe_load(self.machine.read_text())
        return [{**content["device_defaults"], **device} for device in content["devices"]]

    @property
    def driver(self) -> str:
        """The driver's version."""
        return str(yaml.safe_load(self.machine.read_text())["system"]["driver_version"])

    def change(self, device: int, **answers: Any) -> None:
        """The device's answers from now on, instead of all earlier changes; without any, those of its file."""
        self.changes[device] = answers
        draft = self.folder / "draft"
        draft.write_text(yaml.safe_dump({"devices": {str(index): each for index, each in self.changes.items() if each}}))
        draft.replace(self.folder / "overrides.yaml")

    def use(self, device: int, used: int = 0, processes: Mapping[int, int] | None = None) -> None:
        """Bytes in use in all, and by process."""
        total = self.devices[device]["memory"]["total_bytes"]
        listed = [{"pid": pid, "type": "C", "used_memory_mib": each >> 20} for pid, each in (processes or {}).items()]
        self.change(device, memory={"used_bytes": used, "free_bytes": total - used}, processes=listed)


def start_agent(system: System, node: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """Start another agent for this node. Returns its process name."""
    nodes = [{"gpus": "nvml", "cpu_milli": 64_000, **node}]
    settings = {"BAILIFF_NODES": json.dumps(nodes), "BAILIFF_DEVICE_POLL_S": "0.2", "BAILIFF_RELEASE_TIMEOUT_S": "3", **env}
    return system.stack.start_service("node-agent", replica=f"-{node['name']}", env=settings)
