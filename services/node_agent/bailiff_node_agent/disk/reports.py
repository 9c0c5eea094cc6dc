"""The spool of reports: numbered without gaps, kept until they are sent (docs/reference/log-protocol-fences.md#nodes)."""

from collections import deque

from .journal import Entry, Journal
from .storage import Storage


class Reports:
    def __init__(self, storage: Storage) -> None:
        self._journal = Journal(storage, "reports")
        self._next = 0
        self._unsent: deque[tuple[int, bytes]] = deque()
        for entry in self._journal.entries:
            match entry:
                case {"next": int(number)}:
                    self._next = number
                case {"report": str(text)}:
                    self._unsent.append((self._next, text.encode("latin-1")))
                    self._next += 1
                case {"sent": int(number)}:
                    self._drop(number)
                case _:
                    raise ValueError(f"reports: unknown entry {entry}")

    @property
    def next_number(self) -> int:
        """The number of the next report; the first is 0."""
        return self._next

    def append(self, report: bytes) -> int:
        """Spool the report; returns its number once it is on disk."""
        self._journal.add(_entry(report))
        number = self._next
        self._unsent.append((number, report))
        self._next += 1
        return number

    def unsent(self) -> list[tuple[int, bytes]]:
        """By number, which is the order in which they must be sent."""
        return list(self._unsent)

    def sent(self, number: int) -> None:
        """Kafka has this report and all before it."""
        if number >= self._next:
            raise ValueError(f"report {number} cannot have been sent: the next one is {self._next}")
        if not self._unsent or self._unsent[0][0] > number:
            return
        self._journal.add({"sent": number})
        self._drop(number)
        if len(self._journal) > 100 + 2 * len(self._unsent):
            first = self._next - len(self._unsent)
            self._journal.rewrite([{"next": first}, *(_entry(report) for _, report in self._unsent)])

    def _drop(self, number: int) -> None:
        while self._unsent and self._unsent[0][0] <= number:
            self._unsent.popleft()


def _entry(report: bytes) -> Entry:
    # Latin-1 maps every byte to one character, so JSON can hold it and text stays readable in the file.
    return {"report": report.decode("latin-1")}
