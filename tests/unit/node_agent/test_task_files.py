"""What the agent keeps about a pod's task: through a power loss on the node itself, and for one boot where the API has it too."""

from pathlib import Path

import pytest

from bailiff_node_agent.runtime.kubernetes import task_files
from bailiff_node_agent.runtime.kubernetes.task_files import TaskFiles, TaskOrder
from bailiff_node_agent.runtime.port import TaskKey

KEY = TaskKey("train", 1, "0")
ORDER = TaskOrder(KEY, "team-a", "pod-1", own_pod=True, devices=("n1/gpu/0",), ordered_by=7, is_only_task=True, uid="u1")


@pytest.mark.parametrize(("flushed", "kept"), [(True, [KEY]), (False, [])])
def test_files_that_were_not_flushed_are_not_believed_after_another_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flushed: bool, kept: list[TaskKey]
) -> None:
    TaskFiles(tmp_path, flushed=flushed).write_order(ORDER, {"kind": "Pod"})
    again = TaskFiles(tmp_path, flushed=flushed)
    assert (again.tasks(), again.order(KEY), again.manifest.read(KEY)) == ([KEY], ORDER, {"kind": "Pod"})
    monkeypatch.setattr(task_files, "boot_id", lambda: "another boot")
    (tmp_path / str(KEY) / "order.json").write_text("")  # as a power loss may leave it
    assert TaskFiles(tmp_path, flushed=flushed).tasks() == kept
