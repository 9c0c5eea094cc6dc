"""Static files of the web page: built files under `web/`, and `index.html` for every client-side route."""

import gzip
import hashlib
import mimetypes
from functools import lru_cache
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, HTMLResponse, Response

from bailiff_service.problems import not_found

router = APIRouter()
WEB = Path(__file__).parent / "web"
RESERVED_PREFIXES = ("api", "auth", "assets", "healthz", "readyz", "ports")
IMMUTABLE = "public, max-age=31536000, immutable"
COMPRESSED_KINDS = ("application/javascript", "application/json", "image/svg+xml")
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
    if "." in path and _built(path) is not None:
        return _file(request, path, "no-cache")
    if _built("index.html") is None:
        return HTMLResponse(NOT_BUILT, headers={"cache-control": "no-store"})
    return _file(request, "index.html", "no-cache")


def _file(request: Request, name: str, cache: str) -> Response:
    """The file, compressed if the browser accepts it. Only built files are: they hold no secret that a length could tell."""
    path = _built(name)
    if path is None:
        raise not_found(f"no such file: {name!r}")
    kind = _kind(path)
    if not kind.startswith("text/") and kind not in COMPRESSED_KINDS:
        return FileResponse(path, headers={"cache-control": cache}, media_type=kind)
    headers = {"cache-control": cache, "vary": "accept-encoding"}
    if not _accepts_gzip(request.headers.get("accept-encoding", "")):
        return FileResponse(path, headers=headers, media_type=kind)
    content = _compressed(path, path.stat().st_mtime_ns)
    headers |= {"content-encoding": "gzip", "etag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}
    return Response(content, headers=headers, media_type=kind)


def _built(name: str) -> Path | None:
    """The built file of this name. Whether there is another file of that name, elsewhere on the machine, nobody is told."""
    root = WEB.resolve()
    try:
        path = (root / name).resolve()
        return path if path.is_relative_to(root) and path.is_file() else None
    except (OSError, ValueError):  # no file can have this name
        return None


def _accepts_gzip(accepted: str) -> bool:
    for offer in accepted.lower().split(","):
        encoding, _, weight = offer.replace(" ", "").partition(";")
        if encoding == "gzip":
            return not weight or weight.removeprefix("q=").strip("0.") != ""
    return False


@lru_cache(maxsize=256)
def _compressed(path: Path, _modified: int) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)


def _kind(path: Path) -> str:
    return mimetypes.guess_type(path.name)[0] or "application/octet-stream"
