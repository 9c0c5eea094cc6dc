"""What users write into annotations, labels and selectors, of any size and form: at most their own workload is not submitted."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.kits.bridge import World
from tests.kits.bridge_objects import job_object, plain_pod

from bailiff_kubernetes import names
from bailiff_kubernetes_bridge.annotations import STATUS, STOPPED_FOR
from bailiff_kubernetes_bridge.workloads.adapters import COMPLETION_INDEX
from bailiff_kubernetes_bridge.workloads.node_affinity import NODE_TERMS, holds
from bailiff_kubernetes_bridge.workloads.replicas import POD_INDEX

DIGITS = "9" * 5000
"""More than Python converts; an object has up to 256 KiB of annotations."""
TEXTS = (DIGITS, "-1", "0", "²", "١٢", "9" * 18, "1e9", "x" * 100_000, "\u202e\x1b[31m", "../../etc")


def _annotated(item: Any, name: str, text: str) -> Any:
    item["metadata"]["annotations"][name] = text
    return item


def _gated_job(name: str, text: str) -> Any:
    return job_object("hostile", annotations={name: text})


def _affine(operator: str, text: str) -> Any:
    item = job_object("hostile")
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": operator, "values": [text]}]}
    item["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": {NODE_TERMS: {"nodeSelectorTerms": [term]}}}
    return item


PLACES: dict[str, Callable[[str], Any]] = {
    **{name: lambda text, name=name: _gated_job(name, text) for name in (names.MIN_TASKS, names.GRACE, STOPPED_FOR, STATUS)},
    **{
        f"pod: {name}": lambda text, name=name: _annotated(plain_pod("hostile"), name, text)
        for name in (names.MIN_TASKS, names.GRACE, names.TASK, names.JOB, COMPLETION_INDEX, POD_INDEX)
    },
    "attempt": lambda text: _annotated(plain_pod("hostile"), names.TASK, f"team-a.train-{text}-0"),
    "run": lambda text: _annotated(plain_pod("hostile"), names.JOB, f"team-a.hostile-uidhosti-{text}"),
    "stopped run": lambda text: _gated_job(STOPPED_FOR, f"team-a.hostile-0a0a0a0a-{text}"),
    "gang size": lambda text: _annotated(plain_pod("hostile", "ring"), names.GANG_SIZE, text),
    **{operator: lambda text, operator=operator: _affine(operator, text) for operator in ("Gt", "Lt", "In", "NotIn", "Later")},
}


@pytest.mark.parametrize("place", PLACES)
def test_a_neighbour_s_job_starts_whatever_a_user_writes(place: str) -> None:
    for text in TEXTS:
        world = World()
        world.add(PLACES[place](text))
        world.add(job_object("train", gpus=1, user="bob"))
        world.settle()
        assert world.job("train").phase == "starting", text[:20]
        assert world.job("train").user == "kubernetes/bob"
        texts = [item["metadata"]["annotations"].get(STATUS, "") for item in world.objects.values()]
        assert all(len(each) < 2000 or each == text for each in texts), text[:20]


@pytest.mark.parametrize("text", [*TEXTS, "7", "-7"])
def test_a_comparison_with_what_is_no_number_holds_on_no_node(text: str) -> None:
    labels = {"gpus": "8", "zone": DIGITS}
    for key in labels:
        above, below = (holds({"key": key, "operator": name, "values": [text]}, labels) for name in ("Gt", "Lt"))
        known = key == "gpus" and text.removeprefix("-").isdecimal() and len(text) < 100
        assert above + below == known
