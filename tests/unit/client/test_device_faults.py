"""Quarantined and unhealthy GPUs in the output of the CLI, and `bailiff node clear`."""

import json

import pytest
from tests.unit.client.kit import LogWriter, Run, preemption_story

from bailiff.client.errors import ExitCode
from bailiff.doctor.checks import device_checks
from bailiff_core.records import facts


@pytest.fixture
def log_writer() -> LogWriter:
    made = preemption_story(LogWriter())
    node = next(iter(made.state.nodes.values()))
    first, second = node.devices[:2]
    seen = facts.DeviceReading(device=first.id, memory_used=1 << 30, processes=0)
    made.cycle(
        facts.DeviceQuarantined(
            node=node.name, device=first.id, reason="not-free", detail="1 GiB is left", reading=seen, job="low"
        )
    )
    made.cycle(facts.DeviceUnhealthy(node=node.name, device=second.id, reason="xid", code=79, detail="off the bus"))
    return made


def test_node_list_shows_unusable_gpus_with_the_reason(bailiff: Run, log_writer: LogWriter) -> None:
    printed = bailiff("node", "list").output
    name = log_writer.state.nodes[0].name
    assert [line.split()[:2] for line in printed.splitlines()[1:3]] == [[name, "0"], [name, "1"]]
    assert "1 GiB is left" in printed
    assert "bailiff node clear" in printed
    row = json.loads(bailiff("node", "list", "-o", "json").output)[0]
    assert (row["gpus_quarantined"], row["gpus_unusable"]) == (1, 2)
    assert row["devices"][0]["fault_job"] == "low"
    assert row["devices"][0]["fault_since"] is not None


@pytest.mark.slow
def test_node_describe_and_cluster_info_show_unusable_gpus(bailiff: Run, log_writer: LogWriter) -> None:
    printed = bailiff("node", "describe", log_writer.state.nodes[0].name).output
    assert "GPU 0 is quarantined since" in printed
    assert "after low: 1 GiB is left" in printed
    assert bailiff("node", "describe", "nowhere").exit_code == ExitCode.NOT_FOUND
    assert "1 GPU quarantined, 1 unhealthy" in bailiff("cluster-info").output


def test_the_doctor_warns_with_advice(log_writer: LogWriter) -> None:
    name = log_writer.state.nodes[0].name
    checks = device_checks(log_writer.state)
    assert [check["found"] for check in checks] == [
        f"{name} GPU 0 is quarantined: 1 GiB is left",
        f"{name} GPU 1 is unhealthy: off the bus",
    ]
    assert f"bailiff node clear {name} 0 --reason WHY" in checks[0]["advice"]


def test_node_list_without_unusable_gpus(bailiff: Run, log_writer: LogWriter) -> None:
    for device in log_writer.state.nodes[0].devices[:2]:
        log_writer.cycle(facts.DeviceHealthy(node=log_writer.state.nodes[0].name, device=device.id))
        log_writer.cycle(facts.DeviceCleared(node=log_writer.state.nodes[0].name, device=device.id))
    assert "are in use or available" in bailiff("node", "list").output


def test_node_list_names_a_silent_node(bailiff: Run, log_writer: LogWriter) -> None:
    name = log_writer.state.nodes[0].name
    log_writer.cycle(facts.NodeUnreachable(node=name, last_contact=log_writer.state.now))
    assert f"Nothing new is placed on {name}: it is unreachable." in bailiff("node", "list").output


def test_node_clear_requests_the_device_with_a_reason(bailiff: Run, log_writer: LogWriter) -> None:
    name = log_writer.state.nodes[0].name
    result = bailiff("node", "clear", name, "0", "--reason", "reset it")
    assert result.exit_code == ExitCode.DONE, result.output
    requested = log_writer.records[-1].data
    assert isinstance(requested, facts.DeviceClearRequested)
    assert requested.reason == "reset it"
    assert bailiff("node", "clear", name, "0").exit_code != ExitCode.DONE  # a reason is required
