"""Notifications of evictions and resumes: over HTTP or by a command, at least once, in order."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.kit import LogWriter, Run, finished_story, preemption_story, request_id

from bailiff import Client
from bailiff.client.errors import ClientError, ExitCode
from bailiff.notify.notifier import Hook, Notifier, NotifyFile, Positions, filled, read_notify_file
from bailiff_core.records import facts


class Receiver:
    """A local HTTP server that stores received notifications. `answer` gives the status of each request, by its number."""

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, Any]]] = []
        self.answer: Callable[[int], int] = lambda number: 204
        self.requests = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = receiver.answer(receiver.requests)
                receiver.requests += 1
                if status < 300:
                    receiver.received.append((self.headers["Idempotency-Key"], body))
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def ids(self) -> list[str]:
        return [key for key, _ in self.received]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def log_writer() -> LogWriter:
    return finished_story(LogWriter())


class Crashed(Exception):
    """Stands for the end of the process."""


def hook(receiver: Receiver, name: str = "chat", **rest: Any) -> Hook:
    return Hook(name=name, webhook=receiver.url, **rest)


async def deliver(log_writer: LogWriter, positions: Path, *hooks: Hook, errors: list[str] | None = None) -> int:
    """Delivers pending notifications, as `bailiff notify --once` does. Returns their number."""
    async with Client(log_writer.cluster.client("c"), source="test", now=lambda: log_writer.now) as client:
        file = NotifyFile(positions=str(positions), hooks=hooks)
        return await Notifier(client, file, (errors if errors is not None else []).append, pause=0.01).run(once=True)


async def from_the_start(log_writer: LogWriter, positions: Path, *names: str) -> None:
    """Sets the hooks' positions to the start of the log."""
    async with Client(log_writer.cluster.client("c"), source="test") as client:
        log = (await client.pool()).identity
    stored = Positions(positions)
    for name in names:
        stored.move(log, name, -1)


@pytest.mark.slow
async def test_evictions_and_resumes_are_delivered_with_an_id_in_header_and_body(
    log_writer: LogWriter, receiver: Receiver, tmp_path: Path
) -> None:
    await from_the_start(log_writer, tmp_path / "p", "chat")
    assert await deliver(log_writer, tmp_path / "p", hook(receiver)) == 4
    assert [key.split(":")[2:] for key in receiver.ids] == [
        ["Preempted", "train-7"],
        ["Preempted", "train-8"],
        ["Resumed", "train-7"],
        ["Resumed", "train-8"],
    ]
    assert all(body["id"] == key for key, body in receiver.received)
    first = receiver.received[0][1]
    assert (first["owner"], first["job"], first["by"], first["condition_type"]) == (
        "alice",
        "train-7",
        "serve-2",
        "DisruptionTarget",
    )
    assert first["text"].startswith("train-7 on gpu-02: Preempted, the job is evicted for a job of higher priority. for serve-2")


@pytest.mark.slow
async def test_a_victim_that_leaves_although_its_preemptor_was_cancelled_is_told_so(receiver: Receiver, tmp_path: Path) -> None:
    log_writer = preemption_story(LogWriter())
    at = {"job": "train-7", "attempt": 1, "task": 0, "node": "gpu-02"}
    decided = log_writer.state.jobs["train-7"].eviction
    assert decided is not None
    log_writer.cycle(facts.EvictionStarted(job="train-7", attempt=1, decided_by=decided.decided_seq))
    log_writer.cycle(facts.EvictionStageReached.model_validate({**at, "stage": "term_sent"}))
    log_writer.cycle(facts.JobCancelled(job="serve-2", request=request_id("serve-2")))
    log_writer.cycle(facts.TaskCancelEvictionRefused.model_validate(at))
    await from_the_start(log_writer, tmp_path / "p", "chat")
    await deliver(log_writer, tmp_path / "p", hook(receiver))
    (body,) = (body for _, body in receiver.received if body["type"] == "EvictionContinues")
    assert body["job"] == "train-7"
    assert "too late: it was already told to stop; it resumes later" in body["text"]


