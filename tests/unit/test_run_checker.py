"""The simulation's checker, about tasks whose start a truncated log lost and may order again at the same place."""

from collections.abc import Sequence

import pytest
from tests.kits.builders import group
from tests.kits.invariants import LiveTask
from tests.kits.log_builder import Story
from tests.simulation.run_checker import RunChecker

from bailiff_bus import topics
from bailiff_bus.port import Message
from bailiff_core.records import Wire
from bailiff_core.records.facts import ClockAdvanced, LogTruncated, TruncationReconciled


class CheckedLog:
    """A pool of one node whose log has lost that job `a` was placed; the checker sees all of it."""

    def __init__(self) -> None:
        self.checker = RunChecker("test", lambda: 0.0)
        self.running: list[LiveTask] = []
        self.checker.living = lambda: self.running
        self.story = Story()
        self.story.node("n1", cpu=4)
        kept = len(self.story.records)
        self.story.cycle(ClockAdvanced())  # as many records as a new writer begins with: numbers are used again
        self.story.cycle(ClockAdvanced())
        self._store(self.story.wires)
        self.lost = self.place()
        self.story = self.story.resumed(kept)
        self.checker.cut(messages(self.story.wires), {})
        self.story.restart()
        self._store(self.story.wires[kept:])

    def place(self) -> tuple[int, int]:
        """The job is submitted and placed. Returns the position of the record that orders its start."""
        known = len(self.story.wires)
        self.story.submit("a", group(cpu=1))
        self.story.expect("JobPlaced", job="a", reserved=False)
        self._store(self.story.wires[known:])
        order = self.story.job("a").tasks[0].start_seq
        assert order is not None
        return self.story.state.epoch, order

    def starts(self, position: tuple[int, int]) -> None:
        """The agent carries out the start that this record ordered."""
        self.checker.on_command("n1", "a", 1, [0], position)
        task = LiveTask("n1", "a", 1, 0, ())
        self.checker.on_start(task, position[1])
        self.running.append(task)

    def reconciled(self) -> str | None:
        """An operator accepts the loss, and admission reconciles. Returns the violation found up to then."""
        known = len(self.story.wires)
        self.story.cycle(LogTruncated(request=self.story.request(), epoch=self.lost[0], seq=self.lost[1]))
        self.story.cycle(TruncationReconciled())
        self._store(self.story.wires[known:])
        return self.checker.violation

    def _store(self, wires: Sequence[Wire]) -> None:
        for message in messages(wires):
            self.checker.stored(message)


def messages(wires: Sequence[Wire]) -> list[Message]:
    return [Message(topics.AUDIT.name, 0, at, 0, None, tuple(wire.headers), wire.value) for at, wire in enumerate(wires)]


@pytest.fixture
def log() -> CheckedLog:
    return CheckedLog()


def test_a_task_that_the_log_starts_again_where_it_lost_a_start_may_run(log: CheckedLog) -> None:
    """No agent had obeyed the lost record, so the writer continued, and the same place was given once more."""
    log.starts(log.place())
    assert log.reconciled() is None


def test_a_task_of_a_lost_start_must_be_gone_when_the_truncation_is_reconciled(log: CheckedLog) -> None:
    log.starts(log.lost)
    assert "its start is not in the log" in (log.reconciled() or "")


def test_a_task_of_a_lost_start_must_be_gone_although_the_log_places_it_again(log: CheckedLog) -> None:
    """The agent obeys the new start and refuses to carry it out, because the task of the lost one still runs."""
    log.starts(log.lost)
    log.checker.on_command("n1", "a", 1, [0], log.place())
    assert "its start is not in the log" in (log.reconciled() or "")


def test_a_start_by_a_lost_record_is_none_by_the_record_that_has_its_number_now(log: CheckedLog) -> None:
    """Only the epoch tells them apart."""
    assert log.place()[1] == log.lost[1]
    log.starts(log.lost)
    assert "its start is not in the log" in (log.reconciled() or "")
