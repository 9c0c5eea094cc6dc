"""The guides and the reference match the code: fields of job files and events, options, examples."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
import typer.main
import yaml
from tests.kits.pages import rows
from typer._click.exceptions import ClickException
from typer.testing import CliRunner

from bailiff.cli import app
from bailiff.cli.command_table import COMMANDS, FAMILIAR
from bailiff.client.job_parser import GROUP_FIELDS, JOB_FIELDS
from bailiff.notify.notifier import FIELDS, NotifyFile
from bailiff.render.events import EventRow
from bailiff.render.record_text.event_words import WORDS

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
NOT_OURS = {"--max-restarts", "--begin", "--dependency"}  # torchrun's, sbatch's
OTHER_SYSTEMS = ("comparison.md", "glossary.md", "glossary-cli.md", "glossary-policy.md", "glossary-records.md")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


def commands(group: Any, before: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def test_every_command_is_in_the_glossary_and_in_the_reference() -> None:
    known, listed = set(commands(typer.main.get_command(app))), {}
    for name in ("glossary-cli.md", "reference/cli/index.md"):
        listed[name] = {word for row in rows(page(name)) for word in re.findall(r"`bailiff ([a-z -]+)`", row[0])}
    assert listed["reference/cli/index.md"] == known
    assert known <= listed["glossary-cli.md"]


def test_what_the_glossary_calls_a_command_elsewhere_leads_to_ours() -> None:
    """Also a command that is looked for in another group, or that is shared by several."""
    runner = CliRunner()
    assert {ours.split()[0] for ours in FAMILIAR.values()} <= set(COMMANDS)
    assert not set(FAMILIAR) & set(COMMANDS)
    elsewhere = " ".join(row[2] for row in rows(page("glossary-cli.md")))
    typed = set(re.findall(r"`(s[a-z]+)[ `]", elsewhere)) - {"step", "ssh", "ssh-keygen"}
    typed |= set(re.findall(r"`kubectl ([a-z-]+)", elsewhere)) - set(COMMANDS) - {"certificate", "diff"}
    assert {"squeue", "scancel", "sbatch", "get", "uncordon", "exec"} <= typed
    for name in typed:
        said = runner.invoke(app, [name])
        assert (said.exit_code, f"No such command '{name}'. Use: bailiff {FAMILIAR[name]}" in flat(said.output)) == (2, True), (
            name
        )
    for line, ours in {
        "node drain n1": "drain",
        "node ls": "node list",
        "project get": "project list",
        "pool cordon": "drain",
    }.items():
        said = runner.invoke(app, line.split())
        assert f"Use: bailiff {ours}" in flat(said.output), line
    assert "Did you mean 'list'" in flat(runner.invoke(app, ["lst"]).output)


def flat(output: str) -> str:
    """The text of an error without its frame."""
    return " ".join(output.replace("│", " ").split())


def test_every_option_that_a_page_names_exists() -> None:
    parameters = [parameter for command in _all(typer.main.get_command(app)) for parameter in command.params]
    known = {"--help", *NOT_OURS, *(option for each in parameters for option in (*each.opts, *each.secondary_opts))}
    for path in DOCS.rglob("*.md"):
        named = set(re.findall(r"`(--[a-z][a-z-]+)", path.read_text(encoding="utf-8")))
        assert path.name in OTHER_SYSTEMS or named <= known, path


def typed_in_pages() -> Iterator[tuple[str, str, bool]]:
    """Every command in the pages, with the page, and whether it stands in a block; without the generated usage."""
    written = re.compile(r"^(?: {4}|\$ )(?:[A-Z_]+=\S+ )*(bailiff [^\n]*)$|`(bailiff [^`\n]*)`", re.MULTILINE)
    for path in (*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        text = re.sub(r"\\\n +", " ", path.read_text(encoding="utf-8"))
        for match in written.finditer(text if path.name != "commands.md" else ""):
            yield str(path.relative_to(ROOT)), match[1] or match[2], match[1] is not None


def why_refused(line: str) -> str:
    """What the command says of how it is called; empty: nothing. It is not run."""
    words = shlex.split(
        re.sub(r"\$\([^)]*\)|\b(?:SEQ|EPOCH|N)\b", "1", line.replace("…", "").replace("COMMAND", "list")), comments=True
    )[1:]
    end = next((at for at, word in enumerate(words) if re.match(r"[|;&<>]|2>", word)), len(words))
    command, words = typer.main.get_command(app), [word.rstrip(";") for word in words[:end]]
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        if words[0] not in command.commands:
            return f"no such command: {words[0]}"
        command = command.commands[words.pop(0)]
    try:
        if not hasattr(command, "commands"):
            command.make_context(str(command.name), words)
    except ClickException as refused:
        return f"{type(refused).__name__}: {refused.format_message()}"
    except typer.Exit:
        pass  # --help
    return ""


def test_every_command_in_a_page_is_one_that_the_command_accepts() -> None:
    """Its name, options, and values. What stands in a sentence may leave arguments out."""
    lines, refused = [*typed_in_pages()], {}
    for page_name, line, in_block in lines:
        why = why_refused(line)
        if why and (in_block or not why.startswith(("MissingParameter", "BadOptionUsage"))):
            refused[f"{page_name}: {line}"] = why
    assert refused == {}
    assert len(lines) > 500


def _all(group: Any) -> Iterator[Any]:
    for command in group.commands.values():
        yield from _all(command) if hasattr(command, "commands") else [command]


def test_every_field_of_a_job_file_is_in_the_table() -> None:
    listed = {
        name for row in rows(section(page("reference/job-file.md"), "Fields")) for name in re.findall(r"`([a-z_]+)`", row[0])
    }
    assert listed == {*JOB_FIELDS, *GROUP_FIELDS, "groups", "sim_run_for"}


def test_every_event_is_in_the_table() -> None:
    assert {row[0].strip("`"): row[1] for row in rows(page("reference/cli/events.md"))} == dict(WORDS)


def test_every_field_of_an_event_is_documented() -> None:
    named = set(re.findall(r"`([a-z_]+)`", section(page("how-to/explain.md"), "The same in events")))
    assert set(EventRow.__annotations__) <= named


def test_the_notification_example_is_valid() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", page("how-to/notify.md"), re.DOTALL)
    found = NotifyFile.model_validate_json(json.dumps(yaml.safe_load(text)))
    assert [hook.name for hook in found.hooks] == ["chat", "mail"]
    assert {"type", "job", "owner"} <= set(FIELDS)
