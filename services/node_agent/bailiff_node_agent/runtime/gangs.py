"""Tasks of gangs stand still before they are saved, and after they were restored, until all of their gang do."""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from pathlib import Path

from bailiff_node_agent.disk.storage import write_durably
from bailiff_node_agent.runtime.supervisor.init import inner_pid
from bailiff_node_agent.runtime.supervisor.processes import Process, send

from .task_record import read_json

Processes = Callable[[], Awaitable[list[Process]]]
POLL_S = 0.02
FROZEN, TOLD = "frozen.json", "told.json"


async def freeze(task: Path, processes: Processes, signalled: Callable[[], Awaitable[None]] | None = None) -> None:
    """Stop all of the task, but for its init. Those that stood still before are noted, for a later agent, too.

    signalled: called once, when each process has got its signal.
    """
    if read_json(task / FROZEN) is None:
        own = _own(task, await processes())
        stopped = [inner_pid(each.pid) for each in own if _stands_still(each.pid)]
        await asyncio.to_thread(write_durably, task / FROZEN, json.dumps({"stopped": stopped}).encode())
    before: list[Process] | None = None
    while True:
        own = _own(task, await processes())
        moving = [each for each in own if not _stands_still(each.pid)]
        if not moving and own == before:
            return  # twice: a process that was forked while the first list was made is in the second one
        before = own
        for each in moving:
            send(each, signal.SIGSTOP)
        if signalled is not None:
            await signalled()
            signalled = None
        await asyncio.sleep(POLL_S)


async def thaw(task: Path, processes: Processes) -> None:
    """Let it go on, but for what stood still before."""
    _continue(_own(task, await processes()), stopped_before(task))
    (task / FROZEN).unlink(missing_ok=True)


def stopped_before(task: Path) -> list[int]:
    """Processes, in their namespace, that stood still before the task was frozen."""
    return list((read_json(task / FROZEN) or {}).get("stopped", ()))


async def go_on(task: Path, processes: Processes, *, anew: bool) -> None:
    """Let a restored task go on; or its init ends it, and starts its command."""
    if read_json(task / TOLD) is None:
        await asyncio.to_thread(write_durably, task / TOLD, json.dumps({"anew": anew}).encode())
    about = (read_json(task / "task.json") or {}).get("restores") or {}
    found = await processes()
    if (read_json(task / TOLD) or {})["anew"]:
        for each in found:
            if each not in _own(task, found):
                send(each, signal.SIGUSR1)
    else:
        _continue(_own(task, found), about.get("stopped", ()))


def _own(task: Path, processes: list[Process]) -> list[Process]:
    """Without the supervisor's own child, the init."""
    supervisor = (read_json(task / "running.json") or {}).get("supervisor_pid")
    return [each for each in processes if each.parent != supervisor]


def _continue(processes: list[Process], but: Collection[int]) -> None:
    for each in processes:
        if inner_pid(each.pid) not in but:
            send(each, signal.SIGCONT)


def _stands_still(pid: int) -> bool:
    """All threads of the process, or it is gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                line = (thread / "stat").read_bytes()
                if line[line.rindex(b")") + 2 :][:1] not in b"TtZX":
                    return False
    return True
