"""The proxy to ports of jobs, without Kafka and agents: what passes, who is let in, and until when."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.kits.port_browser import PortBrowser, it_gets_what_it_needs_and_no_more, text_frame
from tests.kits.port_job import serve
from tests.kits.waiting import PATIENCE_S

from bailiff_console.attach_grants import NotThere
from bailiff_console.auth.auth_context import build_auth_context
from bailiff_console.auth.principal import Principal
from bailiff_console.auth.sessions import Session
from bailiff_console.job_ports.proxy import JobPortProxy
from bailiff_console.job_ports.targets import JobHosts, Target
from bailiff_console.job_ports.tunnels import Streams
from bailiff_console.job_ports.visitors import Visitor, Visitors
from bailiff_console.settings import ConsoleSettings
from bailiff_service.problems import ApiError
from bailiff_service.web_server import open_socket

HOSTS = JobHosts("https://jobs.example.org")


class LocalTunnels:
    """Connects to a server of this process. denial: why the visitor may not attach; waits: why the job cannot be reached."""

    def __init__(self, port: int) -> None:
        self._port, self.denial, self.waits = port, "", ""

    def check(self, _: Visitor) -> None:
        if self.denial:
            raise ApiError(403, self.denial)
        if self.waits:
            raise NotThere(self.waits)

    async def connect(self, visitor: Visitor) -> Streams:
        self.check(visitor)
        return await asyncio.open_connection("127.0.0.1", self._port)


class Running:
    """A proxy, a job behind it, and somebody who is signed in to the console."""

    def __init__(self, folder: Path, port: int) -> None:
        settings: dict[str, Any] = {"instance": "console", "console_user": "ada", "state_dir": folder, "console_secret": "s" * 40}
        self.auth = build_auth_context(ConsoleSettings(**settings))
        self.visitors, self.tunnels = Visitors(self.auth, HOSTS), LocalTunnels(port)
        self.port, self.socket = port, open_socket("127.0.0.1", 0)
        own = ("x-forwarded-user",)
        self.proxy: Any = JobPortProxy(
            self.visitors,
            self.tunnels,
            HOSTS,
            "https://bailiff.example.org",
            own,
            check_every_s=0.01,  # type: ignore[arg-type]
        )
        self.session: Session = self.auth.sessions.begin(Principal("ada", operator=True))

    def browser(self, job: str = "notebook-1") -> PortBrowser:
        """With a link to this job's port that was not used yet."""
        link = self.visitors.link(self.session, Target("pool-a", job, 7, 0, self.port))
        return PortBrowser(f"http://127.0.0.1:{self.socket.getsockname()[1]}", link)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    job = await asyncio.start_server(serve, "127.0.0.1", 0)
    found = Running(tmp_path, job.sockets[0].getsockname()[1])
    serving = asyncio.create_task(found.proxy.serve(found.socket))
    yield found
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    job.close()


@pytest.fixture
async def browser(running: Running) -> AsyncIterator[PortBrowser]:
    found = running.browser()
    await found.enter()
    yield found
    await found.close()


async def test_requests_and_websockets_pass_without_what_is_the_consoles(running: Running, browser: PortBrowser) -> None:
    await it_gets_what_it_needs_and_no_more(browser, running.port)
    line, reader, writer = await browser.websocket()
    assert b" 101 " in line
    frame = text_frame("print(1)")
    writer.write(frame)
    assert await asyncio.wait_for(reader.readexactly(len(frame)), PATIENCE_S) == frame
    writer.close()


async def test_another_jobs_cookie_and_link_are_of_no_use(running: Running, browser: PortBrowser) -> None:
    other = running.browser("notebook-2")
    assert other.host != browser.host
    assert (await other.get(cookie=browser.cookie)).status_code == 401
    other.host = browser.host
    assert (await browser.get(f"/.bailiff/enter?{other.link.partition('?')[2]}")).status_code == 403
    await other.close()


