"""A node that only the Kubernetes API describes: slots instead of devices, who holds them, and what is in doubt."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bailiff_core.records.facts import MAX_DEVICES
from bailiff_kubernetes.names import LAST_CHECKPOINT_STEP, LAST_CHECKPOINT_TIME, TASK_HASH, TASK_RECORD
from bailiff_kubernetes.resources import NODES, PODS
from bailiff_kubernetes.watch import LocalView
from bailiff_node_agent.devices import DeviceUnavailable
from bailiff_node_agent.devices.cluster import ClusterInventory
from bailiff_node_agent.runtime.kubernetes.checkpoint_notes import age_us, message_of, note_of
from bailiff_node_agent.runtime.kubernetes.cluster_view import ClusterNode, ClusterView
from bailiff_node_agent.settings import NodeAgentSettings

GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-3g.40gb"
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
Object = dict[str, Any]


def node_object(capacity: Mapping[str, int], allocatable: Mapping[str, int] | None = None, boot: str = "boot-1") -> Object:
    counts = {name: str(count) for name, count in capacity.items()}
    offered = counts if allocatable is None else {name: str(count) for name, count in allocatable.items()}
    labels = {f"{GPU}.product": "NVIDIA-H100", f"{GPU}.memory": "81559"}
    status = {"capacity": {"cpu": "8", **counts}, "allocatable": {"cpu": "8", **offered}, "nodeInfo": {"bootID": boot}}
    return {"metadata": {"name": "n1", "uid": "node-uid", "labels": labels}, "spec": {}, "status": status}


def pod(name: str, *, gpus: int = 0, slots: tuple[str, ...] = (), resource: str = GPU, phase: str = "Running") -> Object:
    """A task's pod, if it has slots; else one of others."""
    metadata: Object = {"name": name, "namespace": "a", "uid": f"uid-{name}", "labels": {}, "annotations": {}}
    if slots:
        metadata["labels"], metadata["annotations"] = {TASK_HASH: "0"}, {TASK_RECORD: json.dumps({"devices": slots})}
    container = {"name": "main", "resources": {"limits": {resource: str(gpus), "cpu": "1"}}}
    return {"metadata": metadata, "spec": {"nodeName": "n1", "containers": [container]}, "status": {"phase": phase}}


class Node:
    """One node of a cluster, without a server."""

    def __init__(self, folder: Path, item: Object | None) -> None:
        self.cluster, self.folder = ClusterView(None, GPU), folder
        self.cluster.nodes = LocalView(None, NODES)  # type: ignore[arg-type] # nothing is requested
        self.cluster.pods = LocalView(None, PODS)  # type: ignore[arg-type]
        self.becomes(item)
        self.member = self.cluster.node("n1", folder)

    def becomes(self, item: Object | None) -> None:
        self.cluster.nodes.objects.clear()
        if item is not None:
            self.cluster.nodes.objects["", "n1"] = item

    def has(self, *pods: Object) -> None:
        self.member.pods = {each["metadata"]["uid"]: each for each in pods}
        self.member.note_change()

    def restarted(self) -> ClusterNode:
        """As another process finds it."""
        return self.cluster.node("n1", self.folder)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, node_object({GPU: 4, MIG: 2}))


def test_each_device_is_a_slot_and_mig_devices_are_of_their_profile(node: Node) -> None:
    found = {device.id: device for device in ClusterInventory(node.member).list()}
    assert list(found) == ["n1/gpu/0", "n1/gpu/1", "n1/gpu/2", "n1/gpu/3", "n1/mig-3g.40gb/0", "n1/mig-3g.40gb/1"]
    gpu, mig = found["n1/gpu/0"], found["n1/mig-3g.40gb/1"]
    assert (gpu.kind, gpu.model, gpu.memory, gpu.profile) == ("gpu", "NVIDIA-H100", 81559 << 20, "")
    assert (mig.kind, mig.profile, mig.labels) == ("mig", "3g.40gb", {"resource": MIG})


def test_a_node_that_claims_too_much_neither_ends_the_agent_nor_fills_its_memory(node: Node) -> None:
    item = node_object({GPU: 2**53 - 1, MIG: 2})
    item["metadata"]["labels"][f"{GPU}.memory"] = "9" * 63
    node.becomes(item)
    found = ClusterInventory(node.member).list()
    assert len(found) == MAX_DEVICES
    assert {device.memory for device in found} == {0}


