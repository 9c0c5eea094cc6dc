"""Every place where the node touches what a job can write, with every shape of thing that a job can put there.

The places are the rows of docs/concepts/job-files.md: nothing outside is read or changed, nobody waits, and no error but those
that callers handle.
"""

import asyncio
import errno
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pytest
from tests.kits.examples import one_in
from tests.kits.hostile_files import KINDS, immutable, nest

from bailiff_node_agent.checkpoints import IDENTITY_FILE, newest, shared_identity
from bailiff_node_agent.disk import DamagedFile
from bailiff_node_agent.ended_logs import ended_logs
from bailiff_node_agent.log_rotation import rotate
from bailiff_node_agent.log_shipper import _read
from bailiff_node_agent.runtime import TaskKey
from bailiff_node_agent.runtime.control_dir import JournalReader
from bailiff_node_agent.runtime.criu_requests import reason
from bailiff_node_agent.runtime.job_files import Unfinished
from bailiff_node_agent.runtime.kubernetes.volumes import PodVolumes
from bailiff_node_agent.runtime.supervisor.criu import DUMP_LOG
from bailiff_node_agent.runtime.supervisor.notice import withdraw_notice, write_notice
from bailiff_node_agent.runtime.supervisor.socket_server import ControlDir, SocketServer
from bailiff_node_agent.runtime.supervisor.steps import read_steps, write_step
from bailiff_node_agent.runtime.task_record import read_json
from bailiff_node_agent.scratch import Scratch
from bailiff_node_agent.snapshots.images import BadImage, discard_image, make_image, remove_images, verified
from bailiff_node_agent.users import NotRunnable, refuse_link

PAGE = Path(__file__).parents[3] / "docs/concepts/job-files.md"
KEY = TaskKey("train-7", 1, "0")
CONTENT = b'{"agreed": true, "world_size": 1}\n'
VOLUME = "pods/u1/volumes/kubernetes.io~empty-dir/bailiff-control"
LIMIT_S = 60
"""Whoever waits for a job waits for ever: the alarm ends the test, and no test passes by being quick."""


@dataclass(frozen=True)
class Place:
    """What the node does with a path of a job's. Paths are relative to a folder of the test.

    Attributes:
        row: How its row of the page begins.
        refuses: What else its callers handle; all of them handle `OSError`.
    """

    row: str
    path: str
    use: Callable[[Path], object]
    refuses: tuple[type[Exception], ...] = field(default=())


def _notice(folder: Path) -> None:
    (folder / "task").mkdir(exist_ok=True)
    write_notice(str(folder / "task"), str(folder / "control"), {}, 1, 2, is_only_task=True)
    withdraw_notice(str(folder / "task"), str(folder / "control"))


def _socket(folder: Path) -> None:
    (folder / "task").mkdir(exist_ok=True)
    before = signal.getsignal(signal.SIGCHLD)
    try:
        server = SocketServer(ControlDir(str(folder / "task"), str(folder / "control"), None))
        server.drain()
        os.close(server.folder)
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, before)


def _checkpoints(folder: Path) -> None:
    refuse_link(folder / "ck")
    newest(folder / "ck", 0)


def _snapshots(folder: Path) -> None:
    for call in (
        lambda: verified(folder / "snapshots/job", 1, 0, "0" * 64),
        lambda: discard_image(folder / "snapshots/job", 1, 0, "0" * 64),
        lambda: remove_images(folder / "snapshots/job", 0, lambda *_: True),
        lambda: make_image(folder / "snapshots/job", 1, 0),
        lambda: reason(folder / "snapshots/job/attempt-0001/snapshot.rank-0000" / DUMP_LOG),
    ):
        with suppress(OSError, BadImage):
            call()


def _ended_logs(folder: Path) -> None:
    _, expired = ended_logs(folder / "logs", (), 1 << 62, 0)
    aside = Unfinished(folder / "aside")
    for path in expired:
        asyncio.run(aside.discard(path))


def _scratch(folder: Path) -> None:
    scratch = Scratch(folder)
    asyncio.run(scratch.used(KEY))
    asyncio.run(scratch.remove(KEY))


def _volume(folder: Path) -> None:
    volumes = PodVolumes(folder)
    volumes.prepare("u1")
    volumes.release("u1")


