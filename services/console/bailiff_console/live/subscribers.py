"""Live subscribers of one pool: each has a bounded queue; a slow one gets a fresh snapshot instead."""

import asyncio
from collections import deque
from collections.abc import Callable

from .change import Change, Show, merged

MIN_INTERVAL_S = 0.205  # minimum interval between sends: at most five per second, with a margin for coarse clocks
QUEUE = 15  # messages: three seconds
RING_TICKS = 900  # three minutes
RING_BYTES = 8 * 1024 * 1024


class Subscriber:
    """One client. `take` returns everything queued as one message, at most five times per second."""

    def __init__(self, show: Show) -> None:
        self.show = show
        self.needs_snapshot = True
        self._queue: deque[Change | bytes] = deque()
        self._queued = asyncio.Event()
        self._not_before = float("-inf")

    def put(self, message: Change | bytes) -> None:
        """Queue this; if the queue is full, replace it by a snapshot."""
        if self.needs_snapshot:
            return
        if len(self._queue) >= QUEUE:
            self.reset()
        else:
            self._queue.append(message)
            self._queued.set()

    def reset(self) -> None:
        """Send a snapshot next."""
        self._queue.clear()
        self.needs_snapshot = True
        self._queued.set()

    def resume(self, missed: list[Change]) -> None:
        """Send the missed changes first, without a snapshot."""
        self.needs_snapshot = False
        self._queue.extend(missed)

    async def take(self, snapshot: Callable[[Show], bytes], wait: float) -> bytes | None:
        """The next message; None after `wait` seconds. snapshot: renders the current snapshot."""
        if not self.needs_snapshot and not self._queue:
            self._queued.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._queued.wait()
            except TimeoutError:
                return None
        await asyncio.sleep(self._not_before - asyncio.get_running_loop().time())
        if self.needs_snapshot:
            self.needs_snapshot = False
            return snapshot(self.show)
        changes = [each for each in self._queue if isinstance(each, Change)]
        others = [each for each in self._queue if isinstance(each, bytes)]
        self._queue.clear()
        return b"".join([*([merged(changes).message(self.show)] if changes else []), *others])

    def sent(self) -> None:
        """The message taken last was sent: start the pacing interval."""
        self._not_before = asyncio.get_running_loop().time() + MIN_INTERVAL_S


class Subscribers:
    """All subscribers of one pool, and the changes of the last minutes for reconnecting clients."""

    def __init__(self) -> None:
        self._open: dict[Subscriber, None] = {}
        self._ring: deque[Change] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    def add(self, show: Show, last: str | None) -> Subscriber:
        """A new subscriber of these parts. last: its Last-Event-ID; if known, the subscriber resumes after it."""
        subscriber = Subscriber(show)
        missed = self._missed(last) if last is not None else None
        if missed is not None:
            subscriber.resume(missed)
        self._open[subscriber] = None
        return subscriber

    def remove(self, subscriber: Subscriber) -> None:
        """The client disconnected."""
        self._open.pop(subscriber, None)

    def publish(self, change: Change) -> None:
        """Send the change to every subscriber, and keep it for reconnecting ones."""
        if self._ring:
            self._ring[-1].forget_messages()
        for subscriber in self._open:
            subscriber.put(change)
        self._ring.append(change)
        self._bytes += change.size()
        while len(self._ring) > RING_TICKS or (self._bytes > RING_BYTES and len(self._ring) > 1):
            self._bytes -= self._ring.popleft().size()

    def broadcast(self, message: bytes, part: str | None = None) -> None:
        """Send an event that is no change of the pool; with `part`, only to subscribers of that part."""
        for subscriber in self._open:
            if part is None or part in subscriber.show:
                subscriber.put(message)

    def reset(self) -> None:
        """Invalidate everything sent so far: every subscriber gets a snapshot."""
        self._ring.clear()
        self._bytes = 0
        for subscriber in self._open:
            subscriber.reset()

    def _missed(self, last: str) -> list[Change] | None:
        """Changes after the position; None if the position is unknown."""
        if not self._ring:
            return None
        if str(self._ring[-1].position) == last:
            return []
        for at, change in enumerate(self._ring):
            if str(change.before) == last:
                return list(self._ring)[at:]
        return None
