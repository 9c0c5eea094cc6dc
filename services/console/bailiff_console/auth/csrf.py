"""CSRF protection: token header, Origin and Sec-Fetch-Site checks, JSON content type."""

import hmac
from collections.abc import Mapping

from bailiff_service.problems import ApiError

from .sessions import Session

TOKEN_HEADER = "x-csrf-token"  # noqa: S105 - the name of a header
JSON = "application/json"
OWN_SITES = ("same-origin", "none")


def check_reading(headers: Mapping[str, str], origin: str) -> None:
    """Raises `ApiError` if another site's page asks, as Sec-Fetch-Site or Origin says: its streams would take up places, too."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in OWN_SITES:
        raise ApiError(403, "cross-site request rejected")
    sender = headers.get("origin")
    if sender is not None and sender != origin:
        raise ApiError(403, f"request from origin {sender[:100]}; this console's origin is {origin}")


def check_change(headers: Mapping[str, str], origin: str, session: Session) -> None:
    """Raises `ApiError` unless the request comes from the console's own page in this session."""
    check_reading(headers, origin)
    token = headers.get(TOKEN_HEADER, "")
    if not hmac.compare_digest(token.encode(), session.csrf.encode()):
        raise ApiError(403, f"header {TOKEN_HEADER} does not match this session: reload the page (GET /api/me returns the token)")


def check_json(headers: Mapping[str, str]) -> None:
    """Raises `ApiError` for other content types: cross-site forms cannot send JSON."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise ApiError(415, f"expected content-type: {JSON}, found {kind[:100] or 'none'}")
