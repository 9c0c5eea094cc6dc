"""Input that is too large, or made to look like something else: bounded, and harmless for terminals and pages."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.kit import LogWriter, command_on

from bailiff.cli.logs import line_text
from bailiff.client.errors import ExitCode
from bailiff.client.job_output import LONGEST_LINE, NewOutput, WholeLines
from bailiff.notify.notifier import filled, notice_of
from bailiff_bus.port import Headers, Message
from bailiff_console.logs import MAX_LINE, Lines
from bailiff_node_agent.log_shipper import MAX_CHUNK_BYTES, _ship
from bailiff_node_agent.runtime import TaskKey
from bailiff_service import yaml_files
from bailiff_service.yaml_files import MAX_BYTES, UnreadableFile, parse_untrusted_yaml, parse_yaml, read_yaml

MB = 1 << 20


# --- YAML


def bomb(levels: int, each: int = 9) -> str:
    """A few lines that stand for `each` to the power of `levels` values."""
    lines = [f"a0: &a0 [{', '.join(['lol'] * each)}]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * each)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        bomb(20),
        "\n".join([bomb(20), "name: *a19"]),
        "x: &m0 {a: 1}\n" + "".join(f"m{n}: &m{n} {{{', '.join(f'k{k}: *m{n - 1}' for k in range(9))}}}\n" for n in range(1, 9)),
        "x: &x [" + "1, " * 9000 + "1]\ny: *x\nz: *x\n",
    ],
    ids=["lists", "a name", "mappings", "wide"],
)
def test_aliases_that_multiply_are_refused_at_their_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(UnreadableFile, match=r"job.yaml:\d+: \*\w+: aliases repeat more than"):
        read_yaml(file)
    with pytest.raises(UnreadableFile, match="aliases are not allowed"):
        parse_untrusted_yaml(text, "")


def test_a_few_aliases_are_allowed() -> None:
    value, _ = parse_yaml("x: &x {gpus: 1}\njobs: [*x, *x]\n", "job.yaml")
    assert value == {"x": {"gpus": 1}, "jobs": [{"gpus": 1}, {"gpus": 1}]}


@pytest.mark.parametrize("command", ["submit --file", "submit --dry-run --file", "policy apply", "policy check"])
def test_every_command_refuses_a_bomb(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "bomb.yaml"
    file.write_text(bomb(30))
    log_writer = LogWriter()
    bailiff = command_on(lambda: log_writer.cluster.client("cli"), monkeypatch, str(tmp_path))
    done = bailiff(*command.split(), str(file))
    assert done.exit_code == ExitCode.USAGE, done.output
    assert "bomb.yaml" in " ".join(done.output.split())


def test_a_file_without_end_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_files, "MAX_BYTES", MB)
    with pytest.raises(UnreadableFile, match="larger than 1 MiB"):
        read_yaml(Path("/dev/zero"))
    assert MAX_BYTES == 64 * MB


# --- output


class Sent:
    """A producer that keeps what is sent."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, topic: str, value: bytes, *, key: bytes, headers: Headers) -> Any:
        self.messages.append(Message(topic, 0, len(self.messages), 1, key, headers, value))

        async def receipt() -> None:
            return None

        return receipt()


@pytest.mark.slow
async def test_4_mb_in_one_line_arrive_in_small_pieces_and_are_cut_in_the_page(tmp_path: Path) -> None:
    log = tmp_path / "log"
    size = 4 * MB
    log.write_bytes(b"x" * size)  # no line end
    at, sent = ("pool-a", "node-1", TaskKey("train-1", 1, "0")), Sent()
    offsets = {at: (log, 0)}
    printed, whole, lines = NewOutput(), WholeLines(), Lines("pool-a", "train-1", None, None)
    while offsets[at][1] < size:
        await _ship(sent, at, offsets)  # type: ignore[arg-type]
        (message,) = sent.messages
        sent.messages.clear()
        assert len(message.value) <= MAX_CHUNK_BYTES
        assert all(len(line.text) <= LONGEST_LINE + MAX_CHUNK_BYTES for line in whole.take(printed.chunk(message)))
        shown = lines.of(message)
        assert [len(line["text"]) for line in shown] == [MAX_LINE]


def test_the_page_gets_colours_but_no_other_escapes_and_no_marks_that_reorder_text() -> None:
    value = "\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b[2J safe\u202egpj.exe\n".encode()
    (line,) = Lines("pool-a", "train-1", None, None).of(
        Message("", 0, 0, 1, b"train-1", (("ce_task", b"0"), ("ce_attempt", b"1")), value)
    )
    assert line["text"] == "\x1b[31mred\x1b[0m �]0;title� safe�gpj.exe"


def test_a_job_does_not_write_lines_of_another_task() -> None:
    headers = (("ce_task", b"0"), ("ce_node", b"node\x1b[1m-1"))
    message = Message("", 0, 0, 1, b"train-1", headers, b"ok\r[1 node-2] fake\n\x1b[31mred\n")
    at = "[0 node�[1m-1]"
    shown = [line_text(line, named=True) for line in WholeLines().take(NewOutput().chunk(message))]
    assert shown == [f"{at} ok", f"{at} [1 node-2] fake", f"{at} \x1b[31mred\x1b[0m"]


# --- notifications


def test_a_notification_carries_no_escapes_and_no_options() -> None:
    hostile = "\x1b]0;x\x07\u202eada\n--force"
    row: Any = dict.fromkeys(("id", "pool", "seq", "time", "job", "tasks", "node"), "x") | {"type": "Preempted", "reason": "why"}
    notice = notice_of(row, hostile)
    assert notice["owner"] == "�]0;x��ada�--force"
    assert filled(("{owner}",), {"owner": "--force"}) == ["force"]
