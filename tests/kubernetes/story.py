"""The story of the fault tests: `train` has five of the kubelet's eight GPUs, the urgent `serve` takes all, and `train` is back.

Their containers note which GPUs they use, so that two of them on one GPU would be seen.
"""

from pathlib import Path

from tests.kubernetes.bridge_system import Users
from tests.kubernetes.kubelet_jobs import URGENT, runs, using

from bailiff_core.model.state import Job


class Story:
    """`train`, and `serve` in its place."""

    def __init__(self, users: Users, uses: Path) -> None:
        self.users, self.watch, self.uses = users, users.watch, uses

    def create_train(self) -> None:
        self.users.apply(using(self.users, "train", 5, self.uses))

    async def train_runs(self) -> Job:
        return await runs(self.users, "train", self.uses)

    def create_serve(self) -> None:
        self.users.apply(using(self.users, "serve", 8, self.uses, **URGENT))

    async def serve_runs(self) -> Job:
        job = await runs(self.users, "serve", self.uses)
        assert self.users.of("train").phase == "pending"
        return job

    def is_running(self, name: str) -> bool:
        return self.users.of(name).phase == "running"

    def delete_serve(self) -> None:
        self.users.kubectl("delete", "job", "serve", "--wait=false")

    async def train_is_back(self, first: Job) -> None:
        await self.users.until_phase("serve", "cancelled")
        again = await self.train_runs()
        assert (again.id, again.attempt > first.attempt) == (first.id, True)
        await self.watch.verify()
