"""What the documentation says is true of the code: links, names, tables, examples.

Every page is read, the generated ones too. A page that names something that does not exist, or a table that lacks
something that does, fails here.
"""

import json
import re
from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import typer.main
import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from bailiff.cli import app as command
from bailiff.friendly import job_from
from bailiff.problem import ExitCode as CommandExitCode
from bailiff.settings import ClientSettings
from bailiff_admission.settings import AdmissionSettings
from bailiff_auditor.api.settings import ApiSettings
from bailiff_auditor.settings import AuditorSettings
from bailiff_bus.envelope import unwrap
from bailiff_bus.messages import MESSAGE_TYPES, JobSpec, StartTask, TaskAt
from bailiff_bus.messages.commands import Order
from bailiff_bus.metrics import METRICS
from bailiff_bus.port import Message
from bailiff_bus.runtime import ExitCode as ServiceExitCode
from bailiff_bus.settings import PREFIX, ServiceSettings
from bailiff_bus.topics import TOPICS
from bailiff_console.settings import ConsoleSettings
from bailiff_core import protections, turn
from bailiff_core.model.amounts import friendly_amounts
from bailiff_core.model.demand import JobDemand, SubGroup, TaskGroup
from bailiff_core.model.document import MICROSECONDS, parse_duration
from bailiff_core.model.policy import Policy
from bailiff_core.records import AUDIT_TYPES, Break, ChainHead, Record, Wire, continues, encode, facts, record_hash
from bailiff_node_agent.environment import environment
from bailiff_node_agent.settings import NodeAgentSettings
from bailiff_rollup.settings import RollupSettings

ROOT = Path(__file__).parents[2]
SERVICES = ("admission", "victim_selection", "eviction_executor", "node_agent", "auditor", "rollup")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SOURCE = "\n".join(path.read_text(encoding="utf-8") for room in ("libs", "services") for path in (ROOT / room).rglob("*.py"))
ALERTS = set(re.findall(r"alert: (\w+)", (ROOT / "deploy/prometheus/rules.yml").read_text(encoding="utf-8")))
NOT_OURS = ALERTS | {
    "CloudEvents",
    "ExecStart",
    "GitHub",
    "OpenTelemetry",
    "PyTorch",
}  # words in two humps that are nobody's type

page = pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def fences(text: str) -> list[tuple[str, str]]:
    """(language, content) of each fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def without_fences(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def code(text: str) -> list[str]:
    """Everything that is marked as code: fenced, indented, or between backticks."""
    prose = without_fences(text)
    indented = re.findall(r"^ {4}.+$", prose, re.MULTILINE)
    between = [" ".join(found.split()) for found in re.findall(r"`([^`]+)`", prose)]
    return [*(content for _, content in fences(text)), *indented, *between]


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no heading {heading!r}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The cells of every table row, heads and rules left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rules = {at for at, row in enumerate(cells) if all(set(cell) <= {"-", ":"} and cell for cell in row)}
    return [row for at, row in enumerate(cells) if at not in rules and at + 1 not in rules]


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as the usual viewers make them."""
    headings = re.findall(r"^#+ (.+)$", without_fences(path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@cache
def in_sources(pattern: str) -> frozenset[str]:
    return frozenset(re.findall(pattern, SOURCE))


# --- names


@page
def test_relative_links_resolve(path: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", without_fences(path.read_text(encoding="utf-8")))
    assert not [link for link in links if not re.match(r"[a-z]+:", link) and not leads_somewhere(path, link)]


def leads_somewhere(path: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (path.parent / name).resolve() if name else path
    return target.exists() and (not anchor or anchor in anchors(target))


@page
def test_make_targets_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    named = {name for text in code(path.read_text(encoding="utf-8")) for name in re.findall(r"(?:^|\s)make ([a-z][a-z-]*)", text)}
    assert named <= targets


@page
def test_variables_exist(path: Path) -> None:
    deploy = [
        read("docker-compose.yml"),
        read("tests/system.py"),
        *(file.read_text(encoding="utf-8") for file in (ROOT / "deploy").rglob("*.yml")),
    ]
    others = in_sources(r"\bBAILIFF_[A-Z_]+\b").union(*(re.findall(r"\bBAILIFF_[A-Z_]+\b", text) for text in deploy))
    named = set(re.findall(r"\bBAILIFF_[A-Z0-9_]+\b", path.read_text(encoding="utf-8")))
    assert named <= variables().keys() | others


@page
def test_types_topics_and_metrics_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    python = {content for language, content in fences(text) if language == "python"}
    for content in python:
        text = text.replace(content, "")
    classes = in_sources(r"(?m)^class (\w+)")
    messages = {name.split(".")[1] for name in MESSAGE_TYPES}
    literals = in_sources(r'"([A-Z][a-z]+(?:[A-Z][a-z]+)+)"')
    named = set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", text))
    if path.name != "coming-from.md":  # the one page that is about other systems' words
        assert named <= {kind.NAME for kind in AUDIT_TYPES.values()} | messages | classes | literals | NOT_OURS
    topics = set(re.findall(r"`(bailiff\.[a-z][a-z-]+)`", text))
    assert topics <= TOPICS.keys()
    known = {metric.name + ("_total" if metric.kind == "counter" else "") for metric in METRICS}
    packages = {path.name for folder in ("libs", "services") for path in (ROOT / folder).glob("*/bailiff*")}
    assert set(re.findall(r"\bbailiff_[a-z_]+\b", text)) <= known | packages | {"bailiff_letter", "bailiff_log"}


@page
def test_full_type_names_exist(path: Path) -> None:
    named = set(re.findall(r"\bbailiff\.(?:audit\.)?[A-Z]\w+\.v\d+\b", path.read_text(encoding="utf-8")))
    assert named <= AUDIT_TYPES.keys() | MESSAGE_TYPES.keys()


@page
def test_no_place_of_one_machine(path: Path) -> None:
    assert not re.findall(r"/work/|/root/|/home/\w+|pypi\.|maven\.org", path.read_text(encoding="utf-8"))


@page
def test_commands_exist(path: Path) -> None:
    root: Any = typer.main.get_command(command)
    for text in code(path.read_text(encoding="utf-8")):
        for first, second in re.findall(r"(?:^|[\s/])bailiff ([a-z][a-z-]*)(?: ([a-z][a-z-]*)\b)?", text):
            assert first in root.commands, f"there is no `bailiff {first}`"
            inner = getattr(root.commands[first], "commands", None)
            if inner is not None and second:
                assert second in inner, f"there is no `bailiff {first} {second}`"


# --- tables


@pytest.mark.parametrize(
    ("name", "heading", "codes"),
    [("docs/operations.md", "Exit codes of services", ServiceExitCode), ("docs/cli.md", "Exit codes", CommandExitCode)],
)
def test_exit_codes_are_those_of_the_code(name: str, heading: str, codes: type[IntEnum]) -> None:
    told = {(int(row[0]), row[1]) for row in rows(section(read(name), heading))}
    assert told == {(int(code), code.name) for code in codes}


def test_the_commands_exit_codes_say_what_the_code_says() -> None:
    told = {int(row[0]): row[2].replace("`", "").lower() for row in rows(section(read("docs/cli.md"), "Exit codes"))}
    assert told == {int(code): str(code.__doc__).rstrip(".").lower() for code in CommandExitCode}


def test_alarm_codes_are_those_of_the_code() -> None:
    told = {row[0].strip("`") for row in rows(section(read("docs/operations.md"), "Alarms"))}
    assert told == in_sources(r'alarm\(\s*(?:"\w+"|[a-z.]+), "([a-z-]+)"')


def test_rejection_codes_are_those_of_the_code() -> None:
    table = rows(section(read("docs/kafka-interface.md"), "What comes back"))
    told = {code for row in table for code in re.findall(r"`([a-z-]+)`", row[0])}
    known = in_sources(r'(?:Rejected|Unacceptable)\(\s*"([a-z-]+)"') | in_sources(r'_refused\(envelope, "([a-z-]+)"')
    assert told == known | {"no-id", "no-source", "no-type", "no-domain"}


def test_the_architecture_names_every_room_of_the_core() -> None:
    core = ROOT / "libs/core/bailiff_core"
    rooms = {f"{path.parent.name}/" for path in core.glob("*/__init__.py")}
    told = {name for row in rows(read("docs/architecture.md")) for name in re.findall(r"^`(\w+/)`$", row[0])}
    assert told - {"messages/"} == rooms


def test_the_architecture_names_every_module() -> None:
    told = {
        name.removesuffix(".py") for name in re.findall(r"`(\w+)(?:/|\.py)?`", section(read("docs/architecture.md"), "Rooms"))
    }
    places = ["libs/bus/bailiff_bus", *(f"services/{name}/bailiff_{name}" for name in SERVICES)]
    modules = {path.stem if path.suffix else path.name for place in places for path in (ROOT / place).iterdir()}
    assert not {name for name in modules if not name.startswith("_")} - told - {"py", "service", "settings", "environment"}


def test_the_architecture_lists_the_rules_in_their_order() -> None:
    told = re.findall(r"^\d+\. `(\w+)`", section(read("docs/architecture.md"), "How decisions are made"), re.MULTILINE)
    assert told == [rule.__name__ for rule, _ in turn.RULES]


def test_the_architecture_names_every_protection() -> None:
    text = section(read("docs/architecture.md"), "How decisions are made")
    assert all(f"`{rule.name}`" in text for rule in protections.RULES)


def test_the_architecture_lists_the_topics_as_they_are() -> None:
    table = {row[0].strip("`"): row for row in rows(section(read("docs/architecture.md"), "Services and topics"))}
    for name, topic in TOPICS.items():
        _, key, _, kept = table[name]
        assert key.startswith(topic.key), name
        if topic.retention is not None:
            assert kept == f"{topic.retention.days} d", name
        else:
            assert kept.startswith("compacted" if topic.settings else "for ever"), name


def variables() -> dict[str, Any]:
    """Every setting by its variable, with its default."""
    found: dict[str, Any] = {"BAILIFF_SETTINGS": None}
    for kind in (
        ServiceSettings,
        AdmissionSettings,
        NodeAgentSettings,
        AuditorSettings,
        ApiSettings,
        RollupSettings,
        ConsoleSettings,
        ClientSettings,
    ):
        for path, default in leaves(kind):
            found[PREFIX + "__".join(path).upper()] = default
    return found


def leaves(kind: type[BaseModel]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, field in kind.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from (((name, *path), default) for path, default in leaves(field.annotation))
        else:
            yield (name,), "made" if field.default_factory is not None else field.default


def test_the_tables_of_settings_are_whole_and_true() -> None:
    told = {row[0].strip("`"): row[1] for row in rows(section(read("docs/operations.md"), "Settings"))}
    known = variables()
    assert told.keys() == known.keys()
    for name, default in known.items():
        if default is PydanticUndefined:
            assert told[name] == "", name
        elif default is None or default == "":
            assert told[name] == "none", name
        elif default == "made":
            assert told[name] != "none", name
        else:
            as_json = isinstance(default, bool | tuple)
            wanted = json.dumps(default) if as_json else str(default)
            assert told[name] == f"`{wanted}`", name


def policy_fields(kind: type[BaseModel], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, field in kind.model_fields.items():
        inner, each = document_in(field.annotation)
        if inner is not None:
            yield from policy_fields(inner, f"{before}{name}{'[]' if each else ''}.")
        else:
            yield f"{before}{name}", field.get_default(call_default_factory=True)


def document_in(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """The document that a field holds, if it holds any, and whether it holds a list of them."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind, get_origin(annotation) is tuple
    return None, False


def told_default(text: str, like: Any) -> Any:
    """The default that a cell names, as a value of the same kind."""
    if isinstance(like, bool) or like is None or like is PydanticUndefined:
        return {"`true`": True, "`false`": False, "": like}[text]
    if isinstance(like, tuple | dict):
        return type(like)() if text == "none" else tuple(re.findall(r"`([^`]+)`", text))
    bare = text.strip("`")
    if isinstance(like, int):
        return int(bare) if bare.isdecimal() else parse_duration(bare)
    return bare


def test_the_tables_of_the_policy_are_whole_and_true() -> None:
    text = read("docs/policy.md")
    told = {row[0].strip("`"): row[1] for row in rows(text)}
    known = dict(policy_fields(Policy))
    assert told.keys() == known.keys()
    for name, default in known.items():
        assert told_default(told[name], default) == default, name
        if isinstance(default, int) and default >= MICROSECONDS["s"]:
            assert told[name].startswith("`"), f"{name} is a duration and should be written as one"


# --- examples


def examples(name: str) -> list[tuple[str, str]]:
    """(what it is an example of, text), as marked by a comment before the fence."""
    return re.findall(r"^<!-- example: (\S+) -->\n```\w+\n(.*?)^```$", read(name), re.MULTILINE | re.DOTALL)


def message(headers: dict[str, str], value: bytes) -> Message:
    wired = tuple((name, content.encode()) for name, content in headers.items())
    return Message("bailiff.requests", 0, 0, 0, None, wired, value)


def test_examples_of_requests_are_accepted() -> None:
    found = examples("docs/kafka-interface.md")
    types = {kind for kind, _ in found if kind != "event"}
    assert types == set(TOPICS["bailiff.requests"].schemas), "each kind of request has its example"
    for kind, text in found:
        if kind == "event":
            envelope = unwrap(message({"content-type": "application/cloudevents+json"}, text.encode()))
        else:
            attributes = {"specversion": "1.0", "id": "1", "source": "/docs", "domain": "pool-a", "type": kind}
            envelope = unwrap(message({f"ce_{name}": content for name, content in attributes.items()}, text.encode()))
        assert known_fields(json.loads(text).get("data") or json.loads(text), type(envelope.body)), kind


def known_fields(data: dict[str, Any], kind: type[BaseModel]) -> bool:
    """No field is there that the type lacks: it would be ignored, and the example would say something untrue."""
    kept = kind.model_validate_json(json.dumps(data)).model_dump(mode="json")
    return _within(data, kept)


def _within(data: Any, kept: Any) -> bool:
    if isinstance(data, dict):
        return data.keys() <= kept.keys() and all(_within(value, kept[name]) for name, value in data.items())
    if isinstance(data, list):
        return len(data) == len(kept) and all(map(_within, data, kept))
    return True


def demand_fields(kind: type[BaseModel], before: str = "") -> Iterator[str]:
    for name in kind.model_fields:
        listed = {"tasks": TaskGroup, "sub_groups": SubGroup}.get(name)
        if listed is not None:
            yield from demand_fields(listed, f"{name}[].")
        else:
            yield f"{before}{name}"


def test_the_table_of_a_jobs_fields_is_whole() -> None:
    known, told = set(demand_fields(JobDemand)), set()
    about, _, _ = section(read("docs/kafka-interface.md"), "JobSubmitted: run this job").partition("Fields that no release knows")
    for row in rows(about):
        first, *others = re.findall(r"`([^`]+)`", row[0])
        beside = first.rpartition(".")[0]  # `tasks[].gpu_milli`, `cpu_milli`: both are fields of a task
        told |= {first, *(name if name in known else f"{beside}.{name}" for name in others)}
    assert told - {"demand"} == known


def test_the_environment_of_a_task_is_told_whole() -> None:
    table = read("docs/kafka-interface.md").split("| variable | what it says |")[1].split("\n\n")[0]
    told = set(re.findall(r"`([A-Z_]+)`", table))
    at = TaskAt(task=0, devices=("GPU-1",), gpu_share_milli=500)
    command = StartTask(
        node="n", incarnation="i", sender="admission", sender_epoch=1, order=Order(epoch=1, seq=1), job="j", attempt=1,
        tasks=(at,), spec=JobSpec(command="true"), grace=1_000_000, master_node="n",
    )  # fmt: skip
    rest = {"checkpoints": Path("/c/job"), "secrets": None, "master_address": None, "scratch": Path("/s")}
    assert told == set(environment(command, at, device_bytes=1, **rest))


def test_the_example_policies_are_policies() -> None:
    ((kind, text),) = examples("docs/policy.md")
    assert kind == "policy"
    for source in (text, read("deploy/policy.yaml")):
        assert known_fields(plainly(yaml.safe_load(source)), Policy)


def plainly(policy: dict[str, Any]) -> dict[str, Any]:
    """What people may write shorter, written out."""
    for project in policy.get("projects", []):
        for name in ("quota", "limit"):
            project[name] = friendly_amounts(project.get(name, {}))
        if isinstance(project.get("over_quota_weight"), int):
            project["over_quota_weight"] = dict.fromkeys(("gpu", "cpu", "memory"), project["over_quota_weight"])
    return policy


def test_the_job_file_is_a_job() -> None:
    ((_, text),) = fences(section(read("docs/cli.md"), "A job file"))
    document = {name.replace("-", "_"): value for name, value in yaml.safe_load(text).items()}
    job = job_from(document)
    assert job.demand.tasks[0].gpu_milli == 4000
    assert job.demand.max_failures == 3


def test_the_readme_shows_the_snippets_of_the_interface() -> None:
    whole = {content for _, content in fences(read("docs/kafka-interface.md"))}
    shown = [content for language, content in fences(read("README.md")) if language in ("bash", "python")]
    assert len(shown) == 4
    assert set(shown) <= whole


def test_the_chain_snippet_follows_the_chain_rule() -> None:
    pattern = r"<!-- snippet: follow -->\n```python\n(.*?)^```$"
    marked = re.search(pattern, read("docs/kafka-interface.md"), re.MULTILINE | re.DOTALL)
    assert marked
    made: dict[str, Any] = {}
    exec(compile(marked[1], "kafka-interface.md", "exec"), made)
    chain, head, seen = made["Chain"]("pool-a"), ChainHead("pool-a"), []
    for wire in some_log():
        after = continues(head, wire)
        taken = chain.take(wire.headers, wire.value)
        assert (taken is None) == isinstance(after, Break), wire
        head = head if isinstance(after, Break) else after
        seen.append(taken is not None)
        assert (chain.hash, chain.seq, chain.epoch) == (head.hash, head.next_seq, head.epoch)
    assert seen == [True, True, True, False, True, False, False, True, False, False, False]


def some_log() -> Iterator[Wire]:
    """A short log with what a reader has to skip in it."""

    def wire(seq: int, epoch: int, prev: str, fact: Any, *, domain: str = "pool-a", time: int = 1_000_000) -> Wire:
        record = Record(
            domain=domain, seq=seq, epoch=epoch, turn=seq, turn_end=True, time=time, prev=prev, writer="w",
            engine="0/0/1", policy=1, type=fact.type_name(), data=fact,
        )  # fmt: skip
        return encode(record)

    def writer(name: str) -> facts.WriterStarted:
        return facts.WriterStarted(writer=name, release="0", digest="0", logic=1, state_schema=1)

    first = wire(0, 0, "0" * 64, facts.DomainCreated(domain="pool-a", partition=0, nonce="n"))
    second = wire(1, 1, record_hash(first), writer("a"))
    third = wire(2, 1, record_hash(second), facts.ClockAdvanced(), time=2_000_000)
    late = wire(3, 1, record_hash(third), facts.ClockAdvanced(), time=2_000_000)
    fourth = wire(3, 2, record_hash(third), writer("b"), time=2_000_000)
    fifth = wire(4, 2, record_hash(fourth), facts.ClockAdvanced(), time=3_000_000)
    yield from (first, second, third)
    yield wire(3, 1, record_hash(second), facts.ClockAdvanced())  # another one before it
    yield fourth
    yield late  # of the writer that was replaced
    yield wire(4, 1, record_hash(fourth), facts.ClockAdvanced(), time=2_000_000)  # of an epoch that is over
    yield fifth
    yield wire(5, 2, record_hash(fifth), facts.ClockAdvanced(), time=2_999_999)  # back in time
    yield wire(5, 2, record_hash(fifth), writer("c"), time=3_000_000)  # an epoch that is taken
    yield wire(5, 2, record_hash(fifth), facts.ClockAdvanced(), domain="pool-b", time=3_000_000)


@pytest.mark.parametrize("page", ["README.md", "docs/kafka-interface.md"])
def test_the_snippets_shown_are_those_that_are_run(page: str) -> None:
    shown = read(page)
    for snippet in sorted((ROOT / "docs/snippets").iterdir()):
        assert snippet.read_text().strip() in shown, f"{page} shows another text than {snippet.name}"
