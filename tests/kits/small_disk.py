"""A small file system of a test's own, which the test fills and empties: a tmpfs, which only root may mount."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

CHUNK = 1 << 12


class SmallDisk:
    """A file system of this size at this folder, until `close`."""

    def __init__(self, folder: Path, size: str = "16m") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        options = ["-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        mounted = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
        if mounted.returncode:
            pytest.skip(f"no permission to mount a small file system: {mounted.stderr.strip()}")

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """No byte is free meanwhile."""
        ballast = self.folder / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(CHUNK))
        try:
            yield
        finally:
            ballast.unlink()

    def close(self) -> None:
        """Unmount it; what was on it is lost."""
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)
