"""A change is asked for by our own page: a token that only it can read, and what the browser itself says of its origin."""

import hmac
from collections.abc import Mapping

from bailiff_console.problems import Refused

from .sessions import Session

TOKEN_HEADER = "x-csrf-token"  # noqa: S105 - the name of a header
JSON = "application/json"
OURS = ("same-origin", "none")


def check_reading(headers: Mapping[str, str]) -> None:
    """Data for our own pages only. Raises `Refused` where a browser says that another site asks."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in OURS:
        raise Refused(403, "another site asked for this in the name of whoever is signed in here")


def check_change(headers: Mapping[str, str], origin: str, session: Session) -> None:
    """Raises `Refused` unless the request comes from our own page in this session."""
    check_reading(headers)
    said = headers.get("origin")
    if said is not None and said != origin:
        raise Refused(403, f"the request comes from the origin {said[:100]}, and this console is {origin}")
    token = headers.get(TOKEN_HEADER, "")
    if not hmac.compare_digest(token.encode(), session.csrf.encode()):
        raise Refused(403, f"the header {TOKEN_HEADER} is not that of this session: load the page again (GET /api/me has it)")


def check_json(headers: Mapping[str, str]) -> None:
    """Raises `Refused` for a body of any other type: forms of other sites cannot say that it is JSON."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Refused(415, f"expected content-type: {JSON}, found {kind[:100] or 'none'}")
