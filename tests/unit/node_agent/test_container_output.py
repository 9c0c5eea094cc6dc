"""Output of a container is in its log once, also when the engine disconnects and repeats some of it."""

from collections.abc import Iterator
from pathlib import Path

from bailiff_node_agent.runtime.container import Output

PRINTED = [
    *((0, b"first\n"), (0, b"the beginning of a long line, "), (0, b"its end\n"), (1, b"out of turn\n")),
    *((0, b"a little late\n"), (1, b"\n"), (3, b"with a space\n"), (3, b"with a space\n"), (7, b"last")),
]


def printed_range(since: int, upto: int = len(PRINTED)) -> Iterator[bytes]:
    """As the engine tells it: from that second on, each piece behind its time."""
    for second, piece in PRINTED[:upto]:
        if 1_700_000_000 + second >= since:
            yield b"2023-11-14T22:13:%02d.000000001Z " % (20 + second) + piece


def test_each_piece_once_wherever_it_broke_off(tmp_path: Path) -> None:
    for first in range(len(PRINTED) + 1):
        for second in range(first, len(PRINTED) + 1):
            log = tmp_path / f"{first}-{second}"
            output = Output(str(log))
            for upto in (first, second, len(PRINTED), len(PRINTED)):
                output.write(printed_range(output.since, upto))
            assert log.read_bytes() == b"".join(piece for _, piece in PRINTED), (first, second)
