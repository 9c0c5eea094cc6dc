"""Sessions, kept in this process alone: a restart signs everybody out. A browser knows only an opaque id."""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .person import Person

ID_BYTES = 32
MOST_OF_ONE = 20
MOST = 10_000


@dataclass
class Session:
    """One browser of one person. Times are seconds of a clock that only goes forward. csrf: asked for with each change.

    ended: set when it is over, so that open streams end, too.
    """

    id: str
    person: Person
    csrf: str
    began: float
    seen: float
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Sessions:
    """All of them. idle, most: after so many seconds without a request, or in all, a session is over."""

    def __init__(self, idle: float, most: float, now: Callable[[], float] = time.monotonic) -> None:
        self._idle, self._most, self._now = idle, most, now
        self._kept: dict[str, Session] = {}

    def begin(self, person: Person, before: str | None = None) -> Session:
        """A session with an id that nobody has seen; the one that the browser had before is over."""
        if before is not None:
            self.end(before)
        self._tidy(person.name)
        now = self._now()
        made = Session(secrets.token_urlsafe(ID_BYTES), person, secrets.token_urlsafe(ID_BYTES), now, now)
        self._kept[made.id] = made
        return made

    def find(self, id: str | None) -> Session | None:  # noqa: A002 - what it is
        """The session of that id, if it is not over; it counts as used."""
        found = self._living(id)
        if found is not None:
            found.seen = self._now()
        return found

    def is_over(self, session: Session) -> bool:
        """Whether it has ended; looking does not use it."""
        return self._living(session.id) is not session

    def end(self, id: str) -> None:  # noqa: A002
        """Sign out. Nothing happens where there is no such session."""
        found = self._kept.pop(id, None)
        if found is not None:
            found.ended.set()

    def end_all(self) -> None:
        """The console stops: nobody's stream stays open."""
        for id in list(self._kept):  # noqa: A001
            self.end(id)

    def _living(self, id: str | None) -> Session | None:  # noqa: A002
        found = self._kept.get(id) if id is not None else None
        if found is not None and self._is_due(found):
            self.end(found.id)
            return None
        return found

    def _is_due(self, session: Session) -> bool:
        now = self._now()
        return now - session.seen >= self._idle or now - session.began >= self._most

    def _tidy(self, name: str) -> None:
        """Room for one more: what is over goes, then the longest unused of this person, then of all."""
        for session in [each for each in self._kept.values() if self._is_due(each)]:
            self.end(session.id)
        own = [each for each in self._kept.values() if each.person.name == name]
        for few, most in ((own, MOST_OF_ONE), (list(self._kept.values()), MOST)):
            if len(few) >= most:
                self.end(min(few, key=lambda each: each.seen).id)
