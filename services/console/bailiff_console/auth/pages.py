"""The response to a failed sign-in: an HTML page for browsers, else a problem document."""

from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from bailiff_service.problems import ApiError


def not_signed_in(request: Request, refused: ApiError) -> Response:
    """The page, with a link to try again."""
    if "text/html" not in request.headers.get("accept", ""):
        return refused.response()
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Not signed in - Bailiff</title></head><body>'
        f'<main><h1>You are not signed in</h1><p>{escape(refused.detail)}</p><p><a href="/auth/sign-in">Try again</a></p></main>'
        "</body></html>"
    )
    return HTMLResponse(page, refused.status, headers=refused.headers)
