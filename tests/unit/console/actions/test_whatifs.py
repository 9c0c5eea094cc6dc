"""What-ifs of people: one at a time for each, to be watched and stopped, and nobody else's business."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.unit.console.actions.kit import running_console

from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_console.actions.what_ifs import MAX_RUNNING, WhatIf, WhatIfs
from bailiff_console.auth.principal import Principal
from bailiff_console.problems import ApiError

CHILD = "tests.unit.console.actions.slow_child"
PATIENCE_S = 60
ADA, BOB, EVE, OP = Principal("ada"), Principal("bob"), Principal("eve"), Principal("op", operator=True)


@pytest.fixture
async def what_ifs() -> AsyncIterator[WhatIfs]:
    made = WhatIfs(KafkaSettings(), CHILD)
    yield made
    await made.close()


def begun(what_ifs: WhatIfs, principal: Principal, kind: str) -> WhatIf:
    return what_ifs.start(principal, "pool-a", {"yaml": kind, "from": "3", "to": None, "records": 9}, 9)


async def until(what_if: WhatIf, condition: Callable[[WhatIf], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition(what_if):  # noqa: ASYNC110 - another process works
            await asyncio.sleep(0.01)


async def test_it_says_how_far_it_is_and_what_came_of_it(what_ifs: WhatIfs) -> None:
    asked = begun(what_ifs, ADA, "ends")
    assert asked.to_data()["state"] == "reading"
    await until(asked, lambda found: found.state == "done")
    status = what_ifs.find(ADA, asked.id).to_data()
    assert (status["done"], status["of"], status["result"]) == (5, 9, {"pool": "pool-a", "from": "3"})
    assert status["report"] == f"/api/what-ifs/{asked.id}/report"


async def test_one_at_a_time_for_each_and_few_for_all(what_ifs: WhatIfs) -> None:
    assert MAX_RUNNING == 2
    first = begun(what_ifs, ADA, "waits")
    with pytest.raises(ApiError, match="one what-if at a time"):
        begun(what_ifs, ADA, "ends")
    begun(what_ifs, BOB, "waits")
    with pytest.raises(ApiError, match="the maximum"):
        begun(what_ifs, EVE, "ends")
    await what_ifs.cancel(ADA, first.id)
    await until(begun(what_ifs, EVE, "ends"), lambda found: found.state == "done")


async def test_stopped_its_process_is_gone(what_ifs: WhatIfs, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = []
    real = asyncio.create_subprocess_exec

    async def noting(*arguments, **rest):  # type: ignore[no-untyped-def]
        process = await real(*arguments, **rest)
        pids.append(process.pid)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noting)
    asked = begun(what_ifs, ADA, "waits")
    await until(asked, lambda found: found.done == 5)
    assert (await what_ifs.cancel(ADA, asked.id)).state == "cancelled"
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    assert (await what_ifs.cancel(ADA, asked.id)).state == "cancelled"


async def test_what_cannot_be_answered_says_why(what_ifs: WhatIfs) -> None:
    wrong = begun(what_ifs, ADA, "wrong")
    await until(wrong, lambda found: found.state == "failed")
    assert wrong.detail == "there is no record #99"
    dead = begun(what_ifs, ADA, "dies")
    await until(dead, lambda found: found.state == "failed")
    assert "exited without a result" in dead.detail


async def test_another_persons_is_as_good_as_none(what_ifs: WhatIfs) -> None:
    asked = begun(what_ifs, ADA, "ends")
    with pytest.raises(ApiError, match="no such what-if"):
        what_ifs.find(BOB, asked.id)
    with pytest.raises(ApiError, match="no such what-if"):
        await what_ifs.cancel(BOB, asked.id)
    assert what_ifs.find(OP, asked.id) is asked


@pytest.mark.slow
async def test_over_http_it_is_begun_watched_and_its_report_is_of_no_site(tmp_path: Path) -> None:
    async with running_console(tmp_path) as request_service:
        request_service.console.service.what_ifs._module = CHILD
        policy = (await request_service.console.http.get("/api/pools/pool-a/policy")).json()["yaml"]
        for wrong in ("yesterday", "x" * 100, 7, "-1"):
            await request_service.refused(400, "what-if", yaml=policy, **{"from": wrong})
        problem = await request_service.refused(400, "what-if", yaml="priority_classes: 7\n")
        assert problem["faults"][0]["line"] == 1
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