def test_tasks_hold_the_slots_of_the_log_and_others_hold_free_ones_which_they_keep(node: Node) -> None:
    task, other = pod("task", gpus=1, slots=("n1/gpu/3",)), pod("other", gpus=2)
    node.has(task, other, pod("ended", gpus=1, phase="Succeeded"))
    assert node.member.holders() == {"n1/gpu/3": ("a", "task"), "n1/gpu/2": ("a", "other"), "n1/gpu/1": ("a", "other")}
    node.has(other)
    assert {*node.member.holders()} == {"n1/gpu/1", "n1/gpu/2"}, "it does not move to slots that become free"
    node.has(other, pod("mine", gpus=1, slots=("n1/gpu/1",)))
    assert node.member.holders()["n1/gpu/1"] == ("a", "mine")
    assert len(node.member.holders()) == 3


def test_what_is_no_record_of_a_task_holds_nothing(node: Node) -> None:
    broken = pod("task", slots=("n1/gpu/0",))
    for text in ("{", "[]", '{"devices": 7}', '{"devices": ["n9/gpu/0"]}'):
        broken["metadata"]["annotations"][TASK_RECORD] = text
        node.has(broken)
        assert node.member.holders() == {}


def test_devices_that_the_plugin_does_not_offer_are_as_many_unhealthy_slots_free_ones_first(node: Node) -> None:
    node.has(pod("task", gpus=1, slots=("n1/gpu/3",)))
    node.becomes(node_object({GPU: 4, MIG: 2}, {GPU: 2, MIG: 2}))
    assert node.member.unhealthy() == {"n1/gpu/2", "n1/gpu/1"}
    assert {*ClusterInventory(node.member).problems()} == {"n1/gpu/2", "n1/gpu/1"}


def test_a_deleted_node_keeps_its_slots(node: Node) -> None:
    before = node.member.slots()
    node.becomes(None)
    assert node.member.slots() == before
    assert node.member.boot_id == ""


def test_a_doubt_outlives_the_process_and_ends_with_another_boot_or_an_operator(node: Node) -> None:
    inventory = ClusterInventory(node.member)
    node.member.doubt(["n1/gpu/0", "n1/gpu/1"], "a/gone")
    with pytest.raises(DeviceUnavailable, match="a/gone was removed without a reported end"):
        inventory.usage("n1/gpu/0")
    assert node.restarted().doubts() == {"n1/gpu/0": "a/gone", "n1/gpu/1": "a/gone"}

    inventory.accept("n1/gpu/1")
    assert inventory.usage("n1/gpu/1").memory_used == 0
    assert {*node.restarted().doubts()} == {"n1/gpu/0"}

    node.becomes(None)
    assert node.member.doubts(), "a deleted node proves nothing"
    node.becomes(node_object({GPU: 4, MIG: 2}, boot="boot-2"))
    assert node.member.doubts() == {}
    assert node.restarted().doubts() == {}


@pytest.mark.parametrize(
    ("time", "age"),
    [("2026-01-31T11:59:00Z", 60_000_000), ("2026-01-31T13:59:00+02:00", 60_000_000), ("2026-01-31T12:30:00Z", 0), ("", 0)],
)
def test_a_checkpoint_by_annotation_has_the_age_that_it_tells_and_none_from_the_future(time: str, age: int) -> None:
    annotated = {"metadata": {"annotations": {LAST_CHECKPOINT_STEP: "1200", **({LAST_CHECKPOINT_TIME: time} if time else {})}}}
    note = note_of(annotated)
    assert note is not None
    assert message_of(note)["step"] == 1200
    assert age_us(note, NOW) == age


@pytest.mark.parametrize("step", ["", "-1", "1.5", "many", "9" * 30, "²"])
def test_what_is_no_step_is_no_checkpoint(step: str) -> None:
    with pytest.raises(ValueError, match="expected a whole number"):
        message_of((step, ""))


def test_what_is_no_time_is_no_checkpoint() -> None:
    with pytest.raises(ValueError, match="expected a time"):
        age_us(("1", "yesterday"), NOW)
    assert note_of({"metadata": {"annotations": {LAST_CHECKPOINT_TIME: "2026-01-31T12:00:00Z"}}}) is None


@pytest.mark.parametrize(
    ("declared", "access", "message"),
    [
        ({"selector": {"a": "b"}}, {}, "needs kubernetes.api_only"),
        ({"gpus": "nvml"}, {"api_only": True}, 'needs gpus and a runtime named "kubernetes"'),
        ({"runtimes": ["process"]}, {"api_only": True}, 'needs gpus and a runtime named "kubernetes"'),
    ],
)
def test_settings_that_do_not_fit_the_api_alone_are_refused(
    declared: Object, access: Object, message: str, tmp_path: Path
) -> None:
    node = {"name": "n", "pool": "p", "gpus": "kubernetes", "runtimes": ("process", "kubernetes"), **declared}
    with pytest.raises(ValidationError, match=message):
        NodeAgentSettings.model_validate(
            {"nodes": [node], "kubernetes": access, "state_dir": tmp_path, "kafka": {"bootstrap": "k:1"}}
        )
