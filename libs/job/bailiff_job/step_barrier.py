"""Agreement on one step at which all ranks checkpoint, without a barrier in every step.

The node proposes a step. A rank that has not passed it confirms it; a rank that has passed it confirms a higher one. A
confirmation binds the rank not to pass that step before the node has answered. So a step that all have confirmed is still
ahead of all of them, or they have just done it. A rank that has waited for some time requests a later step: another rank may
not have checked since the proposal, and may wait for this one inside its next step.
"""

from __future__ import annotations

from enum import Enum

from .shared_steps import AGREED, CONFIRMED, NONE, PROPOSED

MARGIN = 2


class Verdict(Enum):
    """What a rank does about the notice, after the step that it has done."""

    CONTINUE = "continue"
    WAIT = "wait for the node's answer"
    CHECKPOINT = "checkpoint now"
    CHECKPOINT_UNAGREED = "checkpoint now, without agreement"


class StepBarrier:
    """Agreement between one rank and its node.

    Attributes:
        steps: The shared words.
        confirmed: The step confirmed by the rank, or -1.
    """

    def __init__(self, steps: memoryview, confirmed: int = NONE) -> None:
        self._steps = steps
        self._notice = 0
        self.confirmed = confirmed

    def begin(self, notice: int) -> None:
        """A new notice, identified by a number other than 0."""
        self._notice = notice
        self.confirmed = NONE
        self._confirm(NONE)

    def agreed(self) -> int:
        """The agreed step, or -1."""
        return int(self._steps[AGREED])

    def proposed(self) -> int:
        """The proposed step, or -1."""
        return int(self._steps[PROPOSED])

    def _confirm(self, step: int) -> None:
        self._steps[CONFIRMED] = step

    def request_later_step(self, step: int) -> None:
        """Confirm a later step to the node. The rank still does not pass the step that it confirmed before."""
        self._confirm(step + MARGIN)

    def decide(self, step: int, *, overdue: bool) -> Verdict:
        """What to do about the notice, after this step.

        Args:
            overdue: Whether the soft deadline has passed.
        """
        agreed = self.agreed()
        if agreed >= 0:
            return Verdict.CHECKPOINT if step >= agreed else Verdict.CONTINUE
        if overdue:
            return Verdict.CHECKPOINT_UNAGREED
        proposed = self.proposed()
        if proposed < 0:
            return Verdict.CONTINUE
        if not proposed <= self.confirmed <= step:  # a confirmed step that was reached binds until it is answered
            confirmation = proposed
            if step > proposed:
                confirmation = self.confirmed if self.confirmed > step else step + MARGIN
            if confirmation != self.confirmed:
                self.confirmed = confirmation
                self._confirm(confirmation)
        return Verdict.WAIT if step >= self.confirmed else Verdict.CONTINUE
