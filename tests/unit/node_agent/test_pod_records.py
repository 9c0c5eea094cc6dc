"""What a pod says about its task: whoever may write pods may write it, and ends no agent by it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bailiff_kubernetes import names, task_hash
from bailiff_node_agent.runtime.kubernetes.cluster_view import slots_of_task
from bailiff_node_agent.runtime.kubernetes.placement import find_orders
from bailiff_node_agent.runtime.kubernetes.task_files import TaskFiles
from bailiff_node_agent.runtime.port import TaskKey

KEY = TaskKey("train", 1, "0")
HOSTILE = (
    *(
        "x",
        "[]",
        "null",
        "7",
        '"text"',
        "[" * 100_000,
        "{" * 100_000,
        '{"devices": 7}',
        '{"devices": [7]}',
        '{"devices": {"a": 1}}',
    ),
    *('{"ordered_by": {"a": 1}}', '{"ordered_by": true}', '{"ordered_by": 1e400}', '{"part": "0/0"}', '{"is_only_task": "no"}'),
    '{"devices": ["' + "a" * 100_000 + '"]}',
)


def pod(record: str) -> dict[str, Any]:
    labels, annotations = {names.TASK_HASH: task_hash(str(KEY))}, {names.TASK: str(KEY), names.TASK_RECORD: record}
    metadata = {"name": "evil", "namespace": "team-a", "uid": "u1", "finalizers": [names.FINALIZER]}
    return {"metadata": {**metadata, "labels": labels, "annotations": annotations}, "spec": {}, "status": {}}


def adopted(folder: Path, record: str) -> list[TaskKey]:
    files = TaskFiles(folder)
    resources = SimpleNamespace(devices_of=lambda *_: ("GPU-1",))
    find_orders(SimpleNamespace(task_pods=lambda: [pod(record)], files=files, resources=resources))  # type: ignore[arg-type]
    return files.tasks()


@pytest.mark.parametrize("record", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_record_is_passed_over(tmp_path: Path, record: str) -> None:
    assert adopted(tmp_path, record) == []
    assert slots_of_task(pod(record)) == ()


def test_a_record_of_an_agent_is_taken(tmp_path: Path) -> None:
    record = '{"ordered_by": 7, "is_only_task": false, "devices": ["GPU-1"], "part": "1/2"}'
    assert adopted(tmp_path, record) == [KEY]
    assert slots_of_task(pod(record)) == ("GPU-1",)
    assert TaskFiles(tmp_path).order(KEY).ordered_by == 7
