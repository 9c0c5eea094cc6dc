"""Runs the engine of another release in a child process."""

import asyncio
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

from bailiff_core.records import Wire

CHILD = Path(__file__).with_name("engine_child.py")
NEEDS = ("numpy", "orjson", "pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection")
FLUSH = 256
LONGEST_LINE = 64 * 2**20
NOTHING_FOUND: dict[str, Any] = {
    "cycles": 0,
    "decisions": 0,
    "digests": 0,
    "difference": None,
    "error": "",
    "proposals": 0,
    "not_reproduced": 0,
    "proposal_differences": [],
}


class EngineProcess:
    """`replay_worker.ReplayWorker` in a child process; the result is available at its end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._fed = 0
        self._ended = False

    @classmethod
    async def start(cls, wheel: Path) -> "EngineProcess":
        """Starts the process with this wheel, whose digest must have been verified."""
        pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        return cls(
            await asyncio.create_subprocess_exec(
                *_command(wheel), stdin=pipe, stdout=pipe, stderr=nowhere, env=alone, limit=LONGEST_LINE, start_new_session=True
            )
        )

    async def take(self, wire: Wire, again: bool, search: bool) -> bool:
        """Sends the next record of the log. Returns whether the process takes no more."""
        assert self._process.stdin is not None
        headers = [[name, value.decode("latin-1")] for name, value in wire.headers]
        self._process.stdin.write(json.dumps([headers, wire.value.decode("latin-1"), again, search]).encode() + b"\n")
        self._fed += 1
        if self._fed % FLUSH == 0:
            await self._flushed()
        return self._ended

    async def found(self) -> dict[str, Any]:
        """Ends the input and returns the result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        await self._flushed()
        self._process.stdin.close()
        line = await self._process.stdout.readline()
        code = await self._process.wait()
        try:
            found: dict[str, Any] = json.loads(line)
        except ValueError:
            found = {"error": f"its process ended with code {code}"}
        return {**NOTHING_FOUND, **found}

    async def stop(self) -> None:
        """Kills the process if it still runs, without a result."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _flushed(self) -> None:
        assert self._process.stdin is not None
        try:
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):  # it has ended with a result, which is its last line
            self._ended = True


def _command(wheel: Path) -> list[str]:
    return [sys.executable, "-I", "-S", str(CHILD), str(wheel.resolve()), *_folders()]


def _folders() -> list[str]:
    """Folders of the packages that engines need."""
    found: dict[str, None] = {}
    for name in NEEDS:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            origin = Path(spec.origin)
            found[os.fspath(origin.parents[1] if origin.name == "__init__.py" else origin.parent)] = None
    return list(found)
