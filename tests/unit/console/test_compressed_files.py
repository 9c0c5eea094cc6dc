"""The console's built files are compressed; API answers, which may hold secrets, never are."""

import asyncio
import gzip
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from bailiff_console import problems, web

SCRIPT = b"export const pool = 1;\n" * 200


class Console:
    def __init__(self, app: FastAPI) -> None:
        self.app = app

    def get(self, path: str, headers: dict[str, str]) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app=self.app), base_url="http://console") as client:
                return await client.get(path, headers=headers)

        return asyncio.run(ask())


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Console:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "page-1.js").write_bytes(SCRIPT)
    (tmp_path / "assets" / "font-1.woff2").write_bytes(b"packed already")
    (tmp_path / "index.html").write_text("<!doctype html><title>Bailiff</title>")
    monkeypatch.setattr(web, "WEB", tmp_path)
    app = FastAPI()
    problems.register(app)

    @app.get("/api/secret")
    def secret() -> dict[str, str]:
        return {"token": "x" * 5000}

    app.include_router(web.router)
    return Console(app)


def test_a_script_is_sent_compressed_with_an_etag_of_its_own(console: Console) -> None:
    packed = console.get("/assets/page-1.js", headers={"accept-encoding": "br, gzip"})
    plain = console.get("/assets/page-1.js", headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert int(packed.headers["content-length"]) == len(gzip.compress(SCRIPT, mtime=0)) < len(SCRIPT)
    assert packed.content == plain.content == SCRIPT
    assert packed.headers["etag"] != plain.headers["etag"]
    assert packed.headers["vary"] == plain.headers["vary"] == "accept-encoding"
    assert packed.headers["cache-control"] == web.IMMUTABLE


@pytest.mark.parametrize("accepted", ["gzip;q=0", "gzip; q=0.000", "br", "xgzip", ""])
def test_a_browser_that_does_not_accept_gzip_gets_the_plain_file(console: Console, accepted: str) -> None:
    answer = console.get("/assets/page-1.js", headers={"accept-encoding": accepted})
    assert "content-encoding" not in answer.headers
    assert answer.content == SCRIPT


def test_fonts_and_api_answers_are_not_compressed(console: Console) -> None:
    for path in ("/assets/font-1.woff2", "/api/secret"):
        assert "content-encoding" not in console.get(path, headers={"accept-encoding": "gzip"}).headers


def test_the_page_is_compressed_too(console: Console) -> None:
    assert console.get("/jobs", headers={"accept-encoding": "gzip;q=0.5"}).headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("there", ["//etc/host.conf", "/..%2f..%2f..%2f..%2f..%2f..%2f..%2fetc/host.conf", "/%2e%2e/outside.txt"])
def test_nobody_is_told_which_other_files_the_machine_has(console: Console, tmp_path: Path, there: str) -> None:
    tmp_path.with_name("outside.txt").touch()
    missing = there.replace("host.conf", "no-such.conf").replace("outside", "no-such")
    found, other = (console.get(path, headers={}) for path in (there, missing))
    assert (found.status_code, found.content) == (other.status_code, other.content)


@pytest.mark.parametrize("name", ["%00", "a" * 5_000, "a/" * 3_000], ids=["zero", "long", "deep"])
@pytest.mark.parametrize("folder", ["/assets/", "/assets.", "/"])
def test_a_name_that_no_file_can_have_is_not_found(console: Console, folder: str, name: str) -> None:
    assert console.get(f"{folder}{name}", headers={}).status_code == (404 if folder == "/assets/" else 200)
