"""Starts a task's processes, waits for them, and kills those that outlive the main process."""

import ctypes
import fcntl
import json
import os
import select
import signal
import termios
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import safe_open
from .host import boottime_us
from .isolation import PR_SET_PDEATHSIG, isolate
from .lease import LEASE_EXPIRED, Lease
from .processes import descendants, scan, send
from .stopping import Processes
from .watchdog import Watchdog

if TYPE_CHECKING:
    from typing import Self

LEFTOVER_GRACE_S = 2.0
NOT_STARTED = 126
EXEC_WITHIN_US, EXEC_POLL_S = 5_000_000, 0.05
FIRST_INHERITED = 100  # lower handles are those of the job's own choice


def start_job(launch: dict[str, Any], lease: Lease, record: "Callable[[int], None]", tty: int | None = None) -> tuple[int, int]:
    """The job's pid, and a pipe with the error if it cannot be started; empty if it was. tty: the terminal that it gets.

    record: called with its pid before anything of the job runs, which could stop this process.
    """
    lease.has_expired()  # read before there is a task to stop: a file that is missing later was removed
    reader, writer = os.pipe()  # closed by a successful exec
    waits, recorded = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        os.close(waits)
        record(pid)
        os.write(recorded, b"1")
        os.close(recorded)
        return pid, reader
    with Beginning(writer) as at:
        os.close(recorded)
        if not os.read(waits, 1):
            return os._exit(NOT_STARTED)
        if tty is None:
            log = open_log(launch)
        os.setsid()
        if tty is not None:
            log = at.take_terminal(tty)
        at.print_to(log)
        at.enter_cgroup(launch, lease)
        if launch["hidden"]:
            at.step = "isolation"
            isolate(launch["hidden"], launch["kept"], launch.get("read_only", []))
            reach_socket(launch["env"], launch["control_dir"])
        # Without a supervisor the main process would outlive the lease, with no agent left to find it.
        at.execute(launch, dies_with_parent=True)
    return os._exit(NOT_STARTED)


class Beginning:
    """A process that is to become the job's. step: what it does; if it fails, the supervisor is told so, and the process ends.

    The job's log says it, too, with the name of the program, which is private.
    """

    def __init__(self, supervisor: int) -> None:
        self.step, self._supervisor = "log file", supervisor
        self._prints, self._program = False, ""

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, _kind: object, problem: "BaseException | None", _trace: object) -> None:
        if problem is None:
            return
        why = problem.strerror if isinstance(problem, OSError) else type(problem).__name__
        try:
            os.write(self._supervisor, f"{self.step}: {why}".encode())
            if self._prints:
                text = f"[bailiff] it was not started: {self.step}{self._program}: {why}\n"
                os.write(2, text.encode(errors="surrogateescape"))
        finally:  # whatever it is, this copy of the supervisor must end here
            os._exit(127 if isinstance(problem, FileNotFoundError) else NOT_STARTED)

    def print_to(self, log: int) -> None:
        """What it prints goes there from now on."""
        os.dup2(log, 1)
        os.dup2(log, 2)
        self._prints = True

    def take_terminal(self, tty: int) -> int:
        """It is the terminal of this session, and its input; returned for its output."""
        self.step = "terminal"
        fcntl.ioctl(tty, termios.TIOCSCTTY, 0)
        os.dup2(tty, 0)
        return tty

    def enter_cgroup(self, launch: dict[str, Any], lease: Lease) -> None:
        """Join the task's cgroup, unless the lease has expired: its file may be hidden from now on."""
        if launch.get("cgroup"):
            self.step = "cgroup"
            with open(f"{launch['cgroup']}/cgroup.procs", "w") as group:
                group.write("0")
        if lease.has_expired():
            os.write(self._supervisor, LEASE_EXPIRED.encode())
            os.kill(os.getpid(), signal.SIGKILL)

    def execute(self, launch: dict[str, Any], *, dies_with_parent: bool) -> None:
        """Become the job's command, as its user."""
        user, command = launch.get("user"), launch["command"]
        if user is not None:
            self.step = "user"
            os.setgroups(user["groups"])
            os.setresgid(user["gid"], user["gid"], user["gid"])
            os.setresuid(user["uid"], user["uid"], user["uid"])
        self.step = "working directory"
        _enter_folder(launch)
        self.step = "command"
        # Python itself ignores some signals (SIGPIPE), and ignored or blocked they would stay in the job.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if dies_with_parent:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        arguments = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        self._program = f" {arguments[0]}"
        os.execvpe(arguments[0], arguments, launch["env"])  # noqa: S606 - starting what it is given is its purpose


