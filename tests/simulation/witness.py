"""The witness sees every record in the moment in which it is stored, folds it, and checks everything after each one.

It is the only one who never crashes, lags or is lied to: what it has folded is the truth of the run. It also tells the
story: one line for each record, fault, start and end.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from tests.invariants import (
    STATE_RULES,
    TURN_RULES,
    History,
    Living,
    Violated,
    check,
    free_devices_are_free,
    no_device_runs_too_much,
    no_job_runs_twice,
)

from bailiff_bus import topics
from bailiff_bus.port import Message
from bailiff_core.fold import apply
from bailiff_core.model.pool import Pool
from bailiff_core.records import Break, ChainHead, Record, Wire, continues, decode
from bailiff_core.records.facts import DecisionFailed, InputRejected

Line = tuple[float, str]


class Witness:
    """Knows the log as stored, and what lives on the machines. The first violation stands in `violation`."""

    def __init__(self, domain: str, now: Callable[[], float]) -> None:
        self.domain, self._now = domain, now
        self.pool = Pool()
        self.head = ChainHead(domain)
        self.history = History()
        self.orphans = 0
        self.kinds: Counter[str] = Counter()  # of records and orphans, to see what the seeds cover
        self.lines: list[Line] = []
        self.violation: str | None = None
        self.living: Callable[[], list[Living]] = list
        self.ends: Callable[[], None] = lambda: None
        self._started: set[tuple[str, int, int, int | None]] = set()

    def tell(self, line: str) -> None:
        """One more line of the story."""
        self.lines.append((self._now(), line))

    def complain(self, what: str) -> None:
        """Something happened that must never happen; the first such thing counts, and there the story ends."""
        if self.violation is None:
            self.tell(f"VIOLATION {what}")
            self.violation = what
            self.ends()

    # --- the log

    def stored(self, message: Message) -> None:
        """A message has just been stored in some topic."""
        if message.topic != topics.AUDIT.name or self.violation is not None:
            return
        wire = Wire(message.headers, message.value)
        after = continues(self.head, wire)
        if isinstance(after, Break):
            self.orphans += 1
            self.kinds["(orphan)"] += 1
            self.tell(f"orphan at offset {message.offset}: {after.reason}")
            return
        self.head = after
        record = decode(wire)
        self.tell(_line(record))
        self.kinds[record.type.removeprefix("bailiff.audit.").removesuffix(".v1")] += 1
        try:
            self._fold(record)
        except Violated as violated:
            self.complain(str(violated))

    def _fold(self, record: Record) -> None:
        _raise(self.history.before(self.pool, record), record)
        apply(self.pool, record)
        check(STATE_RULES, self.pool)
        _raise(self.history.after(self.pool), record)
        living = self.living()
        _raise(no_device_runs_too_much(living), record)
        _raise(no_job_runs_twice(living), record)
        _raise(free_devices_are_free(self.pool, living), record)
        if isinstance(record.data, DecisionFailed) or (
            isinstance(record.data, InputRejected) and record.data.code == "internal-error"
        ):
            raise Violated(f"#{record.seq} {record.type}: an error of Bailiff itself: {record.data}")
        if not self.pool.turn_open:
            check(TURN_RULES, self.pool)

    # --- the machines

    def starts(self, task: Living) -> None:
        """A task is about to start; no command of the past may do that (§8.9, §8.10)."""
        self.tell(f"{task.machine}: {task.job}/{task.attempt}/{task.task} starts on {','.join(task.devices) or 'no GPU'}")
        job = self.pool.jobs.get(task.job)
        known = job.task(task.task) if job is not None else None
        key = (task.job, task.attempt, task.task, known.start_seq if known is not None else None)
        if key in self._started:
            self.complain(f"{task} is started a second time")
        self._started.add(key)
        living = [*self.living(), task]
        wrong = [*no_device_runs_too_much(living), *no_job_runs_twice(living), *free_devices_are_free(self.pool, [task])]
        for complaint in wrong[:1]:
            self.complain(complaint)

    def stops(self, task: Living, how: str, *, isolated: bool) -> None:
        """A task is told to leave; only an eviction that the log says has begun may do that (§8.3, §8.9)."""
        self.tell(f"{task.machine}: {task.job}/{task.attempt}/{task.task} gets {how}")
        job = self.pool.jobs.get(task.job)
        current = job is not None and job.attempt == task.attempt and bool(job.tasks)
        if isolated or not current:
            return  # its lease is over, or the log has forgotten this attempt
        assert job is not None
        member = job.task(task.task)
        if member is None:
            return  # the log has forgotten this member
        evictions = [eviction for eviction in (job.eviction, member.eviction) if eviction is not None]
        if not any(eviction.begun_seq is not None for eviction in evictions):
            self.complain(f"{task} gets {how}, and the log knows of no eviction that has begun: {evictions}")
        elif member.spared:
            self.complain(f"{task} gets {how}, although its agent has confirmed that it is spared")

    def ended(self, task: Living, code: int) -> None:
        """A task has ended."""
        self.tell(f"{task.machine}: {task.job}/{task.attempt}/{task.task} ended with {code}")


def _raise(complaints: Iterator[str], record: Record) -> None:
    for complaint in complaints:
        raise Violated(f"#{record.seq} {record.type}: {complaint}")


def _line(record: Record) -> str:
    data = record.data.to_data() if record.data is not None else {}
    kind = record.type.removeprefix("bailiff.audit.").removesuffix(".v1")
    hidden = ("policy", "request", "devices", "explanation", "before", "after", "inputs", "spec_digest", "digest")
    said = " ".join(f"{name}={_short(value)}" for name, value in data.items() if name not in hidden or kind.startswith("Pre"))
    end = "." if record.turn_end else ""
    return f"#{record.seq}{end} e{record.epoch} {kind} {said} ({record.cause})"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 160 else f"{text[:160]}…"
