"""The program CRIU for tests: `BAILIFF_TEST_CRIU`, the one in PATH, or the one that `offline-criu install` has brought."""

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from bailiff_node_agent.snapshots import find_criu

INSTALLED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "offline-criu" / "bin" / "criu"


@functools.cache
def why_no_criu() -> str | None:
    """Why no task can be saved here; None: it can."""
    if os.geteuid() != 0:
        return "needs root: CRIU saves and restores tasks only for an agent that is root"
    found = find_criu(criu_program())
    if found is None:
        return "needs CRIU 4 in PATH, or BAILIFF_TEST_CRIU with its path"
    return f"the CRIU here cannot be used: {found.why_not}" if found.why_not else None


def criu_program() -> str:
    """Its path or name, whether it is there or not."""
    return os.environ.get("BAILIFF_TEST_CRIU") or shutil.which("criu") or str(INSTALLED)


needs_nft = pytest.mark.skipif(shutil.which("nft") is None, reason="needs nft, which keeps saved connections silent")
needs_criu = pytest.mark.skipif(why_no_criu() is not None, reason=str(why_no_criu()))


def paused_criu(folder: Path) -> Path:
    """CRIU that stops where a state is written and its task is still frozen: makes `frozen`, and waits for `gate`."""
    hook, program = folder / "hook", folder / "criu"
    hook.write_text(
        f'#!/bin/sh\n[ "$CRTOOLS_SCRIPT_ACTION" = post-dump ] || exit 0\ntouch {folder}/frozen\n'
        f"while [ ! -e {folder}/gate ]; do sleep 0.01; done\n"
    )
    program.write_text(f'#!/bin/sh\nexec {criu_program()} "$@" --action-script {hook}\n')
    for each in (hook, program):
        each.chmod(0o755)
    return program


def criu_dumping(image: Path) -> list[int]:
    """Processes of CRIU that save into this folder."""
    found, own = [], image.stat()
    for each in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            is_criu = each.name.isdecimal() and re.search(rb"criu.*\0dump\0", (each / "cmdline").read_bytes())
            if is_criu and any(handle.stat().st_ino == own.st_ino for handle in (each / "fd").iterdir()):
                found.append(int(each.name))
    return found


def kill_criu(image: Path) -> None:
    """Kills CRIU that saves into this folder. What it has made of itself may end first, by the end of the other."""
    for pid in criu_dumping(image):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def locked_connections() -> set[str]:
    """CRIU's tables that keep a connection silent. One that was killed before it locked any leaves an empty one."""
    tables = [line for line in _nft("list", "tables").splitlines() if "CRIU-" in line]
    return {table for table in tables if "elements" in _nft("list", *table.split())}


def _nft(*arguments: str) -> str:
    return subprocess.run(["nft", *arguments], capture_output=True, text=True, check=False).stdout
