"""One vocabulary: the glossary has every public name, and prose uses the field's words instead of figures of speech."""

import re
import subprocess
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from pydantic import BaseModel

from bailiff.cli.root import app
from bailiff_core.model import state
from bailiff_core.model.policy import Policy
from bailiff_core.records.payload import AUDIT_TYPES

ROOT = Path(__file__).parents[2]
GLOSSARY = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("glossary*.md")))
TERMS = set(re.findall(r"`([^`\n]+)`", GLOSSARY))

NOT_OUR_STYLE = (
    "had to leave",
    "has to leave",
    "must leave",
    "told to leave",
    "who asked for",
    "on its way out",
    "set aside",
    "by hand",
    "make room",
    "made room",
    "is owed",
    "put back",
)
"""The field says: preempted, evicted, preemptor, releasing, manually, free resources, pending, requeued."""

SOURCES = ("*.py", "*.ts", "*.tsx", "*.md", "*.sql", "*.toml", "*.yml", "*.yaml", "*.sh", "Makefile", "*.html", "*.css")
LEFT_OUT = ("tests/histories/", "data/", "services/console/bailiff_console/web/", "tests/unit/test_vocabulary.py")


def sources() -> Iterator[tuple[str, str]]:
    """Path and text of every source file that people read."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *SOURCES], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in listed:
        if not name.startswith(LEFT_OUT) and (ROOT / name).is_file():
            yield name, (ROOT / name).read_text(encoding="utf-8")


TEXTS = tuple(sources())


def policy_fields(model: type[BaseModel]) -> Iterator[str]:
    """All field names below the policy."""
    for name, field in model.model_fields.items():
        yield name
        for part in _models(field.annotation):
            yield from policy_fields(part)


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models(part)


def commands(group: object, path: str = "") -> Iterator[str]:
    """Every command of the `bailiff` program, as typed."""
    for name, command in getattr(group, "commands", {}).items():
        yield f"{path}{name}"
        yield from commands(command, f"{path}{name} ")


def test_every_record_type_is_in_the_glossary() -> None:
    assert {kind.NAME for kind in AUDIT_TYPES.values() if kind.NAME not in TERMS} == set()


def test_every_policy_field_is_in_the_glossary() -> None:
    known = {part for term in TERMS for part in re.split(r"[.\[\] ]+", term)}
    assert {name for name in policy_fields(Policy) if name not in known} == set()


@pytest.mark.parametrize("kind", [state.TaskState, state.JobPhase, state.NodeState])
def test_every_state_is_in_the_glossary(kind: object) -> None:
    assert {name for name in typing.get_args(kind) if name not in TERMS} == set()


def test_every_command_is_in_the_glossary() -> None:
    known = {term.removeprefix("bailiff ") for term in TERMS}
    assert {name for name in commands(typer.main.get_command(app)) if name not in known} == set()


def test_prose_has_no_figures_of_speech() -> None:
    phrases = "|".join(phrase.replace(" ", r"\s+") for phrase in NOT_OUR_STYLE)
    found = re.compile(rf"\b({phrases})\b", re.IGNORECASE)
    assert [f"{name}: {match}" for name, text in TEXTS for match in sorted(set(found.findall(text)))] == []
