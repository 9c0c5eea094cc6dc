"""The first command on a machine begins at a snapshot that a server offers, if the log confirms it; else at the first record."""

import dataclasses
import gzip
import hashlib
import json
import threading
import zlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.kits.offered_snapshots import Answer, offering, sending, serving
from tests.unit.client.kit import NOON, LogWriter, preemption_story

from bailiff.client import client as client_module
from bailiff.client import downloaded_snapshot
from bailiff.client.client import Client, NoMetrics
from bailiff.client.http_connection import HttpConnection
from bailiff_bus.topics import AUDIT
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold import apply, close_cycle
from bailiff_core.fold.keys import log_keys
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead, Wire, decode
from bailiff_core.records.facts import ClockAdvanced, StateDigest
from bailiff_core.records.wire import time_text
from bailiff_log.credentials import Credentials, make_credentials
from bailiff_log.keys import new_private_key
from bailiff_log.snapshot_file import SnapshotDraft
from bailiff_log.writer import chain_records

DAY = 86_400_000_000
ROOT = new_private_key()
REFUSED = ("no downloaded snapshot is used", "the log does not confirm the downloaded snapshot", "is damaged")


def credentials(folder: Path, name: str = "w", root: bytes = ROOT) -> Credentials:
    return make_credentials(folder / name, root, role="admission", name=name, not_before=NOON - DAY, expires=NOON + 100 * DAY)


class Pool:
    """A log that goes on after a state digest, the snapshot that it confirms, and first commands."""

    def __init__(self, folder: Path, signed_by: Credentials | None) -> None:
        self.folder, self.commands = folder, 0
        self.log = LogWriter(credentials=signed_by)
        preemption_story(self.log)
        self.before = len(self.log.records)
        self.digest()
        self.snapshot = (folder / "offered").read_bytes()
        self.log.submit("later", gpus=1)

    def digest(self) -> None:
        """As admission and the auditor do: the digest in the log, the snapshot in a file."""
        draft = SnapshotDraft(self.folder / "offered", self.log.state)
        head, offset = self.log.head, len(self.log.cluster.messages(AUDIT.name, 0))
        self.log.cycle(draft.fact())
        keep(draft, head, offset)

    async def first_command(self, answer: Answer) -> tuple[PoolState, int, list[str]]:
        """The state that a first command sees, how many records it folded, and the lines that it logs."""
        self.commands += 1
        folded = list[int]()
        with serving(answer) as address, pytest.MonkeyPatch.context() as patch, capture_logs() as logged:
            patch.setattr(NoMetrics, "count_folded", lambda _self, _pool, records, _head: folded.append(records))
            patch.setattr(client_module, "DOWNLOAD_FROM", 1)
            connection = HttpConnection(address, None, 1.0)
            cache = self.folder / f"cache-{self.commands}"
            bus = self.log.cluster.client("c")
            async with Client(bus, source="test", cache=cache, offers=lambda: connection) as client:
                projection = await client.projection()
                assert not list(cache.rglob("*.new")), "nothing is left behind"
                return projection.state, sum(folded), [f"{each['event']}: {each.get('reason')}" for each in logged]


def keep(draft: SnapshotDraft, before: ChainHead, offset: int) -> None:
    """As `Projection.save_snapshot`."""
    draft.keep(dataclasses.replace(before, time=time_text(draft.now), next_content=""), offset)


