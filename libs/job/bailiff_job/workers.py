"""Several processes behind one control directory: what torchrun starts is one task to the node.

They share a file of their own beside the board. The first of them, the leader, speaks with the node for all: it proposes to
the others what the node proposes, and confirms to the node what all of them confirmed. Where the task is the whole job,
the node leaves the step to them, and the leader plays its part.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Callable

from .agreement import MARGIN, Agreement
from .board import AGREED, CONFIRMED, NONE, PROPOSED, STEP, WORD_BYTES, map_words
from .clock import monotonic

FOR_NOTICE, ALL_AGREED, ALL_PROPOSED, ANSWERED, LEAVES = range(5)  # the leader's words
DONE, PROMISED, PROMISED_FOR, COMMITTED, YIELDS = range(5)  # each worker's words; DONE and COMMITTED are steps plus one
WORDS = 8
LOOKS_EVERY_S = 0.001


class Workers(Agreement):
    """As one of them, by its local rank, sees them. Raises `OSError`."""

    def __init__(self, board: memoryview, file: Path, local_rank: int, count: int) -> None:
        super().__init__(board)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(handle, (count + 1) * WORDS * WORD_BYTES)
        os.close(handle)
        self.words = map_words(file, (count + 1) * WORDS)
        self.leads, self._count = local_rank == 0, count
        self._at = WORDS * (local_rank + 1)

    @property
    def done_at(self) -> int:
        """Where among the words this worker publishes the step that it has done, plus one."""
        return self._at + DONE

    def begin(self, notice: int) -> None:
        """A notice came that was not there before; it is known by a number that is not 0."""
        super().begin(notice)
        if self.leads:
            self.words[ALL_AGREED] = self.words[ALL_PROPOSED] = NONE
            self.words[FOR_NOTICE] = notice

    def agreed(self) -> int:
        """The step that is agreed, or -1."""
        if self.leads:
            self._lead()
        return int(self.words[ALL_AGREED]) if self.words[FOR_NOTICE] == self._notice else NONE

    def proposed(self) -> int:
        """The step that is proposed, or -1."""
        return int(self.words[ALL_PROPOSED]) if self.words[FOR_NOTICE] == self._notice else NONE

    def _promise(self, step: int) -> None:
        self.words[self._at + PROMISED] = step
        self.words[self._at + PROMISED_FOR] = self._notice

    def _each(self, word: int) -> list[int]:
        return [int(self.words[WORDS * (worker + 1) + word]) for worker in range(self._count)]

    def _lead(self) -> None:
        words, board = self.words, self._board
        furthest = max(self._each(DONE)) - 1
        board[STEP] = furthest
        if words[ALL_AGREED] >= 0:
            return
        promises = [
            step if notice == self._notice else NONE for step, notice in zip(self._each(PROMISED), self._each(PROMISED_FOR))
        ]
        ours = max(words[ALL_PROPOSED], *promises, board[PROPOSED])
        if ours < 0 and board[AGREED] >= 0:
            ours = max(board[AGREED], furthest + MARGIN)
        if ours != words[ALL_PROPOSED]:
            words[ALL_PROPOSED] = ours
        if ours >= 0 and all(promise == ours for promise in promises):
            if board[AGREED] >= 0:
                words[ALL_AGREED] = ours
            else:
                board[CONFIRMED] = ours

    def leaves(self, step: int, decide: Callable[[], bool]) -> bool:
        """Whether all of them leave after this step: the leader decides, the others wait for its word."""
        if self.leads:
            self.words[LEAVES] = int(decide())
            self.words[ANSWERED] = step + 1
        else:
            self._wait(lambda: self.words[ANSWERED] == step + 1, float("inf"))
        return bool(self.words[LEAVES])

    def committed(self, step: int, patience_s: float) -> bool:
        """This one has committed the step; the leader waits for all. Whether all have."""
        self.words[self._at + COMMITTED] = step + 1
        return not self.leads or self._wait(lambda: min(self._each(COMMITTED)) > step, patience_s)

    def all_yield(self, patience_s: float) -> bool:
        """This one is about to exit. A launcher ends the others when the first is gone, so each waits for all."""
        self.words[self._at + YIELDS] = 1
        return self._wait(lambda: all(self._each(YIELDS)), patience_s)

    def _wait(self, condition: Callable[[], bool], patience_s: float) -> bool:
        until = monotonic() + patience_s
        while not condition():
            if monotonic() > until:
                return False
            time.sleep(LOOKS_EVERY_S)
        return True
