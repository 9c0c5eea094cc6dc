"""The lease's file of a pod, whose volumes its kubelet removes while the agent renews the lease."""

import shutil
from pathlib import Path

import pytest

from bailiff_node_agent.runtime.kubernetes.manifest import LEASE_VOLUME
from bailiff_node_agent.runtime.kubernetes.volumes import PodVolumes


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
