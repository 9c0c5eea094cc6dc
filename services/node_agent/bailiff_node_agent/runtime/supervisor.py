"""The small process that stands between the agent and one task, and outlives the agent.

Started as `python -I -S supervisor.py CONTROL_DIRECTORY LOCK_FD LEASE_FILE` with the launch as JSON on standard input, so
that command and environment appear in no argument list and on no disk. It becomes the parent of everything the task
leaves behind (child subreaper), ends what outlives the main process, and writes `exit.json` only when the whole tree is
gone. It stays the agent's user where the task runs as another one: that one has a folder of its own for what lies between
job and node (`wall`), and nothing in the control directory.

It holds the lock on `<control>/lock` as long as it lives: a free lock means that there is no supervisor (any more).

The agent renews the node's lease on disk while Kafka hears it. When nobody does, this process stops the task by itself,
so that it is gone before the log gives the node up and runs the job elsewhere (log protocol §7). It keeps an eviction's
deadlines (`deadlines.json`), too, where the agent that set them is dead when they come.

It serves `<control>/socket`, where the job says how far it is. What it says is hostile input: it is checked and bounded,
and written to `<control>/said.jsonl` before it is answered, which the agent follows.
"""
# Without pathlib, which would make each task's supervisor slower to start and larger.
# ruff: noqa: PTH104, PTH108, PTH110, PTH112, PTH116, PTH120, PTH123, PTH208

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

LEFTOVER_GRACE_S = 2.0
LEASE_LOOK_S = 5.0  # at most so long between two looks: the clock of waits does not count suspended time
LEASE_OVER = "the agent was not heard for longer than the node's lease"
LEAD_US = 1_000_000  # so much later than the agent, which keeps the same deadlines while it lives
LEASE_PART = 5  # of the time that is left when the lease is over, so much is between TERM and KILL
LONGEST_LINE, LONGEST_JOURNAL = 4096, 256 * 1024
MOST_CONNECTIONS, KNOCKING, LINES_AT_ONCE, LINES_PER_S = 16, 128, 100, 20
LONGEST_SOCKET_PATH = 107
MOST = 2**53 - 1
TOO_LONG = f"the line is longer than {LONGEST_LINE} bytes"
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
            line = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The program's name stands in parentheses and may contain spaces and parentheses of its own.
    state, parent, group, session, *rest = line[line.rindex(b")") + 2 :].split()
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


class Body(Protocol):
    """What a task consists of, as far as it can be ended."""

    def ask_to_end(self) -> None:
        """TERM."""
        ...

    def end(self) -> bool:
        """KILL to all of it; whether there was anything left."""
        ...


class Processes:
    """All that descends from this process; its main session is that of the task's main process."""

    def __init__(self, session: int) -> None:
        self.session = session

    def ask_to_end(self) -> None:
        """TERM to the main session. What has left it is asked when the main process has ended."""
        for process in descendants({os.getpid()}, scan()):
            if process.session == self.session:
                send(process, signal.SIGTERM)

    def end(self) -> bool:
        """KILL to each; whether there was one."""
        tree = descendants({os.getpid()}, scan())
        for process in tree:
            send(process, signal.SIGKILL)
        return bool(tree)


class Stop:
    """TERM and KILL for the task, each when it is due. `stages`: what was really done."""

    def __init__(self, control: str, term_at: int, kill_at: int) -> None:
        self.control, self.term_at, self.kill_at = control, term_at, kill_at
        self.stages: list[str] = []
        self._asked = False

    def next_at(self) -> int:
        """When there is something to do. Past the deadline there is still what was born while the tree was killed."""
        return self.kill_at if self._asked else self.term_at

    def enforce(self, body: Body) -> None:
        """TERM once, KILL until nothing is left."""
        now = boottime_us()
        if not self._asked and now >= self.term_at:
            self._asked = True
            self._ask_to_end(body)
        if now >= self.kill_at and body.end():
            self.reached("kill_sent")

    def reached(self, stage: str) -> None:
        if stage not in self.stages:
            self.stages.append(stage)

    def _ask_to_end(self, body: Body) -> None:
        if os.path.exists(f"{self.control}/terminating.json"):
            return  # the agent has said TERM already, and a second one cuts a clean end short
        with contextlib.suppress(OSError):  # a full disk must not keep the task alive
            write_json(f"{self.control}/terminating.json", {"until_boottime_us": self.kill_at, "by_supervisor": True})
        self.reached("term_sent")
        body.ask_to_end()


