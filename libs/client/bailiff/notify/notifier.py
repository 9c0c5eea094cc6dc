"""Notifies job owners of evictions and restarts: delivers each event at least once, to a webhook or a local command.

A hook's position in a pool's log is stored on disk and advances only after a delivery. After a crash, events may be delivered
again with the same id, for deduplication. Events of a pool are delivered to a hook in order; failed deliveries are retried with
exponential backoff and block only their own hook.
"""

import asyncio
import json
import os
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from bailiff.client.client import Client
from bailiff.client.errors import PoolNotFound, UsageError
from bailiff.client.job_parser import read_yaml
from bailiff.render.events import EventRow, events_of
from bailiff.render.plain_text import plain
from bailiff.render.record_text.event_words import WORDS
from bailiff.render.serializers.projects import below
from bailiff_bus.validation_errors import describe_errors
from bailiff_core.model.document import Document, Duration
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record
from bailiff_log.file_writing import replacing
from bailiff_service.yaml_files import line_of

from .owner_projection import OwnerProjection

EVICTIONS_AND_RETURNS = (
    "Preempted",
    "Reclaimed",
    "Moved",
    "Evicting",
    "Stopping",
    "EvictionCancelled",
    "EvictionContinues",
    "Shrunk",
    "Evicted",
    "Resumed",
    "Restarted",
    "Grown",
)
SECOND = 1_000_000
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


# --- the hooks file


