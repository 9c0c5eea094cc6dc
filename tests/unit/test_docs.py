"""What the documentation says is true of the code, and what the code has is in the documentation.

Every page is read, the generated ones too. A page that names something that does not exist fails here, and so does something that
exists (a setting, a record, a code, a metric, a command, a field of the policy, a make target) and is in no page.
"""

import ast
import json
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import typer.exceptions
import typer.main
import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from tests.kits.metric_names import SERIES
from tests.kits.pages import rows, section

import bailiff
from bailiff.cli import app as command
from bailiff.client.errors import ExitCode as CommandExitCode
from bailiff.client.job_parser import job_from
from bailiff.client.settings import ClientSettings
from bailiff.witness.settings import WitnessSettings
from bailiff_admission.settings import AdmissionSettings
from bailiff_auditor.api.settings import ApiSettings
from bailiff_auditor.settings import AuditorSettings
from bailiff_bus.envelope import unwrap
from bailiff_bus.messages.commands import RecordRef, StartTask, TaskAssignment
from bailiff_bus.port import Message
from bailiff_bus.topics import TOPICS
from bailiff_console.settings import ConsoleSettings
from bailiff_core import decision_cycle, protections
from bailiff_core.model.demand import JobDemand, SubGroup, TaskGroup
from bailiff_core.model.document import MICROSECONDS, parse_duration
from bailiff_core.model.job_spec import SET_BY_BAILIFF, JobSpec
from bailiff_core.model.message import MESSAGE_TYPES
from bailiff_core.model.policy import Policy
from bailiff_core.model.resource_vector import parse_resources
from bailiff_core.records import AUDIT_TYPES, Break, ChainHead, Record, Wire, continues, encode, facts, record_hash
from bailiff_core.records.facts import ApplyPolicy
from bailiff_core.records.request import RECORDS
from bailiff_kubernetes_bridge.settings import BridgeSettings
from bailiff_node_agent.environment import environment
from bailiff_node_agent.settings import NodeAgentSettings
from bailiff_rollup.settings import RollupSettings
from bailiff_service.main import ExitCode as ServiceExitCode
from bailiff_service.metrics import METRICS
from bailiff_service.settings import PREFIX, ServiceSettings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SERVICES = ("admission", "victim_selection", "eviction_executor", "node_agent", "auditor", "rollup", "kubernetes_bridge")
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
GENERATED = ("docs/events/", "docs/reference/cli/", "docs/reference/figures.md")
COMMAND = r"(?<!from)(?<!-n)(?<!kubectl)(?:^|[\s/])bailiff "
MOST_WORDS, MOST_README_LINES = 2500, 150
CODE = [path for folder in ("libs", "services") for path in (ROOT / folder).rglob("*.py")]
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in CODE)
ALERTS = set(re.findall(r"alert: (\w+)", (ROOT / "deploy/prometheus/rules.yml").read_text(encoding="utf-8")))
NOT_OURS = ALERTS | {
    "EvictionRequest",
    "EvictionRequests",
    "EvictionRequestAPI",
    "RuntimeDefault",
    "CloudEvents",
    "DeviceClass",
    "PodDisruptionBudget",
    "OwnerReferencesPermissionEnforcement",
    "ParentName",
    "ServerApp",
    "ConfigMaps",
    "InOrder",
    "KubeRay",
    "RayJobs",
    "SidecarMode",
    "TrainingRuntime",
    "CronJob",
    "DaemonSet",
    "ReplicaSet",
    "ReplicationController",
    "ClusterRole",
    "DescribeConfigs",
    "EnvironmentFile",
    "ExecStart",
    "GitHub",
    "NetworkPolicies",
    "OpenTelemetry",
    "PyTorch",
    "StandardAuthorizer",
    "TimeoutError",
    "ValidatingAdmissionPolicy",
}  # words in two humps that are no type of ours
SETTINGS, POLICY = "docs/reference/settings.md", "docs/reference/policy.md"
KAFKA, REQUESTS, REJECTIONS = "docs/reference/kafka.md", "docs/reference/requests.md", "docs/reference/rejections.md"