class Lease:
    """The node's lease as the agent renews it, and the end of this task once it is over. Without a file: no limit."""

    def __init__(self, path: str, control: str) -> None:
        self.path, self.control = path, control
        self.stop: Stop | None = None
        self.killed_at_start = False
        self._last: tuple[int, int] | None = None

    @property
    def stages(self) -> list[str]:
        """What was done to the task because the lease was over."""
        return ["kill_sent"] if self.killed_at_start else self.stop.stages if self.stop else []

    def is_over(self) -> bool:
        return self._look() is not None

    def next_at(self) -> int | None:
        """When to look again, boot-time µs."""
        return self.stop.next_at() if self.stop else self._last[0] if self._last else None

    def enforce(self, body: Body, warn: Callable[[int, int], bool]) -> None:
        """When it is over, the task is told; TERM goes with the notice, to one that knows notices later. Then KILL."""
        if self.stop is None:
            kill_at = self._look()
            if kill_at is None:
                return
            self.stop = self._notice(kill_at, warn)
        self.stop.enforce(body)

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

    def _notice(self, kill_at: int, warn: Callable[[int, int], bool]) -> Stop:
        now = boottime_us()
        stop = Stop(self.control, now, kill_at)
        if os.path.exists(f"{self.control}/terminating.json"):
            return stop
        soft_at = kill_at - max(0, kill_at - now) // LEASE_PART
        with contextlib.suppress(OSError):
            listens = warn(soft_at, kill_at)
            stop.reached("noticed")
            stop.term_at = soft_at if listens else now
        return stop


class Deadlines:
    """An eviction's, as the agent has promised them."""

    def __init__(self, control: str) -> None:
        self.control = control
        self.stop: Stop | None = None

    @property
    def stages(self) -> list[str]:
        """What was done here, because the agent was not there to do it."""
        return self.stop.stages if self.stop else []

    def next_at(self) -> int | None:
        return self.stop.next_at() if self.stop else None

    def enforce(self, body: Body) -> None:
        if not self.stages:  # until something was done they may be taken back, or others be set
            self.stop = self._look()
        if self.stop is not None:
            self.stop.enforce(body)

    def _look(self) -> Stop | None:
        try:
            with open(f"{self.control}/deadlines.json") as file:
                told = json.load(file)
            return Stop(self.control, told["term_boottime_us"] + LEAD_US, told["kill_boottime_us"] + LEAD_US)
        except (OSError, ValueError, KeyError, TypeError):
            return None


COUNT, MAYBE, FLAG, DIGEST = f"a whole number from 0 to {MOST}", "such a number or null", "true or false", "64 hex digits"
SAYS: dict[str, dict[str, str]] = {
    "hello": {"v": COUNT, "rank": COUNT, "pid": COUNT},
    "acknowledged": {"step": MAYBE},
    "progress": {"step": COUNT, "total": MAYBE},
    "checkpoint_started": {"step": MAYBE},
    "checkpoint_committed": {"step": COUNT, "bytes": COUNT, "microseconds": COUNT, "sha256": DIGEST, "agreed": FLAG},
    "saving_in_flight": {"step": MAYBE},
    "yielding": {},
    "resumed": {"step": COUNT, "from_attempt": MAYBE, "passed_over": COUNT},
}


