"""Child process of one what-if: `python -m bailiff_console.actions.what_if_child`. Exits when its standard input closes.

Reads one line of JSON and writes lines of JSON: progress, and finally the result.
"""

import asyncio
import os
import sys
import threading
import time
import traceback
from typing import Any

import orjson

from bailiff.audit.log_sources import from_kafka
from bailiff.client.client import Client
from bailiff.client.errors import CheckFailed, ClientError, ExitCode
from bailiff.simulation.options import simulator
from bailiff.simulation.what_if import other_past, whole_log
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_bus.port import BusUnavailable
from bailiff_core.model.policy import Policy
from bailiff_core.records import Record
from bailiff_core.records.wire import UnreadableRecord
from bailiff_service.logs import configure_logs

from .worker_tasks import policy_in

NICE = 10
REPORT_EVERY_S = 0.25


class Progress:
    """Reports progress, rate-limited."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def report(self, state: str, done: int, of: int) -> None:
        """done of `of` units."""
        now = time.monotonic()
        if now - self._last >= REPORT_EVERY_S:
            self._last = now
            write(state=state, done=done, of=max(of, done))


def write(**fields: Any) -> None:
    """Write one line of JSON."""
    sys.stdout.buffer.write(orjson.dumps(fields, default=str, option=orjson.OPT_NON_STR_KEYS) + b"\n")
    sys.stdout.buffer.flush()


async def log_of(query: dict[str, Any], progress: Progress) -> list[Record]:
    """The whole log of the pool."""
    async with Client(KafkaBus(KafkaSettings(**query["kafka"])), source="console") as client:
        source = await from_kafka(client, query["pool"])
        return await whole_log(source, lambda done: progress.report("reading", done, query["records"]))


def run(query: dict[str, Any]) -> dict[str, Any]:
    """The result. Raises `ClientError`."""
    policy, faults = policy_in(query["yaml"])
    if not isinstance(policy, Policy):
        raise CheckFailed(f"line {faults[0].line}: {faults[0].text}")
    progress = Progress()
    log = asyncio.run(log_of(query, progress))

    def report_cycles(label: str, done: int, of: int) -> None:
        progress.report("simulating", done + (of if label == "other" else 0), 2 * of)

    found, comparison = other_past(query["pool"], log, policy, query["from"], query["to"], report_cycles)
    result = {"pool": query["pool"], "policy": "the other policy", **comparison}
    return {"state": "done", "result": result, "report": simulator("what_if_report").page(found, result)}


def end_with_parent() -> None:
    """Exit when the console has exited."""
    sys.stdin.buffer.read()
    os._exit(1)


def main() -> None:
    """Run one what-if."""
    os.nice(NICE)
    configure_logs("console", "error", service="what-if", instance="child")
    query = orjson.loads(sys.stdin.buffer.readline())
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        write(**run(query))
    except ClientError as problem:
        write(state="failed", detail=problem.text)
    except BusUnavailable:
        write(state="failed", detail="Kafka does not answer")
    except UnreadableRecord as error:
        write(state="failed", detail=f"cannot read the log: {error}")
    except Exception as error:  # noqa: BLE001 - reported to the console
        write(state="failed", code=ExitCode.INTERNAL, detail=f"{type(error).__name__}: {error}", traceback=traceback.format_exc())
    os._exit(0)  # the reader thread is still blocked


if __name__ == "__main__":
    main()