PLACES = {
    "steps": Place(
        "`steps` in the control",
        "control/steps",
        lambda f: (write_step(str(f / "control"), "noticed", 1), read_steps(str(f / "control"))),
    ),
    "notice": Place("`notice.json`", "control/notice.json", _notice),
    "socket": Place("`socket`", "control/socket", _socket),
    "journal": Place("`messages.jsonl`", "task/messages.jsonl", lambda f: JournalReader(f / "task").after(0)),
    "record": Place("`task.json`", "task/exit.json", lambda f: read_json(f / "task/exit.json"), (DamagedFile,)),
    "checkpoints": Place("the checkpoint directory", "ck", _checkpoints, (NotRunnable,)),
    "an attempt's checkpoints": Place("the checkpoint directory", "ck/attempt-0001", _checkpoints),
    "a checkpoint": Place("the checkpoint directory", "ck/attempt-0001/step-00000001", _checkpoints),
    "a manifest": Place("the checkpoint directory", "ck/attempt-0001/step-00000001/manifest.json", _checkpoints),
    "snapshots": Place("`.bailiff-snapshots`", "snapshots", _snapshots),
    "snapshots of a job": Place("`.bailiff-snapshots`", "snapshots/job", _snapshots),
    "snapshots of an attempt": Place("`.bailiff-snapshots`", "snapshots/job/attempt-0001", _snapshots),
    "a snapshot": Place("`.bailiff-snapshots`", "snapshots/job/attempt-0001/snapshot.rank-0000", _snapshots),
    "a snapshot's manifest": Place(
        "`.bailiff-snapshots`", "snapshots/job/attempt-0001/snapshot.rank-0000/manifest.json", _snapshots
    ),
    "a snapshot's log": Place("`.bailiff-snapshots`", f"snapshots/job/attempt-0001/snapshot.rank-0000/{DUMP_LOG}", _snapshots),
    "identity": Place("`.bailiff-checkpoints`", f"shared/{IDENTITY_FILE}", lambda f: shared_identity(f / "shared")),
    "log": Place("the task's log", "logs/a.log", lambda f: (rotate(f / "logs/a.log", 0), _read(f / "logs/a.log", 0))),
    "rotated log": Place(
        "the task's log", "logs/a.log.1", lambda f: ((f / "logs/a.log").write_bytes(b"x\n" * 9_000), rotate(f / "logs/a.log", 0))
    ),
    "ended logs": Place("logs of ended tasks", "logs/a.log", _ended_logs),
    "scratch": Place("scratch and control directory", f"scratch/{KEY}", _scratch),
    "in the scratch": Place("scratch and control directory", f"scratch/{KEY}/inner/it", _scratch),
    "control directory": Place(
        "scratch and control directory", "control", lambda f: asyncio.run(Unfinished(f / "aside").discard(f / "control"))
    ),
    "steps of a pod": Place("`go`, `steps`", f"{VOLUME}/steps", _volume),
    "go of a pod": Place("`go`, `steps`", f"{VOLUME}/go", _volume),
}
NOT_FILES = ("environment and arguments",)
"""What the kernel shows of a job: tests/unit/node_agent/test_hostile_processes.py."""


def _wide(path: Path, outside: Path, parts: int = 60) -> None:
    """A folder of many entries, with names that are no text, of 255 bytes in letters of one and of four, of several lines."""
    path.mkdir()
    for number in range(parts):
        for name in (b"%d", b"\xff\xfe%d", b"n" * 250 + b"%05d", "🦀".encode() * 62 + b"%05d", b"a\nb%d"):
            with suppress(OSError):
                os.close(os.open(os.path.join(os.fsencode(path), name % number), os.O_CREAT | os.O_WRONLY))  # noqa: PTH118


def _content(path: Path, outside: Path) -> None:
    path.write_bytes(CONTENT)


SHAPES: dict[str, Callable[[Path, Path], None]] = {
    **KINDS,
    "deep": lambda path, _: nest(path, 1_200, CONTENT),
    "wide": _wide,
    "file": _content,
    "link to a link to itself": lambda path, _: (path.with_name("b").symlink_to(path.name), path.symlink_to("b")),
}


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_bytes(CONTENT)
    (folder / "precious").chmod(0o640)
    yield folder
    status = (folder / "precious").stat()
    assert ([each.name for each in folder.iterdir()], (folder / "precious").read_bytes()) == (["precious"], CONTENT)
    assert (status.st_mode, status.st_size) == (0o100640, len(CONTENT))
    subprocess.run(["rm", "-rf", str(tmp_path)], check=True)  # pytest removes its folders with recursion