def understood(line: bytes) -> dict[str, Any]:
    """What a line of the job says, and nothing else of it. Raises `ValueError` with a sentence for whoever wrote it."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("the line is no JSON object") from None
    if not isinstance(said, dict):
        raise ValueError("the line is no JSON object")
    kind = said.get("say")
    fields = SAYS.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise ValueError(f"say: not one of {', '.join(SAYS)}")
    for name, wanted in fields.items():
        if not _is(wanted, said.get(name)):
            raise ValueError(f"{name} of {kind}: must be {wanted}")
    if kind == "hello" and said["v"] != 1:
        raise ValueError("v of hello: this node speaks version 1 alone")
    return {"say": kind, **{name: said.get(name) for name in fields}}


def _is(wanted: str, value: object) -> bool:
    if wanted == FLAG:
        return isinstance(value, bool)
    if wanted == DIGEST:
        return isinstance(value, str) and len(value) == 64 and all(char in "0123456789abcdef" for char in value)
    number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST
    return number or (wanted == MAYBE and value is None)


class Journal:
    """What the task has said, one line each, numbered. When it has grown long only the newest word of each kind is kept."""

    def __init__(self, path: str) -> None:
        self.path, self._number, self._size = path, 0, 0

    def add(self, said: dict[str, Any]) -> None:
        """On disk when this returns, but for progress, which is old in a moment. Raises `OSError`."""
        line = self._line(self._number + 1, boottime_us(), said)
        if self._size + len(line) > LONGEST_JOURNAL:
            self._shorten()
        with open(self.path, "ab", buffering=0) as file:
            try:
                if file.write(line) != len(line):
                    raise OSError("the disk is full")
                if said["say"] != "progress":
                    os.fsync(file.fileno())
            except OSError:
                with contextlib.suppress(OSError):
                    file.truncate(self._size)
                raise
        self._number, self._size = self._number + 1, self._size + len(line)

    def _line(self, number: int, at_us: int, said: dict[str, Any]) -> bytes:
        return json.dumps({"n": number, "at_us": at_us, **said}).encode() + b"\n"

    def _shorten(self) -> None:
        newest: dict[str, bytes] = {}
        with open(self.path, "rb") as file:
            for line in file:
                kind = json.loads(line)["say"]
                newest.pop(kind, None)
                newest[kind] = line
        with open(f"{self.path}.new", "wb") as file:
            self._size = file.write(b"".join(newest.values()))
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{self.path}.new", self.path)


class Wall:
    """Where the job finds `steps`, `notice.json` and `socket`: the control directory, or the folder of the user it runs as."""

    def __init__(self, control: str, folder: str, user: dict[str, Any] | None) -> None:
        self.control, self.folder, self.user = control, folder, user


class Ear:
    """The task's socket. Whoever floods it waits; whoever sends garbage is told what was wrong with it."""

    def __init__(self, wall: Wall) -> None:
        control = wall.control
        self.wall = wall
        self.greeted = False
        self._journal = Journal(f"{control}/said.jsonl")
        self._poll = select.poll()
        self._heard: dict[int, tuple[socket.socket, bytearray]] = {}
        self._tokens, self._counted_at = float(LINES_AT_ONCE), time.monotonic()
        self._woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        self._poll.register(self._woken, select.POLLIN)
        self.folder = os.open(wall.folder, os.O_RDONLY | os.O_DIRECTORY)
        self._door = self._open()

    def path(self) -> str:
        """Where the job finds the socket. A path may be longer than an address can be; this one's fds are no other user's."""
        path = f"{self.wall.folder}/socket"
        short = self.wall.user is not None or len(os.fsencode(path)) <= LONGEST_SOCKET_PATH
        return path if short else f"/proc/{os.getpid()}/fd/{self.folder}/socket"

    def wait(self, patience_s: float) -> None:
        """Until a child has ended, somebody knocks, or so much time has passed. What was said meanwhile is written down."""
        quiet = not self._may_speak()
        if quiet:
            patience_s = min(patience_s, 1 / LINES_PER_S)
        for handle in self._heard:
            self._poll.modify(handle, 0 if quiet else select.POLLIN)
        for handle, event in self._poll.poll(max(0.0, patience_s) * 1000):
            if handle == self._woken:
                with contextlib.suppress(BlockingIOError):
                    os.read(handle, 1024)
            elif handle in self._heard:
                self._listen(handle, event)
            elif self._door is not None:
                self._let_in(self._door)

    def hear_out(self) -> None:
        """What was said before the end counts, and then nobody is heard any more: the journal is as long as it will be."""
        for _ in range(3):  # let in, hear, hear that it hung up
            self.wait(0)
        for handle in [*self._heard]:
            self._hang_up(handle)
        if self._door is not None:
            self._poll.unregister(self._door.fileno())
            self._door.close()
            self._door = None

    def _open(self) -> socket.socket | None:
        door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            door.bind(f"/proc/self/fd/{self.folder}/socket")
            os.chmod("socket", 0o600, dir_fd=self.folder)
            if self.wall.user is not None:
                os.chown("socket", self.wall.user["uid"], self.wall.user["gid"], dir_fd=self.folder, follow_symlinks=False)
            door.listen(KNOCKING)
        except OSError as problem:  # a job that nobody hears still runs
            sys.stderr.write(f"no socket: {problem.strerror}\n")
            door.close()
            return None
        self._poll.register(door.fileno(), select.POLLIN)
        return door

    def _may_speak(self) -> bool:
        now = time.monotonic()
        self._tokens = min(LINES_AT_ONCE, self._tokens + (now - self._counted_at) * LINES_PER_S)
        self._counted_at = now
        return self._tokens >= 1

    def _let_in(self, door: socket.socket) -> None:
        try:
            connection, _ = door.accept()
        except OSError:
            return
        if len(self._heard) >= MOST_CONNECTIONS:
            self._hang_up(next(iter(self._heard)))
        connection.setblocking(False)
        self._heard[connection.fileno()] = connection, bytearray()
        self._poll.register(connection.fileno(), select.POLLIN)

    def _hang_up(self, handle: int) -> None:
        connection, _ = self._heard.pop(handle)
        self._poll.unregister(handle)
        connection.close()

    def _listen(self, handle: int, event: int) -> None:
        connection, buffer = self._heard[handle]
        try:
            data = connection.recv(LONGEST_LINE)
        except BlockingIOError:
            if not event & (select.POLLHUP | select.POLLERR):
                return
            data = b""
        except OSError:
            data = b""
        buffer += data
        answers = b""
        while (end := buffer.find(b"\n")) >= 0:  # what has come is heard; for more, who said too much has to wait
            self._tokens -= 1
            answers += self._answer(bytes(buffer[:end]))
            del buffer[: end + 1]
        too_long = len(buffer) > LONGEST_LINE
        if too_long:
            answers += _no(TOO_LONG)
        try:
            if answers and connection.send(answers) != len(answers):
                raise BlockingIOError
        except OSError:  # it does not read what it is answered, or is gone
            data = b""
        if not data or too_long:
            self._hang_up(handle)

    def _answer(self, line: bytes) -> bytes:
        if len(line) > LONGEST_LINE:
            return _no(TOO_LONG)
        try:
            said = understood(line)
            if said["say"] == "acknowledged" and not os.path.exists(f"{self.wall.folder}/notice.json"):
                raise ValueError("acknowledged: there is no notice out")
            self._journal.add(said)
        except ValueError as problem:
            return _no(str(problem))
        except OSError as problem:
            return _no(f"the node cannot write it down: {problem.strerror or problem}")
        self.greeted = self.greeted or said["say"] == "hello"
        return b'{"ok": true}\n'