@pytest.mark.slow
async def test_delivered_events_are_not_sent_again(log_writer: LogWriter, receiver: Receiver, tmp_path: Path) -> None:
    await from_the_start(log_writer, tmp_path / "p", "chat")
    await deliver(log_writer, tmp_path / "p", hook(receiver))
    assert await deliver(log_writer, tmp_path / "p", hook(receiver)) == 0
    assert len(receiver.received) == 4


@pytest.mark.slow
async def test_a_new_hook_receives_only_later_events(log_writer: LogWriter, receiver: Receiver, tmp_path: Path) -> None:
    assert await deliver(log_writer, tmp_path / "p", hook(receiver)) == 0
    log_writer.submit("serve-3", gpus=4, tasks=3, class_="inference")
    log_writer.propose()
    assert await deliver(log_writer, tmp_path / "p", hook(receiver)) == 2
    assert {body["by"] for _, body in receiver.received} == {"serve-3"}


@pytest.mark.slow
async def test_filters(log_writer: LogWriter, receiver: Receiver, tmp_path: Path) -> None:
    await from_the_start(log_writer, tmp_path / "p", "owner", "project", "words")
    hooks = [hook(receiver, "owner", owners=("bob",)), hook(receiver, "project", projects=("vision",))]
    assert await deliver(log_writer, tmp_path / "p", *hooks) == 0
    assert await deliver(log_writer, tmp_path / "p", hook(receiver, "words", events=("Succeeded",))) == 2
    assert {body["job"] for _, body in receiver.received} == {"done-1", "serve-2"}


@pytest.mark.slow
async def test_failed_deliveries_are_retried_in_order(log_writer: LogWriter, receiver: Receiver, tmp_path: Path) -> None:
    await from_the_start(log_writer, tmp_path / "p", "chat")
    receiver.answer = lambda number: {0: 500, 1: 404, 2: 302, 4: 429}.get(number, 200)
    errors: list[str] = []
    assert await deliver(log_writer, tmp_path / "p", hook(receiver), errors=errors) == 4
    assert [key.split(":")[3] for key in receiver.ids] == ["train-7", "train-8", "train-7", "train-8"]
    assert [text.split(": ")[-1].split()[0] for text in errors] == ["500", "404", "302", "429"]
    assert "next try in 0.01 s" in errors[0]
    assert "next try in 0.04 s" in errors[2]


@pytest.mark.slow
async def test_an_unreachable_hook_does_not_delay_others(log_writer: LogWriter, receiver: Receiver, tmp_path: Path) -> None:
    await from_the_start(log_writer, tmp_path / "p", "down", "chat")
    down = Hook(name="down", webhook="http://127.0.0.1:1/x", give_up_after=50_000)
    errors: list[str] = []
    assert await deliver(log_writer, tmp_path / "p", down, hook(receiver), errors=errors) == 4
    assert len(receiver.received) == 4
    assert sum("was given up" in text for text in errors) == 4


