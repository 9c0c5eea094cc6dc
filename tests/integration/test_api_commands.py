"""Each reading command prints the same from the topic and from the query API."""

import asyncio
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kits.api import Api
from tests.kits.archive import Auditor, Log
from tests.kits.http import TOKEN
from tests.kits.log_builder import MINUTE, SECOND, Story
from tests.unit.client.kit import LogWriter, Run, command_on, preemption_story

from bailiff.client.errors import ExitCode
from bailiff.client.http_log import HttpLogSource
from bailiff_auditor import state_follower

COMMANDS = (
    *("list", "list -o wide", "list -o json", "describe train-1", "describe serve-1 -o json", "describe unknown"),
    *("explain train-1", "explain serve-1 -o json", "explain 12", "explain 9999", "events", "events --from 0 -o json"),
    *("events --job train-1", "audit tail", "audit tail --from 3 -o json", "audit tail --type JobPlaced", "audit show 7"),
    *("audit show 9999", "audit verify -o json", "audit replay -o json", "audit seals -o json", "nodes -o wide"),
    *("nodes -o json", "pools -o json", "node list", "node describe n1", "class list -o json", "policy show"),
    *("project list -o json", "audit export -"),
)
NOT_THERE = "http://127.0.0.1:1"


class Both:
    """The command on each source. Only its output is compared, not its number of API requests."""

    def __init__(self, log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.log_writer, self.monkeypatch, self.folder = log_writer, monkeypatch, folder
        monkeypatch.setattr(time, "time_ns", lambda: (log_writer.now + 5 * SECOND) * 1000)

    def on_topic(self) -> Run:
        return command_on(lambda: self.log_writer.cluster.client("cli"), self.monkeypatch, str(self.folder / "topic"))

    def on_api(self, address: str, token: str | None = TOKEN, patience: float = 10.0) -> Run:
        bus = lambda: HttpLogSource(address, token, lambda: self.log_writer.cluster.client("cli"), patience)  # type: ignore[arg-type,return-value] # noqa: E731
        return command_on(bus, self.monkeypatch, str(self.folder / "api"))


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Both]:
    log_writer = preemption_story(LogWriter())
    return Both(log_writer, monkeypatch, tmp_path)


class WrittenLog(Log):
    """The log of a `LogWriter`, for an auditor."""

    def __init__(self, log_writer: LogWriter) -> None:
        self.pool, self.cluster = log_writer.pool, log_writer.cluster


async def test_every_reading_command_prints_the_same_from_both_sources(both: Both, database: str, tmp_path: Path) -> None:
    log, last = WrittenLog(both.log_writer), len(both.log_writer.records) - 1
    async with (
        Auditor(log, database, tmp_path / "auditor", seal_records=5).running() as auditor,
        Api(database, state_dir=tmp_path).running() as api,
    ):
        await auditor.until(
            "all is archived and sealed",
            lambda: auditor.value("bailiff_archive_head_seq") == last and auditor.value("bailiff_sealed_records") > 0,
        )
        for command in COMMANDS:
            expected = await asyncio.to_thread(both.on_topic(), *command.split())
            found = await asyncio.to_thread(both.on_api(api.service.address), *command.split())
            assert (found.exit_code, found.output) == (expected.exit_code, expected.output), command
            assert found.exit_code in (ExitCode.DONE, ExitCode.NOT_FOUND), found.output
        gone = await asyncio.to_thread(both.on_api(NOT_THERE, patience=0.1), "list")
        assert gone.exit_code == ExitCode.UNREACHABLE
        assert "the HTTP API at http://127.0.0.1:1 does not respond" in " ".join(gone.output.split())
        odd = await asyncio.to_thread(both.on_api("localhost:1"), "list")
        assert odd.exit_code == ExitCode.USAGE


async def test_a_wrong_token_is_reported(both: Both, database: str, tmp_path: Path) -> None:
    log = WrittenLog(both.log_writer)
    async with (
        Auditor(log, database, tmp_path / "auditor").running() as auditor,
        Api(database, state_dir=tmp_path, api_token=f"right {TOKEN}").running() as api,
    ):
        await auditor.until(
            "all is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(both.log_writer.records) - 1
        )
        assert (await asyncio.to_thread(both.on_api(api.service.address, f"right {TOKEN}"), "list")).exit_code == ExitCode.DONE
        wrong = await asyncio.to_thread(both.on_api(api.service.address, "wrong"), "list")
        assert wrong.exit_code == ExitCode.UNREACHABLE
        assert "BAILIFF_API_TOKEN" in wrong.output


# --- the examples of docs/reference/http-api.md


def examples() -> list[str]:
    text = (Path(__file__).parents[2] / "docs/reference/http-api.md").read_text(encoding="utf-8")
    return re.findall(r"^ {4}(curl .+)$", text, re.MULTILINE)


async def test_the_examples_of_the_page_can_be_run(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_follower, "MAX_WAIT_S", 0.1)  # nobody answers the selection at the end of this log
    story = Story(pool="pool-a")
    story.node("node-1", gpus=1)
    story.submit("train-1", gpus=1, cls="train", project="research", after=SECOND)
    story.started("train-1")
    story.submit("serve-1", gpus=1, cls="inference", after=MINUTE)
    story.propose()
    log = Log()
    log.append(story.wires)
    async with (
        Auditor(log, database, tmp_path, usage_seconds=1, seal_records=5).running() as auditor,
        Api(database, state_dir=tmp_path).running() as api,
    ):

        async def noted() -> bool:
            answer = await api.http.get("/v1/pools/pool-a")
            return answer.status_code == 200 and answer.json()["allocations_seq"] == len(story.wires) - 1

        await auditor.until("all is archived and allocations are stored", noted)

        def run(command: str) -> str:
            shell = command.replace("http://127.0.0.1:8620", api.service.address)
            done = subprocess.run(
                ["sh", "-c", shell],
                env={**os.environ, "AUTH": f"Authorization: Bearer {TOKEN}"},
                capture_output=True,
                text=True,
                timeout=30,
                check=True,
            )
            return done.stdout

        outputs: dict[str, Any] = {}
        for command in examples():
            output = await asyncio.to_thread(run, command)
            if "events" in command:
                assert "id: pool-a:" in output, command
                continue
            outputs[command] = json.loads(output)
            assert "status" not in outputs[command], output
            without_witness = "cosignatures" in command
            assert without_witness or outputs[command].get("items") != [], command
        (at_that_time,) = [answer for command, answer in outputs.items() if "/gpus/0?at=" in command]
        assert [holder["job"] for holder in at_that_time["holders"]] == ["train-1", "serve-1"]
    assert len(examples()) >= 15
