"""Messages carry their trace context outside of what is hashed and signed; tracing does not change the log."""

from typing import Any

import pytest

from bailiff_bus import topics
from bailiff_bus.envelope import InvalidMessage, unwrap
from bailiff_bus.messages.commands import Evict, StartTask
from bailiff_bus.messages.proposals import ProposalBatch
from bailiff_bus.port import Headers, Message
from bailiff_service import tracing

from .world import WatchedCluster, run

SEED = 11  # with preemptions


def test_a_run_with_traces_is_the_same_run_and_its_messages_carry_their_trace_context(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run(SEED)
    stored: list[Message] = []
    store = WatchedCluster.store

    def watched(
        cluster: WatchedCluster, topic: str, partition: int, key: bytes | None, headers: Headers, value: bytes
    ) -> Message:
        stored.append(store(cluster, topic, partition, key, headers, value))
        return stored[-1]

    monkeypatch.setattr(WatchedCluster, "store", watched)
    monkeypatch.setattr(tracing, "_endpoint", "http://127.0.0.1:4318")
    traced = run(SEED)

    def record_bytes(messages: Any) -> list[tuple[Headers, bytes]]:
        return [(message.headers, message.value) for message in messages if message.topic == topics.AUDIT.name]

    assert traced.bytes() == plain.bytes()
    assert not any(tracing.parent_in(headers) for headers, _ in record_bytes(stored))
    evictions = 0
    for message in stored:
        try:
            envelope = unwrap(message)
        except InvalidMessage:
            continue
        body, context = envelope.body, tracing.parent_in(message.headers)
        if isinstance(body, Evict) and body.for_job is not None:
            evictions += 1
            assert context is not None
            assert context[0] == tracing.trace_of(envelope.pool, body.for_job)
        elif isinstance(body, StartTask):
            trace = tracing.trace_of(envelope.pool, body.job)
            assert context == (trace, tracing.span_of(trace, "start", body.job, body.attempt))
        elif isinstance(body, ProposalBatch):
            assert context is not None
    assert evictions > 0
