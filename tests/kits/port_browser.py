"""A browser at a job's port, as a reverse proxy in front of the console passes its requests on."""

import asyncio
import os
from urllib.parse import urlsplit

import httpx


class PortBrowser:
    """link: from the console; host and cookies are those of the port. proxy: where the console serves ports."""

    def __init__(self, proxy: str, link: str) -> None:
        parts = urlsplit(link)
        self.host, self.origin = parts.netloc, f"{parts.scheme}://{parts.netloc}"
        self._proxy, self.link = proxy, f"{parts.path}?{parts.query}"
        self._http = httpx.AsyncClient(base_url=proxy, headers={"host": self.host}, timeout=60)
        self.cookie = ""

    async def enter(self) -> httpx.Response:
        """Follow the link."""
        answer = await self._http.get(self.link)
        self.cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        return answer

    async def get(self, path: str = "/", **headers: str) -> httpx.Response:
        """With the port's cookie."""
        return await self._http.get(path, headers={"cookie": self.cookie, **_dashed(headers)})

    async def post(self, path: str, content: bytes, **headers: str) -> httpx.Response:
        """As above."""
        return await self._http.post(path, content=content, headers={"cookie": self.cookie, **_dashed(headers)})

    async def websocket(self, origin: str | None = None) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
        """The first line of the answer, and the connection."""
        parts = urlsplit(self._proxy)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        head = {
            "Host": self.host,
            "Cookie": self.cookie,
            "Origin": origin or self.origin,
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        writer.write(
            b"GET /api/kernels HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in head.items()).encode() + b"\r\n"
        )
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
        return answer.partition(b"\r\n")[0], reader, writer

    async def close(self) -> None:
        """End its connections."""
        await self._http.aclose()


def text_frame(text: str) -> bytes:
    """A masked frame of a websocket."""
    mask, data = os.urandom(4), text.encode()
    return bytes((0x81, 0x80 | len(data))) + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


def _dashed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


async def it_gets_what_it_needs_and_no_more(browser: PortBrowser, port: int) -> None:
    """Requests and responses are whole, without what belongs to the console; other sites get nothing."""
    mine = f"{browser.cookie}; theme=dark; __Host-bailiff=session; bailiff-8640=session"
    browser_cookie, browser.cookie = browser.cookie, mine
    posted = await browser.post("/api/contents?a=1", b"x" * 100_000, authorization="Bearer secret", x_forwarded_user="sue")
    browser.cookie = browser_cookie
    sent = posted.json()
    assert sent["line"] == "POST /api/contents?a=1 HTTP/1.1"
    assert sent["body"] == "x" * 100_000
    assert sent["headers"]["cookie"] == "theme=dark"
    assert sent["headers"]["host"] == f"localhost:{port}"
    assert not {"authorization", "x-forwarded-user"} & sent["headers"].keys()
    assert [each.partition("=")[0] for each in posted.headers.get_list("set-cookie")] == ["_xsrf"]
    assert "frame-ancestors 'self'" in posted.headers["content-security-policy"]

    other = browser.origin.replace("https://", "https://x")
    assert (await browser.get(origin=other)).status_code == 403
    assert (await browser.get(sec_fetch_site="same-site", sec_fetch_mode="no-cors")).status_code == 403
    assert (await browser.get(sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="iframe")).status_code == 403
    assert (
        await browser.get(sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="document")
    ).status_code == 200
    line, _, writer = await browser.websocket(origin=other)
    assert b" 403 " in line
    writer.close()
    for host in ("bailiff.example.org", "jobs.example.org", "x" + browser.host):
        assert (await browser.get(host=host)).status_code in (401, 421)
