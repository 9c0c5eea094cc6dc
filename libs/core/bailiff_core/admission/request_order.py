"""The order in which admission takes requests: those of one line keep theirs; requests of different lines may pass each other.

A line is what one key has signed in one name, sent to one partition, in one sender's turn: a bridge's submissions take that of
the user whom they name. Before `OPERATORS_FIRST_SINCE`, what only operators may send was a line of its own.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from bailiff_core.records import facts
from bailiff_core.records.request import RequestBody
from bailiff_core.records.wire import Record


class Line(NamedTuple):
    """Requests that keep their order.

    Attributes:
        sender: Whose turn they take (`permissions.sender_name`).
    """

    partition: str
    key: str
    actor: str
    first: bool
    sender: str


OPERATORS_FIRST_SINCE = 8
"""Before this logic, of an operator's requests only what nobody else may send went first."""


def went_first(kind: type[RequestBody], logic: int) -> bool:
    """Whether the request could pass earlier ones of the same operator."""
    return logic < OPERATORS_FIRST_SINCE and kind.SENDER in ("operator", "keys")


KEPT_LINES = 10_000


@dataclass(slots=True)
class RequestOrder:
    """Follows the signed requests of a log.

    Beyond `KEPT_LINES`, a line is forgotten whose requests are all before the position of their partition: that everything before
    it is done says as much, of every line.
    """

    _newest: dict[Line, int] = field(default_factory=dict)
    _done: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of each partition the recorded position, and the place of the request with it: one request may have several records."""
    _before: dict[str, int] = field(default_factory=dict)
    """Of each partition, before which offset lines were forgotten."""
    _forget_at: int = KEPT_LINES
    _cut: set[str] = field(default_factory=set)
    """Partitions that ended before their position, whose places are given again."""

    def follow(self, record: Record) -> None:
        """The next record of the log, as far as it says where the places of requests begin again."""
        match record.data:
            case facts.WriterStarted():
                self._cut.clear()
            case facts.InputsLost() as lost if lost.to_offset < lost.from_offset:
                partition = f"{lost.topic}/{lost.partition}"
                self._cut.add(partition)
                self._newest = {line: offset for line, offset in self._newest.items() if line.partition != partition}
                self._done.pop(partition, None)
                self._before.pop(partition, None)

    def passed_by(self, record: Record, key: str, sender: str, *, first: bool = False) -> int | None:
        """The offset of a later request of the same line that was taken before this one; None: there is none.

        Args:
            record: Of the request, whose cause is its place.
            key: That signed it.
            sender: Whose turn it took.
            first: `went_first`.
        """
        partition, _, offset = record.cause.rpartition("/")
        if not offset.isdecimal() or partition in self._cut:
            return None
        line, place = Line(partition, key, record.actor, first, sender), int(offset)
        newest = self._newest.get(line, self._before.get(partition, 0) - 1)
        self._newest[line] = max(newest, place)
        position = dict(record.inputs).get(partition)
        if position is not None:
            self._done[partition] = position, place
        if len(self._newest) > self._forget_at:
            self._forget()
        return newest if newest > place else None

    def _forget(self) -> None:
        self._before |= {partition: min(done) for partition, done in self._done.items()}
        self._newest = {line: newest for line, newest in self._newest.items() if newest >= self._before.get(line.partition, 0)}
        self._forget_at = max(KEPT_LINES, 2 * len(self._newest))
