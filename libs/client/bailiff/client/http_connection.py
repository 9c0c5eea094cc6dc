"""Connection to the HTTP API; each request runs in a thread."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
import threading
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from bailiff.client.errors import ClientError, ExitCode, UsageError, how_to_reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PREFIX = "/v1"
CHUNK = 1 << 20
GZIP = 31  # zlib's name of the format
WAITING_S = 15.0  # added to the timeout: the server may hold a request this long until there are new records


class RequestFailed(ClientError):
    """The request failed.

    Attributes:
        status: Status of the response; 0 without a response.
    """

    def __init__(self, status: int, text: str, advice: str = "") -> None:
        code = ExitCode.NOT_FOUND if status == 404 else ExitCode.UNREACHABLE
        super().__init__(code, text, advice)
        self.status = status


class HttpConnection:
    """An HTTP connection that is kept open.

    Attributes:
        address: `http://host:port`, or https.
        timeout: Of one response, seconds.
    """

    def __init__(self, address: str, token: str | None, timeout: float) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            advice = "BAILIFF_API: expected an address as in http://127.0.0.1:8620"
            raise UsageError(f"BAILIFF_API: {address!r} is not an address", advice)
        self._address, self._token, self._timeout = address, token, timeout
        self._path = parts.path.rstrip("/") + PREFIX
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._kind = parts.hostname, parts.port, kind
        self._connection: http.client.HTTPConnection | None = None
        self._one = threading.Lock()
        self._closed = 0

    async def get(self, path: str, **parameters: Any) -> Any:
        """Returns the JSON response. Raises `RequestFailed`."""
        status, raw = await self._in_thread(path, parameters, lambda response: response.read())
        if status == 200:
            return json.loads(raw)
        raise self._refusal(status, raw)

    async def save(self, path: str, file: Path, most: int, within_s: float, **parameters: Any) -> None:
        """Writes the response, a gzip file, unpacked to `file`. Closes the connection.

        Raises:
            RequestFailed: There is none, it takes longer than `within_s`, has more than `most` bytes, or is no gzip file.
        """

        def unpack(response: http.client.HTTPResponse) -> bytes:
            if response.status != 200:
                return response.read(CHUNK)
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as to:
                for part in _unpacked(response, most):
                    to.write(part)
            return b""

        try:
            async with asyncio.timeout(within_s):
                status, raw = await self._in_thread(path, parameters, unpack)
        except TimeoutError:
            status, raw = 0, f"it takes longer than {within_s:.0f} s"
        finally:
            self.close()
        if status == 0:
            raise RequestFailed(0, f"the file of {self._address}: {raw}")
        if status != 200:
            raise self._refusal(status, raw)

    async def _in_thread(
        self, path: str, parameters: dict[str, Any], read: Callable[[http.client.HTTPResponse], bytes]
    ) -> tuple[int, Any]:
        url = f"{self._path}{quote(path)}" + (f"?{urlencode(parameters, doseq=True)}" if parameters else "")
        done: asyncio.Future[tuple[int, Any]] = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()

        def work() -> None:
            result = self._ask(url, read)
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(_set_result, done, result)

        threading.Thread(
            target=work, name="bailiff-api", daemon=True
        ).start()  # a hanging request must not keep the command alive
        return await done

    def close(self) -> None:
        """Closes the connection, and aborts a pending request."""
        connection, self._connection = self._connection, None
        self._closed += 1
        if connection is not None:
            with suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _ask(self, url: str, read: Callable[[http.client.HTTPResponse], bytes]) -> tuple[int, Any]:
        """Returns status and body, or 0 and a reason. Reconnects once if a kept connection was closed meanwhile."""
        headers = {"accept": "application/json"} | ({"authorization": f"Bearer {self._token}"} if self._token else {})
        with self._one:
            closed = self._closed
            for again in (True, False):
                kept = self._connection is not None
                connection = self._connection = self._connection or self._kind(
                    self._host, self._port, timeout=self._timeout + WAITING_S
                )
                try:
                    connection.request("GET", url, headers=headers)
                    response = connection.getresponse()
                    return response.status, read(response)
                except (OSError, http.client.HTTPException, ValueError, zlib.error, ssl.SSLError) as error:
                    connection.close()
                    if self._connection is connection:
                        self._connection = None
                    if not (again and kept and closed == self._closed and isinstance(error, ConnectionError)):
                        return 0, str(error) or type(error).__name__
        return 0, "no response"

    def _refusal(self, status: int, raw: Any) -> RequestFailed:
        if status == 0:
            text = f"the HTTP API at {self._address} does not respond: {raw}"
            return RequestFailed(0, text, how_to_reach("BAILIFF_API") + "; without it the log is read from Kafka")
        try:
            detail = json.loads(raw)["detail"]
        except (ValueError, KeyError, TypeError):
            detail = "check that this is Bailiff's HTTP API"
        advice = "set the token: BAILIFF_API_TOKEN, or BAILIFF_API_TOKEN_FILE" if status == 401 else ""
        return RequestFailed(status, f"the HTTP API at {self._address} responded {status}: {detail}", advice)


def _unpacked(response: http.client.HTTPResponse, most: int) -> Iterator[bytes]:
    """Parts of a gzip file. Raises `ValueError` or `zlib.error`."""
    unpacked, size = zlib.decompressobj(GZIP), 0
    while not unpacked.eof:
        received = response.read1(CHUNK)
        if not received:
            raise ValueError("it ends early")
        while received:
            part = unpacked.decompress(received, CHUNK)
            size += len(part)
            if size > most:
                raise ValueError(f"it has more than {most:,} bytes")
            yield part
            received = unpacked.unconsumed_tail


def _set_result(done: asyncio.Future[Any], result: Any) -> None:
    if not done.done():
        done.set_result(result)
