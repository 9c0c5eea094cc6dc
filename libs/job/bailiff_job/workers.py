"""Step agreement among several processes that share one control directory: all processes of torchrun are one task to the node.

They share a file beside `steps`. The first of them, the leader, communicates with the node for all: it forwards the node's
proposals, and confirms to the node what all of them have confirmed. Where the task is the whole job, the leader proposes the
step itself.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Callable

from .clock import monotonic
from .shared_steps import AGREED, CONFIRMED, NONE, PROPOSED, STEP, WORD_BYTES, map_words
from .step_barrier import MARGIN, StepBarrier

NOTICE_ID, ALL_AGREED, ALL_PROPOSED, EXIT_STEP, EXIT = range(5)  # words of the leader
DONE, CONFIRMED_STEP, CONFIRMED_NOTICE, COMMITTED, YIELDS = range(
    5
)  # words of each worker; DONE and COMMITTED are steps plus one
WORDS = 8
POLL_S = 0.001


class Workers(StepBarrier):
    """The processes of one task, from the process with this local rank. Raises `OSError`."""

    def __init__(self, steps: memoryview, file: Path, local_rank: int, count: int) -> None:
        super().__init__(steps)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(handle, (count + 1) * WORDS * WORD_BYTES)
        os.close(handle)
        self.words = map_words(file, (count + 1) * WORDS)
        self.is_leader, self._count = local_rank == 0, count
        self._at = WORDS * (local_rank + 1)

    @property
    def done_at(self) -> int:
        """Index of the word in which this worker publishes the step that it has done, plus one."""
        return self._at + DONE

    def begin(self, notice: int) -> None:
        """A new notice, identified by a number other than 0."""
        super().begin(notice)
        if self.is_leader:
            self.words[ALL_AGREED] = self.words[ALL_PROPOSED] = NONE
            self.words[NOTICE_ID] = notice

    def agreed(self) -> int:
        """The agreed step, or -1."""
        if self.is_leader:
            self._coordinate()
        return int(self.words[ALL_AGREED]) if self.words[NOTICE_ID] == self._notice else NONE

    def proposed(self) -> int:
        """The proposed step, or -1."""
        return int(self.words[ALL_PROPOSED]) if self.words[NOTICE_ID] == self._notice else NONE

    def _confirm(self, step: int) -> None:
        self.words[self._at + CONFIRMED_STEP] = step
        self.words[self._at + CONFIRMED_NOTICE] = self._notice

    def _each(self, word: int) -> list[int]:
        return [int(self.words[WORDS * (worker + 1) + word]) for worker in range(self._count)]

    def _coordinate(self) -> None:
        words, steps = self.words, self._steps
        furthest = max(self._each(DONE)) - 1
        steps[STEP] = furthest
        if words[ALL_AGREED] >= 0:
            return
        confirmations = [
            step if notice == self._notice else NONE
            for step, notice in zip(self._each(CONFIRMED_STEP), self._each(CONFIRMED_NOTICE))
        ]
        step = max(words[ALL_PROPOSED], *confirmations, steps[PROPOSED])
        if step < 0 and steps[AGREED] >= 0:
            step = max(steps[AGREED], furthest + MARGIN)
        if step != words[ALL_PROPOSED]:
            words[ALL_PROPOSED] = step
        if step >= 0 and all(confirmation == step for confirmation in confirmations):
            if steps[AGREED] >= 0:
                words[ALL_AGREED] = step
            else:
                steps[CONFIRMED] = step

    def exit_together(self, step: int, decide: Callable[[], bool]) -> bool:
        """Whether all processes exit after this step: the leader decides, the others wait for its decision."""
        if self.is_leader:
            self.words[EXIT] = int(decide())
            self.words[EXIT_STEP] = step + 1
        else:
            self._wait(lambda: self.words[EXIT_STEP] == step + 1, float("inf"))
        return bool(self.words[EXIT])

    def committed(self, step: int, timeout_s: float) -> bool:
        """Publish that this worker has committed the step; the leader waits for all. Whether all have."""
        self.words[self._at + COMMITTED] = step + 1
        return not self.is_leader or self._wait(lambda: min(self._each(COMMITTED)) > step, timeout_s)

    def wait_all_yielding(self, timeout_s: float) -> bool:
        """Publish that this worker exits, and wait for all: a launcher kills the others when one exits. Whether all yield."""
        self.words[self._at + YIELDS] = 1
        return self._wait(lambda: all(self._each(YIELDS)), timeout_s)

    def _wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        until = monotonic() + timeout_s
        while not condition():
            if monotonic() > until:
                return False
            time.sleep(POLL_S)
        return True
