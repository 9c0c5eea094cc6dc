"""docs/cli.md says what the command is: every command, every field of a job file, every event, every example."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
import yaml

from bailiff.cli import app
from bailiff.events import WORDS, EventRow
from bailiff.friendly import GROUP_FIELDS, JOB_FIELDS, job_from
from bailiff.notify import FIELDS, NotifyFile

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/cli.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


def cells(text: str) -> list[list[str]]:
    """The cells of every table row, heads and rules left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rules = [at for at, row in enumerate(rows) if set(row[0]) <= {"-"}]
    return [row for at, row in enumerate(rows) if at not in rules and at + 1 not in rules]


def commands(group: Any, before: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def told_commands() -> Iterator[str]:
    for row in cells(TEXT[: TEXT.index("## A job file")]):
        first, *others = re.findall(r"`([^`]+)`", row[0])
        words = re.findall(r"^bailiff ([a-z-]+)((?: [a-z-]+)?)", first)[0]
        yield "".join(words)
        for other in others:
            name = other.split()
            yield " ".join(name[:2]) if name[0] == words[0] else f"{words[0]} {name[0]}"


def test_every_command_stands_in_the_tables() -> None:
    assert sorted(dict.fromkeys(told_commands())) == sorted(commands(typer.main.get_command(app)))


def test_every_option_that_is_named_exists() -> None:
    root: Any = typer.main.get_command(app)
    parameters = [parameter for command in _all(root) for parameter in command.params]
    known = {"--help", *(option for each in parameters for option in (*each.opts, *each.secondary_opts))}
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", re.sub(r"jupyter lab --port|--epochs", "", TEXT)))
    assert named - known == set()


def test_options_that_other_systems_users_are_told_exist() -> None:
    text = (ROOT / "docs/coming-from.md").read_text(encoding="utf-8")
    root: Any = typer.main.get_command(app)
    for line in re.findall(r"`bailiff ([^`]+)`", text):
        name, *words = line.partition(" -- ")[0].split()
        command = root.commands[name]
        if hasattr(command, "commands"):
            command = command.commands[words[0]]
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in words if word.startswith("-")} <= known, line


def _all(group: Any) -> Iterator[Any]:
    for command in group.commands.values():
        yield from _all(command) if hasattr(command, "commands") else [command]


def test_every_field_of_a_job_file_stands_in_the_table() -> None:
    told = {name for row in cells(section("A job file")) for name in re.findall(r"`([a-z_]+)`", row[0])}
    assert told == {*JOB_FIELDS, *GROUP_FIELDS, "groups", "sim_run_for"}


def test_the_job_file_is_read_as_it_says() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", section("A job file"), re.DOTALL)
    demand = job_from({name.replace("-", "_"): value for name, value in yaml.safe_load(text).items()}).demand
    assert (demand.project, demand.min_tasks, demand.topology and demand.topology.required) == ("vision", 4, "zone")


def test_every_event_stands_in_the_table() -> None:
    assert {row[0].strip("`"): row[1] for row in cells(section("Events"))} == dict(WORDS)


def test_every_field_of_an_event_is_named() -> None:
    named = set(re.findall(r"`([a-z_]+)`", section("Events")))
    assert set(EventRow.__annotations__) <= named


def test_the_example_of_notifications_is_read() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", section("Notifications"), re.DOTALL)
    found = NotifyFile.model_validate_json(json.dumps(yaml.safe_load(text)))
    assert [hook.name for hook in found.hooks] == ["chat", "mail"]
    assert {"type", "job", "owner"} <= set(FIELDS)
