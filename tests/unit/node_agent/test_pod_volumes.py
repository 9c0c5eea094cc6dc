"""The volumes of a pod, which its kubelet removes while the agent renews the lease, and in which the job may put anything."""

import asyncio
import shutil
import socket
from pathlib import Path

import pytest
from tests.kits.hostile_files import KINDS

from bailiff_node_agent.runtime.kubernetes.control_server import ControlServer
from bailiff_node_agent.runtime.kubernetes.manifest import LEASE_VOLUME
from bailiff_node_agent.runtime.kubernetes.volumes import PodVolumes
from bailiff_node_agent.runtime.supervisor.journal import Journal


def test_a_lease_is_written_as_long_as_its_pod_has_volumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = tmp_path / "pods" / "u1" / "volumes" / "kubernetes.io~empty-dir" / LEASE_VOLUME
    lease.mkdir(parents=True)
    volumes = PodVolumes(tmp_path)
    volumes.allow_until("u1", 100)
    assert (lease / "until").read_text() == "100\n"

    replace = Path.replace

    def removed_before(path: Path, target: Path) -> Path:
        shutil.rmtree(lease)
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", removed_before)
        volumes.allow_until("u1", 200)
    volumes.allow_until("u1", 300)
    assert not lease.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_in_the_place_of_steps_and_go_nothing_else_changes_and_nobody_waits(tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"keep")
    (outside / "precious").chmod(0o600)
    volumes = PodVolumes(tmp_path)
    folder = volumes.control_dir("u1")
    folder.mkdir(parents=True)
    for name in ("steps", "go"):
        KINDS[kind](folder / name, outside)
    volumes.prepare("u1")
    volumes.release("u1")
    assert (outside / "precious").read_bytes() == b"keep"
    assert (outside / "precious").stat().st_mode == 0o100600


async def test_a_link_that_takes_the_place_of_the_agents_socket_opens_nothing_to_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job replaces it in the moment between its making and the setting of its mode."""
    precious = tmp_path / "precious"
    precious.touch(mode=0o600)
    folder = tmp_path / "control"
    folder.mkdir()
    bind = socket.socket.bind

    def replaced(made: socket.socket, address: str) -> None:
        bind(made, address)
        (folder / "socket").unlink()
        (folder / "socket").symlink_to(precious)

    monkeypatch.setattr(socket.socket, "bind", replaced)
    journal = Journal(str(tmp_path / "messages.jsonl"))
    assert await ControlServer(folder, journal, asyncio.Lock()).start() is not None, "the job runs without it"
    assert precious.stat().st_mode == 0o100600
