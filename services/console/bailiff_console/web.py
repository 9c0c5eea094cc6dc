"""Static files of the web page: built files under `web/`, and `index.html` for every client-side route."""

import mimetypes
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, HTMLResponse, Response

from bailiff_service.problems import not_found

router = APIRouter()
WEB = Path(__file__).parent / "web"
RESERVED_PREFIXES = ("api", "auth", "assets", "healthz", "readyz", "ports")
IMMUTABLE = "public, max-age=31536000, immutable"
NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Bailiff</title>
<h1>The page is not built</h1>
<p>Run <code>make web</code> and reload. The API under <code>/api</code> works.</p>
"""


@router.get("/assets/{path:path}", include_in_schema=False)
async def asset(request: Request, path: str) -> Response:
    """A built file; its name contains a hash of its content."""
    return _file(request, f"assets/{path}", IMMUTABLE)


@router.get("/{path:path}", include_in_schema=False)
async def page(request: Request, path: str) -> Response:
    """Any other path: the file of that name if there is one, else `index.html`."""
    if path.split("/", 1)[0] in RESERVED_PREFIXES:
        raise not_found("not found: unknown path")
    if path and "." in path and (WEB / path).is_file():
        return _file(request, path, "no-cache")
    if not (WEB / "index.html").is_file():
        return HTMLResponse(NOT_BUILT, headers={"cache-control": "no-store"})
    return _file(request, "index.html", "no-cache")


def _file(request: Request, name: str, cache: str) -> Response:
    """The file, compressed if the build made such a variant and the browser accepts it."""
    root = WEB.resolve()
    path = (root / name).resolve()
    if not path.is_relative_to(root) or not path.is_file():
        raise not_found(f"no such file: {name!r}")
    headers = {"cache-control": cache}
    accepted = request.headers.get("accept-encoding", "")
    for encoding, ending in (("br", ".br"), ("gzip", ".gz")):
        packed = path.with_name(path.name + ending)
        if encoding in accepted and packed.is_file():
            headers |= {"content-encoding": encoding, "vary": "accept-encoding"}
            return FileResponse(packed, headers=headers, media_type=_kind(path))
    return FileResponse(path, headers=headers, media_type=_kind(path))


def _kind(path: Path) -> str:
    return mimetypes.guess_type(path.name)[0] or "application/octet-stream"
