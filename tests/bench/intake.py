"""What one request costs admission before anything is decided: from the message's bytes to its facts.

Times are of the processor, so that what else runs on the machine does not count.
"""

import hashlib
import json
import time
from statistics import median

from tests.kits.builders import Sketch

from bailiff_admission.input_decoder import InputDecoder
from bailiff_admission.liveness import Liveness
from bailiff_bus.envelope import unwrap
from bailiff_bus.port import Message
from bailiff_core.records.request import RequestBody
from bailiff_service.clock_and_ids import ClockAndIds

from .requests import submit_message
from .table import Row, Run


def measure(run: Run) -> list[Row]:
    """Requests to submit a job of one GPU, on a pool of 500 nodes."""
    count = 500 if run.quick else 2000
    sketch = Sketch()
    for n in range(500):
        sketch.node(f"node-{n}")
    clock_and_ids = ClockAndIds()
    decoder = InputDecoder("test", False, frozenset({"test"}), clock_and_ids, Liveness(clock_and_ids))
    messages = [
        Message("bailiff.requests", 0, n, clock_and_ids.wall(), b"test", *submit_message("test", f"job-{n}"))
        for n in range(count)
    ]
    plain, unwrapped, read = [], [], []
    for _ in range(3):
        plain.append(_per_message(messages, lambda message: (json.loads(message.value), hashlib.sha256(message.value).digest())))
        unwrapped.append(_per_message(messages, lambda message: unwrap(message, accept=(RequestBody,))))
        read.append(_per_message(messages, lambda message: decoder.read(sketch.state, message)))
    baseline, is_ = median(plain), "µs: JSON parse + SHA-256 of the same bytes"
    return [
        Row("envelope.unwrap of one request", median(unwrapped), "µs", baseline=baseline, baseline_is=is_),
        Row("unwrap + intake of one request, 500 nodes", median(read), "µs", baseline=baseline, baseline_is=is_),
    ]


def _per_message(messages: list[Message], work) -> float:
    began = time.process_time()
    for message in messages:
        work(message)
    return (time.process_time() - began) / len(messages) * 1_000_000
