"""Who is shown as waiting to be enrolled: names that somebody invents use up no room of those that the log knows."""

from bailiff_admission.request_handlers.enrolment import MAX_WAITING_PER_MINUTE, CheckedReport, check_report_sender
from bailiff_bus.envelope import unwrap
from bailiff_bus.messages.reports import NodeInventory
from bailiff_bus.port import Message
from bailiff_core.admission import Rejected
from bailiff_core.model.state import EnrolmentPermit, PoolState, WaitingNode
from bailiff_core.records.facts import NodeWaiting
from bailiff_log.keys import key_id
from bailiff_log.message_signatures import wrap_with_key

NOW = 1_800_000_000_000_000


def announced(state: PoolState, node: str, private: bytes) -> CheckedReport | Rejected:
    """What admission says of an agent that announces itself; if it waits, that is in the log."""
    report = NodeInventory(
        node=node, incarnation="i", number=1, machine_id="m", boot_id="b", release="r", cpu_milli=1, memory_bytes=1
    )
    headers, value = wrap_with_key(private, report, source="/agent", id="1", pool="pool-a", time_us=NOW)
    envelope = unwrap(Message("bailiff.node-reports", 0, 0, NOW, None, headers, value))
    checked = check_report_sender(state, envelope, report, NOW)
    if isinstance(checked, CheckedReport) and isinstance(checked.fact, NodeWaiting):
        state.waiting_nodes[node] = WaitingNode(checked.fact.key, state.now)
    return checked


def test_invented_names_hide_no_node_that_the_log_knows() -> None:
    state = PoolState(pool="pool-a", root_key="r" * 43, now=NOW)
    state.permits["gpu-07"] = EnrolmentPermit(1, None, "k" * 43, NOW + 1)
    state.node_numbers["gpu-01"] = 0  # its key was revoked, and it has a new one
    for number in range(MAX_WAITING_PER_MINUTE):
        assert isinstance(announced(state, f"invented-{number}", bytes([number]) * 32), CheckedReport)
    refused = announced(state, "one-more", b"\x77" * 32)
    assert isinstance(refused, Rejected)
    assert refused.code == "not-enrolled"
    for node in ("gpu-07", "gpu-01"):
        found = announced(state, node, b"\x78" * 32)
        assert found == CheckedReport(counts=False, fact=NodeWaiting(node=node, key=key_id(b"\x78" * 32)))
    state.now += 60_000_001
    assert isinstance(announced(state, "one-more", b"\x77" * 32), CheckedReport)
