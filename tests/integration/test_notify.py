"""`bailiff notify` on a real Kafka, killed while a notification is in flight: nothing is lost, a repeat has the same id."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.kits.client_pool import Pool
from tests.kits.kafka import TestKafka

from bailiff import Client
from bailiff.notify.notifier import Positions
from bailiff_bus.kafka import KafkaBus

pytestmark = pytest.mark.kafka

WANTED = 4  # train-7 and train-8 are preempted and resume


class DeadlyReceiver:
    """Kills the notifier at the second notification, before the response; accepts all others."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.notifier: subprocess.Popen[bytes] | None = None
        self.all_there = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.take(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["id"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, notice: str) -> None:
        self.ids.append(notice)
        if len(self.ids) == 2:
            assert self.notifier is not None
            os.kill(self.notifier.pid, signal.SIGKILL)
        if len(set(self.ids)) == WANTED:
            self.all_there.set()


@pytest.fixture
def receiver() -> Iterator[DeadlyReceiver]:
    made = DeadlyReceiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


async def test_kill_nine_loses_no_notice(kafka: TestKafka, pool: Pool, receiver: DeadlyReceiver, tmp_path: Path) -> None:
    file = tmp_path / "notify.yaml"
    url = f"http://127.0.0.1:{receiver.server.server_port}/"
    file.write_text(json.dumps({"positions": "kept.json", "pools": [pool.name], "hooks": [{"name": "chat", "webhook": url}]}))
    async with Client(KafkaBus(kafka.bootstrap), source="test") as client:
        log = (await client.pool(pool.name)).identity
    Positions(tmp_path / "kept.json").move(log, "chat", -1)

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "bailiff", "notify", str(file), "--kafka", kafka.bootstrap]
        receiver.notifier = subprocess.Popen(command)
        return receiver.notifier

    assert start().wait(timeout=60) == -signal.SIGKILL
    first, second = receiver.ids
    again = start()
    try:
        assert receiver.all_there.wait(timeout=60)
    finally:
        again.send_signal(signal.SIGINT)
        assert again.wait(timeout=60) == 130  # the exit code of an interrupt
    assert second in receiver.ids[2:]  # it was in flight: sent again, under the same id
    assert first == f"{pool.name}:21:Preempted:train-7"
    assert [key.split(":")[2:] for key in dict.fromkeys(receiver.ids)] == [
        ["Preempted", "train-7"],
        ["Preempted", "train-8"],
        ["Resumed", "train-7"],
        ["Resumed", "train-8"],
    ]