def open_log(launch: dict[str, Any]) -> int:
    """A handle to append to the task's log, which is its user's."""
    log, user = safe_open.open_log(launch["log"]), launch.get("user")
    if user is not None:
        os.fchown(log, user["uid"], user["gid"])
    return log


def _enter_folder(launch: dict[str, Any]) -> None:
    """Enter the working directory: the job's own, else that from which it was submitted, else the user's home."""
    submitted_from = launch["env"].get("BAILIFF_SUBMIT_DIR")
    if launch["working_dir"] is None and submitted_from:
        try:
            os.chdir(submitted_from)
        except OSError as problem:
            text = f"[bailiff] it runs in {launch['home']}: {submitted_from}, where it was submitted: {problem.strerror}\n"
            os.write(2, text.encode(errors="surrogateescape"))
        else:
            return
    os.chdir(launch["working_dir"] or launch["home"])


def reach_socket(env: dict[str, str], control_dir: str) -> None:
    """An isolated job has no access to the supervisor's files in /proc: a path that is too long goes through the job's own."""
    if not env["BAILIFF_SOCKET"].startswith("/proc/"):
        return
    folder = os.open(control_dir, os.O_PATH | os.O_DIRECTORY)
    inherited = fcntl.fcntl(folder, fcntl.F_DUPFD, FIRST_INHERITED)
    env["BAILIFF_SOCKET"] = f"/proc/{os.getpid()}/fd/{inherited}/socket"


def wait_for_exec(
    pid: int, why_not: int, watchdog: Watchdog, ready: int, begun: "Callable[[], None]" = lambda: None
) -> str | None:
    """The error if the job could not be started. ready: closed by then, or after 5 s. begun: called before, once it is known.

    Its working directory or program may be on a file system that never answers: deadlines and lease hold meanwhile.
    """
    task, announced_at = Processes(pid), boottime_us() + EXEC_WITHIN_US
    while not select.select([why_not], [], [], EXEC_POLL_S)[0]:
        watchdog.enforce(task)
        watchdog.wait(0)
        if ready >= 0 and boottime_us() >= announced_at:
            os.close(ready)
            ready = -1
    with os.fdopen(why_not) as why:
        error = why.read() or None
    begun()
    if ready >= 0:
        os.close(ready)
    return error


def reap() -> dict[int, int]:
    """Reap all children that have exited: their exit codes by pid."""
    codes: dict[int, int] = {}
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return codes
        if not child:
            return codes
        codes[child] = os.waitstatus_to_exitcode(status)


def wait_for_main(pid: int, watchdog: Watchdog) -> int:
    """The main process's exit code."""
    task = Processes(pid)
    while pid not in (exited := reap()):
        watchdog.enforce(task)
        watchdog.wait()
    return exited[pid]


def kill_leftovers(task_dir: str, session: int, watchdog: Watchdog, init: int | None = None) -> int:
    """TERM, a grace, KILL to every process that outlived the main process; returns how many there were.

    init: not it, which ends by itself once nothing else is left.
    """
    exited_at, task = boottime_us(), Processes(session)
    terminated: set[tuple[int, int]] = set()
    while tree := [process for process in descendants({os.getpid()}, scan()) if process.pid != init]:
        kill_at = exited_at + int(LEFTOVER_GRACE_S * 1_000_000)
        terminating = os.path.exists(f"{task_dir}/terminating.json")
        if terminating:
            with open(f"{task_dir}/terminating.json") as file:
                kill_at = max(kill_at, json.load(file)["until_boottime_us"])
        watchdog.enforce(task)
        for process in tree:
            if boottime_us() >= kill_at:
                send(process, signal.SIGKILL)
            elif process[:2] not in terminated and not (terminating and process.session == session):
                # The agent has sent TERM to the main session already; a second one would cut a clean shutdown short.
                send(process, signal.SIGTERM)
        terminated.update(process[:2] for process in tree)
        watchdog.wait(0.05)
        reap()
    return len(terminated)