@pytest.fixture
def limited() -> Iterator[None]:
    """Whoever waits for the job is ended."""

    def over(*_: object) -> None:
        raise AssertionError("it waits for the job")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def use(place: Place, folder: Path) -> None:
    """As the node does, whose callers handle these errors."""
    with suppress(OSError, *place.refuses):
        place.use(folder)


def prepared(place: Place, tmp_path: Path) -> tuple[Path, Path]:
    """The test's folder, and the path in it whose parents are there."""
    folder = tmp_path / "own"
    path = folder / place.path
    path.parent.mkdir(parents=True)
    return folder, path


def test_the_places_are_those_of_the_page() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Who touches what")[2].partition("\n## ")[0]
    rows = [row for row in re.findall(r"^\| (.+?) \|", table, re.MULTILINE) if row not in ("what", "---")]
    named = {place.row for place in PLACES.values()} | {*NOT_FILES}
    assert [row for row in rows if not any(row.startswith(name) for name in named)] == []
    assert [name for name in named if not any(row.startswith(name) for row in rows)] == []


@pytest.mark.parametrize(("place", "shape"), one_in(7, product(PLACES, SHAPES)))
def test_whatever_is_there_the_node_goes_on_and_nothing_else_changes(
    tmp_path: Path, outside: Path, limited: None, place: str, shape: str
) -> None:
    folder, path = prepared(PLACES[place], tmp_path)
    try:
        SHAPES[shape](path, outside)
    except PermissionError:
        pytest.skip("only root makes devices")
    use(PLACES[place], folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a file immutable")
@pytest.mark.parametrize("shape", ["file", "folder"])
@pytest.mark.parametrize("place", PLACES)
def test_what_nobody_can_change_stops_nothing(tmp_path: Path, outside: Path, limited: None, place: str, shape: str) -> None:
    folder, path = prepared(PLACES[place], tmp_path)
    SHAPES[shape](path, outside)
    with ExitStack() as stack:
        try:
            stack.enter_context(immutable(path))
        except OSError as problem:
            pytest.skip(f"this file system has no immutable files: {errno.errorcode[problem.errno or 0]}")
        use(PLACES[place], folder)


@pytest.mark.parametrize("place", PLACES)
def test_what_changes_while_it_is_read_leads_nowhere_else(tmp_path: Path, outside: Path, limited: None, place: str) -> None:
    """A thread of the job's exchanges a file, a link out, a folder and a pipe for each other all the time."""
    folder, path = prepared(PLACES[place], tmp_path)
    over = threading.Event()
    spare = tmp_path / "spare"
    spare.mkdir()

    def exchange() -> None:
        number = 0
        while not over.is_set():
            for shape in ("file", "link out", "folder", "fifo", "link to a folder"):
                number += 1
                with suppress(OSError):
                    SHAPES[shape](spare / f"{number}", outside)
                    if path.is_dir() and not path.is_symlink():
                        path.rename(spare / f"old-{number}")
                    (spare / f"{number}").rename(path)

    job = threading.Thread(target=exchange)
    job.start()
    try:
        for _ in range(30):
            use(PLACES[place], folder)
    finally:
        over.set()
        job.join()


def test_what_criu_says_of_a_file_s_name_is_read_once(tmp_path: Path, limited: None) -> None:
    (tmp_path / DUMP_LOG).write_text("Error (" * 300_000)
    assert reason(tmp_path / DUMP_LOG) == "CRIU failed without a reason"


@pytest.mark.parametrize("name", [b"n" * 255, "🦀".encode() * 63 + b"abc", b"\xff" * 255])
def test_a_log_of_the_longest_name_is_removed(tmp_path: Path, outside: Path, name: bytes) -> None:
    (tmp_path / "logs").mkdir()
    os.close(os.open(os.path.join(os.fsencode(tmp_path / "logs"), name), os.O_CREAT | os.O_WRONLY))  # noqa: PTH118
    _ended_logs(tmp_path)
    assert [*(tmp_path / "logs").iterdir()] == []


@pytest.mark.long
@pytest.mark.parametrize("place", PLACES)
def test_a_million_files_in_any_place(tmp_path: Path, outside: Path, limited: None, place: str) -> None:
    folder, path = prepared(PLACES[place], tmp_path)
    signal.alarm(20 * LIMIT_S)
    path.mkdir()
    for number in range(1_000_000):
        os.close(os.open(path / f"{number}", os.O_CREAT | os.O_WRONLY))
    use(PLACES[place], folder)
