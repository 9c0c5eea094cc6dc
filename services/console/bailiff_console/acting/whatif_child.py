"""The process of one what-if: `python -m bailiff_console.acting.whatif_child`. It ends with its standard input.

It reads one line of JSON, and writes lines of JSON: how far it is, and at last what came of it.
"""

import asyncio
import os
import sys
import threading
import time
import traceback
from typing import Any

import orjson

from bailiff.client import Client
from bailiff.problem import ExitCode, Problem
from bailiff.simulating import simulator
from bailiff.sources import from_kafka
from bailiff.whatif import other_past, whole_log
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.logs import configure_logs
from bailiff_bus.port import BusUnavailable
from bailiff_bus.settings import KafkaSettings
from bailiff_core.model.policy import Policy
from bailiff_core.records import Record
from bailiff_core.records.wire import UnreadableRecord

from .thinking import policy_in

NICE = 10
TELL_EVERY_S = 0.25


class Progress:
    """Tells how far it is, now and then."""

    def __init__(self) -> None:
        self._told = float("-inf")

    def tell(self, state: str, done: int, of: int) -> None:
        """So much of so much."""
        now = time.monotonic()
        if now - self._told >= TELL_EVERY_S:
            self._told = now
            say(state=state, done=done, of=max(of, done))


def say(**fields: Any) -> None:
    """One line."""
    sys.stdout.buffer.write(orjson.dumps(fields, default=str, option=orjson.OPT_NON_STR_KEYS) + b"\n")
    sys.stdout.buffer.flush()


async def log_of(asked: dict[str, Any], progress: Progress) -> list[Record]:
    """The pool's log as it is now."""
    async with Client(KafkaBus(KafkaSettings(**asked["kafka"])), source="console") as client:
        source = await from_kafka(client, asked["pool"])
        return await whole_log(source, lambda done: progress.tell("reading", done, asked["records"]))


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """What came of it. Raises `Problem`."""
    policy, faults = policy_in(asked["yaml"])
    if not isinstance(policy, Policy):
        raise Problem(ExitCode.FOUND_WRONG, f"line {faults[0].line}: {faults[0].text}")
    progress = Progress()
    log = asyncio.run(log_of(asked, progress))

    def tell(label: str, done: int, of: int) -> None:
        progress.tell("simulating", done + (of if label == "other" else 0), 2 * of)

    found, comparison = other_past(asked["pool"], log, policy, asked["from"], asked["to"], tell)
    said = {"pool": asked["pool"], "policy": "the other policy", **comparison}
    return {"state": "done", "result": said, "report": simulator("what_if_report").page(found, said)}


def end_with_parent() -> None:
    """Nobody waits for what a console asked that is gone."""
    sys.stdin.buffer.read()
    os._exit(1)


def main() -> None:
    """One what-if."""
    os.nice(NICE)
    configure_logs("console", "error", service="what-if", instance="child")
    asked = orjson.loads(sys.stdin.buffer.readline())
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        say(**answer(asked))
    except Problem as problem:
        say(state="failed", detail=problem.text)
    except BusUnavailable:
        say(state="failed", detail="Kafka does not answer")
    except UnreadableRecord as error:
        say(state="failed", detail=f"the log cannot be read on: {error}")
    except Exception as error:  # noqa: BLE001 - told to the console, which reports it
        say(state="failed", code=ExitCode.INTERNAL, detail=f"{type(error).__name__}: {error}", traceback=traceback.format_exc())
    os._exit(0)  # the thread still reads


if __name__ == "__main__":
    main()
