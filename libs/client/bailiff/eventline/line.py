"""One line about a record, plain and for a terminal."""

from dataclasses import dataclass

from rich.text import Text

from bailiff_core.records.wire import time_text

WHAT_WIDTH = 20
WHERE_WIDTH = 10


@dataclass(frozen=True, slots=True)
class Said:
    """What a line says: what happened, to whom, and more. tone: how it is coloured."""

    what: str
    who: str = ""
    more: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `str()` is its plain form."""

    time: int
    domain: str
    seq: int
    said: Said

    @property
    def clock(self) -> str:
        """Time of day, UTC."""
        return time_text(self.time)[11:19]

    @property
    def day(self) -> str:
        """The date, UTC."""
        return time_text(self.time)[:10]

    def __str__(self) -> str:
        where = f"{self.domain}#{self.seq}"
        rest = "  ".join(part for part in (self.said.who, self.said.more) if part)
        return f"{self.clock} {where:<{WHERE_WIDTH}} {self.said.what:<{WHAT_WIDTH}} {rest}".rstrip()


def plain(text: str) -> str:
    """The text without anything that a terminal would obey."""
    return "".join(char if char.isprintable() else "�" for char in text)


TONES = {
    "good": "green",
    "bad": "red",
    "warn": "yellow",
    "preempt": "magenta",
    "evict": "yellow",
    "quiet": "dim",
    "": "",
}


def styled(line: Line) -> Text:
    """The line for a terminal: the same characters, with colours."""
    tone = TONES[line.said.tone]
    text = Text()
    text.append(line.clock, "dim")
    where = f"{line.domain}#{line.seq}"
    text.append(f" {where:<{WHERE_WIDTH}} ", "cyan")
    text.append(f"{line.said.what:<{WHAT_WIDTH}} ", tone)
    text.append(line.said.who, "bold")
    if line.said.more:
        text.append(("  " if line.said.who else "") + line.said.more, "dim" if line.said.tone == "quiet" else "")
    text.rstrip()
    return text
