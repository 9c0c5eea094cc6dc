"""Reports on their way to the log: numbered without a gap, kept until they have been sent (log protocol §8)."""

from bailiff_node_agent.disk.journal import Journal
from bailiff_node_agent.disk.storage import Storage


class Reports:
    def __init__(self, storage: Storage) -> None:
        self._journal = Journal(storage, "reports")
        self._next = 0
        self._unsent: dict[int, bytes] = {}
        for entry in self._journal.entries:
            match entry:
                case {"next": int(number)}:
                    self._next = number
                case {"report": str(text)}:
                    self._unsent[self._next] = text.encode("latin-1")
                    self._next += 1
                case {"sent": int(number)}:
                    self._drop(number)
                case _:
                    raise ValueError(f"an entry in the reports that this release does not know: {entry}")

    @property
    def next_number(self) -> int:
        """The number that the next report will have; the first one ever is 0."""
        return self._next

    def append(self, report: bytes) -> int:
        """Keep the report; returns its number once it is on disk."""
        # Latin-1 maps every byte to one character, so JSON can hold it and text stays readable in the file.
        self._journal.add({"report": report.decode("latin-1")})
        number = self._next
        self._unsent[number] = report
        self._next += 1
        return number

    def unsent(self) -> list[tuple[int, bytes]]:
        """In order of their numbers, which is the order to send them in."""
        return list(self._unsent.items())

    def sent(self, number: int) -> None:
        """This report and all before it have arrived."""
        if number >= self._next:
            raise ValueError(f"report {number} cannot have been sent: the next one is {self._next}")
        if not self._drop(number):
            return
        if len(self._journal) > 100 and not self._unsent:
            self._journal.rewrite([{"next": self._next}])
        else:
            self._journal.add({"sent": number})

    def _drop(self, number: int) -> bool:
        arrived = [unsent for unsent in self._unsent if unsent <= number]
        for unsent in arrived:
            del self._unsent[unsent]
        return bool(arrived)
