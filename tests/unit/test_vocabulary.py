"""One vocabulary: the glossary holds every public name, and retired names appear nowhere in code, docs, help or web sources."""

import ast
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

RETIRED_TYPES = """
    DomainCreated JobReclassified JobEvictionAsked JobMigrationAsked JobUnpaused ReportsStale LogSettled JobWaits JobStartOrdered
    JobAged DrainDue EvictionBegun PlanGivenUp EvictionWithdrawn TaskSpared SpareRefused EvictionStaged BegunEviction GivenUpPlan
    SaveTogether NodeAnnounced TaskIsRunning TaskNotStarted TaskHasProgressed TaskHasResumed TaskEnded TaskIsReleased
    TaskWasSpared
    TaskNotSpared DeviceIsDirty DeviceIsClean DeviceIsBroken DeviceWorks TaskOverShare TaskIsIdle SetJob UnpauseJob SealsSetAside
    ce_domain ce_turn ce_turnend most_moved longest_backoff start_within stale_share_percent evictions_again
    displaced-asker own-room already-leaving no-borrowing
"""
"""Names of records, messages, headers, policy fields and rules that were replaced."""

RETIRED_WORDS = """
    asker askers owed owes debt debts heard said told stirs stirred crowd crowds descent holdings ambient complaint complaints
    messageline friendly foreseen stretches refolded apilink apibus standout suspects judging underway branching byheader
    signedout
    going_on sharers custody thinker tracesending until_first verb verbs turns rooms roomy roomiest spare spared sparing by_hand
    scene scenes tape
"""
"""Identifiers, and words inside them, that were replaced: `docs/glossary.md` has the terms."""

RETIRED_PHRASES = (
    "had to leave", "has to leave", "have to leave", "must leave", "told to leave", "who leaves", "who asked for",
    "on its way out",
    "set aside", "sets aside", "by hand", "room for", "made room", "make room", "makes room", "goes on", "go on with",
    "stands on",
    "is owed", "the asker", "it was told", "is told", "are told", "was told", "put back", "takes place in the queue",
)  # fmt: skip
"""Phrases of old prose; the field says: preempted, evicted, resources, operator, continues, runs on, notified."""

SOURCES = ("*.py", "*.ts", "*.tsx", "*.md", "*.sql", "*.toml", "*.yml", "*.yaml", "*.sh", "Makefile", "*.html", "*.css")
LEFT_OUT = ("tests/histories/", "data/", "services/console/bailiff_console/web/", "tests/unit/test_vocabulary.py", "CHANGELOG.md")


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


def test_no_retired_type_field_or_rule_is_named_anywhere() -> None:
    found = re.compile(rf"(?<![\w-])({'|'.join(RETIRED_TYPES.split())})(?![\w-])")
    assert [f"{name}: {match}" for name, text in TEXTS for match in set(found.findall(text))] == []


def test_no_retired_phrase_is_in_code_docs_help_or_pages() -> None:
    phrases = "|".join(phrase.replace(" ", r"\s+") for phrase in RETIRED_PHRASES)
    found = re.compile(rf"\b({phrases})\b", re.IGNORECASE)
    assert [f"{name}: {match}" for name, text in TEXTS for match in sorted(set(found.findall(text)))] == []


def test_no_identifier_has_a_retired_word() -> None:
    retired = set(RETIRED_WORDS.split())
    wrong = []
    for name, text in TEXTS:
        if name.endswith(".py"):
            for found in sorted(set(_identifiers(ast.parse(text))) | {Path(name).stem}):
                parts = {found.lower(), *re.split(r"_+|(?<=[a-z0-9])(?=[A-Z])", found)}
                if {part.lower() for part in parts} & retired:
                    wrong.append(f"{name}: {found}")
    assert wrong == []


def _identifiers(tree: ast.AST) -> Iterator[str]:
    """Names that the file defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
