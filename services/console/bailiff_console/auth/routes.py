"""Routes `/api/me`, sign-in, OIDC callback and sign-out."""

import hmac
import time
from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from typing_extensions import TypedDict

from bailiff_core.records.wire import time_text
from bailiff_service.problems import ApiError

from .auth_context import AuthContext
from .cookies import SESSION, SIGNING_IN, cookie_name, drop_cookie, read_cookie, set_cookie
from .id_token import InvalidIdToken
from .login_state import LIFETIME_S
from .name_validation import usable_name
from .oidc import ProviderError, log_failure
from .pages import not_signed_in, token_wanted
from .principal import Principal
from .safe_redirect import HOME, local_path
from .sessions import Session

SEE_OTHER = 303
MAX_CODE = 4096
router = APIRouter()


def signed_in(request: Request) -> Session:
    """The request's session. Raises `ApiError`."""
    found = getattr(request.state, "session", None)
    if not isinstance(found, Session):
        raise ApiError(401, "not signed in, or the session has expired: /auth/sign-in")
    return found


def principal_of(session: Annotated[Session, Depends(signed_in)]) -> Principal:
    """The signed-in user."""
    return session.principal


SignedIn = Annotated[Principal, Depends(principal_of)]
"""In a route: the signed-in user."""


def auth_context_of(request: Request) -> AuthContext:
    """The application's auth context."""
    auth: AuthContext = request.app.state.auth
    return auth


WithAuth = Annotated[AuthContext, Depends(auth_context_of)]


class CurrentUser(TypedDict):
    """The signed-in user. projects: those that the user may submit to; null: all.

    csrf: the token that requests need. sign_out: whether there is something to sign out of. time: the server's clock.
    """

    name: str
    mode: Literal["local", "header", "oidc"]
    operator: bool
    projects: list[str] | None
    csrf: str
    sign_out: bool
    time: str


@router.get("/api/me", tags=["session"])
async def me(session: Annotated[Session, Depends(signed_in)], auth: WithAuth) -> CurrentUser:
    """The signed-in user, its roles, the CSRF token, and the server's clock."""
    principal, mode = session.principal, auth.settings.console_sign_in
    return {
        "name": principal.name,
        "mode": mode,
        "operator": principal.operator,
        "projects": None if principal.projects is None else list(principal.projects),
        "csrf": session.csrf,
        "sign_out": mode == "oidc",
        "time": time_text(time.time_ns() // 1000),
    }


@router.get("/auth/sign-in")
async def sign_in(request: Request, auth: WithAuth, to: str | None = None, token: str | None = None) -> Response:
    """Start a session, or redirect to the OIDC provider. token: with local sign-in; it does not stay in the address."""
    where = local_path(to)
    if auth.provider is not None:
        try:
            login_state, address = await auth.provider.begin(where)
        except ProviderError as error:
            log_failure(error)
            return not_signed_in(
                request, ApiError(502, "The sign-in provider does not answer correctly. Details are in the console's log.")
            )
        answer = RedirectResponse(address, SEE_OTHER)
        origin = request.state.origin
        answer.headers["set-cookie"] = set_cookie(
            cookie_name(SIGNING_IN, origin), auth.login_states.to_cookie(login_state), origin, LIFETIME_S
        )
        return answer
    if auth.header_auth is not None:
        name, groups = auth.header_auth.authenticate(request.client.host if request.client else "", request.headers.raw)
        principal = auth.principal(name, groups)
        if principal is None:
            return not_signed_in(request, _no_access(name))
    else:
        if token is None:
            return token_wanted(request, where)
        try:
            auth.check_local_token(token, request.state.address)
        except ApiError as refused:
            return token_wanted(request, where, refused)
        principal = auth.local_principal()
        if principal is None:
            return not_signed_in(request, _no_access(auth.settings.local_user))
    return _start_session(request, auth, principal, where)


@router.get("/auth/callback")
async def callback(request: Request, auth: WithAuth) -> Response:
    """The redirect back from the OIDC provider."""
    if auth.provider is None:
        raise ApiError(404, "this console does not use OpenID Connect")
    origin = request.state.origin
    cookie = cookie_name(SIGNING_IN, origin)
    try:
        principal, to = await _from_provider(request, auth, read_cookie(request.headers.get("cookie", ""), cookie))
    except ApiError as refused:
        answer = not_signed_in(request, refused)
    else:
        answer = _start_session(request, auth, principal, to)
    answer.headers.append("set-cookie", drop_cookie(cookie, origin))
    return answer


async def _from_provider(request: Request, auth: AuthContext, cookie: str | None) -> tuple[Principal, str]:
    assert auth.provider is not None
    given = request.query_params
    login_state = auth.login_states.take(cookie)
    if login_state is None or not hmac.compare_digest(given.get("state", "").encode(), login_state.state.encode()):
        raise ApiError(400, "This sign-in was not started in this browser, or took longer than ten minutes.")
    if "error" in given:
        answer = usable_name(given["error"]) or "an error"
        log_failure(InvalidIdToken(f"the provider answered {answer!r}"))
        raise ApiError(403, f"The sign-in provider answered: {answer}.")
    code = given.get("code", "")
    if not 0 < len(code) <= MAX_CODE:
        raise ApiError(400, "The sign-in provider sent no authorization code.")
    try:
        name, groups, subject = await auth.provider.finish(login_state, code, given.get("iss"))
    except ProviderError as error:
        log_failure(error)
        raise ApiError(502, "The sign-in provider does not answer correctly. Details are in the console's log.") from None
    except InvalidIdToken as error:
        log_failure(error)
        raise ApiError(403, "The sign-in provider's response could not be verified. Details are in the console's log.") from None
    principal = auth.principal(name, groups)
    if principal is None:
        raise _no_access(name)
    return replace(principal, subject=subject), login_state.to


@router.post("/auth/sign-out")
async def sign_out(request: Request, session: Annotated[Session, Depends(signed_in)], auth: WithAuth) -> Response:
    """End the session and its streams. `provider`: the provider's sign-out URL, or null."""
    auth.sessions.end(session)
    provider = await auth.provider.sign_out_address() if auth.provider is not None else None
    origin = request.state.origin
    answer = JSONResponse({"signed_out": True, "provider": provider})
    answer.headers["set-cookie"] = drop_cookie(cookie_name(SESSION, origin), origin)
    return answer


def _start_session(request: Request, auth: AuthContext, principal: Principal, to: str) -> Response:
    """Start a session with a new id, so that a planted cookie cannot fix the session."""
    origin = request.state.origin
    name = cookie_name(SESSION, origin)
    before = read_cookie(request.headers.get("cookie", ""), name)
    session = auth.sessions.begin(principal, auth.groups_in_roles(principal), before)
    answer = RedirectResponse(to or HOME, SEE_OTHER)
    answer.headers["set-cookie"] = set_cookie(name, auth.sessions.cookie(session), origin)
    return answer


def _no_access(name: str) -> ApiError:
    return ApiError(403, f"{name} has no access to this console. Ask an operator for an entry in the roles file.")
