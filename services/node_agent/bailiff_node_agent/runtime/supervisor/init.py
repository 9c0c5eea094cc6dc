"""The first process of a task that may not see others, or may be saved by the platform: the init of a PID namespace of its own.

A restored task gets the ids that it had, which must be free: in a new namespace they are. The init is no part of what is saved,
nor are the namespaces: a start and a restore make them anew, in the same way, for the same program to run in. It reaps, and says
how the main process has ended. When it ends, the kernel kills whatever is left of the task; it ends with its supervisor.
"""

import contextlib
import errno
import json
import os
import select
import signal
from collections.abc import Callable
from typing import Any

from . import criu, safe_open
from .host import boottime_us, write_json
from .isolation import drop_capabilities, fork_as_init, isolate, own_mounts, own_proc
from .job import EXEC_WITHIN_US, NOT_STARTED, Beginning, open_log, reach_socket
from .lease import Lease
from .processes import scan

REPORT_BYTES = 4096


class Init:
    """The supervisor's side. pid: the init's. main: the main process's pid, once it runs; inner: that in its own namespace.

    code: the main process's exit code, once it has ended. restored: how the restoring ended, if there was something to restore.
    """

    def __init__(self, pid: int, why_not: int, reports: int, restored: dict[str, Any] | None) -> None:
        self.pid, self.why_not, self.reports = pid, why_not, reports
        self.main: int | None = None
        self.code: int | None = None
        self.restored = restored
        self.is_over = False
        self.cgroup: str | None = None
        self.inner: int | None = None
        self._unread = b""

    def read(self) -> None:
        """Take what the init has reported."""
        with contextlib.suppress(BlockingIOError):
            while not self.is_over:
                data = os.read(self.reports, REPORT_BYTES)
                self.is_over = not data
                self._unread += data
        *lines, self._unread = self._unread.split(b"\n")
        for report in map(json.loads, lines):
            if "main" in report:
                self.inner, self.main = report["main"], None  # started anew, it is another one
            self.code = report.get("code", self.code)
            self.restored = report.get("restored", self.restored)
        if self.main is None and self.inner is not None:
            children = [process.pid for process in scan() if process.parent == self.pid]
            self.main = next((pid for pid in children if inner_pid(pid) == self.inner), None)

    def await_main(self) -> None:
        """Until the main process is there, or there will be none; at most 5 s: a mount may be of a server that never answers."""
        until = boottime_us() + EXEC_WITHIN_US
        while self.main is None and not self.is_over and (left := until - boottime_us()) > 0:
            select.select([self.reports], [], [], left / 1_000_000)
            self.read()

    def dump(self, request: dict[str, Any]) -> int:
        """Begin to save the main process and its children; the pid of who does it. Raises `OSError`."""
        if self.inner is None:
            raise ProcessLookupError(errno.ESRCH, "the task does not run")
        return criu.dump(request, self.pid, self.inner, self.cgroup)


def needs_init(launch: dict[str, Any]) -> bool:
    """Whether it is started in this way: it may be saved, or is isolated and root."""
    return bool(launch.get("saves") or (launch["hidden"] and os.geteuid() == 0))


