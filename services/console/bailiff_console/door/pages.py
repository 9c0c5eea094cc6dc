"""What a person sees whose sign-in did not work: a page where a browser asks, else a problem."""

from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from bailiff_console.problems import Refused


def not_signed_in(request: Request, refused: Refused) -> Response:
    """The page, with a way to try again."""
    if "text/html" not in request.headers.get("accept", ""):
        return refused.answer()
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Not signed in - Bailiff</title></head><body>'
        f'<main><h1>You are not signed in</h1><p>{escape(refused.detail)}</p><p><a href="/auth/sign-in">Try again</a></p></main>'
        "</body></html>"
    )
    return HTMLResponse(page, refused.status, headers=refused.headers)
