"""One step at which all ranks save, although none of them can wait for the others in every step.

The node proposes a step; a rank that has not passed it confirms it, one that has passed it writes a higher one. What a
rank has written is a promise: it does not pass that step before the node has answered. So a step that all confirmed is
still ahead of all, or they stand at it. A rank that waits for long asks for a later step: another one may not have looked
since the proposal, and wait for this one in the middle of its next step.
"""

from __future__ import annotations

from enum import Enum

from .board import AGREED, CONFIRMED, NONE, PROPOSED

MARGIN = 2


class Verdict(Enum):
    """What a rank is to do about the notice at the step where it stands."""

    GO_ON = "go on"
    HOLD = "wait for an answer"
    SAVE = "save now"
    SAVE_UNAGREED = "save now, though the others may stand elsewhere"


class Agreement:
    """One rank and its node, over the board."""

    def __init__(self, board: memoryview, promised: int = NONE) -> None:
        self._board = board
        self._notice = 0
        self.promised = promised

    def begin(self, notice: int) -> None:
        """A notice came that was not there before; it is known by a number that is not 0."""
        self._notice = notice
        self.promised = NONE
        self._promise(NONE)

    def agreed(self) -> int:
        """The step that is agreed, or -1."""
        return int(self._board[AGREED])

    def proposed(self) -> int:
        """The step that is proposed, or -1."""
        return int(self._board[PROPOSED])

    def _promise(self, step: int) -> None:
        self._board[CONFIRMED] = step

    def ask_for_later(self, step: int) -> None:
        """Raise the step while standing by the promise, which binds until it is answered."""
        self._promise(step + MARGIN)

    def look(self, step: int, *, overdue: bool) -> Verdict:
        """While a notice is out, having done this step. overdue: the soft deadline has passed."""
        agreed = self.agreed()
        if agreed >= 0:
            return Verdict.SAVE if step >= agreed else Verdict.GO_ON
        if overdue:
            return Verdict.SAVE_UNAGREED
        proposed = self.proposed()
        if proposed < 0:
            return Verdict.GO_ON
        if not proposed <= self.promised <= step:  # a promise that is due stands until it is answered
            promise = proposed
            if step > proposed:
                promise = self.promised if self.promised > step else step + MARGIN
            if promise != self.promised:
                self.promised = promise
                self._promise(promise)
        return Verdict.HOLD if step >= self.promised else Verdict.GO_ON
