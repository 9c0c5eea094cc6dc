"""The reverse proxy to the ports of jobs: its own listener, beside the console's."""

import asyncio
import socket
from collections.abc import Coroutine, Iterable
from typing import Any
from urllib.parse import parse_qs

import h11

from bailiff_console.attach_grants import NotThere
from bailiff_service.logs import logger
from bailiff_service.problems import ApiError

from .headers import to_browser, to_job
from .http_peer import HttpPeer, pass_body, pass_bytes
from .messages import Answer, redirect
from .targets import JobHosts
from .tunnels import Tunnels
from .visitors import Visitor, Visitors

MAX_CONNECTIONS = 1000
NEXT_REQUEST_WITHIN_S = 75.0
CHECK_EVERY_S = 5.0
ENTER = "/.bailiff/enter"
OWN_SITES = ("same-origin", "none")


class JobPortProxy:
    """console: the console's address. own_headers: names of headers that a proxy before us sets, which jobs do not get."""

    def __init__(
        self,
        visitors: Visitors,
        tunnels: Tunnels,
        hosts: JobHosts,
        console: str,
        own_headers: Iterable[str] = (),
        check_every_s: float = CHECK_EVERY_S,
    ) -> None:
        self._visitors, self._tunnels, self._hosts = visitors, tunnels, hosts
        self._console, self._own_headers, self._check_every_s = console, tuple(own_headers), check_every_s
        self._connections: set[asyncio.Task[None]] = set()

    async def serve(self, listening: socket.socket) -> None:
        """Until cancelled."""
        server = await asyncio.start_server(self._accepted, sock=listening)
        try:
            await server.serve_forever()
        finally:
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            writer.close()
            return
        connection = asyncio.create_task(self._serve_browser(HttpPeer(h11.SERVER, reader, writer)))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve_browser(self, browser: HttpPeer) -> None:
        try:
            while await self._answer_next(browser):
                browser.http.start_next_cycle()
        except (OSError, TimeoutError, h11.ProtocolError) as error:
            logger().debug("a connection to a job's port ended", reason=str(error)[:200])
        finally:
            browser.writer.close()

    async def _answer_next(self, browser: HttpPeer) -> bool:
        """Answer one request. Whether another one may follow on the connection."""
        async with asyncio.timeout(NEXT_REQUEST_WITHIN_S):
            request = await browser.next()
        if not isinstance(request, h11.Request):
            return False
        try:
            await self._exchange(browser, request)
        except Answer as answer:
            await self._send(browser, answer)
        except NotThere as problem:
            await self._send(browser, Answer(503, str(problem), reloads=True))
        except ApiError as error:
            await self._send(browser, Answer(error.status, error.detail))
        return browser.http.our_state is h11.DONE and browser.http.their_state is h11.DONE

    async def _exchange(self, browser: HttpPeer, request: h11.Request) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
        label = self._hosts.label_of(headers.get("host", ""))
        if label is None:
            raise Answer(421, "This address is for the ports of jobs: open them from the console.")
        if (path := request.target.decode("latin-1")).partition("?")[0] == ENTER:
            raise self._enter(path, label)
        visitor, renewed = self._visitor(request, headers, label)
        await self._while_welcome(
            visitor, self._pass(browser, request, visitor, self._visitors.cookie(visitor) if renewed else None)
        )

    def _enter(self, path: str, label: str) -> Answer:
        token = parse_qs(path.partition("?")[2]).get("token", [""])[0]
        visitor = self._visitors.enter(token, label)
        if visitor is None:
            return Answer(403, "This link has expired, or was used before: open the port from the console again.")
        return redirect("/", (b"set-cookie", self._visitors.cookie(visitor).encode()))

    def _visitor(self, request: h11.Request, headers: dict[str, str], label: str) -> tuple[Visitor, bool]:
        """Who sends the request. Requests of other sites, also of other jobs' pages, are refused: they may only link here."""
        is_page = (
            request.method == b"GET"
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest") == "document"
        )
        sender, site = headers.get("origin"), headers.get("sec-fetch-site")
        if sender not in (None, self._hosts.origin(label)) or (site not in (None, *OWN_SITES) and not is_page):
            raise Answer(403, "Requests from other sites are refused.")
        cookies = headers.get("cookie", "")
        found = self._visitors.visitor(cookies, label)
        if found is not None:
            return found
        target = self._visitors.target(cookies, label)
        if target is not None and is_page:
            raise redirect(f"{self._console}{target.entry}")
        raise Answer(401, "You are not signed in here: open the port from the console.")

    async def _while_welcome(self, visitor: Visitor, work: Coroutine[Any, Any, None]) -> None:
        """End the exchange when the visitor has signed out, may not attach any more, or the job has ended."""
        task = asyncio.create_task(work)
        try:
            while not (await asyncio.wait({task}, timeout=self._check_every_s))[0]:
                if not self._visitors.is_welcome(visitor):
                    return
                try:
                    self._tunnels.check(visitor)
                except ApiError:
                    return
                except NotThere:  # it is being evicted: the job itself ends the connection
                    continue
            task.result()
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _pass(self, browser: HttpPeer, request: h11.Request, visitor: Visitor, cookie: str | None) -> None:
        """One request to the job, and its response, which may begin before the request has ended."""
        port, origin = visitor.target.port, self._hosts.origin(visitor.target.label)
        upgrade = dict(request.headers).get(b"upgrade", b"").lower() == b"websocket"
        reader, writer = await self._tunnels.connect(visitor)
        job = HttpPeer(h11.CLIENT, reader, writer)
        headers = to_job(request.headers, port, self._own_headers, origin, upgrade=upgrade)
        await job.send(h11.Request(method=request.method, target=request.target, headers=headers))
        upload = asyncio.create_task(self._upload(browser, job))
        try:
            response = await _response_of(job)
            changed = to_browser(response.headers, port, origin, cookie)
            if isinstance(response, h11.InformationalResponse):
                changed += [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
                await browser.send(h11.InformationalResponse(status_code=101, headers=changed))
                await pass_bytes(browser, job)
            else:
                await browser.send(h11.Response(status_code=response.status_code, headers=changed, reason=response.reason))
                await pass_body(job, browser)
        finally:
            upload.cancel()
            await asyncio.gather(upload, return_exceptions=True)
            writer.close()

    async def _upload(self, browser: HttpPeer, job: HttpPeer) -> None:
        if browser.http.they_are_waiting_for_100_continue:
            await browser.send(h11.InformationalResponse(status_code=100, headers=[]))
        await pass_body(browser, job)

    async def _send(self, browser: HttpPeer, answer: Answer) -> None:
        if browser.http.our_state is not h11.SEND_RESPONSE:
            raise ConnectionResetError("the response has begun")
        body = answer.body()
        headers = [*answer.all_headers(), (b"content-length", str(len(body)).encode())]
        if browser.http.their_state is not h11.DONE:
            headers.append((b"connection", b"close"))  # its body is not read
        await browser.send(h11.Response(status_code=answer.status, headers=headers))
        await browser.send(h11.Data(data=body))
        await browser.send(h11.EndOfMessage())


async def _response_of(job: HttpPeer) -> h11.Response | h11.InformationalResponse:
    """The job's response, or 101. Raises `NotThere`."""
    try:
        while True:
            event = await job.next()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise NotThere("The job closed the connection without an answer.")
            if event.status_code == 101:
                return event
    except (OSError, h11.RemoteProtocolError):
        raise NotThere("The job closed the connection, or does not speak HTTP.") from None
