"""Shells in the browser, on a console whose agent is a server of this test: what passes, who is let in, and until when."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tests.kits.console import sign_in
from tests.kits.waiting import until
from tests.unit.console.actions.kit import RequestService, running_console

from bailiff.attach.frames import COUNT, INPUT, OUTPUT, RESIZE, SIZE, SKIPPED, frame, next_frame
from bailiff_console import shells
from bailiff_console.attach_grants import NotThere, granted
from bailiff_console.auth.principal import Principal
from bailiff_core.records import facts
from bailiff_core.records.job_requests import AttachJob
from bailiff_service.problems import ApiError

SHELL = "/api/pools/pool-a/jobs/train-7/shell"
OPEN = {"task": 0, "rows": 30, "columns": 100}


class Agent:
    """The other end of every shell. sent: the frames that it has received."""

    def __init__(self) -> None:
        self.sent = list[tuple[bytes, bytes]]()
        self.writers = list[asyncio.StreamWriter]()
        self.asked = list[tuple[str, int, bool]]()
        self.problem: Exception | None = None
        self.grant = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(asyncio.CancelledError):
            while (found := await next_frame(reader)) is not None:
                self.sent.append(found)
        writer.close()


@pytest.fixture
async def agent(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Agent]:
    found = Agent()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)

    async def connect(_: Any, _pool: str, principal: Any, job: str, task: int, *, terminal: bool) -> Any:
        if found.problem is not None:
            raise found.problem
        found.asked.append((f"{principal.name} {job}", task, terminal))
        return *await asyncio.open_connection(*server.sockets[0].getsockname()[:2]), found.grant

    monkeypatch.setattr(shells, "_connect", connect)
    monkeypatch.setattr(shells, "CHECK_EVERY_S", 0.05)
    yield found
    server.close()
    for writer in found.writers:
        writer.close()


@asynccontextmanager
async def opened(service: RequestService, **fields: Any) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    """The events of a new shell."""

    async def events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, Any]]:
        name = ""
        async for line in lines:
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))

    http: httpx.AsyncClient = service.console.http
    async with http.stream("POST", SHELL, json={**OPEN, **fields}, headers=service.headers, timeout=None) as answer:
        assert answer.status_code == 200, await answer.aread()
        yield events(answer.aiter_lines())


async def typed(service: RequestService, id: str, status: int = 204, **fields: Any) -> None:  # noqa: A002 - in the address
    answer = await service.console.http.post(f"/api/shells/{id}", json=fields, headers=service.headers)
    assert answer.status_code == status, answer.text


async def test_input_and_output_pass_and_the_size(tmp_path: Path, agent: Agent) -> None:
    async with running_console(tmp_path, console_posts_per_minute=20) as service, opened(service) as events:
        name, id = await anext(events)  # noqa: A001 - of the shell
        assert (name, agent.asked) == ("opened", [("ada train-7", 0, False)])
        for letter in "echo é; exit" * 2:  # more than the changes that a person may make in a minute
            await typed(service, id, data=letter)
        await typed(service, id, rows=40, columns=120)
        await until(lambda: len(agent.sent) == 26)
        assert [SIZE.unpack(content) for kind, content in agent.sent if kind == RESIZE] == [(30, 100), (40, 120)]
        assert b"".join(content for kind, content in agent.sent if kind == INPUT).decode() == "echo é; exit" * 2
        agent.writers[0].write(frame(OUTPUT, b"\x1b[31mred\xff") + frame(SKIPPED, COUNT.pack(7)))
        (_, shown), skipped = await anext(events), await anext(events)
        assert (base64.b64decode(shown), skipped) == (b"\x1b[31mred\xff", ("skipped", 7))
        agent.writers[0].close()
        assert await anext(events) == ("ended", shells.LOST)
        await typed(service, id, 404, data="x")


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("task-ended", "The connection has ended: the task ended."),
        ("agent-restarted", "The connection has ended: the node agent was restarted."),
        ("detached", "The shell has ended."),
    ],
)
async def test_the_page_reads_why_the_agent_closed_the_connection(
    tmp_path: Path, agent: Agent, reason: facts.AttachEnd, said: str
) -> None:
    async with running_console(tmp_path) as service:
        requests = service.console.service.request_service
        asked = facts.RequestId(source=requests.grant_answers.source, id="a-grant", digest="0" * 64, owner="ada")
        at: Any = {"job": "train-7", "attempt": 1, "task": 0, "node": "gpu-01"}
        granted = facts.AttachGranted(request=asked, client_certificate="A" * 100, shell=True, **at)
        agent.grant = service.log_writer.cycle(granted)[0].seq
        ready = facts.AttachReady(grant=agent.grant, address="127.0.0.1:1", fingerprint="0" * 64, **at)
        seq = service.log_writer.cycle(ready)[-1].seq
        await until(lambda: requests.followed("pool-a").state.seq >= seq)
        assert await requests.grant_answers.next("pool-a", agent.grant, 10.0) == ready
        async with opened(service) as events:
            await anext(events)
            agent.writers[0].close()
            service.log_writer.cycle(facts.AttachEnded(grant=agent.grant, reason=reason, **at))
            assert await anext(events) == ("ended", said)


async def test_it_ends_where_its_node_is_lost_and_no_agent_says_so(tmp_path: Path, agent: Agent) -> None:
    async with running_console(tmp_path) as service, opened(service) as events:
        await anext(events)
        service.log_writer.cycle(facts.NodeLost(node="gpu-01", last_contact=service.log_writer.now))
        assert await anext(events) == ("ended", "Task 0 of train-7 does not run any more.")


async def test_what_an_agent_or_a_page_sends_is_bounded(tmp_path: Path, agent: Agent) -> None:
    async with running_console(tmp_path) as service:
        async with opened(service) as events:
            _, id = await anext(events)  # noqa: A001 - of the shell
            await typed(service, id, 400, data="x" * 20_000)
            await typed(service, id, 400, data=7)
            await typed(service, id, 400, rows=0, columns=80)
            await typed(service, id, 400, other=1)
            agent.writers[0].write(b"O\xff\xff\xff\xff")
            assert await anext(events) == ("ended", "The node agent does not follow the protocol.")
        async with contextlib.AsyncExitStack() as several:
            pages = [await several.enter_async_context(opened(service)) for _ in range(shells.MOST_OF_ONE)]
            for events in pages:
                await anext(events)
            refused = await service.console.http.post(SHELL, json=OPEN, headers=service.headers)
            assert (refused.status_code, "4 shells of yours are open" in refused.text) == (503, True)
        await until(lambda: all(each.is_closing() for each in agent.writers))
        async with opened(service, terminal=True) as events:
            assert (await anext(events))[0] == "opened"
        assert agent.asked[-1] == ("ada train-7", 0, True)


async def test_only_the_page_that_opened_it_can_type_and_only_from_the_console(tmp_path: Path, agent: Agent) -> None:
    async with running_console(tmp_path) as service, opened(service) as events:
        _, id = await anext(events)  # noqa: A001 - of the shell
        http = service.console.http
        async with httpx.AsyncClient(base_url=http.base_url) as other:
            theirs = await sign_in(other)
            assert (await other.post(f"/api/shells/{id}", json={"data": "x"}, headers=theirs)).status_code == 404
        for headers in (
            {},
            {**service.headers, "origin": "https://evil.example"},
            {**service.headers, "sec-fetch-site": "cross-site"},
        ):
            for path, body in ((SHELL, OPEN), (f"/api/shells/{id}", {"data": "x"})):
                assert (await http.post(path, json=body, headers=headers)).status_code == 403
        assert [kind for kind, _ in agent.sent if kind == INPUT] == []


@pytest.mark.parametrize(
    ("reason", "instead"), [("no-shell", "in a pod use kubectl exec"), ("no-terminal", "bailiff shell"), ("expired", "in time.")]
)
async def test_who_is_refused_reads_what_to_use_instead(reason: facts.AttachEnd, instead: str) -> None:
    async def request(*_: Any) -> dict[str, Any]:
        return {"accepted": True, "seq": 7}

    async def answer(*_: Any) -> facts.AttachEnded:
        return facts.AttachEnded(job="train-7", attempt=1, task=0, node="n1", grant=7, reason=reason)

    service: Any = SimpleNamespace(request=request, grant_answers=SimpleNamespace(next=answer))
    body: Any = AttachJob(job="train-7", task=0, client_certificate="A" * 100, shell=True)
    with pytest.raises(NotThere, match=instead):
        await granted(service, "pool-a", Principal("ada"), body)


async def test_it_ends_with_the_right_to_attach_and_with_the_session(
    tmp_path: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_console(tmp_path) as service:
        console = service.console.service

        def denied(*_: Any) -> Any:
            raise ApiError(403, "ada may not attach to train-7")

        async with opened(service) as events:
            await anext(events)
            with monkeypatch.context() as patch:
                patch.setattr(console.request_service, "allow_job", denied)
                assert await anext(events) == ("ended", "ada may not attach to train-7")
                refused = await service.console.http.post(SHELL, json=OPEN, headers=service.headers)
                assert refused.status_code == 403
        agent.problem = NotThere("The node agent of train-7 does not connect: its node cannot open a shell beside it.")
        refused = await service.console.http.post(SHELL, json=OPEN, headers=service.headers)
        assert (refused.status_code, refused.json()["title"], "cannot open a shell" in refused.text) == (
            409,
            "not possible now",
            True,
        )
        agent.problem = None
        async with opened(service) as events:
            await anext(events)
            service.log_writer.finish("train-7")
            assert await anext(events) == ("ended", "train-7 has ended.")
        async with opened(service) as events:
            await anext(events)
            console.auth.sessions.end_streams()
            with pytest.raises(StopAsyncIteration):
                await anext(events)
        await until(lambda: all(each.is_closing() for each in agent.writers))
