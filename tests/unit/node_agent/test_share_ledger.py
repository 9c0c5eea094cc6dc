"""Whole GPUs and GPU shares of a task: its environment and devices, as a process and in a container."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kits.mps import mps_daemon

from bailiff_bus.messages.commands import RecordRef, StartTask, TaskAssignment
from bailiff_core.model.job_spec import JobSpec
from bailiff_devstack.simulated_node import SimulatedInventory
from bailiff_node_agent import mps
from bailiff_node_agent.environment import environment, host_folders
from bailiff_node_agent.runtime import Launch, TaskKey
from bailiff_node_agent.runtime.docker import DockerRuntime

GIB = 1 << 30
TWO = ("GPU-aaaa", "GPU-bbbb")


def at(**share: Any) -> TaskAssignment:
    return TaskAssignment(task=0, rank=0, local_rank=0, devices=TWO, **share)


def environment_of(task: TaskAssignment, tmp_path: Path, *, by_mps: bool = True) -> dict[str, str]:
    order = StartTask(
        node="n1",
        incarnation="i",
        sender="admission",
        sender_epoch=1,
        ordered_by=RecordRef(epoch=1, seq=1),
        job="j",
        attempt=1,
        tasks=(task,),
        spec=JobSpec(command="train"),
        grace=150_000_000,
        master_node="n1",
    )
    return environment(
        order,
        task,
        checkpoints=tmp_path / "checkpoints",
        resume_from=None,
        secrets=None,
        master_address=None,
        device_bytes=80 * GIB,
        scratch=tmp_path / "scratch",
        by_mps=by_mps,
    )


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with mps_daemon(tmp_path / "nvidia-mps") as pipes:
        monkeypatch.setattr(mps, "PIPES", pipes)
        yield pipes


@pytest.fixture
def no_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mps, "PIPES", tmp_path / "nobody")


def shares(env: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(("CUDA_MPS", "BAILIFF_GPU"))}


@pytest.mark.usefixtures("no_daemon")
def test_without_a_daemon_the_share_is_in_the_environment_only(tmp_path: Path) -> None:
    assert shares(environment_of(at(), tmp_path)) == {}
    half = {"BAILIFF_GPU_FRACTION": "0.500", "BAILIFF_GPU_MEMORY_BYTES": str(40 * GIB)}
    assert shares(environment_of(at(gpu_share_milli=500), tmp_path)) == half
    assert shares(environment_of(at(gpu_share_bytes=4 * GIB), tmp_path)) == {"BAILIFF_GPU_MEMORY_BYTES": str(4 * GIB)}


@pytest.mark.usefixtures("daemon")
def test_a_pod_has_its_share_in_the_environment_and_no_way_to_the_daemon_of_its_node(tmp_path: Path) -> None:
    env = environment_of(at(gpu_share_milli=250), tmp_path, by_mps=False)
    assert shares(env) == {"BAILIFF_GPU_FRACTION": "0.250", "BAILIFF_GPU_MEMORY_BYTES": str(20 * GIB)}


def container(
    env: dict[str, str], tmp_path: Path, devices: tuple[str, ...] = TWO, holds: SimulatedInventory | None = None
) -> dict[str, Any]:
    """What the engine would be asked for."""
    launch = Launch(TaskKey("j", 1, "0"), "train", env, device_ids=devices, image="train", folders=host_folders(env))
    config: dict[str, Any] = DockerRuntime(tmp_path / "node", devices=holds).config(launch, tmp_path / "wall")
    return config


def variables(config: dict[str, Any]) -> dict[str, str]:
    return dict(each.split("=", 1) for each in config["Env"])


def test_a_container_has_its_share_and_the_way_to_the_daemon(daemon: Path, tmp_path: Path) -> None:
    """The daemon's pipes, and the same shared memory."""
    env = environment_of(at(gpu_share_milli=500), tmp_path)
    config = container(env, tmp_path)
    assert shares(variables(config)) == shares(env)
    assert config["HostConfig"]["IpcMode"] == "host"
    assert {"Type": "bind", "Source": str(daemon), "Target": str(daemon)} in config["HostConfig"]["Mounts"]


@pytest.mark.usefixtures("no_daemon")
def test_a_container_gets_its_gpus_by_uuid_and_no_others(tmp_path: Path) -> None:
    """Images of CUDA ask for all GPUs by themselves."""
    config = container(environment_of(at(), tmp_path), tmp_path)
    assert config["HostConfig"]["DeviceRequests"] == [{"Driver": "", "DeviceIDs": [*TWO], "Capabilities": [["gpu"]]}]
    assert (variables(config)["CUDA_VISIBLE_DEVICES"], variables(config)["NVIDIA_VISIBLE_DEVICES"]) == ("GPU-aaaa,GPU-bbbb",) * 2
    assert config["HostConfig"]["IpcMode"] == "private"

    without = container({}, tmp_path, devices=())
    assert (without["HostConfig"]["DeviceRequests"], variables(without)["NVIDIA_VISIBLE_DEVICES"]) == ([], "void")

    simulated = container(environment_of(at(), tmp_path), tmp_path, TWO, holds=SimulatedInventory("2xH100-80GB", "n1"))
    assert simulated["HostConfig"]["DeviceRequests"] == []
    assert variables(simulated)["CUDA_VISIBLE_DEVICES"] == "GPU-aaaa,GPU-bbbb"
