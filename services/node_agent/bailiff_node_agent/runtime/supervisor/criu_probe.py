"""Whether CRIU works here, tried on a program that does nothing: it is saved, or restored, as a task is.

The agent starts it with what to do as JSON; it answers with JSON on standard output.
"""

import ctypes
import json
import os
import select
import signal
import sys
import time
from typing import Any

from . import criu
from .host import boottime_us
from .init import Init, start_init
from .job import reap
from .lease import Lease

PR_SET_CHILD_SUBREAPER = 36
WITHIN_S = 60.0
HOLDS = "import signal, sys; held = bytearray(b'1') * int(sys.argv[1]); print('ready', flush=True); signal.pause()"


def main() -> None:
    asked: dict[str, Any] = json.loads(sys.argv[1])
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folder = asked["work"]
    log = f"{folder}/log"
    launch = {
        "command": [sys.executable, "-I", "-S", "-c", HOLDS, str(asked.get("bytes", 0))],
        "env": dict(criu.ENVIRONMENT),
        "working_dir": "/",
        "log": log,
        "hidden": [],
        "control_dir": folder,
        "restore": asked.get("restore"),
    }
    init = start_init(launch, Lease(f"{folder}/lease.json", folder), lambda _: None, folder)
    try:
        answer = _restored(init) if asked.get("restore") else _dumped(init, asked, log)
    except TimeoutError as problem:
        answer = {"code": 1, "why": str(problem)}
    finally:
        os.kill(init.pid, signal.SIGKILL)
    print(json.dumps(answer))  # noqa: T201 - it is what its caller reads


def _dumped(init: Init, asked: dict[str, Any], log: str) -> dict[str, Any]:
    _begun(init)
    _until(lambda: os.path.getsize(log) > 0, "the program to save did not begin")
    began = boottime_us()
    pid, exited = init.dump(asked), dict[int, int]()

    def is_over() -> bool:
        exited.update(reap())
        return pid in exited

    _until(is_over, "CRIU did not end")
    return {"code": exited[pid], "us": boottime_us() - began, "main": init.inner, "log": log, "control": "", "why": ""}


def _restored(init: Init) -> dict[str, Any]:
    _begun(init)
    return init.restored or {"code": 1, "why": "it was not tried"}


def _begun(init: Init) -> None:
    if not select.select([init.why_not], [], [], WITHIN_S)[0]:
        raise TimeoutError("nothing was started")
    error = os.read(init.why_not, 1000)
    if error:
        raise TimeoutError(error.decode(errors="replace"))
    init.read()


def _until(condition: Any, otherwise: str) -> None:
    until = time.monotonic() + WITHIN_S
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(otherwise)
        time.sleep(0.005)
