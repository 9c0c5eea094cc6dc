"""What-ifs of users: one at a time per user, with progress, cancellation, and no access by others."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.unit.console.actions.kit import running_console

from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_console.actions.what_ifs import MAX_RUNNING, WhatIf, WhatIfs
from bailiff_console.auth.principal import Principal
from bailiff_service.problems import ApiError

CHILD = "tests.unit.console.actions.what_if_child"
PATIENCE_S = 60
ADA, BOB, EVE, OP = Principal("ada"), Principal("bob"), Principal("eve"), Principal("op", operator=True)


@pytest.fixture
async def what_ifs() -> AsyncIterator[WhatIfs]:
    made = WhatIfs(KafkaSettings(), CHILD)
    yield made
    await made.close()


def start(what_ifs: WhatIfs, principal: Principal, kind: str) -> WhatIf:
    return what_ifs.start(principal, "pool-a", {"yaml": kind, "from": "3", "to": None, "records": 9}, 9)


async def until(what_if: WhatIf, condition: Callable[[WhatIf], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition(what_if):  # noqa: ASYNC110 - another process works
            await asyncio.sleep(0.01)


async def test_a_what_if_reports_progress_and_result(what_ifs: WhatIfs) -> None:
    what_if = start(what_ifs, ADA, "ends")
    assert what_if.to_data()["state"] == "reading"
    await until(what_if, lambda found: found.state == "done")
    status = what_ifs.find(ADA, what_if.id).to_data()
    assert (status["done"], status["of"], status["result"]) == (5, 9, {"pool": "pool-a", "from": "3"})
    assert status["report"] == f"/api/what-ifs/{what_if.id}/report"


async def test_what_ifs_are_limited_per_user_and_in_total(what_ifs: WhatIfs) -> None:
    assert MAX_RUNNING == 2
    first = start(what_ifs, ADA, "waits")
    with pytest.raises(ApiError, match="one what-if at a time"):
        start(what_ifs, ADA, "ends")
    start(what_ifs, BOB, "waits")
    with pytest.raises(ApiError, match="the maximum"):
        start(what_ifs, EVE, "ends")
    await what_ifs.cancel(ADA, first.id)
    await until(start(what_ifs, EVE, "ends"), lambda found: found.state == "done")


async def test_cancel_ends_the_process(what_ifs: WhatIfs, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = []
    real = asyncio.create_subprocess_exec

    async def recording_exec(*arguments, **rest):  # type: ignore[no-untyped-def]
        process = await real(*arguments, **rest)
        pids.append(process.pid)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", recording_exec)
    what_if = start(what_ifs, ADA, "waits")
    await until(what_if, lambda found: found.done == 5)
    assert (await what_ifs.cancel(ADA, what_if.id)).state == "cancelled"
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    assert (await what_ifs.cancel(ADA, what_if.id)).state == "cancelled"


async def test_a_failed_what_if_has_its_reason(what_ifs: WhatIfs) -> None:
    wrong = start(what_ifs, ADA, "wrong")
    await until(wrong, lambda found: found.state == "failed")
    assert wrong.detail == "there is no record #99"
    dead = start(what_ifs, ADA, "dies")
    await until(dead, lambda found: found.state == "failed")
    assert "exited without a result" in dead.detail


async def test_the_what_if_of_another_user_is_not_found(what_ifs: WhatIfs) -> None:
    what_if = start(what_ifs, ADA, "ends")
    with pytest.raises(ApiError, match="no such what-if"):
        what_ifs.find(BOB, what_if.id)
    with pytest.raises(ApiError, match="no such what-if"):
        await what_ifs.cancel(BOB, what_if.id)
    assert what_ifs.find(OP, what_if.id) is what_if


@pytest.mark.slow
async def test_what_if_over_http_has_a_sandboxed_report(tmp_path: Path) -> None:
    async with running_console(tmp_path) as request_service:
        request_service.console.service.what_ifs._module = CHILD
        policy = (await request_service.console.http.get("/api/pools/pool-a/policy")).json()["yaml"]
        for wrong in ("yesterday", "x" * 100, 7, "-1"):
            await request_service.refused(400, "what-if", yaml=policy, **{"from": wrong})
        problem = await request_service.refused(400, "what-if", yaml="priority_classes: 7\n")
        assert problem["errors"][0]["line"] == 1
        answer = await request_service.post("what-if", {"yaml": policy, "from": "-10m", "to": "2026-11-21T12:00"})
        assert answer.status_code == 202
        address = f"/api/what-ifs/{answer.json()['id']}"
        async with asyncio.timeout(PATIENCE_S):
            status = (await request_service.console.http.get(address)).json()
            while status["state"] != "done":
                await asyncio.sleep(0.01)
                status = (await request_service.console.http.get(address)).json()
        report = await request_service.console.http.get(status["report"])
        assert report.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert "x-bailiff-own-policy" not in report.headers
        assert (await request_service.console.http.delete(address)).status_code == 403
        assert (await request_service.console.http.delete(address, headers=request_service.headers)).json()["state"] == "done"
        assert (await request_service.console.http.get("/api/what-ifs/nonsense")).status_code == 404