def start_init(
    launch: dict[str, Any], lease: Lease, record: "Callable[[int], None]", task_dir: str, tty: int | None = None
) -> Init:
    """Start a task in namespaces of its own, where it is restored if the launch says from what.

    record: called with the pid of its main process before anything of the job runs; with that of the init where it is restored,
    or takes long. tty: the terminal that it gets.
    """
    lease.has_expired()  # read before there is a task to stop: a file that is missing later was removed
    why_not, writer = os.pipe()
    waits, recorded = os.pipe()
    reports, telling = os.pipe()
    image, restored = None, None
    if launch["restore"]:
        try:
            image = criu.open_image(launch["restore"])
        except OSError as problem:
            restored = {"code": 1, "us": 0, "why": problem.strerror}
    work = os.open(task_dir, os.O_RDONLY | os.O_DIRECTORY)
    pid = fork_as_init()
    if pid:
        for handle in (writer, waits, telling, work, *([] if image is None else [image])):
            os.close(handle)
        os.set_blocking(reports, False)
        init = Init(pid, why_not, reports, restored)
        init.cgroup = launch.get("cgroup")
        if image is None:
            init.await_main()
        record(init.main or pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(recorded, b"1")
        os.close(recorded)
        return init
    with Beginning(writer) as at:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _close_all_but(writer, waits, telling, work, image, tty)
        if image is not None and not os.read(waits, 1):
            return os._exit(NOT_STARTED)
        os.setsid()
        os.close(open_log(launch))
        at.enter_cgroup(launch, lease)
        at.step = "isolation"
        if launch["hidden"]:
            isolate(launch["hidden"], launch["kept"], launch.get("read_only", []), launch["log"])
        else:
            own_mounts()
        own_proc()
        main = None
        if image is not None:
            at.step = "restore"
            main = _restore(launch, image, work, telling)
        os.close(work)
        anew = Anew(is_possible=main is not None and bool(launch["restore"].get("waits")))
        if main is None:
            main = _fork_main(launch, writer, tty, waits if image is None else None)
        _tell(telling, {"main": main})
        for handle in (writer, waits, *([] if tty is None else [tty])):
            os.close(handle)
        _reap_all(main, telling, anew)
        if anew.is_asked:
            main = _fork_main(launch, os.open(os.devnull, os.O_WRONLY))
            _tell(telling, {"main": main})
            _reap_all(main, telling, Anew(is_possible=False))
    return os._exit(0)


class Anew:
    """Whether a restored task, which has not run on yet, is to end and be started from its command: asked for by SIGUSR1."""

    def __init__(self, *, is_possible: bool) -> None:
        self.is_asked = False
        if is_possible:
            signal.signal(signal.SIGUSR1, self._begin)

    def _begin(self, *_: object) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        self.is_asked = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # all in this namespace but its init, which this is


def _fork_main(launch: dict[str, Any], writer: int, tty: int | None = None, waits: int | None = None) -> int:
    """waits: what the supervisor writes to once it has recorded this process."""
    pid = os.fork()
    if pid:
        return pid
    with Beginning(writer) as at:
        if waits is not None and not os.read(waits, 1):
            return os._exit(NOT_STARTED)
        os.setsid()
        if tty is not None:
            log = at.take_terminal(tty)
        else:
            log = _open_log_inside(launch)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # one that is open in these mounts, as all that can be saved must be
        at.print_to(log)
        if launch["hidden"]:
            at.step = "isolation"
            drop_capabilities()
            reach_socket(launch["env"], launch["control_dir"])
        at.execute(launch, dies_with_parent=False)
    return os._exit(NOT_STARTED)


def _restore(launch: dict[str, Any], image: int, work: int, telling: int) -> int | None:
    """The main process, if it was restored. If it was not, nothing of it is left."""
    began, how = boottime_us(), launch["restore"]
    code, why = 1, ""
    try:
        held = {how["log"]: _open_log_inside(launch)}
        if how["control"]:  # a job whose path to the socket would be too long holds it open
            held[how["control"]] = os.open(launch["control_dir"], os.O_PATH | os.O_DIRECTORY)
        code = criu.restore(how, image, work, held)
    except OSError as problem:
        why = problem.strerror or str(problem)
    _tell(telling, {"restored": {"code": code, "us": boottime_us() - began, "why": why}})
    return int(how["main"]) if code == 0 else None


def _open_log_inside(launch: dict[str, Any]) -> int:
    """In these mounts: a handle from outside of them cannot be saved. Where the log's folder is hidden, the log is a mount."""
    if not launch["hidden"]:
        return safe_open.open_log(launch["log"])
    return os.open(launch["log"], os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)


def _reap_all(main: int, telling: int, anew: Anew) -> None:
    """Until no process is left."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.wait()
            if pid == main and not anew.is_asked:
                _tell(telling, {"code": os.waitstatus_to_exitcode(status)})


def _tell(telling: int, report: dict[str, Any]) -> None:
    os.write(telling, json.dumps(report).encode() + b"\n")


def _close_all_but(*kept: int | None) -> None:
    for name in os.listdir("/proc/self/fd"):
        handle = int(name)
        if handle > 2 and handle not in kept:
            with contextlib.suppress(OSError):  # the one that lists them
                os.close(handle)


def inner_pid(pid: int) -> int | None:
    """The process's id in its own PID namespace; None once it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as file:
        return next((int(line.split()[-1]) for line in file if line.startswith("NSpid:")), None)
    return None


class Saves:
    """What the agent asks to save: `save.json` in the task folder, answered by `saved.json`."""

    def __init__(self, task_dir: str, init: Init) -> None:
        self._request, self._answer, self._init = f"{task_dir}/save.json", f"{task_dir}/saved.json", init
        self._pid: int | None = None
        self._asked: dict[str, Any] = {}
        self._unwritten: dict[str, Any] | None = None
        self._began = 0

    def step(self, exited: dict[int, int]) -> None:
        """Begin what is asked for, or answer it. exited: exit codes of processes that have ended."""
        if self._pid is not None and self._pid in exited:
            self._answered(exited[self._pid])
        elif self._unwritten is not None:
            self._write(self._unwritten)
        if self._pid is None and self._unwritten is None and os.path.exists(self._request):
            with open(self._request) as file:  # the agent's, which has written it whole
                self._asked, self._began = json.load(file), boottime_us()
            try:
                self._pid = self._init.dump(self._asked)
            except OSError as problem:
                self._answered(1, problem.strerror or str(problem))

    def _answered(self, code: int, why: str = "") -> None:
        self._pid = None
        answer = {"id": self._asked["id"], "code": code, "us": boottime_us() - self._began, "why": why, "main": self._init.inner}
        self._write({**answer, "connections": self._asked.get("connections", [])})

    def _write(self, answer: dict[str, Any]) -> None:
        """On a full disk the agent waits until this succeeds, or for its deadline."""
        self._unwritten = answer
        with contextlib.suppress(OSError):
            write_json(self._answer, answer)
            self._unwritten = None
            with open(self._request) as file:
                is_answered = json.load(file)["id"] == answer["id"]
            if is_answered:  # otherwise an agent that has started meanwhile asks for another one
                os.unlink(self._request)