def _no(why: str) -> bytes:
    return json.dumps({"ok": False, "error": why}).encode() + b"\n"


class Watch:
    """All that the supervisor keeps an eye on while the task lives."""

    def __init__(self, wall: Wall, lease: Lease, alone: bool) -> None:
        self.lease, self.deadlines, self.ear, self.alone = lease, Deadlines(wall.control), Ear(wall), alone

    def enforce(self, body: Body) -> None:
        """What is due now."""
        self.lease.enforce(body, self._warn)
        self.deadlines.enforce(body)

    def wait(self, longest_s: float = LEASE_LOOK_S) -> None:
        """Until something happens or is due."""
        moments = [at for at in (self.lease.next_at(), self.deadlines.next_at()) if at is not None]
        until = max(0.05, (min(moments) - boottime_us()) / 1_000_000) if moments else longest_s
        self.ear.wait(min(longest_s, until))

    def _warn(self, soft_at: int, kill_at: int) -> bool:
        """Put the notice where the job looks for it, as the agent would; whether the job has said that it looks."""
        wall = self.ear.wall
        write_notice(wall.control, wall.folder, {"reason": LEASE_OVER, "for_job": None}, soft_at, kill_at, alone=self.alone)
        return self.ear.greeted


STEPS = ("published", "noticed", "agreed", "proposed", "confirmed", "deadline", "pace", "format")
FIRST_STEPS = (-1, 0, -1, -1, -1, 0, 0, 1)


def write_notice(control: str, wall: str, about: dict[str, Any], soft_at: int, kill_at: int, *, alone: bool) -> None:
    """`notice.json`, and then the word in shared memory that says that it is there. Times are boot-time µs.

    Written in the control directory, where nobody else writes, and then moved: another user's folder holds what that one likes.
    """
    now = boottime_us()
    notice = {
        "v": 1,
        **about,
        "soft_s": max(0, soft_at - now) // 1_000_000,
        "hard_s": max(0, kill_at - now) // 1_000_000,
        "soft_deadline_boottime_ns": soft_at * 1000,
        "hard_deadline_boottime_ns": kill_at * 1000,
    }
    write_json(f"{control}/notice.json", notice)
    if wall != control:
        with contextlib.suppress(OSError):  # whoever puts something in its place has only TERM and the deadlines
            about_wall = os.stat(wall)
            os.chown(f"{control}/notice.json", about_wall.st_uid, about_wall.st_gid)
            os.rename(f"{control}/notice.json", f"{wall}/notice.json")
    write_step(wall, "deadline", soft_at * 1000)
    if alone:
        write_step(wall, "agreed", 0)
    write_step(wall, "noticed", 1)


