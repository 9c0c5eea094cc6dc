"""The checker folds every record when it is stored, and checks all invariants after each.

It never crashes or lags, so its state is the reference of the run. If the log is truncated, the rest is the reference, and
effects of lost commands are permitted until the truncation is reconciled. It also writes the trace: one line for each record,
fault, start and end.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tests.kits.invariants import (
    CYCLE_RULES,
    STATE_RULES,
    History,
    LiveTask,
    Violated,
    free_devices_are_free,
    no_device_runs_too_much,
    no_job_runs_twice,
)

from bailiff_admission.truncation import beyond_log_end
from bailiff_bus import topics
from bailiff_bus.port import Message
from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_core.records import Break, ChainHead, Record, Wire, continues, decode, facts
from bailiff_log.log_signatures import LogSignatureCheck

from .adversary import Adversary

Line = tuple[float, str]
Place = tuple[str, str, int, int]
"""Machine, job, attempt, task."""
Position = tuple[int, int]


class RunChecker:
    """Has the log as stored, and the running tasks. violation: the first one."""

    def __init__(self, pool: str, now: Callable[[], float]) -> None:
        self.pool, self._now = pool, now
        self.state = PoolState()
        self.head = ChainHead(pool)
        self.history = History()
        self.signatures = LogSignatureCheck(pool)  # without effect in a pool without a root key
        self.adversary: Adversary | None = None
        self.orphans = 0
        self.orphan_offsets: set[int] = set()
        self.kinds: Counter[str] = Counter()  # counts of records and orphans: the coverage of the seeds
        self.lines: list[Line] = []
        self.violation: str | None = None
        self.living: Callable[[], list[LiveTask]] = list
        self.on_violation: Callable[[], None] = lambda: None
        self.may_fail: Callable[[facts.DecisionFailed | facts.InputRejected], bool] = lambda _: False
        self.lost: Position | None = None  # the highest obeyed record that the log lost, until an operator accepts the loss
        self._started: set[tuple[str, int, int, int | None]] = set()
        self._obeyed: set[tuple[Place, Position]] = set()  # commands that agents carried out, by task
        self._ordered: dict[Place, int] = {}  # tasks whose start the log ordered, and the last such record
        self._begun: dict[tuple[str, int], int] = {}  # attempts whose eviction started, and the last such record
        self._read_anew: Mapping[str, int] = {}
        self._lost_starts: set[Place] = set()  # tasks whose start the log lost, until they end or it starts them itself
        self._lost_evictions: set[tuple[str, int]] = set()

    def trace(self, line: str) -> None:
        """Add a line to the trace."""
        self.lines.append((self._now(), line))

    def violated(self, what: str) -> None:
        """An invariant is violated; the first violation counts and ends the run."""
        if self.violation is None:
            self.trace(f"VIOLATION {what}")
            self.violation = what
            self.on_violation()

    # --- the log

    def stored(self, message: Message) -> None:
        """Called for each stored message of any topic."""
        if message.topic != topics.AUDIT.name or self.violation is not None:
            return
        wire = Wire(message.headers, message.value)
        after = continues(self.head, wire, self.signatures)
        if isinstance(after, Break):
            self.orphans += 1
            self.orphan_offsets.add(message.offset)
            self.kinds["(orphan)"] += 1
            self.trace(f"orphan at offset {message.offset}: {after.reason}")
            return
        self.head = after
        record = decode(wire)
        self.trace(_line(record))
        self.kinds[record.type.removeprefix("bailiff.audit.").removesuffix(".v1")] += 1
        try:
            self._fold(record)
        except Violated as violated:
            self.violated(str(violated))

    def _fold(self, record: Record) -> None:
        if self.lost is not None and not isinstance(record.data, facts.WriterStarted | facts.LogTruncated):
            raise Violated(
                f"#{record.seq} {record.type}: agents obeyed the lost record {self.lost}, and no operator has accepted the loss"
            )
        self._take(record)
        self._check(STATE_RULES)
        _raise(self.history.after(self.state), record)
        living = self.living()
        _raise(no_device_runs_too_much(living), record)
        _raise(no_job_runs_twice(living), record)
        _raise(free_devices_are_free(self.state, [task for task in living if _place(task) not in self._lost_starts]), record)
        data = record.data
        failed = isinstance(data, facts.DecisionFailed) or (
            isinstance(data, facts.InputRejected) and data.code == "internal-error"
        )
        if failed and not self.may_fail(data):
            raise Violated(f"#{record.seq} {record.type}: an error of Bailiff itself: {data}")
        if isinstance(data, facts.TruncationReconciled):
            self._settled(living, record)
        if not self.state.cycle_open:
            self._check(CYCLE_RULES)

    def _check(self, rules: Iterable[Callable[[PoolState], Iterator[str]]]) -> None:
        """Check these rules. A node whose key the adversary has may say that it has less than it was given."""
        false_node = self.adversary.speaks_for if self.adversary is not None else ""
        for rule in rules:
            for violation in rule(self.state):
                if not false_node or f"{false_node} has" not in violation:
                    raise Violated(f"after #{self.state.seq}: {rule.__name__}: {violation}")

    def _take(self, record: Record) -> None:
        reporter = getattr(record.data, "node", "") if isinstance(record.data, facts.TaskFact) else ""
        if self.counts(reporter):
            _raise(self.history.before(self.state, record), record)
        apply(self.state, record)
        for name in self.state.starting:
            job = self.state.jobs[name]
            for task in job.tasks:
                if task.state == "starting":
                    place = (self.state.nodes[task.node].name, name, job.attempt, task.index)
                    self._ordered[place] = max(task.start_seq or 0, self._ordered.get(place, 0))
        match record.data:
            case facts.EvictionStarted() as begun:
                self._begun[begun.job, begun.attempt] = record.seq
            case facts.LogTruncated() as accepted if self.lost is not None and self.lost <= (accepted.epoch, accepted.seq):
                self.lost = None

    # --- truncation

    def cut(self, left: Sequence[Message], inputs: Mapping[str, int]) -> None:
        """The log was truncated to these messages: fold them anew, and note the lost commands.

        inputs: end offsets of the inputs, which admission reads again up to there.
        """
        self._read_anew = inputs
        ordered, begun = self._ordered, self._begun
        self.head, self.state, self.history, self.orphans = ChainHead(self.pool), PoolState(), History(), 0
        self._ordered, self._begun, lost = {}, {}, self.lost
        for message in left:
            wire = Wire(message.headers, message.value)
            after = continues(self.head, wire, self.signatures)
            if isinstance(after, Break):
                self.orphans += 1
                self.orphan_offsets.add(message.offset)
                continue
            self.head = after
            self._take(decode(wire))
        end = self.state.seq
        self._lost_starts |= {place for place, seq in ordered.items() if seq > end}
        self._lost_evictions |= {attempt for attempt, seq in begun.items() if seq > end}
        self._started = {key for key in self._started if key[3] is None or key[3] <= end}
        gone = [position for _, position in self._obeyed if beyond_log_end(self.state, *position)]
        self.lost = max(gone, default=None) if lost is None else max(lost, *gone)
        self.trace(f"the log ends at #{end} again; agents have obeyed {self.lost or 'none'} of the lost records")
        self.kinds["(cut)"] += 1
        self.kinds["(cut, obeyed)"] += self.lost is not None

    def is_reading_lost_reports(self) -> bool:
        """Whether admission still reads again reports from before the truncation."""
        return any(self.state.inputs.get(name, 0) < end for name, end in self._read_anew.items())

    def on_command(self, machine: str, job: str, attempt: int, tasks: Iterable[int], position: Position) -> None:
        """An agent carries out the command of this record for these tasks."""
        self._obeyed.update(((machine, job, attempt, task), position) for task in tasks)

    def _is_ordered(self, place: Place, order: int | None) -> bool:
        """Whether the log as it is now has the record that ordered this start, and not only one of the same number before."""
        return order is not None and order <= self.state.seq and (place, (self.state.epoch_of(order), order)) in self._obeyed

    def _settled(self, living: Sequence[LiveTask], record: Record) -> None:
        """From now on no effect of a lost command is permitted, except evictions that continue."""
        for task in living:
            if _place(task) in self._lost_starts:
                raise Violated(f"#{record.seq} {record.type}: {task} still runs, and its start is not in the log")
        self._lost_starts.clear()
        self._lost_evictions = {(name, at) for name, at in self._lost_evictions if self._is_current(name, at)}

    def _is_current(self, name: str, attempt: int) -> bool:
        job = self.state.jobs.get(name)
        return job is not None and job.attempt == attempt

    # --- the machines

    def counts(self, machine: str) -> bool:
        """Whether what runs there must agree with the log: not where the adversary speaks for the node."""
        return self.adversary is None or not machine or self.adversary.speaks_for != machine

    def on_start(self, task: LiveTask, order: int | None) -> None:
        """A task is about to start, by the command of record `order`; an outdated one must not start it (§8.9, §8.10)."""
        self.trace(f"{task.machine}: {task.job}/{task.attempt}/{task.task} starts on {','.join(task.devices) or 'no GPU'}")
        if not self.counts(task.machine):
            return
        job = self.state.jobs.get(task.job)
        known = job.task(task.task) if job is not None else None
        key = (task.job, task.attempt, task.task, known.start_seq if known is not None else None)
        if key in self._started:
            self.violated(f"{task} is started a second time")
        self._started.add(key)
        if self._is_ordered(_place(task), order):
            self._lost_starts.discard(_place(task))
        living = [*self.living(), task]
        wrong = [*no_device_runs_too_much(living), *no_job_runs_twice(living)]
        if _place(task) not in self._lost_starts:
            wrong += free_devices_are_free(self.state, [task])
        for violation in wrong[:1]:
            self.violated(violation)

    def on_stop(self, task: LiveTask, how: str, *, isolated: bool) -> None:
        """A task gets a notice or a signal; only an eviction that has started in the log may cause that (§8.3, §8.9)."""
        self.trace(f"{task.machine}: {task.job}/{task.attempt}/{task.task} gets {how}")
        job = self.state.jobs.get(task.job)
        current = job is not None and job.attempt == task.attempt and bool(job.tasks)
        if not self.counts(task.machine) or (self.adversary and (task.job, task.attempt) in self.adversary.commanded):
            return
        if isolated or not current or _place(task) in self._lost_starts or (task.job, task.attempt) in self._lost_evictions:
            return  # its lease expired, or the log lost this attempt or its eviction
        assert job is not None
        member = job.task(task.task)
        if member is None:
            return  # the log lost this task
        evictions = [eviction for eviction in (job.eviction, member.eviction) if eviction is not None]
        if not any(eviction.started_seq is not None for eviction in evictions):
            self.violated(f"{task} gets {how}, and no eviction of it has started in the log: {evictions}")
        elif member.eviction_cancelled:
            self.violated(f"{task} gets {how}, although its agent has confirmed the cancellation of its eviction")

    def on_exit(self, task: LiveTask, code: int) -> None:
        """A task has ended."""
        self.trace(f"{task.machine}: {task.job}/{task.attempt}/{task.task} ended with {code}")
        self._lost_starts.discard(_place(task))


def _place(task: LiveTask) -> Place:
    return task.machine, task.job, task.attempt, task.task


def _raise(violations: Iterator[str], record: Record) -> None:
    for violation in violations:
        raise Violated(f"#{record.seq} {record.type}: {violation}")


def _line(record: Record) -> str:
    data = record.data.to_data() if record.data is not None else {}
    kind = record.type.removeprefix("bailiff.audit.").removesuffix(".v1")
    hidden = ("policy", "request", "devices", "explanation", "before", "after", "inputs", "spec_digest", "digest")
    fields_text = " ".join(
        f"{name}={_short(value)}" for name, value in data.items() if name not in hidden or kind.startswith("Pre")
    )
    end = "." if record.cycle_end else ""
    return f"#{record.seq}{end} e{record.epoch} {kind} {fields_text} ({record.cause})"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 160 else f"{text[:160]}…"
