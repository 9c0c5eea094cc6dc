"""What a task's output may do to the terminal that shows it, and which keys detach."""

import pytest

from bailiff.attach.detach_keys import DEFAULT, DetachKeys, InvalidKeys, parse_keys
from bailiff.attach.output_filter import OutputFilter


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (b"plain \xc3\xa9 text\r\n", b"plain \xc3\xa9 text\r\n"),
        (b"\x1b[31mred\x1b[0m \x1b[2J\x1b[10;3H", b"\x1b[31mred\x1b[0m \x1b[2J\x1b[10;3H"),
        (b"a\x1b]52;c;cm0gLXJm\x07b", b"ab"),  # the clipboard
        (b"a\x1b]0;title\x1b\\b", b"ab"),
        (b"a\x1bP+q544e\x1b\\b\x1b_payload\x1b\\c\x1b^x\x1b\\d\x1bXy\x1b\\e", b"abcde"),
        (b"a\xc2\x9d52;c;AAAA\x07b", b"a52;c;AAAA\x07b"),  # the same in one character: it begins nothing any more
        (b"a\x1b[8;1;1tb\x1b[5ic", b"abc"),  # a smaller window; printing
        (b"a\x1b[" + b"1" * 100 + b"b", b"a" + b"1" * 36 + b"b"),
        (b"a\x1b\x1b]0;x\x07b", b"ab"),
    ],
)
def test_only_what_stays_on_the_screen_is_shown(output: bytes, shown: bytes) -> None:
    assert OutputFilter().feed(output) == shown
    one_by_one = OutputFilter()
    assert b"".join(one_by_one.feed(bytes((byte,))) for byte in output) == shown


def test_a_string_without_an_end_hides_no_more_than_it_may() -> None:
    shown = OutputFilter().feed(b"\x1b]0;" + b"x" * 100_000 + b"visible")
    assert shown.endswith(b"visible")


def test_modes_that_the_output_has_changed_are_undone() -> None:
    found = OutputFilter()
    found.feed(b"\x1b[?1049h\x1b[?25l\x1b[?1000;1006h\x1b[?2004h\x1b[?2004l")
    assert found.undo() == b"\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1006l\x1b[0m"


def test_the_keys_detach_and_are_not_sent() -> None:
    keys = DetachKeys(parse_keys(DEFAULT))
    assert keys.feed(b"ab\x10") == (b"ab", False)
    assert keys.feed(b"c") == (b"\x10c", False)
    assert keys.feed(b"\x10\x10\x11after") == (b"\x10", True)


@pytest.mark.parametrize("text", ["", "ctrl-", "ctrl-1", "shift-a", "ctrl-p,", "é"])
def test_keys_that_cannot_be_typed_are_refused(text: str) -> None:
    with pytest.raises(InvalidKeys):
        parse_keys(text)
