"""Of a gang either all tasks end saved or all go on, and either all continue or all start anew.

In every order of reports and commands: each node reports in order; commands arrive late, twice, or not at all.
"""

from collections import deque
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.examples import examples
from tests.kits.log_builder import Story, digest

from bailiff_admission.request_handlers.reports import facts_of_report
from bailiff_bus.messages.commands import SnapshotStep
from bailiff_bus.messages.reports import EvictionStageReport, TaskRestoredReport, TaskRestoreFailedReport
from bailiff_core.records import facts
from bailiff_eviction_executor.pending_messages import pending_snapshot_steps

SIZE = 3


class Gang:
    """A gang on as many nodes, each of which has reports that are not on record yet."""

    def __init__(self, seed: int, failing: float) -> None:
        self.random, self.failing, self.story = Random(seed), failing, Story()
        for number in range(SIZE):
            offer = facts.SnapshotOffer(driver="criu", cpu=digest("cpu"))
            joined = self.story.joined(f"n{number}", gpus=2, checkpoints="nfs")
            self.story.cycle(joined.model_copy(update={"snapshots": (offer,)}))
        self.story.runs("job", gpus=2, tasks=SIZE, checkpoint="snapshot")
        self.commands: list[SnapshotStep] = []
        self.reports = [deque[Any]() for _ in range(SIZE)]
        self.did = ["" for _ in range(SIZE)]

    def report(self, index: int, kind: type[Any], **fields: Any) -> None:
        node = self.story.state.nodes[self.story.job("job").tasks[index].node]
        about = {**self.story.at("job", index), "driver": "criu", "incarnation": node.incarnation, "number": 9, **fields}
        self.reports[index].append(kind(**about))

    def stage(self, index: int, name: str) -> None:
        said = {"sha256": digest(str(index)), "bytes": 1} if name == "stored" else {}
        self.report(index, EvictionStageReport, stage=name, **said)

    def evicted(self) -> None:
        self.story.evict("job")
        self.story.begin("job")
        for index in range(SIZE):
            self.stage(index, "noticed")
            self.stage(index, "save_failed" if self.random.random() < self.failing / 2 else "frozen")

    def obeys(self, index: int, step: str) -> None:
        """What an agent does at its task's step; it does each once."""
        reached = self.did[index]
        if step == "dump" and reached == "":
            self.did[index] = "failed" if self.random.random() < self.failing else "stored"
            for name in ("save_failed",) if self.did[index] == "failed" else ("dumped", "stored"):
                self.stage(index, name)
        elif step == "thaw" and reached in ("", "stored"):
            self.did[index] = "thawed"
            self.stage(index, "save_failed")
        elif step == "end" and reached == "stored":
            self.did[index] = "ended"
        elif reached == "waits" and step in ("continue", "anew"):
            self.did[index] = step
            if step == "continue":
                self.report(index, TaskRestoredReport, from_attempt=1, bytes=1)
            else:
                self.report(index, TaskRestoreFailedReport, from_attempt=1, reason="another was not")

    def saved(self) -> None:
        for name in ("noticed", "frozen", "dumped", "stored"):
            for index in range(SIZE):
                self.stage(index, name)
        for waiting in self.reports:
            while waiting:
                self.take(waiting)
        self.story.ends("job", -9)
        self.story.started("job")

    def restores(self) -> None:
        for index in range(SIZE):
            if self.random.random() < self.failing:
                self.did[index] = "anew"
                self.report(index, TaskRestoreFailedReport, from_attempt=1, reason="a taken port")
            else:
                self.did[index] = "waits"
                self.report(index, TaskRestoredReport, from_attempt=1, bytes=1, waits=True)

    def take(self, waiting: "deque[Any]") -> None:
        found = facts_of_report(self.story.state, waiting.popleft())
        if found:
            self.story.cycle(*found)

    def plays(self) -> None:
        """Until nothing is left to do. `end` has no stage of its own: the exit would show it."""
        while True:
            now = [*pending_snapshot_steps(self.story.state)]
            self.commands = [*self.commands, *now][-12:]  # old ones still arrive
            full = [waiting for waiting in self.reports if waiting]
            if not full and all(self.did[index] not in ("", "stored", "waits") for each in now for index in each.tasks):
                return
            if full and (not self.commands or self.random.random() < 0.6):
                self.take(self.random.choice(full))
            elif self.commands:
                command = self.random.choice(self.commands)
                for index in command.tasks:
                    self.obeys(index, command.step)


@examples(60)
@given(st.integers(0, 10**9), st.sampled_from([0.0, 0.1, 0.5]))
def test_all_end_saved_or_all_go_on(seed: int, failing: float) -> None:
    gang = Gang(seed, failing)
    gang.evicted()
    gang.plays()
    ended = [each == "ended" for each in gang.did]
    assert all(ended) or not any(ended), gang.did
    assert all(ended) == (gang.story.job("job").snapshot is not None)
    gang.story.holds()


@examples(60)
@given(st.integers(0, 10**9), st.sampled_from([0.0, 0.1, 0.5]))
def test_all_continue_or_all_start_anew(seed: int, failing: float) -> None:
    gang = Gang(seed, failing)
    gang.saved()
    gang.restores()
    gang.plays()
    assert {*gang.did} in ({"continue"}, {"anew"}), gang.did
    assert all(task.restored for task in gang.story.job("job").tasks) == (gang.did[0] == "continue")
    gang.story.holds()


@pytest.mark.parametrize("failing", [0.0, 1.0])
def test_both_ends_are_reached(failing: float) -> None:
    gang = Gang(1, failing)
    gang.saved()
    gang.restores()
    gang.plays()
    assert {*gang.did} == {"anew" if failing else "continue"}
