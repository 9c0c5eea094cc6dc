"""Programs of others that tests need, built from their Go modules once, into the cache outside of the repository."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
BUILD_S = 3600
builds = pytest.mark.timeout(BUILD_S)
"""For tests that do so: on a busy machine the first one takes longer than any test may."""


def built(name: str, build: Callable[[Path], None]) -> Path:
    """The folder with what `build` writes into the folder that it is given; built first where it is not there."""
    folder = CACHE / name / "bin"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as new:
            build(Path(new))
            with contextlib.suppress(OSError):  # another run was faster
                Path(new).rename(folder)
                Path(new).mkdir()
    return folder


def go(arguments: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run Go in this folder, behind all other work of the machine. Skips the test where Go is missing, or refuses."""
    program = shutil.which("go") or ("/usr/local/go/bin/go" if Path("/usr/local/go/bin/go").exists() else None)
    if program is None:
        pytest.skip("no Go to build what the test needs")
    command = ["nice", "-n", "19", program, *arguments]
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", **(environment or {})}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=BUILD_S, check=False)
    if done.returncode != 0:
        pytest.skip(f"go {' '.join(arguments[:3])} failed: {done.stderr[-500:]}")
    return done.stdout
