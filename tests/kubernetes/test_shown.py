"""What a user sees with kubectl and nothing else: the queue, nominated nodes, and Events on victims of every kind."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.kubernetes.bridge_system import USER, Users, is_gated

from bailiff_kubernetes import names

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

URGENT = {names.PRIORITY_CLASS: "inference"}


class Columns:
    """What the user's `kubectl get bailiffjobs` prints, by job and column."""

    def __init__(self, users: Users) -> None:
        self.users = users

    def now(self) -> dict[str, dict[str, str]]:
        lines = self.users.kubectl("get", "bailiffjobs").splitlines()
        heads = [head for head in lines[0].split("  ") if head] if lines else []
        starts = [lines[0].index(head.strip()) for head in heads]
        ends = [*starts[1:], None]
        rows = [[line[start:end].strip() for start, end in zip(starts, ends, strict=True)] for line in lines[1:]]
        return {row[0]: dict(zip((head.strip() for head in heads[1:]), row[1:], strict=True)) for row in rows}

    async def until(self, name: str, **wanted: str) -> None:
        """Wait until these columns of the job say this."""

        async def says() -> bool:
            row = self.now().get(name, {})
            return all(row.get(column.replace("_", " ")) == value for column, value in wanted.items())

        try:
            await self.users.watch.until_true(f"{name} shows {wanted}", says)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.users.kubectl('get', 'bailiffjobs', '-o', 'wide')}") from None


def bare(users: Users, name: str, gpus: int) -> Mapping[str, Any]:
    spec = users.job(name, pods=1, gpus=gpus)["spec"]["template"]["spec"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {names.POOL: users.watch.pool}}, "spec": spec}


async def test_a_user_sees_the_queue_and_who_preempted_whom_with_kubectl_alone(users: Users) -> None:
    shown, nodes = Columns(users), len(users.cluster.fake_nodes)
    slow = {"offline-kubernetes/stops-after": "5"}
    users.apply(users.job("train", pods=nodes - 1, gpus=8, annotations={names.GRACE: "30s"}, pod=slow), bare(users, "lone", 8))
    await shown.until("job-train", STATE="Placed", CLASS="train", GPUS=str(8 * (nodes - 1)))
    await shown.until("pod-lone", STATE="Placed", GPUS="8")
    train, lone = await users.until_phase("train", "running"), await users.until_phase("lone", "running")

    users.apply(users.job("serve", pods=nodes, gpus=8, **URGENT))
    await users.until_pods(
        "job-name=serve",
        "the preemptor's gated pods are nominated, each to one node",
        lambda pods: {pod["status"].get("nominatedNodeName") for pod in pods if is_gated(pod)} == set(users.cluster.fake_nodes),
    )
    await shown.until("job-serve", STATE="Placed", CLASS="inference")
    serve = users.of("serve")
    await shown.until("job-train", STATE="Pending", POSITION="1", PREEMPTED_BY=serve.id)
    for victim, kind, name in ((train, "Job", "train"), (lone, "Pod", "lone")):
        text = event(users, kind, name, "Preempted")
        assert (
            f"{victim.id} (class train, priority 50, user kubernetes/{USER}) is preempted by {serve.id} (class inference" in text
        )
        assert "(rule lower-priority-only); it " in text
        assert text.endswith(")"), text
        assert f"({users.watch.pool}#" in text, text

    users.kubectl("delete", "job", "serve", "--wait=false")
    await shown.until("job-train", STATE="Placed", PREEMPTED_BY="")
    await users.watch.until_true("what is shown of it has gone with it", gone(shown, "job-serve"))
    assert "cannot patch" in users.refused(
        "patch", "bailiffjob", "job-train", "--type=merge", "-p", '{"status":{"state":"mine"}}'
    )


def gone(shown: Columns, name: str) -> Callable[[], Any]:
    async def holds() -> bool:
        return name not in shown.now()

    return holds


def event(users: Users, kind: str, name: str, reason: str) -> str:
    """The note of the newest Event about it with this reason."""
    fields = f"regarding.kind={kind},regarding.name={name},reason={reason}"
    output = users.kubectl("get", "events.events.k8s.io", "--field-selector", fields, "-o", "custom-columns=N:.note")
    return output.splitlines()[-1]