def take_back(control: str, wall: str) -> None:
    """No notice is out any more, and no deadline runs."""
    for path in (f"{control}/deadlines.json", f"{control}/notice.json", f"{wall}/notice.json"):
        with contextlib.suppress(OSError):  # not there, or something of the task's in its place
            os.unlink(path)
    for name in ("noticed", "agreed", "proposed", "deadline"):
        write_step(wall, name, FIRST_STEPS[STEPS.index(name)])


def write_step(wall: str, name: str, value: int) -> None:
    """Not mapped: a job that cut the file short would end whoever maps it. One that is no file, or another file, is let be."""
    with contextlib.suppress(OSError), _steps(wall, os.O_RDWR) as handle:
        about = os.fstat(handle)
        if stat.S_ISREG(about.st_mode) and about.st_nlink == 1:
            os.pwrite(handle, value.to_bytes(8, "little", signed=True), 8 * STEPS.index(name))


def read_steps(wall: str) -> dict[str, int]:
    """All eight words, those of a file that is not there or was cut short as they were in the beginning."""
    try:
        with _steps(wall, os.O_RDONLY) as handle:
            data = os.pread(handle, 64, 0)
    except OSError:
        data = b""
    if len(data) < 64:
        return dict(zip(STEPS, FIRST_STEPS, strict=True))
    return {name: int.from_bytes(data[8 * at : 8 * at + 8], "little", signed=True) for at, name in enumerate(STEPS)}


@contextlib.contextmanager
def _steps(wall: str, how: int) -> Iterator[int]:
    handle = os.open(f"{wall}/steps", how | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield handle
    finally:
        os.close(handle)


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


def supervise(control: str, launch: dict[str, Any], lease: Lease, ready: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot become the reaper of the task's processes")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wall = Wall(control, launch.get("wall", control), launch.get("user"))
    watch = Watch(wall, lease, launch["env"].get("WORLD_SIZE", "1") == "1")
    launch["env"]["BAILIFF_SOCKET"] = watch.ear.path()
    started = boottime_us()
    pid, error = start_job(launch, lease)
    lease.killed_at_start = error == LEASE_OVER
    tell_running(control, pid, started)
    os.close(ready)
    code = wait_for_main(pid, watch)
    leftovers = end_leftovers(control, pid, watch)
    tell_end(control, watch, code, leftovers, error)


def tell_running(control: str, pid: int, started_us: int) -> None:
    """Write down who stands for the task, and who looks after it."""
    me, main = read_process(os.getpid()), read_process(pid)
    running = {
        "pid": pid,
        "started": main.started if main else 0,
        "supervisor_pid": os.getpid(),
        "supervisor_started": me.started if me else 0,
        "started_boottime_us": started_us,
        "boot_id": boot_id(),
    }
    write_json(f"{control}/running.json", running)


def tell_end(control: str, watch: Watch, code: int, leftovers: int, error: str | None) -> None:
    """Write down how it ended, once nothing of it is left."""
    watch.ear.hear_out()
    end = {
        "code": code,
        "at_boottime_us": boottime_us(),
        "boot_id": boot_id(),
        "leftovers": leftovers,
        "error": error,
        "supervisor_lost": False,
        "lease_stages": watch.lease.stages,
        "deadline_stages": watch.deadlines.stages,
    }
    while os.path.isdir(control):
        try:
            write_json(f"{control}/exit.json", end)
        except OSError:
            time.sleep(1)  # a full disk must not turn a finished job into a lost one
        else:
            return


def stand_alone(lock: int) -> int:
    """Go on in a process that belongs to init; the agent waits until the handle that is returned is closed."""
    os.set_inheritable(lock, False)
    os.chdir("/")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    waiting, ready = os.pipe()
    if os.fork():
        os.close(ready)
        os.read(waiting, 1)
        os._exit(0)
    os.close(waiting)
    return ready


def main() -> None:
    control, lock, lease = sys.argv[1], int(sys.argv[2]), Lease(sys.argv[3], sys.argv[1])
    launch = json.load(sys.stdin)
    supervise(control, launch, lease, stand_alone(lock))


if __name__ == "__main__":
    main()