class Hook(Document):
    """A notification hook: an HTTP POST to `webhook`, or a local `command`, with filters.

    Words of a command may contain fields of the event in braces; the event's text is its standard input.

    Attributes:
        header_env: Environment variables with the values of headers, by header.
        projects, owners: Empty means all.
    """

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=r"^[a-z0-9][-a-z0-9_.]{0,62}$")]
    webhook: Annotated[str, Field(pattern=r"^https?://")] | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    header_env: dict[str, str] = Field(default_factory=dict)
    command: tuple[str, ...] = ()
    events: tuple[str, ...] = EVICTIONS_AND_RETURNS
    projects: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    timeout: Annotated[Duration, Field(ge=1)] = 10 * SECOND
    give_up_after: Duration | None = None

    @field_validator("events")
    @classmethod
    def _known(cls, events: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [word for word in events if word not in WORDS]
        if unknown:
            raise ValueError(f"unknown event {unknown[0]!r}; known events: {', '.join(WORDS)}")
        return events

    @model_validator(mode="after")
    def _one_way(self) -> "Hook":
        if (self.webhook is None) == (not self.command):
            raise ValueError("expected either webhook or command")
        try:
            filled(self.command, dict.fromkeys(FIELDS, ""))
        except (KeyError, IndexError, ValueError) as fault:
            raise ValueError(f"command: unknown field {fault}; known fields: {', '.join(FIELDS)}") from None
        return self


class NotifyFile(Document):
    """The hooks file of `bailiff notify`.

    Attributes:
        positions: File that stores the position of each hook.
    """

    model_config = ConfigDict(extra="forbid")

    positions: str
    pools: tuple[str, ...] = ()
    hooks: Annotated[tuple[Hook, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _own_names(self) -> "NotifyFile":
        names = [hook.name for hook in self.hooks]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two hooks are called {name!r}: names must be unique")
        return self


def read_notify_file(path: Path) -> NotifyFile:
    """Reads and validates the file. `positions` may be relative to its folder.

    Raises:
        ClientError: The file is invalid; with file, line and field.
    """
    value, lines = read_yaml(path)
    try:
        found = NotifyFile.model_validate_json(json.dumps(value, default=str))
    except ValidationError as error:
        faults = error.errors(include_url=False)
        text = "\n".join(f"{path}:{line_of(lines, fault['loc'])}: {describe_errors([fault])}" for fault in faults)
        raise UsageError(text, "an example: docs/how-to/notify.md") from None
    return found.model_copy(update={"positions": str(path.parent / found.positions)})


# --- notifications


class Notice(EventRow):
    """A notification.

    Attributes:
        owner: User of the job, else its submitter.
        text: A sentence.
    """

    owner: str
    text: str


FIELDS = tuple(name for name in (*EventRow.__annotations__, "owner", "text"))


def notice_of(row: EventRow, owner: str) -> Notice:
    """The notification for an event."""
    where = f" on {row['node']}" if row["node"] else ""
    tasks = f" (tasks {row['tasks']})" if row["tasks"] else ""
    when = f"({row['pool']}#{row['seq']}, {row['time']})"
    text = f"{row['job']}{tasks}{where}: {row['type']}, {WORDS[row['type']]}. {row['reason']} {when}"
    return {**row, "owner": plain(owner), "text": text}


def filled(words: Sequence[str], fields: Mapping[str, object]) -> list[str]:
    """The command's words with fields in braces filled in. Leading dashes of values are removed: no value becomes an option."""
    harmless = {name: str(value).lstrip("-") for name, value in fields.items()}
    return [word.format_map(harmless) for word in words]


# --- positions


class Positions:
    """The highest delivered seq by log identity and hook, stored in a file that is replaced atomically."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seqs: dict[str, dict[str, int]] = self._read()

    def of(self, log: str, hook: str) -> int | None:
        """The position, or None for a new hook of this log."""
        return self._seqs.get(log, {}).get(hook)

    def move(self, log: str, hook: str, seq: int) -> None:
        """Stores that all up to `seq` is delivered. Durable when it returns."""
        self._seqs.setdefault(log, {})[hook] = seq
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.path) as out:
                out.write(json.dumps(self._seqs, indent=1, sort_keys=True).encode())
                out.flush()
                os.fsync(out.fileno())
        except OSError as error:
            raise UsageError(f"positions {self.path}: cannot be written: {error.strerror}") from None

    def _read(self) -> dict[str, dict[str, int]]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            return {str(log): {str(hook): int(seq) for hook, seq in hooks.items()} for log, hooks in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            advice = "repair or remove it; without it hooks start with new events"
            raise UsageError(f"positions {self.path}: cannot be read: {error}", advice) from None


# --- delivery


class DeliveryFailed(Exception):
    """A delivery failed; the text is the reason."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


async def deliver(hook: Hook, notice: Notice) -> None:
    """Delivers a notification to a hook. Raises `DeliveryFailed`."""
    if hook.webhook is not None:
        await asyncio.to_thread(_post, hook, notice)
    else:
        await _run(hook, notice)


def _post(hook: Hook, notice: Notice) -> None:
    assert hook.webhook is not None
    headers = {"Content-Type": "application/json", **hook.headers, "Idempotency-Key": notice["id"]}
    for header, variable in hook.header_env.items():
        headers[header] = os.environ[variable]
    body = json.dumps(notice, ensure_ascii=False).encode()
    request = urllib.request.Request(hook.webhook, body, headers, method="POST")  # noqa: S310 - http(s) only, see Hook
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        with opener.open(request, timeout=hook.timeout / SECOND):
            return
    except urllib.error.HTTPError as error:
        raise DeliveryFailed(f"{error.code} {error.reason}") from None
    except (OSError, HTTPException) as error:
        raise DeliveryFailed(str(error)) from None


async def _run(hook: Hook, notice: Notice) -> None:
    words = filled(hook.command, notice)
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "BAILIFF_EVENT": json.dumps(notice, ensure_ascii=False), "BAILIFF_EVENT_ID": notice["id"]},
        )
    except OSError as error:
        raise DeliveryFailed(f"{words[0]}: {error.strerror}") from None
    try:
        _, stderr = await asyncio.wait_for(process.communicate(f"{notice['text']}\n".encode()), hook.timeout / SECOND)
    except TimeoutError:
        raise DeliveryFailed(f"{words[0]} timed out") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise DeliveryFailed(f"{words[0]} exited with {process.returncode}: {stderr.decode(errors='replace').strip()[-200:]}")


# --- following


Say = Callable[[str], None]


@dataclass
class _HookQueue:
    """Pending notifications of one hook for one pool. read: the log was read up to this seq."""

    hook: Hook
    since: int
    pending: deque[Notice] = field(default_factory=deque)
    read: int = -1
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Notifier:
    """Follows the logs of the pools and delivers notifications to hooks.

    Attributes:
        warn: Reports failed deliveries.
    """

    def __init__(self, client: Client, enqueue: NotifyFile, warn: Say, *, pause: float = FIRST_PAUSE) -> None:
        self.client, self.file, self.warn, self.pause = client, enqueue, warn, pause
        self.positions = Positions(Path(enqueue.positions))

    async def run(self, *, once: bool = False) -> int:
        """Runs until cancelled; with `once` until all pending notifications are delivered. Returns the number delivered."""
        known = await self.client.pools()
        for hook in self.file.hooks:
            for variable in hook.header_env.values():
                if variable not in os.environ:
                    raise UsageError(f"hook {hook.name}: environment variable {variable} is not set")
        missing = [name for name in self.file.pools if name not in known]
        if missing:
            raise PoolNotFound.named(missing[0], known)
        counts = await _all([self._pool(name, once=once) for name in self.file.pools or known])
        return sum(counts)

    async def _pool(self, pool: str, *, once: bool) -> int:
        log = (await self.client.pool(pool)).identity
        queues = [_HookQueue(hook, await self._begin(pool, log, hook)) for hook in self.file.hooks]
        counts = await _all([self._read(pool, queues, once=once), *(self._tell(log, queue, once=once) for queue in queues)])
        return sum(counts)

    async def _begin(self, pool: str, log: str, hook: Hook) -> int:
        """Start position of a hook. A new hook starts at the current end of the log, which is stored first."""
        since = self.positions.of(log, hook.name)
        if since is None:
            since = (await self.client.projection(pool)).state.seq
            self.positions.move(log, hook.name, since)
        return since

    async def _read(self, pool: str, queues: Sequence[_HookQueue], *, once: bool) -> int:
        def enqueue(record: Record, state: PoolState, owners: Mapping[str, str]) -> None:
            for row in events_of(record, state):
                notice = notice_of(row, owners.get(row["job"], ""))
                for queue in queues:
                    if record.seq > queue.since and wants(queue.hook, notice, state):
                        queue.pending.append(notice)
                        queue.changed.set()

        folder = self.positions.path.with_name(f"{self.positions.path.name}.folded")
        projection = OwnerProjection(self.client.bus, await self.client.pool(pool), folder, enqueue)
        head = await projection.run(min(queue.since for queue in queues), once=once)
        for queue in queues:
            queue.read = head
            queue.changed.set()
        return 0

    async def _tell(self, log: str, queue: _HookQueue, *, once: bool) -> int:
        """Delivers in order; the position advances after each record's last notification."""
        count = 0
        while True:
            while not queue.pending:
                if once and queue.read >= 0:
                    self.positions.move(log, queue.hook.name, max(queue.since, queue.read))
                    return count
                queue.changed.clear()
                await queue.changed.wait()
            notice = queue.pending[0]
            count += await self._until_taken(queue.hook, notice)
            queue.pending.popleft()
            if not queue.pending or queue.pending[0]["seq"] != notice["seq"]:
                self.positions.move(log, queue.hook.name, notice["seq"])

    async def _until_taken(self, hook: Hook, notice: Notice) -> int:
        """Retries until delivered, or until `give_up_after`. Returns 1, or 0 if given up."""
        loop = asyncio.get_running_loop()
        begun, pause = loop.time(), self.pause
        while True:
            try:
                await deliver(hook, notice)
            except DeliveryFailed as error:
                if hook.give_up_after is not None and loop.time() - begun + pause > hook.give_up_after / SECOND:
                    self.warn(f"{hook.name}: {notice['id']} was given up: {error}")
                    return 0
                self.warn(f"{hook.name}: {notice['id']} was not taken, next try in {pause:g} s: {error}")
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                return 1


def wants(hook: Hook, notice: Notice, state: PoolState) -> bool:
    """Whether the event passes the hook's filters: event, project with subprojects, owner."""
    if notice["type"] not in hook.events or (hook.owners and notice["owner"] not in hook.owners):
        return False
    return not hook.projects or any(notice["project"] in below(state.rules, project) for project in hook.projects)


async def _all(running: Sequence[Any]) -> list[int]:
    """Runs all concurrently. If one fails, cancels the others and raises its error."""
    tasks = [asyncio.ensure_future(each) for each in running]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