def with_footer(snapshot: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The snapshot with another end, which is consistent by itself."""
    length = int(snapshot[-16:])
    about = json.loads(snapshot[-80 - length : -80])
    change(about)
    footer = json.dumps(about, separators=(",", ":")).encode()
    digest = hashlib.sha256(footer).hexdigest().encode()
    return snapshot[: -80 - length] + footer + digest + b"%016d" % len(footer)


@pytest.fixture(params=["signed", "unsigned"])
def pool(request: pytest.FixtureRequest, tmp_path: Path) -> Pool:
    return Pool(tmp_path, credentials(tmp_path) if request.param == "signed" else None)


async def test_only_what_follows_the_snapshot_is_folded(pool: Pool) -> None:
    state, folded, logged = await pool.first_command(offering(pool.snapshot))
    assert state_digest(state) == state_digest(pool.log.state)
    assert folded == len(pool.log.records) - pool.before
    assert not logged


async def test_what_the_log_has_confirmed_is_the_machines_own_snapshot_from_then_on(pool: Pool) -> None:
    await pool.first_command(offering(pool.snapshot))
    pool.commands -= 1  # on the same machine
    state, folded, logged = await pool.first_command(sending(b"", 500))
    assert (folded, logged) == (len(pool.log.records) - pool.before, [])
    assert state_digest(state) == state_digest(pool.log.state)


async def test_an_older_snapshot_is_used_as_well(pool: Pool) -> None:
    pool.digest()
    pool.log.submit("last", gpus=1)
    state, folded, _ = await pool.first_command(offering(pool.snapshot))
    assert folded == len(pool.log.records) - pool.before
    assert state_digest(state) == state_digest(pool.log.state)


# --- a server that lies


def other_state(pool: Pool) -> bytes:
    return pool.snapshot.replace(b'"priority":', b'"priority":1', 1)


def other_index(pool: Pool) -> bytes:
    def show_another_user(about: dict[str, Any]) -> None:
        about["index"]["jobs"][4][0][1] = "somebody"

    return with_footer(pool.snapshot, show_another_user)


def old_state(pool: Pool) -> bytes:
    """The first snapshot at the position of the second."""
    old = pool.snapshot
    pool.digest()
    new = (pool.folder / "offered").read_bytes()
    pool.log.submit("last", gpus=1)
    length = int(new[-16:])
    place = json.loads(new[-80 - length : -80])
    return with_footer(old, lambda about: about.update(head=place["head"], offset=place["offset"]))


def other_log(pool: Pool) -> bytes:
    """Of a pool of the same name, which the same admission has written."""
    folder = pool.folder / "other"
    folder.mkdir()
    other = LogWriter(credentials=pool.log.credentials)
    other.now += 1_000_000
    preemption_story(other)
    mine, pool.log = pool.log, other
    pool.digest()
    pool.log = mine
    return (pool.folder / "offered").read_bytes()


def no_keys(pool: Pool) -> bytes:
    """Whoever continues there would check no signature, or those of another."""

    def leave_out(about: dict[str, Any]) -> None:
        keys = about["head"]["keys"]
        about["head"]["keys"] = None if keys else {"root_key": "x", "writer_key": "x", "writer_until": "z", "revoked": []}

    return with_footer(pool.snapshot, leave_out)


def other_place(pool: Pool) -> bytes:
    return with_footer(pool.snapshot, lambda about: about.update(offset=about["offset"] - 1))


def beyond_the_end(pool: Pool) -> bytes:
    return with_footer(pool.snapshot, lambda about: about.update(offset=about["offset"] + 1000))


def an_index_of_jobs(pool: Pool) -> bytes:
    """It is never believed."""
    return with_footer(pool.snapshot, lambda about: about.update(beside=[0, "0" * 64]))


def pickled(pool: Pool) -> bytes:
    return b"cbuiltins\nexec\n(S'raise SystemExit(9)'\ntR."


def empty(pool: Pool) -> bytes:
    return b""


LIES = (other_state, other_index, old_state, other_log, no_keys, other_place, beyond_the_end, an_index_of_jobs, pickled, empty)


@pytest.mark.parametrize("lie", LIES)
async def test_a_snapshot_that_the_log_does_not_confirm_is_refused(pool: Pool, lie: Callable[[Pool], bytes]) -> None:
    await is_refused(pool, offering(lie(pool)))


async def is_refused(pool: Pool, answer: Answer) -> None:
    """The command folds the log, as without a server, and says so in one line."""
    state, folded, logged = await pool.first_command(answer)
    assert state_digest(state) == state_digest(pool.log.state)
    assert folded >= len(pool.log.records)
    (line,) = logged
    assert any(part in line for part in REFUSED)


WRONG: dict[str, Callable[[dict[str, Any]], None]] = {
    "no index": lambda about: about.pop("index"),
    "no head": lambda about: about.update(head=[]),
    "an offset of text": lambda about: about.update(offset="7"),
    "a negative offset": lambda about: about.update(offset=-1),
    "a huge offset": lambda about: about.update(offset=1 << 80),
    "a true offset": lambda about: about.update(offset=True),
    "a size of text": lambda about: about["index"].update(size="x"),
    "a size of none": lambda about: about["index"].update(size=None),
    "a huge size": lambda about: about["index"].update(size=1 << 70),
    "a negative size": lambda about: about["index"].update(size=-5),
    "names that are lists": lambda about: about["index"]["jobs"].__setitem__(1, [[]] * len(about["index"]["jobs"][1])),
    "ends of text": lambda about: about["index"]["jobs"].__setitem__(2, ["x"] * len(about["index"]["jobs"][2])),
    "fewer ends": lambda about: about["index"]["jobs"][2].pop(),
    "no ends": lambda about: about["index"]["jobs"].__setitem__(2, {}),
    "kinds of numbers": lambda about: about["index"]["jobs"].__setitem__(4, [7]),
    "short kinds": lambda about: about["index"]["jobs"].__setitem__(4, [["x"]]),
    "a number": lambda about: about.update(index=7),
    "jobs that begin nowhere": lambda about: about["index"]["jobs"].__setitem__(0, "here"),
    "a head of another form": lambda about: about["head"].update(more=1),
    "keys that are none": lambda about: about["head"].update(keys=7),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_damaged_end_is_refused(pool: Pool, wrong: str) -> None:
    await is_refused(pool, offering(with_footer(pool.snapshot, WRONG[wrong])))


def bomb(to: BaseHTTPRequestHandler) -> None:
    packed = zlib.compressobj(9, wbits=31)
    sending(b"".join(packed.compress(bytes(1 << 20)) for _ in range(64)) + packed.flush())(to)


def cut(to: BaseHTTPRequestHandler) -> None:
    sending(gzip.compress(bytes(100_000))[:-20])(to)


def junk(to: BaseHTTPRequestHandler) -> None:
    sending(b"\x1f\x8b" + bytes(range(256)) * 100)(to)


def endless(to: BaseHTTPRequestHandler) -> None:
    """A byte now and then, for ever."""
    to.send_response(200)
    to.end_headers()
    packed = zlib.compressobj(wbits=31)
    hung_up = threading.Event()
    while not hung_up.wait(0.01):
        to.wfile.write(packed.compress(b"x") + packed.flush(zlib.Z_FULL_FLUSH))


def silent(to: BaseHTTPRequestHandler) -> None:
    to.rfile.read(1)


def failing(to: BaseHTTPRequestHandler) -> None:
    sending(b"oops", 500)(to)


def no_token(to: BaseHTTPRequestHandler) -> None:
    sending(b'{"detail": "missing or wrong token"}', 401)(to)


@pytest.mark.parametrize("answer", [bomb, cut, junk, endless, silent, failing, no_token])
async def test_an_answer_without_end_or_sense_is_refused(pool: Pool, answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloaded_snapshot, "WITHIN_S", 0.5)
    monkeypatch.setattr(downloaded_snapshot, "MAX_BYTES", 1 << 20)
    await is_refused(pool, answer)


async def test_a_server_that_has_none_yet_is_no_fault(pool: Pool) -> None:
    state, folded, logged = await pool.first_command(sending(b'{"detail": "there is no snapshot yet"}', 404))
    assert (folded, logged) == (len(pool.log.records), [])
    assert state_digest(state) == state_digest(pool.log.state)


async def test_a_digest_without_one_of_the_index_confirms_nothing_of_a_stranger(tmp_path: Path, pool: Pool) -> None:
    """As releases wrote them before."""
    draft = SnapshotDraft(tmp_path / "offered", pool.log.state)
    head, offset = pool.log.head, len(pool.log.cluster.messages(AUDIT.name, 0))
    pool.log.cycle(StateDigest(schema_version=STATE_SCHEMA, digest=draft.digest))
    keep(draft, head, offset)
    await is_refused(pool, offering((tmp_path / "offered").read_bytes()))


# --- a server that lies, and may append to the topic


def appended(pool: Pool, state: PoolState, head: ChainHead, signed_by: Credentials | None, *, twice: bool = False) -> bytes:
    """The snapshot of a false state, whose digest follows `head` and is now at the end of the topic.

    twice: and so does a record before it.
    """
    template = dataclasses.replace(pool.log.records[-1], epoch=head.epoch, time=state.now, next_content="", signature="")
    if twice:
        clock = ClockAdvanced()
        filler = dataclasses.replace(template, seq=head.next_seq, type=clock.type_name(), data=clock, cycle_end=True)
        ((_, wire, head),) = chain_records(head, [filler], signed_by)
        pool.log.cluster.store(AUDIT.name, 0, None, wire.headers, wire.value)
        apply(state, filler)
        close_cycle(state)
    draft = SnapshotDraft(pool.folder / "offered", state)
    fact = draft.fact()
    record = dataclasses.replace(template, seq=head.next_seq, type=fact.type_name(), data=fact, cycle_end=True)
    ((_, wire, _),) = chain_records(head, [record], signed_by)
    offset = len(pool.log.cluster.messages(AUDIT.name, 0))
    pool.log.cluster.store(AUDIT.name, 0, None, wire.headers, wire.value)
    keep(draft, head, offset)
    return (pool.folder / "offered").read_bytes()


def from_the_log(pool: Pool) -> PoolState:
    """Another fold of it."""
    state = PoolState()
    for message in pool.log.cluster.messages(AUDIT.name, 0):
        apply(state, decode(Wire(message.headers, message.value)))
    return state


@pytest.mark.parametrize("root", ["the stranger's", "the log's", "none"])
async def test_a_digest_of_a_key_that_the_root_key_has_not_certified_confirms_nothing(tmp_path: Path, root: str) -> None:
    """The state names the stranger's key as the writer's, or says that nothing is signed."""
    stranger = credentials(tmp_path, "stranger", new_private_key())
    pool = Pool(tmp_path, credentials(tmp_path))
    state, head = from_the_log(pool), pool.log.head
    state.writer_key = stranger.certificate.key
    state.root_key = {"the stranger's": stranger.root_key, "the log's": state.root_key, "none": ""}[root]
    before = dataclasses.replace(head, keys=log_keys(state), next_content="")
    snapshot = appended(pool, state, before, stranger if state.root_key else None)
    seen, _, logged = await pool.first_command(offering(snapshot))
    assert state_digest(seen) == state_digest(pool.log.state)
    assert "no downloaded snapshot is used" in logged[0]


@pytest.mark.parametrize("goes_on", [False, True], ids=["at the end", "which the log passes over"])
async def test_a_fork_confirms_nothing(pool: Pool, goes_on: bool) -> None:
    """A writer that was replaced leaves signed records behind, at a position that another has taken."""
    state, head = from_the_log(pool), dataclasses.replace(pool.log.head, next_content="")
    state.jobs["later"].priority += 1
    pool.log.submit("taken", gpus=1)
    snapshot = appended(pool, state, head, pool.log.credentials, twice=goes_on)
    if goes_on:
        pool.log.submit("goes-on", gpus=1)
    seen, _, logged = await pool.first_command(offering(snapshot))
    assert state_digest(seen) == state_digest(pool.log.state)
    which = "the log does not confirm the downloaded" if goes_on else "no downloaded"
    assert f"{which} snapshot" in logged[0]


# --- the records about a job


@pytest.mark.parametrize("job", ["train-7", "serve-2", "train-9", "later"])
async def test_the_records_about_a_job_are_the_same_with_a_downloaded_snapshot(pool: Pool, job: str) -> None:
    expected = await records_about(pool, job, sending(b"", 404))
    assert expected
    assert await records_about(pool, job, offering(pool.snapshot)) == expected


async def records_about(pool: Pool, job: str, answer: Answer) -> Any:
    pool.commands += 1
    with serving(answer) as address, pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_module, "DOWNLOAD_FROM", 1)
        connection = HttpConnection(address, None, 1.0)
        cache = pool.folder / f"cache-{pool.commands}"
        async with Client(pool.log.cluster.client("c"), source="test", cache=cache, offers=lambda: connection) as client:
            return await client.records_about(job)