@pytest.mark.slow
async def test_a_crash_before_the_position_is_stored_repeats_the_same_id(
    log_writer: LogWriter, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await from_the_start(log_writer, tmp_path / "p", "chat")

    def crash(self: Positions, log: str, name: str, seq: int) -> None:
        raise Crashed

    with monkeypatch.context() as broken:
        broken.setattr(Positions, "move", crash)
        with pytest.raises(Crashed):
            await deliver(log_writer, tmp_path / "p", hook(receiver))
    before = list(receiver.ids)
    assert before
    await deliver(log_writer, tmp_path / "p", hook(receiver))
    assert receiver.ids[len(before) :][: len(before)] == before
    assert len(set(receiver.ids)) == 4


@pytest.mark.slow
async def test_an_unreadable_positions_file_is_an_error(log_writer: LogWriter, receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "p").write_text("{")
    with pytest.raises(ClientError, match="cannot be read"):
        await deliver(log_writer, tmp_path / "p", hook(receiver))


# --- commands

SCRIPT = """
import os, sys
open(sys.argv[1], "a").write(f"{sys.argv[2]}|{sys.stdin.read().strip()}|{os.environ['BAILIFF_EVENT_ID']}\\n")
"""


async def test_a_command_gets_arguments_and_text(log_writer: LogWriter, tmp_path: Path) -> None:
    await from_the_start(log_writer, tmp_path / "p", "mail")
    (tmp_path / "mail.py").write_text(SCRIPT)
    words = (sys.executable, str(tmp_path / "mail.py"), str(tmp_path / "out"), "{type} {job} for {owner}")
    assert await deliver(log_writer, tmp_path / "p", Hook(name="mail", command=words, events=("Resumed",))) == 2
    first, second = (tmp_path / "out").read_text().splitlines()
    assert first.startswith("Resumed train-7 for alice|train-7 on ")
    assert second.split("|")[2].endswith(":Resumed:train-8")


async def test_a_command_that_fails_or_times_out_is_retried(log_writer: LogWriter, tmp_path: Path) -> None:
    await from_the_start(log_writer, tmp_path / "p", "fails", "hangs", "missing")
    hooks = [
        Hook(name="fails", command=("sh", "-c", "echo no >&2; exit 3"), give_up_after=1, events=("Succeeded",)),
        Hook(name="hangs", command=("sleep", "9"), timeout=10_000, give_up_after=1, events=("Succeeded",)),
        Hook(name="missing", command=("/nowhere/mail",), give_up_after=1, events=("Succeeded",)),
    ]
    errors: list[str] = []
    assert await deliver(log_writer, tmp_path / "p", *hooks, errors=errors) == 0
    text = "\n".join(errors)
    assert "sh exited with 3: no" in text
    assert "sleep timed out" in text
    assert "/nowhere/mail: No such file or directory" in text


def test_field_values_cannot_become_options() -> None:
    assert filled(["{owner}", "-s", "x {job}"], {"owner": "--exec=rm", "job": "a"}) == ["exec=rm", "-s", "x a"]


# --- the file


def test_all_faults_of_the_notify_file_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "notify.yaml"
    file.write_text(
        "positions: kept.json\nhooks:\n  - name: a\n    webhook: ftp://x\n  - name: b\n    command: [mail, '{colour}']\n"
        "  - {name: c, webhook: 'http://x', events: [Vanished]}\n  - {name: d, webhok: 'http://x'}\n"
    )
    with pytest.raises(ClientError) as caught:
        read_notify_file(file)
    assert caught.value.exit_code is ExitCode.USAGE
    for part in (
        f"{file}:4: hooks.0.webhook",
        f"{file}:5: hooks.1",
        "unknown field 'colour'",
        "unknown event 'Vanished'",
        f"{file}:8",
    ):
        assert part in caught.value.text
    file.write_text("positions: kept.json\nhooks: [{name: a, webhook: 'http://x'}]\n")
    assert read_notify_file(file).positions == str(tmp_path / "kept.json")
    file.write_text("positions: kept.json\nhooks: [{name: a, webhook: 'http://x'}, {name: a, command: [mail]}]\n")
    with pytest.raises(ClientError, match="two hooks are called 'a'"):
        read_notify_file(file)


@pytest.mark.slow
def test_the_command_delivers_once(bailiff: Run, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "notify.yaml"
    file.write_text(
        f"positions: kept.json\nhooks: [{{name: a, webhook: '{receiver.url}', header_env: {{X-Token: HOOK_TOKEN}}}}]\n"
    )
    assert "environment variable HOOK_TOKEN is not set" in bailiff("notify", str(file), "--once").stderr
    monkeypatch.setenv("HOOK_TOKEN", "secret")
    found = bailiff("notify", str(file), "--once")
    assert (found.exit_code, found.output) == (ExitCode.DONE, "0 notifications delivered\n")
    assert list(json.loads((tmp_path / "kept.json").read_text()).values()) == [{"a": 54}]