async def test_a_link_works_once_and_a_cookie_is_no_link(running: Running, browser: PortBrowser) -> None:
    assert (await browser.get(browser.link)).status_code == 403
    token = browser.cookie.partition("=")[2]
    assert (await browser.get(f"/.bailiff/enter?token={token}")).status_code == 403
    again = running.browser()
    link_as_cookie = f"__Host-bailiff-port={again.link.partition('token=')[2]}"
    assert (await again.get(cookie=link_as_cookie)).status_code == 401
    await again.close()


@pytest.mark.parametrize("what", ["signed out", "denied"])
async def test_open_connections_end_with_the_right_to_them(running: Running, browser: PortBrowser, what: str) -> None:
    _, reader, writer = await browser.websocket()
    if what == "signed out":
        running.auth.sessions.end(running.session)
    else:
        running.tunnels.denial = what
    assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
    writer.close()
    assert (await browser.get()).status_code == (401 if what == "signed out" else 403)


async def test_a_job_that_cannot_be_reached_now_has_a_page_that_reloads(running: Running, browser: PortBrowser) -> None:
    running.tunnels.waits = "notebook-1 is <pending>."
    answer = await browser.get()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "notebook-1 is &lt;pending&gt;." in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    running.tunnels.waits = ""
    assert (await browser.get()).status_code == 200


async def test_an_expired_cookie_leads_a_page_back_to_the_console_and_nothing_else(running: Running) -> None:
    later = Visitors(running.auth, HOSTS, now=lambda: 0)
    target = Target("pool-a", "note/book", 7, 0, running.port)
    visitor = Visitor(running.session.principal, running.session.id, (), running.session.started_at, target)
    running.auth.port_tokens._now = lambda: 0
    old = later.cookie(visitor).partition(";")[0]
    running.auth.port_tokens._now = lambda: 10_000
    browser = running.browser("note/book")
    page = await browser.get(cookie=old, sec_fetch_mode="navigate", sec_fetch_dest="document", sec_fetch_site="none")
    assert page.headers["location"] == f"https://bailiff.example.org/ports/pool-a/note%2Fbook/0/{running.port}"
    assert (await browser.get(cookie=old, sec_fetch_mode="cors", sec_fetch_site="same-origin")).status_code == 401
    await browser.close()


async def test_what_is_no_http_is_refused(running: Running, browser: PortBrowser) -> None:
    for text in (b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: " + b"x" * 100_000):
        reader, writer = await asyncio.open_connection(*running.socket.getsockname())
        writer.write(text)
        assert b"200" not in await asyncio.wait_for(reader.read(), PATIENCE_S)
        writer.close()
    head = f"GET / HTTP/1.1\r\nHost: {browser.host}\r\nCookie: {browser.cookie}\r\n"
    two = f"{head}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"
    reader, writer = await asyncio.open_connection(*running.socket.getsockname())
    writer.write(two.encode())
    writer.write_eof()
    assert b"200" not in await asyncio.wait_for(reader.read(), PATIENCE_S)
    writer.close()


def test_settings_keep_jobs_away_from_the_consoles_host(tmp_path: Path) -> None:
    proxied: dict[str, Any] = {
        "instance": "console",
        "state_dir": tmp_path,
        "console_sign_in": "header",
        "console_url": "https://bailiff.example.org",
        "console_proxies": ("127.0.0.1",),
        "console_jobs_port": 0,
    }
    for url, text in (
        (None, "needs console_jobs_url"),
        ("http://jobs.example.org", "expected https"),
        ("https://10.0.0.1", "an IP address"),
        ("https://jobs.example.org/x", "expected an address"),
    ):
        with pytest.raises(ValueError, match=text):
            ConsoleSettings(**proxied, console_jobs_url=url)
    assert ConsoleSettings(**proxied, console_jobs_url="https://jobs.example.org").console_jobs_port == 0
