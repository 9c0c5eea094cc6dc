"""The task as processes: started, waited for, and ended with all that it left behind."""

import ctypes
import json
import os
import signal
from typing import Any

from .host import boottime_us
from .lease import LEASE_OVER, Lease
from .processes import descendants, scan, send
from .stopping import Processes
from .watch import Watch

LEFTOVER_GRACE_S = 2.0
PR_SET_PDEATHSIG = 1


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
        user = launch.get("user")
        if user is not None:
            os.fchown(log, user["uid"], user["gid"])
        os.setsid()
        if launch.get("cgroup"):
            step = "cgroup"
            with open(f"{launch['cgroup']}/cgroup.procs", "w") as group:
                group.write("0")
        if user is not None:
            step = "user"
            os.setgroups(user["groups"])
            os.setresgid(user["gid"], user["gid"], user["gid"])
            os.setresuid(user["uid"], user["uid"], user["uid"])
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


def wait_for_main(pid: int, watch: Watch) -> int:
    body = Processes(pid)
    while (code := reap(pid)) is None:
        watch.enforce(body)
        watch.wait()
    return code


def end_leftovers(control: str, session: int, watch: Watch) -> int:
    """TERM, a while, KILL to all that outlived the main process; returns how many they were."""
    ended_at, body = boottime_us(), Processes(session)
    asked: set[tuple[int, int]] = set()
    while tree := descendants({os.getpid()}, scan()):
        patience_us = ended_at + int(LEFTOVER_GRACE_S * 1_000_000)
        terminating = os.path.exists(f"{control}/terminating.json")
        if terminating:
            with open(f"{control}/terminating.json") as file:
                patience_us = max(patience_us, json.load(file)["until_boottime_us"])
        watch.enforce(body)
        for process in tree:
            if boottime_us() >= patience_us:
                send(process, signal.SIGKILL)
            elif process[:2] not in asked and not (terminating and process.session == session):
                # The agent's own TERM has gone to the main session; a second one cuts a clean end short.
                send(process, signal.SIGTERM)
        asked.update(process[:2] for process in tree)
        watch.wait(0.05)
        reap(session)
    return len(asked)
