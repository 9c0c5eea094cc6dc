"""The worker process: `python -m bailiff_console.actions.worker_child`. Exits when its standard input closes.

Each task is a line of JSON, followed by the bytes of the pool's state unless it is the one sent last; each result is a line
of JSON.
"""

import os
import sys
import traceback
from typing import Any, BinaryIO

import orjson

from bailiff.client.errors import ClientError
from bailiff_core.fold.snapshot import from_snapshot
from bailiff_core.model.state import PoolState

from .worker_tasks import run_task

NICE = 5


def run(request: dict[str, Any], state: PoolState) -> dict[str, Any]:
    """A result, a problem for the user, or an internal error."""
    try:
        return {"result": run_task(request["task"], request["fields"], state)}
    except ClientError as problem:
        return {"problem": {"code": int(problem.exit_code), "text": problem.text, "advice": problem.advice}}
    except Exception as error:  # noqa: BLE001 - reported to the console
        return {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}


def serve(requests: BinaryIO, results: BinaryIO) -> None:
    """Run tasks until end of input. The first line of output signals readiness."""
    results.write(b"{}\n")
    results.flush()
    state = PoolState()
    for line in requests:
        request = orjson.loads(line)
        if request["size"] is not None:
            state = from_snapshot(requests.read(request["size"]))
        results.write(orjson.dumps(run(request, state), default=str) + b"\n")
        results.flush()


if __name__ == "__main__":
    os.nice(NICE)
    serve(sys.stdin.buffer, sys.stdout.buffer)
