"""What of a job's output reaches the page: text and colours."""

from bailiff_bus.port import Message
from bailiff_bus.topics import JOB_LOGS
from bailiff_console.logs import Lines

HEADERS = (("ce_pool", b"pool-a"), ("ce_task", b"0"), ("ce_attempt", b"1"), ("ce_node", b"n1"), ("ce_offset", b"0"))


def lines_of(output: bytes) -> list[str]:
    message = Message(topic=JOB_LOGS.name, partition=0, offset=0, time=0, key=b"train-1", value=output, headers=HEADERS)
    return [line["text"] for line in Lines("pool-a", "train-1", None, None).of(message)]


def test_colours_stay_and_everything_else_that_steers_a_terminal_goes() -> None:
    assert lines_of(b"\x1b[31mred\x1b[0m\r\n\x1b[2J\x1b[?25lplain\n") == ["\x1b[31mred\x1b[0m", "plain"]
    (shown,) = lines_of(b"a\x1b]52;c;AAAA\x07\x1b[?1mb\n")
    assert "\x1b" not in shown
