"""Sessions, stored in encrypted cookies: they survive restarts and are valid on every console with the same secret.

The server keeps only the open sessions, so that their streams end with them, and the revocations.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

from .principal import Principal
from .revocations import Revocations
from .tokens import Tokens

ID_BYTES = 32
COOKIE_FIELDS = 6
RENEWED_AFTER_S = 60.0  # or a tenth of the idle timeout, if less
PrincipalOf = Callable[[str, tuple[str, ...]], Principal | None]


@dataclass(eq=False)
class Session:
    """A signed-in browser. Times in seconds since 1970. csrf: token required for changes.

    groups: the user's groups that roles refer to. seen: last use; noted: last use according to the cookie.
    ended: set when the session ends, so that open streams end too.
    """

    id: str
    principal: Principal
    groups: tuple[str, ...]
    csrf: str
    started_at: float
    seen: float
    noted: float
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Sessions:
    """idle, most: maximum time without a request, and lifetime, s. principal_of: looks up the user's current roles."""

    def __init__(
        self,
        idle: float,
        most: float,
        tokens: Tokens,
        revocations: Revocations,
        principal_of: PrincipalOf,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._idle, self._most, self._now = idle, most, now
        self._tokens, self._revocations, self._principal_of = tokens, revocations, principal_of
        self._open: WeakValueDictionary[str, Session] = WeakValueDictionary()

    def begin(self, principal: Principal, groups: Sequence[str] = (), before: str | None = None) -> Session:
        """Start a session with a new id; the browser's previous session ends."""
        known = self.find(before)
        if known is not None:
            self.end(known)
        now = self._now()
        return self._opened(secrets.token_urlsafe(ID_BYTES), principal, tuple(groups), started_at=now, noted=now)

    def find(self, cookie: str | None) -> Session | None:
        """The cookie's session if it is valid; counts as use."""
        data = self._tokens.read(cookie)
        if data is None:
            return None
        if len(data) != COOKIE_FIELDS:
            return None  # of another release
        id_, name, groups, started_at, noted, subject = data
        session = self._open.get(id_)
        if session is None:
            principal = self._principal_of(name, tuple(groups))
            if principal is None:
                return None
            principal = replace(principal, subject=subject)
            session = self._opened(id_, principal, tuple(groups), started_at=started_at, noted=noted)
        session.noted = max(session.noted, noted)
        session.seen = max(session.seen, noted)
        if self.is_over(session):
            return None
        session.seen = self._now()
        return session

    def cookie(self, session: Session) -> str:
        """The session's cookie value."""
        session.noted = session.seen
        who = session.principal
        return self._tokens.make([session.id, who.name, session.groups, session.started_at, session.seen, who.subject])

    def is_to_be_renewed(self, session: Session) -> bool:
        """Whether the cookie must be renewed with the last use."""
        return session.seen - session.noted >= min(RENEWED_AFTER_S, self._idle / 10) and not session.ended.is_set()

    def is_over(self, session: Session) -> bool:
        """Whether the session has ended; does not count as use."""
        now = self._now()
        due = now - session.seen >= self._idle or now - session.started_at >= self._most
        if due or self._revocations.has(session.id):
            session.ended.set()
        return session.ended.is_set()

    def continues(self, id_: str, started_at: float) -> bool:
        """Whether the session with this id, of this or another console, has neither ended nor lasted too long."""
        return self._now() - started_at < self._most and not self._revocations.has(id_)

    def end(self, session: Session) -> None:
        """Sign out: revoke the session."""
        self._revocations.add(session.id)
        session.ended.set()

    def end_streams(self) -> None:
        """End all streams because the console stops. The sessions stay valid."""
        for session in list(self._open.values()):
            session.ended.set()

    def _opened(self, id_: str, principal: Principal, groups: tuple[str, ...], *, started_at: float, noted: float) -> Session:
        session = Session(id_, principal, groups, self._tokens.derive(id_), started_at, noted, noted)
        self._open[id_] = session
        return session
