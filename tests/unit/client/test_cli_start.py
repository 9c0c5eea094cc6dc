"""Modules that short commands may import; the benchmark measures the time."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import typer.main

from bailiff.cli import app
from bailiff.cli.command_table import COMMANDS
from bailiff_log.keys import make_private_key

ENGINE_RULES = tuple(
    f"bailiff_core.{name}"
    for name in ("victims", "placement", "actions", "protections", "explain", "scheduling_snapshot", "decision_cycle", "plan")
)
NEVER = ("numpy", "matplotlib", "docker", "structlog", "prometheus_client", "cryptography", "yaml", *ENGINE_RULES)
PARSERS = ("typer", "rich", "click")
NO_DATA = ("asyncio", "aiokafka", "bailiff_core.model", "bailiff_bus.messages", *NEVER)

UNAVOIDABLE = {"_distutils_hack", "annotated_doc", "shellingham"}  # of an environment for development, or of typer
LIST_NEEDS = {
    "annotated_types",
    "dotenv",
    "orjson",
    "pydantic",
    "pydantic_core",
    "pydantic_settings",
    "typer",
    "typing_extensions",
    "typing_inspection",
}
KAFKA_NEEDS = {"aiokafka", "async_timeout", "cramjam", "packaging"}
LIST_OF_CORE = {
    f"bailiff_core.{name}"
    for name in ("budgets", "calendar", "canonical", "engine", "fold", "humanize", "model", "permissions", "records", "views")
}

RUN = """
import atexit, json, sys
sys.argv = ["bailiff", *json.loads(sys.argv[1])]
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from bailiff.cli import main
main()
"""
LIST = """
import json, sys
import bailiff.cli.job_list, bailiff.client.client, bailiff.client.settings
from bailiff.client.job_filter import JobFilter, page
from bailiff.tables.job_columns import jobs_text
from bailiff_core.model.state import PoolState
from bailiff.client.settings import ClientSettings
from bailiff.client.client import Client, bus_of
from bailiff.client.requester import requester_of
settings = ClientSettings()
requester_of(Client.connect(settings, bus_of(settings)), PoolState())
jobs_text(page(PoolState(), 0, JobFilter()).rows)
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
BUILT = LIST.replace(
    "print(json.dumps(sorted(sys.modules))",
    """
import bailiff_core.model.claims
from bailiff_core.model.document import Document
def kinds(base):
    return [base, *(each for kind in base.__subclasses__() for each in kinds(kind))]
print(json.dumps([each.__name__ for each in kinds(Document) if each.__pydantic_complete__])""",
)


def loaded(code: str, *arguments: str, environment: dict[str, str] | None = None) -> list[str]:
    """Modules loaded at exit of a new process, without the settings of whoever runs the tests."""
    command = [sys.executable, "-c", code, json.dumps(arguments)]
    bare = {name: value for name, value in os.environ.items() if not name.startswith("BAILIFF_")}
    done = subprocess.run(command, env=bare | (environment or {}), capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stderr.splitlines()[-1])
    return found


def among(modules: Sequence[str], forbidden: Sequence[str]) -> list[str]:
    return [name for name in forbidden if name in modules]


@pytest.mark.parametrize(
    ("asked", "unneeded"),
    [
        ("version", PARSERS),
        ("--version", PARSERS),
        pytest.param("--help", (), marks=pytest.mark.slow),
    ],
)
def test_help_and_version_load_neither_data_models_nor_kafka_and_version_no_option_parser(
    asked: str, unneeded: tuple[str, ...]
) -> None:
    assert among(loaded(RUN, asked), ("pydantic", *NO_DATA, *unneeded)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("line", "word"), [("bailiff li", "1"), ("bailiff list --", "2"), ("bailiff audit ", "2")])
def test_completion_loads_no_data_models_and_no_kafka(line: str, word: str) -> None:
    shell = {"_BAILIFF_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": word}
    assert among(loaded(RUN, environment=shell), NO_DATA) == []


@pytest.mark.parametrize(
    ("imported", "unneeded"),
    [
        pytest.param("bailiff", ("pydantic", "typer", *NO_DATA), id="the package loads no client"),
        pytest.param("bailiff.cli", ("bailiff_sim", "matplotlib"), id="the command loads no simulator", marks=pytest.mark.slow),
        pytest.param("bailiff.cli.plan", ("aiokafka",), id="plan loads no Kafka client", marks=pytest.mark.slow),
        pytest.param(
            # `nodes`, `explain`, `describe` and `submit`: the first search loads numpy, and services at their start
            "bailiff.tables.nodes, bailiff.explain.question, bailiff.cli.submission, bailiff_log.signatures, "
            "bailiff_core.explain.budgets",
            ("numpy",),
            id="commands that search no victims load no arrays",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_an_import_does_not_load(imported: str, unneeded: tuple[str, ...]) -> None:
    code = f"import json, sys, {imported}; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    assert among(loaded(code), unneeded) == []


@pytest.mark.slow
@pytest.mark.parametrize(("api", "needs"), [("", LIST_NEEDS | KAFKA_NEEDS), ("http://127.0.0.1:9", LIST_NEEDS)])
def test_list_in_a_pipe_loads_these_packages_and_no_other(api: str, needs: set[str]) -> None:
    modules = loaded(LIST, environment={"BAILIFF_API": api})
    assert among(modules, ("bailiff_bus.messages", *NEVER)) == []
    packages = {name.split(".")[0] for name in modules} & set(packages_distributions())
    assert {name for name in packages - UNAVOIDABLE if not name.startswith("bailiff")} == needs
    assert {".".join(name.split(".")[:2]) for name in modules if name.startswith("bailiff_core.")} == LIST_OF_CORE


@pytest.mark.slow
def test_list_builds_no_validator_of_a_document_that_it_has_not_read() -> None:
    assert loaded(BUILT) == []


@pytest.mark.slow
@pytest.mark.parametrize("api", ["", "http://127.0.0.1:9"])
def test_list_with_a_key_knows_its_holder_without_the_messages(tmp_path: Path, api: str) -> None:
    make_private_key(tmp_path / "ada.key")
    given = {"BAILIFF_KEY": str(tmp_path / "ada.key"), "BAILIFF_API": api}
    assert among(loaded(LIST, environment=given), ("bailiff_bus.messages",)) == []


def test_the_command_table_has_every_command_with_its_panel() -> None:
    root = typer.main.get_command(app)
    for name, entry in COMMANDS.items():
        command = root.commands[name]  # type: ignore[attr-defined]
        assert command.name == name
        assert command.rich_help_panel == entry.panel, name
        assert entry.summary.endswith((".", "…", "train.py")), name
    assert set(root.commands.loaded) == set(COMMANDS)  # type: ignore[attr-defined]
