"""A service answers three pages over HTTP, says why it is not ready, and refuses invalid requests."""

import asyncio
import contextlib
import json
from collections.abc import Mapping

import pytest

from bailiff_service import health
from bailiff_service.health import HealthServer
from bailiff_service.metrics import Metrics

FINE: Mapping[str, str | None] = {"kafka": None, "fold": None}


async def exchange(server: HealthServer, request: bytes) -> tuple[int, str, bytes]:
    """Status, headers and body of the answer to these bytes."""
    host, _, port = server.address.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode(), body


def server(checks: Mapping[str, str | None] = FINE) -> HealthServer:
    return HealthServer("127.0.0.1", 0, lambda: checks, Metrics().text)


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode()


async def test_a_service_in_good_order_is_alive_and_ready() -> None:
    async with server() as it:
        assert (await exchange(it, get("/healthz")))[0] == 200
        status, head, body = await exchange(it, get("/readyz?verbose"))
        assert status == 200
        assert "application/json" in head
        assert json.loads(body) == {"ready": True, "checks": FINE}


async def test_a_service_that_is_not_ready_is_alive_and_says_what_it_waits_for() -> None:
    checks = {"kafka": None, "fold": "1200 records behind"}
    async with server(checks) as it:
        assert (await exchange(it, get("/healthz")))[0] == 200
        status, _, body = await exchange(it, get("/readyz"))
        assert status == 503
        assert json.loads(body)["checks"]["fold"] == "1200 records behind"


async def test_a_check_that_breaks_is_a_check_that_is_not_passed() -> None:
    def broken() -> Mapping[str, str | None]:
        raise ValueError("oh")

    async with HealthServer("127.0.0.1", 0, broken, Metrics().text) as it:
        status, _, body = await exchange(it, get("/readyz"))
    assert status == 503
    assert json.loads(body)["checks"] == {"readiness": "failed: oh"}


async def test_metrics_are_there_for_prometheus() -> None:
    metrics = Metrics()
    metrics.orphans.labels("a100").inc(3)
    async with HealthServer("127.0.0.1", 0, lambda: FINE, metrics.text) as it:
        status, head, body = await exchange(it, get("/metrics"))
    assert status == 200
    assert "text/plain; version=0.0.4" in head
    assert b'bailiff_orphans_total{pool="a100"} 3.0' in body


async def test_head_answers_without_a_body() -> None:
    async with server() as it:
        status, head, body = await exchange(it, get("/healthz", "HEAD"))
    assert (status, body) == (200, b"")
    assert "content-length: 6" in head


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (get("/"), 404),
        (get("/../etc/passwd"), 404),
        (get("/healthz", "POST"), 405),
        (b"hello\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nx: " + b"x" * 10_000 + b"\r\n\r\n", 400),
    ],
)
async def test_an_invalid_request_is_refused_and_the_next_one_answered(request_: bytes, status: int) -> None:
    async with server() as it:
        assert (await exchange(it, request_))[0] == status
        assert (await exchange(it, get("/healthz")))[0] == 200


@pytest.mark.parametrize("sent", [b"", b"\xff\x00", b"GET /healthz HT"])
async def test_connections_without_a_complete_request_are_closed_and_block_no_client(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "REQUEST_TIMEOUT_S", 0.05)
    async with server() as it:
        host, _, port = it.address.removeprefix("http://").rpartition(":")
        connections = [await asyncio.open_connection(host, int(port)) for _ in range(health.MAX_CONNECTIONS)]
        for _, writer in connections:
            writer.write(sent)
        for reader, writer in connections:
            with contextlib.suppress(ConnectionResetError):  # how a connection ends that is closed with bytes unread
                assert b"200 OK" not in await reader.read()
            writer.close()
        assert (await exchange(it, get("/healthz")))[0] == 200
