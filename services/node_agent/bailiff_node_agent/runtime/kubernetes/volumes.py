"""A pod's `emptyDir` volumes from the node's side, where the agent reaches them without a mount into the job.

What is inside is the job's: names there are opened without following links.
"""

import contextlib
import os
from pathlib import Path

from bailiff_kubernetes.names import CONTROL_VOLUME
from bailiff_node_agent.runtime import control_dir
from bailiff_node_agent.runtime.supervisor import safe_open

from .manifest import LEASE_VOLUME


class PodVolumes:
    """kubelet: the kubelet's root directory, as this process sees it."""

    def __init__(self, kubelet: Path) -> None:
        self._pods = kubelet / "pods"

    def control_dir(self, uid: str) -> Path:
        """The job's control directory."""
        return self._volume(uid, CONTROL_VOLUME)

    def exists(self, uid: str) -> bool:
        """Whether the kubelet has made the pod's volumes."""
        return self.control_dir(uid).is_dir() and self._volume(uid, LEASE_VOLUME).is_dir()

    def prepare(self, uid: str) -> None:
        """Write the initial `steps`, which any user of the container may open. Repeated calls change nothing."""
        folder = self.control_dir(uid)
        if not safe_open.exists(str(folder), "steps"):
            control_dir.prepare(folder)
            safe_open.set_mode(str(folder), "steps", 0o666)

    def release(self, uid: str) -> None:
        """Let the job's command start."""
        with contextlib.suppress(FileExistsError):  # it was released before, or by itself
            os.close(os.open(self.control_dir(uid) / "go", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444))

    def allow_until(self, uid: str, boottime_s: int) -> None:
        """Until when the task may run without the agent. The kubelet may have removed the volume, also just now."""
        folder = self._volume(uid, LEASE_VOLUME)
        new = folder / "until.new"
        with contextlib.suppress(FileNotFoundError):
            new.write_text(f"{boottime_s}\n")
            new.chmod(0o644)
            new.replace(folder / "until")

    def _volume(self, uid: str, name: str) -> Path:
        return self._pods / uid / "volumes" / "kubernetes.io~empty-dir" / name
