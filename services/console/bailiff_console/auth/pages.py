"""The pages outside a session: a failed sign-in, and the question for the token. HTML for browsers, else a problem document."""

from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from bailiff_service.problems import ApiError

ASKED = (
    "This console asks for its token. Open the link that the start printed, or enter the token: it is in the file console.token "
    "of the console's state folder."
)


def not_signed_in(request: Request, refused: ApiError) -> Response:
    """The page, with a link to try again."""
    return _page(request, refused, '<p><a href="/auth/sign-in">Try again</a></p>')


def token_wanted(request: Request, to: str, refused: ApiError | None = None) -> Response:
    """The page that asks for the token of a local console. to: the page to show after it."""
    reason = ApiError(401, ASKED) if refused is None else refused
    form = (
        '<form action="/auth/sign-in"><label>Token <input type="password" name="token" autocomplete="off" required></label> '
        f'<input type="hidden" name="to" value="{escape(to)}"><button>Sign in</button></form>'
    )
    return _page(request, reason, form)


def _page(request: Request, refused: ApiError, then: str) -> Response:
    if "text/html" not in request.headers.get("accept", ""):
        return refused.response()
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Not signed in - Bailiff</title></head><body>'
        f"<main><h1>You are not signed in</h1><p>{escape(refused.detail)}</p>{then}</main>"
        "</body></html>"
    )
    return HTMLResponse(page, refused.status, headers=refused.headers)
