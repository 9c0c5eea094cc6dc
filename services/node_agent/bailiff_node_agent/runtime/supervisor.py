"""The small process that stands between the agent and one task, and outlives the agent.

Started as `python -I -S supervisor.py CONTROL_DIRECTORY LOCK_FD LEASE_FILE` with the launch as JSON on standard input, so
that command and environment appear in no argument list and on no disk. It becomes the parent of everything the task
leaves behind (child subreaper), ends what outlives the main process, and writes `exit.json` only when the whole tree is
gone.

It holds the lock on `<control>/lock` as long as it lives: a free lock means that there is no supervisor (any more).

The agent renews the node's lease on disk while Kafka hears it. When nobody does, this process stops the task by itself,
so that it is gone before the log gives the node up and runs the job elsewhere (log protocol §7).
"""
# Without pathlib, which would make each task's supervisor slower to start and larger.
# ruff: noqa: PTH104, PTH110, PTH112, PTH120, PTH123, PTH208

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from typing import Any, NamedTuple

LEFTOVER_GRACE_S = 2.0
LEASE_LOOK_S = 5.0  # at most so long between two looks: the clock of waits does not count suspended time
LEASE_OVER = "the agent was not heard for longer than the node's lease"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Process(NamedTuple):
    """One living process. The pid alone may be used again; pid and start name one process for ever."""

    pid: int
    started: int  # clock ticks since boot
    parent: int
    group: int
    session: int