def on_pages(faults: Callable[[Path, str], Iterable[object]]) -> dict[str, list[object]]:
    """What a rule, which gets a page and its text, finds on each page."""
    found = {str(path.relative_to(ROOT)): [*faults(path, path.read_text(encoding="utf-8"))] for path in PAGES}
    return {name: each for name, each in found.items() if each}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def fences(text: str) -> list[tuple[str, str]]:
    """(language, content) of each fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def without_fences(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def code(text: str) -> list[str]:
    """Everything that is marked as code: fenced, indented, or between backticks. Of kubectl and Helm only what they run."""
    text = re.sub(r"^ {4}(?:kubectl|helm) (?:.*\\\n)*.*?(?=$| -- (?=bailiff)|\| bailiff)", "", text, flags=re.MULTILINE)
    prose = without_fences(text)
    between = [" ".join(found.split()) for found in re.findall(r"`([^`]+)`", prose)]
    return [*(content for _, content in fences(text)), *indented(prose), *between]


def indented(prose: str) -> list[str]:
    return re.findall(r"^ {4}.+$", without_fences(prose), re.MULTILINE)


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as the usual viewers make them."""
    headings = re.findall(r"^#+ (.+)$", without_fences(path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def without_elsewhere(path: Path, text: str) -> str:
    """A page without other systems' words: the glossary has them in one section, and in the last column of its tables."""
    text = re.sub(r"^## Words side by side\n.*?(?=^## )", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^(\|.*\|)[^|]*\|$", r"\1", text, flags=re.MULTILINE) if path.name.startswith("glossary") else text


@cache
def in_sources(pattern: str) -> frozenset[str]:
    return frozenset(re.findall(pattern, SOURCE))


@cache
def root_command() -> Any:
    """The command `bailiff`. It loads each of its commands once."""
    return typer.main.get_command(command)


# --- names


def test_relative_links_resolve() -> None:
    def faults(path: Path, text: str) -> list[str]:
        links = re.findall(r"\]\(([^)\s]+)\)", without_fences(text))
        return [link for link in links if not re.match(r"[a-z]+:", link) and not leads_somewhere(path, link)]

    assert on_pages(faults) == {}


def leads_somewhere(path: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (path.parent / name).resolve() if name else path
    return target.exists() and (not anchor or anchor in anchors(target))


def test_no_line_of_text_stands_directly_below_a_table() -> None:
    """It would be a row of the table, with one cell."""

    def faults(_: Path, text: str) -> list[str]:
        lines = without_fences(text).splitlines()
        return [line for above, line in pairwise(lines) if above.startswith("|") and line.strip() and not line.startswith("|")]

    assert on_pages(faults) == {}


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    named = r"(?:^|\s)make ([a-z][a-z-]*)"
    assert on_pages(lambda _, text: {name for part in code(text) for name in re.findall(named, part)} - targets) == {}


def test_variables_exist() -> None:
    deploy = [
        read("docker-compose.yml"),
        read("tests/kits/system.py"),
        read("tests/nvml/library.py"),
        *(file.read_text(encoding="utf-8") for file in (ROOT / "deploy").rglob("*.yml")),
    ]
    known = in_sources(r"\bBAILIFF_[A-Z_]+\b").union(variables(), *(re.findall(r"\bBAILIFF_[A-Z_]+\b", text) for text in deploy))
    assert on_pages(lambda _, text: set(re.findall(r"\bBAILIFF_[A-Z0-9_]+\b", text)) - known) == {}


def test_types_topics_and_metrics_exist() -> None:
    messages = {name.split(".")[1] for name in MESSAGE_TYPES}
    literals = in_sources(r'"([A-Z][a-z]+(?:[A-Z][a-z]+)+)"')
    types = {kind.NAME for kind in AUDIT_TYPES.values()} | messages | in_sources(r"(?m)^class (\w+)") | literals | NOT_OURS
    topics = TOPICS.keys() | {f"bailiff.{name}" for name in bailiff.__all__}
    packages = {path.name for folder in ("libs", "services") for path in (ROOT / folder).glob("*/bailiff*")}
    histograms = {metric.name for metric in METRICS if metric.kind == "histogram"}
    metrics = histograms | packages | {*SERIES, "bailiff_dead_letter", "bailiff_log"}

    def faults(path: Path, text: str) -> Iterator[str]:
        text = without_elsewhere(path, text)
        for content in {content for language, content in fences(text) if language == "python"}:
            text = text.replace(content, "")
        if path.name not in {"comparison.md", "migrate-kubernetes.md"}:  # the pages that are about other systems' words
            yield from set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", text)) - types
        yield from set(re.findall(r"`(bailiff\.[a-z][a-z-]+)`", text)) - topics
        yield from set(re.findall(r"\bbailiff_[a-z_]+\b", text)) - metrics

    assert on_pages(faults) == {}


@cache
def distributions() -> set[str]:
    """The names of ours, in a folder of wheels."""
    files = (file for folder in ("libs", "services") for file in (ROOT / folder).glob("**/pyproject.toml"))
    return {
        tomllib.loads(file.read_text(encoding="utf-8"))["project"]["name"] for file in files if "node_modules" not in file.parts
    }


def test_what_pip_installs_is_a_folder_here_or_a_wheel_of_ours() -> None:
    """On the package index `bailiff` and `libs` are other people's programs, and our other names may become that."""

    def faults(_: Path, text: str) -> Iterator[str]:
        for line in re.findall(r"pip3? install ([^`\n]*?)(?:`|\n|   )", text):
            names = [each.partition("[")[0] for each in shlex.split(line) if not each.startswith("-") and each != "wheels"]
            for name in names:
                is_wheel = "--no-index" in line and name in distributions()
                if not ((ROOT / name / "pyproject.toml").exists() if name.startswith("./") else is_wheel):
                    yield name

    assert on_pages(faults) == {}
    assert re.findall(r"pip3? install \W?bailiff[^ ]*", SOURCE) == []


def test_full_type_names_exist() -> None:
    named, known = r"\bbailiff\.(?:audit\.)?[A-Z]\w+\.v\d+\b", AUDIT_TYPES.keys() | MESSAGE_TYPES.keys()
    assert on_pages(lambda _, text: set(re.findall(named, text)) - known) == {}


def test_no_path_of_one_machine() -> None:
    assert on_pages(lambda _, text: re.findall(r"/work/|/root/|/home/\w+|pypi\.|maven\.org", text)) == {}


def test_commands_exist() -> None:
    commands, context = root_command().commands, root_command().make_context("bailiff", ["--help"], resilient_parsing=True)
    own = [option for each in root_command().get_params(context) for option in each.opts]

    def faults(_: Path, text: str) -> Iterator[str]:
        for first, second in re.findall(COMMAND + r"([a-z][a-z-]*)(?: ([a-z][a-z-]*)\b)?", "\n".join(code(text))):
            inner = getattr(commands.get(first), "commands", None)
            if first not in commands or (inner is not None and second and second not in inner):
                yield f"bailiff {first} {second}"
        for option in re.findall(r"(?<!user )(?:^|\s)bailiff (--?[a-z][a-z-]*)", "\n".join(code(text))):
            if option not in own:
                yield f"bailiff {option} …: the options of a command stand behind its name"

    assert on_pages(faults) == {}


def test_lines_of_commands_can_be_typed_as_they_stand() -> None:
    """Options and arguments included; what stands for a number is one, and ``$(…)`` is a word."""

    def faults(_: Path, text: str) -> Iterator[str]:
        for line in typed_lines(text):
            words = re.split(r" (?:\||>>?|&&|;|&|2>&1)(?: |$)", re.sub(r"\$\([^)]*\)", "word", line))[0].removesuffix(";")
            _, *arguments = shlex.split(re.sub(r"\b(?:N|SEQ|EPOCH)\b", "1", words), comments=True)
            name, leaf = "bailiff", root_command()
            while arguments and arguments[0] in getattr(leaf, "commands", {}):
                name, leaf = f"{name} {arguments[0]}", leaf.commands[arguments.pop(0)]
            if not hasattr(leaf, "commands"):
                try:
                    leaf.make_context(name, arguments)
                except typer.exceptions.TyperException as problem:
                    yield f"{line}: {problem}"

    assert on_pages(faults) == {}


def test_no_two_command_lines_that_people_may_type_one_after_the_other_submit_the_same_name() -> None:
    """In README, tutorial and guides. An installation is a system of its own."""
    followed = [path for path in PAGES if path.parent.name in ("tutorial", "how-to") and not path.name.startswith("install-")]
    lines = [line for path in (ROOT / "README.md", *followed) for line in typed_lines(path.read_text(encoding="utf-8"))]
    names = [name for line in lines for name in re.findall(r"^bailiff submit .*?--name (\S+)", line)]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def typed_lines(text: str) -> list[str]:
    """Command lines of blocks, without those that are shown in part."""
    blocks = [*(content for language, content in fences(text) if language in ("", "bash", "sh")), *indented(text)]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    found = [line.strip().removeprefix("$ ") for line in lines]
    return [line for line in found if line.startswith("bailiff ") and not re.search(r"…|\.\.\.|\[", line)]


# --- tables


@pytest.mark.parametrize(
    ("name", "heading", "codes"),
    [
        ("docs/reference/exit-codes.md", "Exit codes of services", ServiceExitCode),
        ("docs/reference/cli/index.md", "Exit codes", CommandExitCode),
    ],
)
def test_exit_codes_are_those_of_the_code(name: str, heading: str, codes: type[IntEnum]) -> None:
    listed = {(int(row[0]), row[1]) for row in rows(section(read(name), heading))}
    assert listed == {(int(code), code.name) for code in codes}


def test_the_commands_exit_codes_say_what_the_code_says() -> None:
    listed = {
        int(row[0]): row[2].replace("`", "").lower() for row in rows(section(read("docs/reference/cli/index.md"), "Exit codes"))
    }
    assert listed == {int(code): str(code.__doc__).lower() for code in CommandExitCode}


def test_alarm_codes_are_those_of_the_code() -> None:
    listed = {row[0].strip("`") for row in rows(section(read("docs/reference/alarms.md"), "Alarms"))}
    raised = in_sources(r'alarm\(\s*(?:"\w+"|[a-z.]+), "([a-z-]+)"')
    assert listed == raised | in_sources(r'return "(?:critical|warning|info)", "([a-z-]+)"')


def test_rejection_codes_are_those_of_the_code() -> None:
    table = rows(section(read(REJECTIONS), "Rejected"))
    listed = {code for row in table for code in re.findall(r"`([a-z-]+)`", row[0])}
    known = in_sources(r'(?:Rejected(?:\.later)?|InvalidMessage)\(\s*"([a-z-]+)"') | in_sources(r'envelope\.refused\("([a-z-]+)"')
    assert listed == known | {"no-id", "no-source", "no-type", "no-pool"}


def test_the_concepts_name_every_package_of_the_core() -> None:
    core = ROOT / "libs/core/bailiff_core"
    packages = {f"{path.parent.name}/" for path in core.glob("*/__init__.py")}
    core_table = rows(section(read("docs/concepts/packages.md"), "Core"))
    assert {name for row in core_table for name in re.findall(r"^`(\w+/)`$", row[0])} == packages


def test_the_concepts_name_every_module() -> None:
    named = {name.removesuffix(".py") for name in re.findall(r"`(\w+)(?:/|\.py)?`", read("docs/concepts/packages.md"))}
    libraries = [path for name in ("bus", "log", "service") for path in ROOT.glob(f"libs/{name}/bailiff_*") if path.is_dir()]
    places = [*libraries, *(ROOT / f"services/{name}/bailiff_{name}" for name in SERVICES)]
    modules = {path.stem if path.suffix else path.name for place in places for path in place.iterdir()}
    assert not {name for name in modules if not name.startswith("_")} - named - {"py", "service", "settings", "environment"}


def test_the_concepts_list_the_rules_in_their_order() -> None:
    listed = re.findall(r"^\d+\. `(\w+)`", section(read("docs/concepts/decision-cycles.md"), "Rules"), re.MULTILINE)
    assert listed == [rule.__name__ for rule, _ in decision_cycle.RULES]


@pytest.mark.parametrize("name", ["docs/reference/protections.md", "docs/concepts/semantics/protections.md"])
def test_every_protection_is_named(name: str) -> None:
    text = read(name)
    assert not [rule.name for rule in protections.RULES if f"`{rule.name}`" not in text]


def test_the_architecture_lists_the_topics_as_they_are() -> None:
    table = {row[0].strip("`"): row for row in rows(section(read("docs/concepts/architecture.md"), "Services and topics"))}
    for name, topic in TOPICS.items():
        _, key, _, kept = table[name]
        assert key.startswith(topic.key), name
        if topic.retention is not None:
            assert kept == f"{topic.retention.days} d", name
        else:
            assert kept.startswith("compacted" if "cleanup.policy" in topic.settings else "for ever"), name


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
        BridgeSettings,
        ClientSettings,
        WitnessSettings,
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
    listed = {row[0].strip("`"): row[1] for row in rows(read(SETTINGS))}
    known = variables()
    assert listed.keys() == known.keys()
    for name, default in known.items():
        if default is PydanticUndefined:
            assert listed[name] == "", name
        elif default is None or default == "":
            assert listed[name] == "none", name
        elif default == "made":
            assert listed[name] != "none", name
        else:
            as_json = isinstance(default, bool | tuple)
            wanted = json.dumps(default) if as_json else str(default)
            assert listed[name] == f"`{wanted}`", name


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


def default_in(text: str, like: Any) -> Any:
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
    text = read(POLICY) + "".join(read(f"docs/reference/{page}.md") for page in ("protections", "claims", "job-rules", "limits"))
    listed = {row[0].strip("`"): row[1] for row in rows(text) if len(row) == 3}
    known = dict(policy_fields(Policy))
    assert listed.keys() == known.keys()
    for name, default in known.items():
        assert default_in(listed[name], default) == default, name
        if isinstance(default, int) and default >= MICROSECONDS["s"]:
            assert listed[name].startswith("`"), f"{name} is a duration and should be written as one"


# --- examples


def examples(name: str) -> list[tuple[str, str]]:
    """(what it is an example of, text), as marked by a comment before the fence."""
    return re.findall(r"^<!-- example: (\S+) -->\n```\w+\n(.*?)^```$", read(name), re.MULTILINE | re.DOTALL)


def message(headers: dict[str, str], value: bytes) -> Message:
    wired = tuple((name, content.encode()) for name, content in headers.items())
    return Message("bailiff.requests", 0, 0, 0, None, wired, value)


def test_examples_of_requests_are_accepted() -> None:
    found = [*examples(KAFKA), *examples(REQUESTS)]
    types = {kind for kind, _ in found if kind != "event"}
    assert types == set(TOPICS["bailiff.requests"].schemas), "each kind of request has its example"
    for kind, text in found:
        if kind == "event":
            envelope = unwrap(message({"content-type": "application/cloudevents+json"}, text.encode()))
        else:
            attributes = {"specversion": "1.0", "id": "1", "source": "/docs", "pool": "pool-a", "type": kind}
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
    known, listed = set(demand_fields(JobDemand)), set()
    about, _, _ = section(read(REQUESTS), "SubmitJob").partition("In `spec`,")
    for row in rows(about):
        first, *others = re.findall(r"`([^`]+)`", row[0])
        beside = first.rpartition(".")[0]  # `tasks[].gpu_milli`, `cpu_milli`: both are fields of a task
        listed |= {first, *(name if name in known else f"{beside}.{name}" for name in others)}
    assert listed - {"demand"} == known


def test_the_environment_of_a_task_is_listed_whole() -> None:
    table = read(REQUESTS).split("| variable | meaning |")[1].split("\n\n")[0]
    listed = set(re.findall(r"`([A-Z_]+)`", table))
    at = TaskAssignment(task=0, devices=("GPU-1",), gpu_share_milli=500)
    command = StartTask(
        node="n",
        incarnation="i",
        sender="admission",
        sender_epoch=1,
        ordered_by=RecordRef(epoch=1, seq=1),
        job="j",
        attempt=1,
        tasks=(at,),
        spec=JobSpec(command="true"),
        grace=1_000_000,
        master_node="n",
    )
    rest = {"checkpoints": Path("/c/job"), "resume_from": None, "secrets": None, "master_address": None, "scratch": Path("/s")}
    assert listed == set(environment(command, at, device_bytes=1, **rest))
    assert listed | {"BAILIFF_CONTROL_DIR", "BAILIFF_SOCKET"} == SET_BY_BAILIFF | {"PYTHONUNBUFFERED"}
    buffered = command.model_copy(update={"spec": JobSpec(command="true", env={"PYTHONUNBUFFERED": ""})})
    assert environment(buffered, at, device_bytes=1, **rest)["PYTHONUNBUFFERED"] == "", "the job's own value is in force"


def test_the_example_policies_are_policies() -> None:
    ((kind, text),) = examples(POLICY)
    assert kind == "policy"
    for source in (text, read("deploy/policy.yaml"), read("deploy/examples/policy-claims.yaml")):
        assert known_fields(plainly(yaml.safe_load(source)), Policy)


def plainly(policy: dict[str, Any]) -> dict[str, Any]:
    """What people may write shorter, written out."""
    for project in policy.get("projects", []):
        for name in ("quota", "limit"):
            project[name] = parse_resources(project.get(name, {}))
        if isinstance(project.get("over_quota_weight"), int):
            project["over_quota_weight"] = dict.fromkeys(("gpu", "cpu", "memory"), project["over_quota_weight"])
    return policy


def test_the_job_file_is_a_job() -> None:
    ((_, text),) = fences(section(read("docs/reference/job-file.md"), "Example"))
    document = {name.replace("-", "_"): value for name, value in yaml.safe_load(text).items()}
    job = job_from(document)
    demand = job.demand
    assert (demand.tasks[0].gpu_milli, demand.max_failures, demand.min_tasks) == (4000, 3, 4)
    assert demand.topology is not None
    assert demand.topology.required == "zone"


def test_the_readme_shows_snippets_of_the_interface() -> None:
    readme = fences(read("README.md"))
    shown = [content for language, content in readme if language == "bash"]
    assert len(shown) == 2
    assert set(shown) <= {content for _, content in fences(read(KAFKA))}
    python = [content for language, content in readme if language == "python"]
    assert python == [content for language, content in fences(read("docs/how-to/python.md")) if language == "python"][:1]


def test_folders_and_files_that_contributing_names_exist() -> None:
    named = {text for text in code(read("CONTRIBUTING.md")) if re.fullmatch(r"(tests|docs|libs|services|deploy)/[\w./-]+", text)}
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_chain_snippet_follows_the_chain_rule() -> None:
    pattern = r"<!-- snippet: follow -->\n```python\n(.*?)^```$"
    marked = re.search(pattern, read(KAFKA), re.MULTILINE | re.DOTALL)
    assert marked
    made: dict[str, Any] = {}
    exec(compile(marked[1], "kafka.md", "exec"), made)
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

    def wire(seq: int, epoch: int, prev: str, fact: Any, *, pool: str = "pool-a", time: int = 1_000_000) -> Wire:
        record = Record(
            pool=pool,
            seq=seq,
            epoch=epoch,
            cycle=seq,
            cycle_end=True,
            time=time,
            prev=prev,
            writer="w",
            engine="0/0/1",
            policy=1,
            type=fact.type_name(),
            data=fact,
        )
        return encode(record)

    def writer(name: str) -> facts.WriterStarted:
        return facts.WriterStarted(writer=name, release="0", digest="0", logic=1, state_schema=1)

    first = wire(0, 0, "0" * 64, facts.PoolCreated(pool="pool-a", partition=0, nonce="n"))
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
    yield wire(5, 2, record_hash(fifth), facts.ClockAdvanced(), pool="pool-b", time=3_000_000)


def test_the_snippets_shown_are_those_that_are_run() -> None:
    shown = read(KAFKA)
    for snippet in sorted((DOCS / "snippets").iterdir()):
        assert snippet.read_text().strip() in shown, f"{KAFKA} shows another text than {snippet.name}"


def test_examples_in_python_and_yaml_can_be_read() -> None:
    readers: dict[str, Callable[[str], object]] = {"python": ast.parse, "yaml": yaml.safe_load}

    def faults(_: Path, text: str) -> Iterator[str]:
        for language, example in fences(text):
            try:
                readers.get(language, str)(example)
            except (SyntaxError, yaml.YAMLError) as problem:
                yield f"{problem}: {example}"

    assert on_pages(faults) == {}


# --- what exists is in the documentation


def leaf_commands(group: Any, before: str = "bailiff") -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its whole name."""
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from leaf_commands(each, f"{before} {name}")
        elif not each.hidden:
            yield f"{before} {name}", each


def test_every_command_with_its_options_is_in_the_reference() -> None:
    text = read("docs/reference/cli/commands.md")
    for name, each in leaf_commands(root_command()):
        about = section(text, name)
        options = {option for parameter in each.params if not parameter.hidden for option in parameter.opts if option[0] == "-"}
        shared = set(re.findall(r"`(--[a-z-]+)`", about))
        short = {option for option in options if not option.startswith("--")}
        assert options - short <= set(re.findall(r"(--[a-z-]+)", about)) | shared, name


def test_every_make_target_is_named_in_a_page() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", read("Makefile"), re.MULTILINE))
    every = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
    assert not [target for target in targets if not re.search(rf"make {target}\b", every)]


def test_every_record_message_and_metric_is_in_the_reference() -> None:
    events, metrics = read("docs/events/README.md"), read("docs/events/metrics.md")
    assert not [name for name in (*AUDIT_TYPES, *MESSAGE_TYPES) if name not in events]
    assert not [metric.name for metric in METRICS if metric.name not in metrics]


def test_every_address_of_the_http_api_page_exists() -> None:
    routes = [re.sub(r"\{\w+\}", r"[^/]+", route) for route in json.loads(read("docs/schemas/api.json"))["paths"]]
    named = set(re.findall(r"8620(/v1/[^\s'\"?]*)", read("docs/reference/http-api.md")))
    assert not [address for address in named if not any(re.fullmatch(route, address) for route in routes)]


def test_every_view_of_the_archive_is_in_the_table() -> None:
    steps = (ROOT / "services/auditor/bailiff_auditor/migrations").glob("*.sql")
    views = {name for step in steps for name in re.findall(r"CREATE VIEW (\w+)", step.read_text(encoding="utf-8"))}
    listed = {name for row in rows(section(read("docs/how-to/archive.md"), "Views")) for name in re.findall(r"`(\w+)`", row[0])}
    assert listed == views


def test_every_benchmark_is_in_the_table() -> None:
    known = set(re.findall(r'^    "([a-z-]+)": \w+\.measure', read("tests/bench/__main__.py"), re.MULTILINE))
    table = [row[4] for row in rows(read("docs/reference/figures.md"))]
    named = {cell.strip("`").split()[0] for cell in table if cell.startswith("`") and "/" not in cell and "make" not in cell}
    assert named == known


def test_every_request_is_listed_with_its_record() -> None:
    requests = {name.split(".")[1] for name in TOPICS["bailiff.requests"].schemas}
    listed = {name for row in rows(read(REQUESTS).split("## SubmitJob")[0]) for name in re.findall(r"`(\w+)`", row[0])}
    accepted = [row for row in rows(section(read(REJECTIONS), "Accepted")) if len(row) == 2]
    answered = {name for row in accepted for name in re.findall(r"`(\w+)`", row[0])}
    records = {name for row in accepted for name in re.findall(r"`(\w+)`", row[1])}
    assert listed == answered == requests
    assert records <= {kind.NAME for kind in AUDIT_TYPES.values()}


def test_the_glossary_has_every_record_field_of_the_policy_and_command() -> None:
    records, policy, commands = (set(code(read(f"docs/glossary-{name}.md"))) for name in ("records", "policy", "cli"))
    assert not [kind.NAME for kind in AUDIT_TYPES.values() if kind.NAME not in records]
    assert not [name for name, _ in leaf_commands(root_command()) if name not in commands]
    fields = {name.rpartition(".")[2] for text in policy for name in text.replace("[]", "").split(", ")}
    assert not [name for name, _ in policy_fields(Policy) if name.rpartition(".")[2] not in fields]


# --- what is written on command lines


def command_lines(page: str) -> Iterator[list[str]]:
    """The words of each `bailiff …` command line of a page, up to what is not its own."""
    for text in code(page):
        for line in text.replace("\\\n", " ").splitlines():
            found = re.search(COMMAND + r"([a-z][^|;]*)", line)
            if found is None:
                continue
            try:
                yield shlex.split(re.split(r"\s{2,}|\s#|\s…", found[1])[0].rstrip("`)"))
            except ValueError:  # a quotation that continues in the next line
                continue


def test_options_on_command_lines_exist() -> None:
    def faults(_: Path, text: str) -> Iterator[str]:
        for words in command_lines(text):
            each, rest = root_command(), words
            while rest and rest[0] in getattr(each, "commands", {}):
                each, rest = each.commands[rest[0]], rest[1:]
            if hasattr(each, "commands"):
                continue
            known = {"--help", "-h", *(option for one in each.params for option in (*one.opts, *one.secondary_opts))}
            own = rest[: rest.index("--")] if "--" in rest else rest
            if {word.partition("=")[0].rstrip(",:.") for word in own if re.match(r"--?[a-zA-Z]", word)} - known:
                yield f"bailiff {' '.join(words)}"

    assert on_pages(faults) == {}


# --- the form of the documentation


def plain_words(path: Path) -> int:
    return sum(bool(re.search(r"\w", word)) for word in path.read_text(encoding="utf-8").split())


def test_no_page_is_too_long() -> None:
    written = [path for path in DOCS.rglob("*.md") if not str(path.relative_to(ROOT)).startswith(GENERATED)]
    assert {path.name: plain_words(path) for path in written if plain_words(path) > MOST_WORDS} == {}
    assert len(read("README.md").splitlines()) <= MOST_README_LINES


class _SiteLoader(yaml.SafeLoader):
    """mkdocs.yml names Python functions, which are no matter here."""


_SiteLoader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, tag, node: None)


def navigated(entries: Any) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values():
                yield from navigated([below] if isinstance(below, str) else below)


def test_the_site_has_every_page_once() -> None:
    site = yaml.load(read("mkdocs.yml"), Loader=_SiteLoader)
    listed = list(navigated(site["nav"]))
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_pages_that_the_code_names_exist() -> None:
    files = [*CODE, *(ROOT / "deploy").rglob("*.*"), ROOT / "docker-compose.yml", ROOT / "Makefile"]
    for path in files:
        named = re.findall(r"\bdocs/[\w/.-]+\.(?:md|json)\b", path.read_text(encoding="utf-8"))
        assert not [name for name in named if not (ROOT / name).exists()], path.relative_to(ROOT)


def test_modules_of_the_core_that_the_package_table_names_exist() -> None:
    core = ROOT / "libs/core/bailiff_core"
    table = rows(section(read("docs/concepts/packages.md"), "Core"))
    packages = {name: re.findall(r"`(\w+)`", row[1]) for row in table if (core / (name := row[0].strip("`/"))).is_dir()}
    assert len(packages) > 10
    gone = [
        f"{name}/{each}" for name, modules in packages.items() for each in modules if not (core / name / f"{each}.py").exists()
    ]
    assert gone == []


def test_contributing_says_what_each_folder_of_tests_is() -> None:
    listed = [
        name
        for first, *_ in rows(section(read("CONTRIBUTING.md"), "Where tests live"))
        for name in re.findall(r"`tests/(\w+)`", first)
    ]
    there = {
        path.name
        for path in (ROOT / "tests").iterdir()
        if any(each.suffix != ".pyc" for each in path.rglob("*") if each.is_file())
    }
    assert sorted(listed) == sorted(name for name in there if (ROOT / "tests" / name).is_dir())


def test_the_attacks_that_were_tried_name_tests_that_exist() -> None:
    named = {
        path.as_posix(): re.findall(r"^\s*(?:async )?def test_(\w+)", path.read_text(), re.MULTILINE)
        for path in ROOT.glob("tests/**/test_*.py")
    }
    attacks = read("docs/concepts/attacks.md")
    for *_, shown in rows(attacks):
        files = re.findall(r"`([\w/]+\.py)`", shown) or ["test_stolen_node_key.py"]
        of_row = [names for path, names in named.items() if path.endswith(tuple(f"/{file}" for file in files))]
        for name in re.findall(r"`(\w+)`", shown):
            assert any(name in each for names in of_row for each in names), name
        assert re.search(r"`[\w/.]+`", shown), shown
    for file in re.findall(r"`([\w/]+\.py)`", attacks + read("docs/concepts/threat-model.md")):
        assert any(path.endswith(f"/{file}") for path in named), file


POSITIONS = {"group", "task", "order", "port", "epoch", "seq"}
"""Numbers of a request that say which one, not how long or how many."""


def amounts(model: type[BaseModel]) -> Iterator[str]:
    """The fields of a request that are times, counts, or yes and no."""
    for name, field in model.model_fields.items():
        within = [field.annotation]
        for each in within:  # and what is added meanwhile
            within += get_args(each)
        if {int, bool} & {each for each in within if isinstance(each, type)}:
            yield name
        for each in within:
            if isinstance(each, type) and issubclass(each, BaseModel):
                yield from amounts(each)


def test_every_time_and_count_of_a_request_has_its_bound_on_the_page_of_claims() -> None:
    table = rows(section(read("docs/reference/claims.md"), "Every time and count of a request"))
    named = {name for row in table for name in re.findall(r"`(\w+)", row[0])}
    asked = {name for body in RECORDS if body is not ApplyPolicy for name in amounts(body)}
    assert asked - named - POSITIONS == set()
    assert {"checkpoint_every", "grace", "min_groups", "preemptible"} < asked


def test_the_layers_of_the_core_are_those_that_import_linter_enforces() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (enforced,) = (contract["layers"] for contract in contracts if contract["name"] == "layers of the core")
    layers = [set(layer.split(" : ")) for layer in reversed(enforced)]
    packages = read("docs/concepts/packages.md").partition("## Core")[2].partition("\n## ")[0]
    listed = [next(at for at, layer in enumerate(layers) if row[0].strip("`/") in layer) for row in rows(packages)]
    assert listed == sorted(listed)
    assert set(listed) == set(range(1, len(layers))), "the lowest layer is in the sentence below the table"
