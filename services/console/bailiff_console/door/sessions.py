"""Sessions: all of one is in its browser's cookie, so that a restart or another console with the same secret knows it.

Here is kept only what a cookie cannot hold: which sessions are open now, so that their streams end with them, and which were
signed out before their time.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from .person import Person
from .signedout import SignedOut
from .tokens import Tokens

ID_BYTES = 32
RENEWED_AFTER_S = 60.0  # or a tenth of the time without a request after which a session ends, if that is less
PersonOf = Callable[[str, tuple[str, ...]], Person | None]


@dataclass(eq=False)
class Session:
    """One browser of one person. Times are seconds since 1970. csrf: asked for with each change.

    groups: of the person, those that give rights. noted: as of when the browser's cookie says that it was used.
    ended: set when it is over, so that open streams end, too.
    """

    id: str
    person: Person
    groups: tuple[str, ...]
    csrf: str
    began: float
    seen: float
    noted: float
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Sessions:
    """idle, most: after so many seconds without a request, or in all, a session is over. person_of: what somebody may do now."""

    def __init__(
        self, idle: float, most: float, tokens: Tokens, signed_out: SignedOut, person_of: PersonOf,
        now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._idle, self._most, self._now = idle, most, now
        self._tokens, self._signed_out, self._person_of = tokens, signed_out, person_of
        self._open: WeakValueDictionary[str, Session] = WeakValueDictionary()

    def begin(self, person: Person, groups: Sequence[str] = (), before: str | None = None) -> Session:
        """A session with an id that nobody has seen; the one that the browser had before, by its cookie, is over."""
        known = self.find(before)
        if known is not None:
            self.end(known)
        now = self._now()
        return self._opened(secrets.token_urlsafe(ID_BYTES), person, tuple(groups), began=now, noted=now)

    def find(self, cookie: str | None) -> Session | None:
        """The session of that cookie, if it is one and not over; it counts as used."""
        data = self._tokens.read(cookie)
        if data is None:
            return None
        id_, name, groups, began, noted = data
        session = self._open.get(id_)
        if session is None:
            person = self._person_of(name, tuple(groups))
            if person is None:
                return None
            session = self._opened(id_, person, tuple(groups), began=began, noted=noted)
        session.noted = max(session.noted, noted)
        session.seen = max(session.seen, noted)
        if self.is_over(session):
            return None
        session.seen = self._now()
        return session

    def cookie(self, session: Session) -> str:
        """What the browser is to keep from now on."""
        session.noted = session.seen
        return self._tokens.make([session.id, session.person.name, session.groups, session.began, session.seen])

    def is_to_be_renewed(self, session: Session) -> bool:
        """Whether its cookie does not know that it is used."""
        return session.seen - session.noted >= min(RENEWED_AFTER_S, self._idle / 10) and not session.ended.is_set()

    def is_over(self, session: Session) -> bool:
        """Whether it has ended; looking does not use it."""
        now = self._now()
        due = now - session.seen >= self._idle or now - session.began >= self._most
        if due or self._signed_out.has(session.id):
            session.ended.set()
        return session.ended.is_set()

    def end(self, session: Session) -> None:
        """Sign out: its cookie is of no use any more."""
        self._signed_out.add(session.id)
        session.ended.set()

    def end_streams(self) -> None:
        """The console stops: nobody's stream stays open. The sessions go on."""
        for session in list(self._open.values()):
            session.ended.set()

    def _opened(self, id_: str, person: Person, groups: tuple[str, ...], *, began: float, noted: float) -> Session:
        session = Session(id_, person, groups, self._tokens.derived(id_), began, noted, noted)
        self._open[id_] = session
        return session
