"""Inputs and jobs on which deciding has failed. It outlives writer incarnations, not the process.

A turn that fails is never appended; the writer starts again from the log. A failure about a job that was there before
is not the fault of the message that only gave occasion to look at it (a report that made room, say): the job is held.
Otherwise the messages of that turn are taken one at a time, and the one that fails alone is rejected.
"""

from dataclasses import dataclass, field

from bailiff_bus.port import Message
from bailiff_core.verbs.failure import DecisionError

At = tuple[str, int, int]


def place(message: Message) -> At:
    """Where a message stands."""
    return message.topic, message.partition, message.offset


class TurnFailed(Exception):
    """A turn could not be decided; nothing of it was appended."""


@dataclass(slots=True)
class Suspects:
    """What to be careful about, by domain."""

    careful: set[At] = field(default_factory=set)
    guilty: dict[At, str] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)

    def failed(self, messages: list[Message], error: Exception, culprit: str | None = None) -> TurnFailed:
        """Remember what the failed turn was made of. Raises `error` itself where nobody can be blamed.

        culprit: the job that it is about, where that was there before and none of the messages asks about it.
        """
        if culprit is not None and culprit not in self.jobs:
            return self._hold(culprit, error)
        if len(messages) > 1:
            self.careful.update(place(message) for message in messages)
            return TurnFailed(f"a turn of {len(messages)} inputs failed, taking them one by one: {error}")
        if messages and place(messages[0]) not in self.guilty:
            self.guilty[place(messages[0])] = f"{type(error).__name__}: {error}"[:1000]
            return TurnFailed(f"the input at {place(messages[0])} cannot be decided on: {error}")
        if isinstance(error, DecisionError) and error.job not in self.jobs:
            return self._hold(error.job, error)
        raise error

    def _hold(self, job: str, error: Exception) -> TurnFailed:
        self.jobs[job] = str(error)[:2000]
        return TurnFailed(f"holding job {job}: {error}")
