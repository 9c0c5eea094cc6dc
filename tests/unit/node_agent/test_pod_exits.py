"""What the end of a pod says about its job: a pod that never ran, or that ended with its machine, is no failure of it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bailiff_node_agent.runtime.kubernetes import follow, task_files
from bailiff_node_agent.runtime.kubernetes.follow import PodFollower
from bailiff_node_agent.runtime.kubernetes.task_files import TaskFiles, TaskOrder
from bailiff_node_agent.runtime.port import Exit, Running, TaskKey

KEY = TaskKey("train", 1, "0")
ORDER = TaskOrder(KEY, "team-a", "pod-1", own_pod=True, devices=("GPU-1",), ordered_by=7, is_only_task=True, uid="u1")
REJECTED = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no healthy devices present"}


class Node:
    """A node that boots anew when `boot` changes."""

    def __init__(self, folder: Path, *, reaches_node: bool = True) -> None:
        self.boot = "boot-1"
        self.files = TaskFiles(folder)
        self.files.write_order(ORDER)
        self._parts: Any = SimpleNamespace(files=self.files, changed={}, lease=None, reaches_node=reaches_node)

    def runs(self) -> None:
        self.files.write_running(Running(KEY, "u1", 1, ("GPU-1",), 7))

    def exit_with(self, status: dict[str, Any]) -> Exit:
        return PodFollower(self._parts, ORDER, None, None, lambda _: None)._exit_of(
            {"metadata": {}, "spec": {}, "status": status}
        )


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node(tmp_path)
    monkeypatch.setattr(task_files, "boot_id", lambda: node.boot)
    return node


def ended(code: int) -> dict[str, Any]:
    return {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": code}}}]}


def test_a_pod_that_its_kubelet_rejected_is_lost(node: Node) -> None:
    end = node.exit_with(REJECTED)
    assert (end.supervisor_lost, end.error) == (True, "UnexpectedAdmissionError: no healthy devices present")


def test_a_pod_that_was_stopped_before_it_ran_has_ended_by_that(node: Node) -> None:
    node.files.stop.write(KEY, 5)
    assert not node.exit_with(REJECTED).supervisor_lost


@pytest.mark.parametrize("code", [137, 255])
def test_a_pod_that_ended_with_its_machine_is_lost(node: Node, code: int) -> None:
    node.runs()
    assert not node.exit_with(ended(code)).supervisor_lost, "the machine runs on"
    node.boot = "boot-2"
    end = node.exit_with(ended(code))
    assert (end.code, end.supervisor_lost, end.error) == (code, True, follow.REBOOTED)


@pytest.mark.parametrize("code", [0, 1, 85])
def test_an_exit_of_its_own_counts_also_after_the_machine_has_booted(node: Node, code: int) -> None:
    node.runs()
    node.boot = "boot-2"
    assert (node.exit_with(ended(code)).code, node.exit_with(ended(code)).supervisor_lost) == (code, False)


def test_the_boot_of_an_agent_that_is_elsewhere_says_nothing_about_the_node(node: Node, tmp_path: Path) -> None:
    node.runs()
    node.boot = "boot-2"
    assert not Node(tmp_path, reaches_node=False).exit_with(ended(137)).supervisor_lost