def read_process(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The program's name stands in parentheses and may contain spaces and parentheses of its own.
    state, parent, group, session, *rest = stat[stat.rindex(b")") + 2 :].split()
    threads, started = int(rest[13]), int(rest[15])
    # A main thread that has ended looks like a zombie while other threads of it still run.
    if state in (b"Z", b"X") and threads <= 1:
        return None
    return Process(pid, started, int(parent), int(group), int(session))


def scan() -> list[Process]:
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return [process for process in found if process]


def descendants(ancestors: set[int], processes: list[Process]) -> list[Process]:
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    seen, todo = set(ancestors), list(ancestors)
    while todo:
        for child in children.get(todo.pop(), []):
            if child.pid not in seen:
                seen.add(child.pid)
                found.append(child)
                todo.append(child.pid)
    return sorted(found)


def send(process: Process, signum: int) -> None:
    """Signal this very process, never another one that has got its pid since."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        now = read_process(process.pid)
        if now and now.started == process.started:
            signal.pidfd_send_signal(handle, signum)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def boottime_us() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def write_json(path: str, content: dict[str, Any]) -> None:
    """Whole or not at all, also after a power loss. (The agent has its own; this file can import none of ours.)"""
    with open(f"{path}.new", "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


class Lease:
    """The node's lease as the agent renews it, and the end of this task once it is over. Without a file: no limit."""

    def __init__(self, path: str, control: str) -> None:
        self.path, self.control = path, control
        self.stages: list[str] = []
        self.kill_at: int | None = None
        self._last: tuple[int, int] | None = None

    def is_over(self) -> bool:
        return self._look() is not None

    def patience_s(self) -> float:
        """How long to wait until there is something to do about it."""
        next_at = self.kill_at if self.kill_at is not None else self._last[0] if self._last else None
        if next_at is None:
            return LEASE_LOOK_S
        # Past the deadline there is still what was born while the tree was killed.
        return min(LEASE_LOOK_S, max(0.05, (next_at - boottime_us()) / 1_000_000))

    def enforce(self, session: int) -> None:
        """Notice and TERM when it is over, KILL to the whole tree when the grace is, too."""
        if self.kill_at is None:
            self.kill_at = self._look()
            if self.kill_at is None:
                return
            self._ask_to_end(session)
        if boottime_us() >= self.kill_at:
            for process in descendants({os.getpid()}, scan()):
                self._reached("kill_sent")
                send(process, signal.SIGKILL)

    def _look(self) -> int | None:
        """When the task is to be killed; None while the lease holds."""
        try:
            with open(self.path) as file:
                lease = json.load(file)
            if lease["boot_id"] != boot_id():
                return boottime_us()
            self._last = lease["until_boottime_us"], lease["grace_us"]
        except FileNotFoundError:
            # A file that is gone was taken away under a living task: nobody will renew it any more.
            return boottime_us() + self._last[1] if self._last else None
        except (OSError, ValueError):
            pass  # a disk that fails: go by what was read last
        return sum(self._last) if self._last and boottime_us() >= self._last[0] else None

    def _ask_to_end(self, session: int) -> None:
        assert self.kill_at is not None
        if os.path.exists(f"{self.control}/terminating.json"):
            return  # the agent has said TERM already, and a second one cuts a clean end short
        grace_s = max(0, self.kill_at - boottime_us()) // 1_000_000
        with contextlib.suppress(OSError):  # a full disk must not keep the task alive
            write_json(f"{self.control}/notice.json", {"reason": LEASE_OVER, "for": "", "grace_s": grace_s})
            self._reached("noticed")
            write_json(f"{self.control}/terminating.json", {"until_boottime_us": self.kill_at, "lease_over": True})
        self._reached("term_sent")
        for process in descendants({os.getpid()}, scan()):
            if process.session == session:
                send(process, signal.SIGTERM)

    def _reached(self, stage: str) -> None:
        if stage not in self.stages:
            self.stages.append(stage)


def start_job(launch: dict[str, Any], lease: Lease) -> tuple[int, str | None]:
    """The job's pid, and why it could not be started."""
    command = launch["command"]
    arguments = ["/bin/sh", "-c", command] if isinstance(command, str) else command
    lease.is_over()  # read once before there is anybody to stop: a file that is gone later was taken away
    reader, writer = os.pipe()  # closed by a successful exec
    pid = os.fork()
    if pid:
        os.close(writer)
        with os.fdopen(reader) as why:
            return pid, why.read() or None
    step, code = "log file", 126
    try:
        log = os.open(launch["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.setsid()
        if launch.get("cgroup"):
            step = "cgroup"
            with open(f"{launch['cgroup']}/cgroup.procs", "w") as group:
                group.write("0")
        step = "working directory"
        os.chdir(launch["working_dir"])
        step = "command"
        # Python itself ignores some signals (SIGPIPE), and ignored or blocked they would stay in the job.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # A main process that nobody supervises would outlive the lease, where no agent is left to find it.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if lease.is_over():
            os.write(writer, LEASE_OVER.encode())
            os.kill(os.getpid(), signal.SIGKILL)
        os.execvpe(arguments[0], arguments, launch["env"])  # noqa: S606 - starting what it is given is its purpose
    except OSError as problem:
        code = 127 if isinstance(problem, FileNotFoundError) else 126
        os.write(writer, f"{step}: {problem.strerror}".encode())
    except Exception as problem:  # noqa: BLE001 - whatever it is, this copy of the supervisor must end here
        os.write(writer, f"{step}: {type(problem).__name__}".encode())
    finally:
        os._exit(code)


def reap(pid: int) -> int | None:
    """Collect all children that have ended; the exit code of this one if it was among them."""
    code = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if not ended:
            return code
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)


def wait_for_main(pid: int, lease: Lease) -> int:
    while (code := reap(pid)) is None:
        lease.enforce(pid)
        signal.sigtimedwait({signal.SIGCHLD}, lease.patience_s())
    return code


def end_leftovers(control: str, session: int, lease: Lease) -> int:
    """TERM, a while, KILL to all that outlived the main process; returns how many they were."""
    ended_at = boottime_us()
    asked: set[tuple[int, int]] = set()
    while tree := descendants({os.getpid()}, scan()):
        patience_us = ended_at + int(LEFTOVER_GRACE_S * 1_000_000)
        terminating = os.path.exists(f"{control}/terminating.json")
        if terminating:
            with open(f"{control}/terminating.json") as file:
                patience_us = max(patience_us, json.load(file)["until_boottime_us"])
        lease.enforce(session)
        for process in tree:
            if boottime_us() >= patience_us:
                send(process, signal.SIGKILL)
            elif process[:2] not in asked and not (terminating and process.session == session):
                # The agent's own TERM has gone to the main session; a second one cuts a clean end short.
                send(process, signal.SIGTERM)
        asked.update(process[:2] for process in tree)
        signal.sigtimedwait({signal.SIGCHLD}, 0.05)
        reap(session)
    return len(asked)


def supervise(control: str, launch: dict[str, Any], lease: Lease, ready: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot become the reaper of the task's processes")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    started = boottime_us()
    pid, error = start_job(launch, lease)
    if error == LEASE_OVER:
        lease.stages.append("kill_sent")
    me, main = read_process(os.getpid()), read_process(pid)
    running = {
        "pid": pid,
        "started": main.started if main else 0,
        "supervisor_pid": os.getpid(),
        "supervisor_started": me.started if me else 0,
        "started_boottime_us": started,
        "boot_id": boot_id(),
    }
    write_json(f"{control}/running.json", running)
    os.close(ready)
    code = wait_for_main(pid, lease)
    leftovers = end_leftovers(control, pid, lease)
    end = {
        "code": code,
        "at_boottime_us": boottime_us(),
        "boot_id": boot_id(),
        "leftovers": leftovers,
        "error": error,
        "supervisor_lost": False,
        "lease_stages": lease.stages,
    }
    while os.path.isdir(control):
        try:
            write_json(f"{control}/exit.json", end)
        except OSError:
            time.sleep(1)  # a full disk must not turn a finished job into a lost one
        else:
            return


def main() -> None:
    control, lock, lease = sys.argv[1], int(sys.argv[2]), Lease(sys.argv[3], sys.argv[1])
    launch = json.load(sys.stdin)
    os.set_inheritable(lock, False)
    os.chdir("/")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    waiting, ready = os.pipe()
    if os.fork():
        # The agent waits for this process only, and gets on when the job runs; the other one belongs to init.
        os.close(ready)
        os.read(waiting, 1)
        os._exit(0)
    os.close(waiting)
    supervise(control, launch, lease, ready)


if __name__ == "__main__":
    main()
