"""The open pages of one pool: each has a short queue of its own, and who reads too slowly gets a fresh board instead."""

import asyncio
from collections import deque
from collections.abc import Callable

from .change import Change, Show, merged

PACE_S = 0.205  # at least, from one sending to the next: five in a second, and no sixth because a clock is coarse
QUEUE = 15  # messages, three seconds of them
RING_TICKS = 900  # three minutes
RING_BYTES = 8 * 1024 * 1024


class Page:
    """One reader. `take` gives what is to be sent next: all that waits as one message, at most five in any second."""

    def __init__(self, show: Show) -> None:
        self.show = show
        self.afresh = True
        self._waiting: deque[Change | bytes] = deque()
        self._news = asyncio.Event()
        self._not_before = float("-inf")

    def put(self, news: Change | bytes) -> None:
        """Send this after what waits already; too much of that, and all of it is replaced by a board."""
        if self.afresh:
            return
        if len(self._waiting) >= QUEUE:
            self.start_afresh()
        else:
            self._waiting.append(news)
            self._news.set()

    def start_afresh(self) -> None:
        """The next thing sent is a board."""
        self._waiting.clear()
        self.afresh = True
        self._news.set()

    def go_on(self, missed: list[Change]) -> None:
        """What was missed is sent first, and no board."""
        self.afresh = False
        self._waiting.extend(missed)

    async def take(self, board: Callable[[Show], bytes], wait: float) -> bytes | None:
        """The next message; none after so many seconds. board: makes the present one."""
        if not self.afresh and not self._waiting:
            self._news.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._news.wait()
            except TimeoutError:
                return None
        await asyncio.sleep(self._not_before - asyncio.get_running_loop().time())
        if self.afresh:
            self.afresh = False
            return board(self.show)
        changes = [each for each in self._waiting if isinstance(each, Change)]
        others = [each for each in self._waiting if isinstance(each, bytes)]
        self._waiting.clear()
        return b"".join([*([merged(changes).message(self.show)] if changes else []), *others])

    def sent(self) -> None:
        """What was taken last is on its way."""
        self._not_before = asyncio.get_running_loop().time() + PACE_S


class Pages:
    """All of one pool, and the changes of the last minutes, for those who come back."""

    def __init__(self) -> None:
        self._open: dict[Page, None] = {}
        self._ring: deque[Change] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, show: Show, last: str | None) -> Page:
        """A page that wants these parts. last: what it has seen, as it says; where that is known, it goes on behind it."""
        page = Page(show)
        missed = self._missed(last) if last is not None else None
        if missed is not None:
            page.go_on(missed)
        self._open[page] = None
        return page

    def leave(self, page: Page) -> None:
        """It is gone."""
        self._open.pop(page, None)

    def send(self, change: Change) -> None:
        """To everybody, and keep it."""
        if self._ring:
            self._ring[-1].forget_messages()
        for page in self._open:
            page.put(change)
        self._ring.append(change)
        self._bytes += change.size()
        while len(self._ring) > RING_TICKS or (self._bytes > RING_BYTES and len(self._ring) > 1):
            self._bytes -= self._ring.popleft().size()

    def tell(self, message: bytes, part: str | None = None) -> None:
        """Something that is no change of the pool; with `part` to those who want it."""
        for page in self._open:
            if part is None or part in page.show:
                page.put(message)

    def start_afresh(self) -> None:
        """What was sent so far is void: everybody gets a board."""
        self._ring.clear()
        self._bytes = 0
        for page in self._open:
            page.start_afresh()

    def _missed(self, last: str) -> list[Change] | None:
        """What came after the place; none where it is not known."""
        if not self._ring:
            return None
        if str(self._ring[-1].place) == last:
            return []
        for at, change in enumerate(self._ring):
            if str(change.before) == last:
                return list(self._ring)[at:]
        return None
