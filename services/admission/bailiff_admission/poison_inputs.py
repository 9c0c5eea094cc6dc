"""Inputs and jobs for which deciding has failed; kept across writer incarnations of the process.

A failed cycle is never appended; the writer starts again from the log. If the failure concerns a job that existed before, the
message that triggered it (such as a report that freed resources) is not at fault: the job is suspended. Otherwise the messages
of the cycle are processed one at a time, and the one that fails alone is rejected.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from bailiff_bus.port import Message
from bailiff_core.actions.failure import DecisionError

At = tuple[str, int, int]


def place(message: Message) -> At:
    """The position of a message in its topic."""
    return message.topic, message.partition, message.offset


class CycleFailed(Exception):
    """A cycle could not be decided; none of it was appended."""


@dataclass(slots=True)
class PoisonInputs:
    """Suspected inputs, errors by input, and failing jobs of one pool."""

    suspected: set[At] = field(default_factory=set)
    errors: dict[At, str] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)

    def forget(self, topics: Collection[str]) -> None:
        """These were made anew: their positions have other messages now."""
        for at in [each for each in (*self.suspected, *self.errors) if each[0] in topics]:
            self.suspected.discard(at)
            self.errors.pop(at, None)

    def failed(self, messages: list[Message], error: Exception, failed_job: str | None = None) -> CycleFailed:
        """Record the inputs of a failed cycle. Raises `error` itself if neither an input nor a job explains it.

        failed_job: the job that the failure concerns, if it existed before and none of the messages names it.
        """
        if failed_job is not None and failed_job not in self.jobs:
            return self._suspend(failed_job, error)
        if len(messages) > 1:
            self.suspected.update(place(message) for message in messages)
            return CycleFailed(f"a cycle of {len(messages)} inputs failed, processing them one by one: {error}")
        if messages and place(messages[0]) not in self.errors:
            self.errors[place(messages[0])] = f"{type(error).__name__}: {error}"[:1000]
            return CycleFailed(f"the input at {place(messages[0])} makes the decision fail: {error}")
        if isinstance(error, DecisionError) and error.job not in self.jobs:
            return self._suspend(error.job, error)
        raise error

    def _suspend(self, job: str, error: Exception) -> CycleFailed:
        self.jobs[job] = str(error)[:2000]
        return CycleFailed(f"suspending job {job}: {error}")
