"""The header `traceparent` of a request is written by whoever sends it: only the client's own span becomes a parent."""

import pytest
from tests.kits.memory_bus import MemoryCluster
from tests.unit.bus.virtual_time import run

from bailiff_bus import topics
from bailiff_rollup.span_exporter import _with_request
from bailiff_rollup.traces import RequestSpan
from bailiff_service.tracing import Span, span_of, trace_of

POOL, JOB, AT = "pool-a", "train", 1_000_000
TRACE, ANOTHER = trace_of(POOL, JOB), trace_of(POOL, "another")
ADMIT, CLIENT = span_of(TRACE, "admit"), span_of(TRACE, "request")


def admitted(cause: str) -> RequestSpan:
    return RequestSpan(Span("admission", f"admit {JOB}", TRACE, ADMIT, "", 2 * AT, 2 * AT), cause)


@pytest.mark.parametrize(
    "cause", ["", "x/y/z", "bailiff.audit/0/0", f"{topics.REQUESTS.name}/7777/0", f"{topics.REQUESTS.name}/0/-1", "9/" * 999]
)
def test_a_cause_that_no_service_wrote_is_no_request(cause: str) -> None:
    cluster = MemoryCluster(clock=lambda: AT)
    cluster.create_topics(pools=1)
    assert run(_with_request(cluster.client("rollup"), admitted(cause))) == admitted(cause).span


@pytest.mark.parametrize(
    ("header", "parent"),
    [
        pytest.param(f"00-{TRACE}-{CLIENT}-01", CLIENT, id="the client's span"),
        pytest.param(f"00-{TRACE}-{ADMIT}-01", "", id="the span itself"),
        pytest.param(f"00-{TRACE}-{span_of(TRACE, 'place', 7)}-01", "", id="one of its children"),
        pytest.param(f"00-{TRACE}-{'f' * 16}-01", "", id="an invented span"),
        pytest.param(f"00-{ANOTHER}-{span_of(ANOTHER, 'request')}-01", "", id="another job's request"),
        pytest.param("00-not-a-trace", "", id="no trace"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_only_the_clients_own_span_becomes_the_parent(header: str, parent: str) -> None:
    cluster = MemoryCluster(clock=lambda: AT)
    cluster.create_topics(pools=1)
    cluster.store(topics.REQUESTS.name, 0, None, (("traceparent", header.encode()),), b"{}")
    found = run(_with_request(cluster.client("rollup"), admitted(f"{topics.REQUESTS.name}/0/0")))
    assert (found.parent, found.trace, found.start) == (parent, TRACE, AT)
