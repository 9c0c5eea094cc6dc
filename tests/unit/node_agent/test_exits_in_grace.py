"""What a container or a pod reports when it ends, and what its attempt counts as, before its notice and in its grace."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.kits.log_builder import Story

from bailiff_core.records import facts
from bailiff_node_agent.runtime.container import Container
from bailiff_node_agent.runtime.kubernetes.follow import PodFollower
from bailiff_node_agent.runtime.kubernetes.task_files import TaskFiles, TaskOrder
from bailiff_node_agent.runtime.port import OUT_OF_MEMORY, TaskKey

KEY = TaskKey("train", 1, "0")
ENDS = [  # reported by the engine or the kubelet: exit code, whether for memory; and what it counts as before the notice
    (1, False, "failed"),  # torchrun turns TERM into it
    (130, False, "failed"),  # a shell, by Ctrl-C
    (137, False, "failed"),  # KILL, at the end of the grace
    (137, True, "failed"),  # out of memory, while it saves
    (143, False, "failed"),  # TERM
    (255, False, "failed"),
    (85, False, "yielded"),
]


def outcomes(code: int, *, unobserved: bool = False) -> tuple[str, str]:
    """Of a job that may fail once: before its eviction's notice, and after TERM."""
    found = []
    for told in (False, True):
        story = Story()
        story.node("n1", gpus=1)
        story.runs("train", gpus=1, max_failures=1)
        if told:
            story.evict("train")
            story.begin("train")
            story.staged("train", "term_sent")
        story.cycle(facts.TaskExited(**story.at("train", 0), exit_code=code, unobserved=unobserved))
        story.releases("train")
        found.append(story.expect("JobRequeued", job="train").outcome)
        job = story.job("train")
        assert (job.evictions, job.failures) == (int(told), int(found[-1] == "failed"))
    return found[0], found[1]


def in_grace(code: int) -> str:
    return "preempted" if code == 85 else "preempted-unclean"


@pytest.mark.parametrize(("code", "for_memory", "before"), ENDS)
def test_a_container_in_its_grace_is_preempted_whatever_the_engine_reports(
    tmp_path: Path, code: int, for_memory: bool, before: str
) -> None:
    state = {"Running": False, "ExitCode": code, "OOMKilled": for_memory, "Error": ""}
    engine: Any = SimpleNamespace(inspect=lambda _: {"State": state}, output=lambda *_: [])
    about = {"engine": "unix:///none", "name": "train", "config": {"Image": "train:1"}, "log": str(tmp_path / "log")}
    container = Container(str(tmp_path), about, lambda: None)
    container._follow(engine)
    assert (container.code, container.error) == (code, OUT_OF_MEMORY if for_memory else None)
    assert outcomes(container.code) == (before, in_grace(code))


def pod(tmp_path: Path, status: dict[str, Any]) -> Any:
    order = TaskOrder(KEY, "team-a", "pod-1", own_pod=True, devices=("GPU-1",), ordered_by=7, is_only_task=True, uid="u1")
    files = TaskFiles(tmp_path)
    files.write_order(order)
    parts: Any = SimpleNamespace(files=files, changed={}, lease=None, reaches_node=True)
    return PodFollower(parts, order, None, None, lambda _: None)._exit_of({"metadata": {}, "spec": {}, "status": status})


@pytest.mark.parametrize(("code", "for_memory", "before"), ENDS)
def test_a_pod_in_its_grace_is_preempted_whatever_the_kubelet_reports(
    tmp_path: Path, code: int, for_memory: bool, before: str
) -> None:
    end = {"exitCode": code, "reason": "OOMKilled" if for_memory else "Error"}
    found = pod(tmp_path, {"phase": "Failed", "containerStatuses": [{"state": {"terminated": end}}]})
    assert (found.code, found.error, found.supervisor_lost) == (code, OUT_OF_MEMORY if for_memory else None, False)
    assert outcomes(found.code, unobserved=found.supervisor_lost) == (before, in_grace(code))


@pytest.mark.parametrize("reason", ["Evicted", "NodeShutdown", "UnexpectedAdmissionError"])
def test_a_pod_that_its_kubelet_ended_in_its_grace_is_preempted_and_lost_before(tmp_path: Path, reason: str) -> None:
    found = pod(tmp_path, {"phase": "Failed", "reason": reason, "message": "the node was low on memory"})
    assert found.supervisor_lost
    assert outcomes(found.code, unobserved=True) == ("lost", "preempted-unclean")
