"""Who gets an answer from the query API: those who have its token, under its own names."""

from pathlib import Path

import httpx
import pytest
from tests.kits.http import TOKEN

from bailiff_auditor.api.app import application
from bailiff_auditor.api.middleware import WRONG_PER_MINUTE
from bailiff_auditor.api.service import ApiService
from bailiff_auditor.api.settings import ApiSettings
from bailiff_service.access_tokens import client_token
from bailiff_service.metrics import Metrics

AT = "/v1/openapi.json"


def client(*hosts: str, token: str = TOKEN) -> httpx.AsyncClient:
    """A client of the API, with the right token unless a request has another."""
    app = application(None, None, Metrics(), token, hosts)
    headers = {"authorization": f"Bearer {TOKEN}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8620", headers=headers)


@pytest.mark.slow
async def test_every_path_needs_the_token() -> None:
    async with client() as http:
        for path in (AT, "/v1/pools", "/v1/events", "/", "/nowhere"):
            for wrong in ("", "Bearer ", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN):
                answer = await http.get(path, headers={"authorization": wrong})
                assert answer.status_code in (401, 429), (path, wrong)
                assert TOKEN not in answer.text
        assert (await http.get(AT)).status_code == 200


@pytest.mark.slow
async def test_wrong_tokens_are_limited_and_lock_nobody_out() -> None:
    async with client() as http:
        wrong = {"authorization": f"Bearer {TOKEN[:-1]}"}
        statuses = [(await http.get(AT, headers=wrong)).status_code for _ in range(WRONG_PER_MINUTE + 1)]
        assert statuses == [401] * WRONG_PER_MINUTE + [429]
        assert (await http.get(AT)).status_code == 200


@pytest.mark.slow
async def test_names_of_others_are_refused_against_dns_rebinding() -> None:
    async with client("api") as http:
        for host in ("evil.example", "evil.example:8620", "127.0.0.1.evil.example", "localhost.evil.example"):
            assert (await http.get(AT, headers={"host": host})).status_code == 421, host
        for host in ("localhost:8620", "127.0.0.1:8620", "[::1]:8620", "10.0.0.7", "api:8620"):
            assert (await http.get(AT, headers={"host": host})).status_code == 200, host
        assert (await http.get(AT, headers={"host": "a b"})).status_code == 400


def test_the_api_makes_its_token_and_its_clients_on_this_machine_find_it(tmp_path: Path) -> None:
    here = ("http://127.0.0.1:8620", None, None, tmp_path)
    assert client_token(*here) is None
    for _ in range(2):  # a restart keeps it
        ApiService(ApiSettings(postgres="postgresql://", state_dir=tmp_path), Metrics())
    file = tmp_path / "api.token"
    token = client_token(*here)
    assert (file.stat().st_mode & 0o777, file.read_text().strip(), len(token or "") >= 43) == (0o600, token, True)
    assert [path.name for path in tmp_path.iterdir()] == ["api.token"]
    assert client_token("https://archive.example", None, None, tmp_path) is None  # no other server gets it
    assert client_token("https://archive.example", None, file, tmp_path) == token
