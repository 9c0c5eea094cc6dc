"""The engine of another release in a process of its own."""

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


class EngineProcess:
    """As `replay_worker.ReplayWorker`, in another process; the result is known at its end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._fed = 0
        self._gone = False

    @classmethod
    async def start(cls, wheel: Path) -> "EngineProcess":
        """Begin with this wheel, which must be known to be the right one."""
        pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        return cls(
            await asyncio.create_subprocess_exec(
                *_command(wheel), stdin=pipe, stdout=pipe, stderr=nowhere, env=alone, limit=LONGEST_LINE, start_new_session=True
            )
        )

    async def take(self, wire: Wire, again: bool) -> bool:
        """The next record of the log. Whether it takes no more."""
        assert self._process.stdin is not None
        headers = [[name, value.decode("latin-1")] for name, value in wire.headers]
        self._process.stdin.write(json.dumps([headers, wire.value.decode("latin-1"), again]).encode() + b"\n")
        self._fed += 1
        if self._fed % FLUSH == 0:
            await self._flushed()
        return self._gone

    async def found(self) -> dict[str, Any]:
        """End it, and what it found."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        await self._flushed()
        self._process.stdin.close()
        line = await self._process.stdout.readline()
        code = await self._process.wait()
        try:
            found: dict[str, Any] = json.loads(line)
        except ValueError:
            found = {
                "cycles": 0,
                "decisions": 0,
                "digests": 0,
                "difference": None,
                "error": f"its process ended with code {code}",
            }
        return found

    async def stop(self) -> None:
        """End it unheard, where it still runs."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _flushed(self) -> None:
        assert self._process.stdin is not None
        try:
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):  # it has found something, and says it as its last line
            self._gone = True


def _command(wheel: Path) -> list[str]:
    return [sys.executable, "-I", "-S", str(CHILD), str(wheel.resolve()), *_folders()]


def _folders() -> list[str]:
    """The folders of the packages that engines need, and no others."""
    found: dict[str, None] = {}
    for name in NEEDS:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            origin = Path(spec.origin)
            found[os.fspath(origin.parents[1] if origin.name == "__init__.py" else origin.parent)] = None
    return list(found)
