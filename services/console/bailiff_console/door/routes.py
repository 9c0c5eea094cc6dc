"""`/api/me`, and signing in and out."""

import hmac
import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from bailiff_console.problems import Refused
from bailiff_core.records.wire import time_text

from .attempts import LASTS_S
from .cookies import SESSION, SIGNING_IN, cookie_name, drop_cookie, read_cookie, set_cookie
from .gate import Gate
from .idtoken import NotBelieved
from .localpath import HOME, local_path
from .names import usable_name
from .oidc import ProviderFailed, tell
from .pages import not_signed_in
from .person import Person
from .sessions import Session

SEE_OTHER = 303
LONGEST = 4096
router = APIRouter()


def signed_in(request: Request) -> Session:
    """The session of whoever asks. Raises `Refused`."""
    found = getattr(request.state, "session", None)
    if not isinstance(found, Session):
        raise Refused(401, "nobody is signed in in this browser, or the session is over: /auth/sign-in")
    return found


def person_of(session: Annotated[Session, Depends(signed_in)]) -> Person:
    """Whoever asks."""
    return session.person


Signed = Annotated[Person, Depends(person_of)]
"""In a route: the person who asks, who has signed in."""


def gate_at(request: Request) -> Gate:
    """The door's parts, which the application holds."""
    gate: Gate = request.app.state.gate
    return gate


At = Annotated[Gate, Depends(gate_at)]


@router.get("/api/me")
async def me(session: Annotated[Session, Depends(signed_in)], gate: At) -> dict[str, Any]:
    """Who asks, what they may do, the token for changes, and this clock, by which the page counts."""
    person, mode = session.person, gate.settings.console_sign_in
    return {
        "name": person.name,
        "mode": mode,
        "operator": person.operator,
        "projects": None if person.projects is None else list(person.projects),
        "csrf": session.csrf,
        "sign_out": mode == "oidc",
        "time": time_text(time.time_ns() // 1000),
    }


@router.get("/auth/sign-in")
async def sign_in(request: Request, gate: At, to: str | None = None) -> Response:
    """Begin a session, or send the browser to where that is decided."""
    where = local_path(to)
    if gate.provider is not None:
        try:
            attempt, address = await gate.provider.begin(where)
        except ProviderFailed as error:
            tell(error)
            return not_signed_in(
                request, Refused(502, "The sign-in provider does not answer as it should. An operator finds why in the log.")
            )
        answer = RedirectResponse(address, SEE_OTHER)
        origin = request.state.origin
        answer.headers["set-cookie"] = set_cookie(cookie_name(SIGNING_IN, origin), gate.attempts.keep(attempt), origin, LASTS_S)
        return answer
    if gate.by_header is not None:
        name, groups = gate.by_header.named(request.client.host if request.client else "", request.headers.raw)
        person = gate.person(name, groups)
        if person is None:
            return not_signed_in(request, _stranger(name))
    else:
        person = gate.local_person()
        if person is None:
            return not_signed_in(request, _stranger(gate.settings.local_user))
    return _begun(request, gate, person, where)


@router.get("/auth/back")
async def back(request: Request, gate: At) -> Response:
    """The browser comes back from the provider."""
    if gate.provider is None:
        raise Refused(404, "nobody is sent here: this console does not sign in with OpenID Connect")
    origin = request.state.origin
    cookie = cookie_name(SIGNING_IN, origin)
    try:
        person, to = await _from_provider(request, gate, read_cookie(request.headers.get("cookie", ""), cookie))
    except Refused as refused:
        answer = not_signed_in(request, refused)
    else:
        answer = _begun(request, gate, person, to)
    answer.headers.append("set-cookie", drop_cookie(cookie, origin))
    return answer


async def _from_provider(request: Request, gate: Gate, cookie: str | None) -> tuple[Person, str]:
    assert gate.provider is not None
    given = request.query_params
    attempt = gate.attempts.take(cookie)
    if attempt is None or not hmac.compare_digest(given.get("state", "").encode(), attempt.state.encode()):
        raise Refused(400, "This sign-in was not begun in this browser, or took longer than ten minutes.")
    if "error" in given:
        said = usable_name(given["error"]) or "an error"
        tell(NotBelieved(f"the provider answered {said!r}"))
        raise Refused(403, f"The sign-in provider answered: {said}.")
    code = given.get("code", "")
    if not 0 < len(code) <= LONGEST:
        raise Refused(400, "The sign-in provider sent no code.")
    try:
        name, groups = await gate.provider.finish(attempt, code, given.get("iss"))
    except ProviderFailed as error:
        tell(error)
        raise Refused(502, "The sign-in provider does not answer as it should. An operator finds why in the log.") from None
    except NotBelieved as error:
        tell(error)
        raise Refused(403, "What the sign-in provider said cannot be believed. An operator finds why in the log.") from None
    person = gate.person(name, groups)
    if person is None:
        raise _stranger(name)
    return person, attempt.to


@router.post("/auth/sign-out")
async def sign_out(request: Request, session: Annotated[Session, Depends(signed_in)], gate: At) -> Response:
    """End the session, and all that is open in it. provider: where the provider signs people out, if it does."""
    gate.sessions.end(session)
    provider = await gate.provider.sign_out_address() if gate.provider is not None else None
    origin = request.state.origin
    answer = JSONResponse({"signed_out": True, "provider": provider})
    answer.headers["set-cookie"] = drop_cookie(cookie_name(SESSION, origin), origin)
    return answer


def _begun(request: Request, gate: Gate, person: Person, to: str) -> Response:
    """A new session, under an id that nobody can have put into the browser beforehand."""
    origin = request.state.origin
    name = cookie_name(SESSION, origin)
    before = read_cookie(request.headers.get("cookie", ""), name)
    session = gate.sessions.begin(person, gate.groups_that_count(person), before)
    answer = RedirectResponse(to or HOME, SEE_OTHER)
    answer.headers["set-cookie"] = set_cookie(name, gate.sessions.cookie(session), origin)
    return answer


def _stranger(name: str) -> Refused:
    return Refused(403, f"{name} may not look at this console: an operator adds people to the file of roles.")
