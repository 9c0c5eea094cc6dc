"""One domain being counted: its log followed and folded, and the figures that belong to exactly the records so far."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from bailiff_bus import tracing
from bailiff_bus.envelope import Unacceptable, unwrap
from bailiff_bus.log import Entry
from bailiff_bus.logs import logger
from bailiff_bus.messages import MeasuredWindow, NodeTelemetry, RollupWindow
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Bus, Message
from bailiff_bus.settings import PoolDeclaration
from bailiff_bus.view import DomainView

from .counting import Counting
from .figures import Figures, Told
from .message import message
from .traces import Traces

Keep = Callable[["Counted"], Awaitable[None]]


class NotThisLog(Exception):
    """The stored figures are of records that this log does not hold."""


class _View(DomainView):
    """A view that says when it has folded a batch."""

    after_batch: Callable[[], Awaitable[None]]

    async def take(self, entries: Sequence[Entry]) -> None:
        await super().take(entries)
        await self.after_batch()


class Counted:
    """Counts a domain on from what is stored. keep: is awaited after each batch: to publish what is due, and to store.

    opened: it has come to the end that the log had when it was given here.

    The pool is folded up to where the figures stand before anything is added to them; then both go on together. So nobody has
    to trust that what Kafka hands over next is what comes next: figures and position are one value.
    """

    def __init__(
        self, bus: Bus, pool: PoolDeclaration, metrics: Metrics, snapshots: Path, stored: bytes | None, keep: Keep
    ) -> None:
        self.pool = pool
        self._bus, self._metrics, self._snapshots, self._keep = bus, metrics, snapshots, keep
        self.due: list[RollupWindow | MeasuredWindow] = []
        self.opened = False
        figures = Figures.from_bytes(stored) if stored is not None else None
        self._begin(figures or Figures())
        self.view = self._new_view()

    @property
    def figures(self) -> Figures:
        """Of all records that were counted."""
        return self._counting.figures

    @property
    def offset(self) -> int:
        """The Kafka offset that is counted next."""
        return self.view.reader.offset

    async def open(self) -> None:
        """Fold up to the stored figures, then count to the end of the log as it is now."""
        try:
            await self._follow()
        except NotThisLog as why:
            logger(domain=self.pool.name).warning("the stored figures are of another log: counting anew", why=str(why))
            self._begin(Figures())
            await self._follow()
        self.opened = True

    async def take(self, message: Message) -> None:
        """Count this message of the log; what lies between here and it is read first. One that was counted is passed over."""
        view = self.view
        if message.offset > self.offset:
            await view.catch_up()
            await view.close()
        if message.offset == self.offset:
            found = view.reader.judge(message)
            if isinstance(found, Entry):
                await view.take([found])

    async def measure(self, messages: Sequence[Message]) -> None:
        """Count what agents measured, if of this domain: with the log read as far as it goes, so that the jobs are known."""
        view, measured = self.view, self.figures.measured
        ours = [_domain_of(found) == self.pool.name for found in messages]
        if any(ours):
            await view.catch_up()
            await view.close()
        for found, is_ours in zip(messages, ours, strict=True):
            if is_ours:
                with suppress(Unacceptable):
                    body = unwrap(found, accept=(NodeTelemetry,)).body
                    assert isinstance(body, NodeTelemetry)
                    jobs = {job for device in body.devices for job in device.jobs}
                    paths = {job: self._counting.path_of(view.pool, job) for job in jobs}
                    self.due += measured.count(found.time, body, paths)
            measured.passed(found)
        await self._keep(self)

    async def close(self) -> None:
        """Let go of the log."""
        await self.view.close()

    def _begin(self, figures: Figures) -> None:
        self._counting = Counting(figures, self._tell)
        self.traces = Traces(figures.traces) if tracing.endpoint() is not None else None

    def _new_view(self) -> _View:
        pool = self.pool
        view = _View(self._bus, pool.name, pool.partition, self._metrics, snapshots=self._snapshots, observe=self._observe)
        view.after_batch = lambda: self._keep(self)
        return view

    async def _follow(self) -> None:
        await self.view.close()
        self.view = self._new_view()
        await self.view.open()
        if self.view.pool.seq >= self.figures.next_seq:  # the local snapshot is newer than the figures that were kept
            self.view = self._new_view()
        if self.view.pool.seq == self.figures.next_seq - 1:
            self._counting.look(self.view.pool)
        await self.view.catch_up()
        await self.view.close()  # its connection only: messages come from elsewhere now
        if self.view.pool.seq < self.figures.next_seq - 1:
            raise NotThisLog(f"the log ends at {self.view.pool.seq}, the figures at {self.figures.next_seq - 1}")

    def _observe(self, entry: Entry) -> None:
        seq, figures = entry.record.seq, self.figures
        if seq >= figures.next_seq:
            self._counting.count(self.view.pool, entry)
            if self.traces is not None:
                self.traces.observe(self.view.pool, entry)
        elif seq == figures.next_seq - 1:
            if entry.hash != figures.hash:
                raise NotThisLog(f"record {seq} is another one")
            self._counting.look(self.view.pool)

    def _tell(self, told: Told) -> None:
        self.due.append(message(told, self.figures.next_seq))


def _domain_of(message: Message) -> str:
    return next((value.decode(errors="replace") for name, value in message.headers if name == "ce_domain"), "")
