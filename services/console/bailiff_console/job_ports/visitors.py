"""Who may use which port in a browser: a link from the console that works once, then a short-lived cookie for that port alone."""

import secrets
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from typing import Any

from bailiff_console.auth.auth_context import AuthContext
from bailiff_console.auth.cookies import cookie_name, read_cookie, set_cookie
from bailiff_console.auth.principal import Principal
from bailiff_console.auth.sessions import Session

from .targets import JobHosts, Target, target_of

COOKIE = "bailiff-port"
LINK_S = 60
COOKIE_S = 900
RENEWED_AFTER_S = 300


@dataclass(frozen=True, slots=True)
class Visitor:
    """A signed-in person at one port. session: the id of the session in the console, which began at `began`."""

    principal: Principal
    session: str
    groups: tuple[str, ...]
    began: float
    target: Target


class Visitors:
    """Tokens of visitors: in links and in cookies."""

    def __init__(self, auth: AuthContext, hosts: JobHosts, now: Callable[[], float] = time.time) -> None:
        self._auth, self._hosts, self._now = auth, hosts, now

    def link(self, session: Session, target: Target) -> str:
        """The address that brings this person to the port; valid once, for a minute."""
        visitor = Visitor(session.principal, session.id, session.groups, session.started_at, target)
        token = self._make("link", secrets.token_urlsafe(16), visitor)
        return f"{self._hosts.origin(target.label)}/.bailiff/enter?token={token}"

    def enter(self, token: str, label: str) -> Visitor | None:
        """Whom the link brings to this host; None if it is not valid, or was used."""
        found = self._read("link", token, LINK_S)
        if found is None or found[1].target.label != label or self._auth.used_links.has(found[0]):
            return None
        self._auth.used_links.add(found[0])
        return found[1] if self.is_welcome(found[1]) else None

    def cookie(self, visitor: Visitor) -> str:
        """The `Set-Cookie` header, for the visitor's host alone."""
        origin = self._hosts.origin(visitor.target.label)
        return set_cookie(cookie_name(COOKIE, origin), self._make("cookie", str(int(self._now())), visitor), origin)

    def visitor(self, cookies: str, label: str) -> tuple[Visitor, bool] | None:
        """Whose cookie it is at this host, and whether it is to be renewed; None if nobody's."""
        found = self._read("cookie", self._value(cookies, label), COOKIE_S)
        if found is None or found[1].target.label != label or not self.is_welcome(found[1]):
            return None
        return found[1], self._now() - int(found[0]) >= RENEWED_AFTER_S

    def target(self, cookies: str, label: str) -> Target | None:
        """What an expired cookie of this host was for."""
        found = self._read("cookie", self._value(cookies, label), None)
        return found[1].target if found is not None and found[1].target.label == label else None

    def is_welcome(self, visitor: Visitor) -> bool:
        """Whether the person is still signed in to the console, and may read it."""
        return self._auth.sessions.continues(visitor.session, visitor.began) and visitor.principal.name != ""

    def _value(self, cookies: str, label: str) -> str | None:
        return read_cookie(cookies, cookie_name(COOKIE, self._hosts.origin(label)))

    def _make(self, kind: str, mark: str, visitor: Visitor) -> str:
        who = visitor.principal
        person = [who.name, visitor.groups, who.subject, visitor.session, visitor.began]
        return self._auth.port_tokens.make([kind, mark, person, list(astuple(visitor.target))])

    def _read(self, kind: str, token: str | None, max_age: int | None) -> tuple[str, Visitor] | None:
        """The person's roles are those that the console knows now."""
        data: Any = self._auth.port_tokens.read(token, max_age)
        if data is None or data[0] != kind:
            return None
        _, mark, (name, groups, subject, session, began), target = data
        principal = self._auth.principal(name, tuple(groups))
        if principal is None:
            return None
        return mark, Visitor(replace(principal, subject=subject), session, tuple(groups), began, target_of(target))
