"""The event reference says what the code does, whole and in a form that tools accept."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from tests.unit.bus_runtime.kit import submit, submit_data

from bailiff_bus.topics import TOPICS
from bailiff_core.model.message import MESSAGE_TYPES
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.records import AUDIT_TYPES
from bailiff_core.records.facts import PolicyApplied
from bailiff_core.records.job_requests import SubmitJob
from bailiff_service.event_reference.events import PLAIN_SCHEMAS
from bailiff_service.event_reference.files import REMOVABLE, generated
from bailiff_service.generated_files import main

REPOSITORY = Path(__file__).parents[3]
TYPES: dict[str, Any] = {**AUDIT_TYPES, **MESSAGE_TYPES, **PLAIN_SCHEMAS}


@cache
def asyncapi() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(generated()["asyncapi.yaml"], yaml.CSafeLoader)
    return found


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(generated()[f"schemas/{name}.json"])
    return found


def sample(part: dict[str, Any], root: dict[str, Any], *, full: bool) -> Any:
    """The plainest value that the schema allows; `full`: with the fields that may be left out."""
    if "$ref" in part:
        return sample(root["$defs"][part["$ref"].rpartition("/")[2]], root, full=full)
    if "anyOf" in part:
        return sample(part["anyOf"][0], root, full=full)
    if "const" in part or "enum" in part:
        return part.get("const", part.get("enum", [None])[0])
    match part.get("type"):
        case "object" if "properties" in part:
            names = part["properties"] if full else part.get("required", [])
            left_out = {"topology", "sub_groups"}  # they hold each other
            return {name: sample(part["properties"][name], root, full=full) for name in names if name not in left_out}
        case "object":
            values = part.get("additionalProperties") or next(iter(part["patternProperties"].values()))
            return {"3g.40gb" if "patternProperties" in part else "key": sample(values, root, full=full)} if full else {}
        case "array":
            return [sample(part["items"], root, full=full)] * max(part.get("minItems", 0), int(full))
        case "integer":
            return max(part["minimum"], 0)
        case "boolean":
            return True
        case "string":
            pattern = part.get("pattern", "")
            if "/" in pattern:
                return "pool/node/1.2/3"  # the subject of a command
            if "gb" in pattern:
                return "3g.40gb"  # a MIG profile
            return "0" * 64 if "64" in pattern else "a" * part.get("minLength", 1)
    raise AssertionError(part)


@pytest.mark.parametrize("name", sorted(TYPES))
def test_each_type_has_a_schema_that_is_one(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))
    assert not {"ge", "le", "gt", "lt"} & set(keys(schema(name)))


@pytest.mark.parametrize("name", sorted(TYPES))
def test_what_the_schema_allows_the_code_reads_and_what_it_writes_the_schema_allows(name: str) -> None:
    known, model = schema(name), TYPES[name]
    for full in (False, True):
        data = sample(known, known, full=full)
        if name in {"bailiff.ApplyPolicy.v1", "bailiff.audit.PolicyApplied.v1"}:
            data["policy"] = DEFAULT_POLICY.model_dump(mode="json")  # exactly one class is the default
        Draft202012Validator(known).validate(data)
        body = model.model_validate_json(json.dumps(data))
        Draft202012Validator(known).validate(body.to_data())
        Draft202012Validator(known).validate(body.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("demand", "fits"),
    [
        ({}, True),
        ({"grace": "30s", "run_time_limit": 5, "min_tasks": 1, "preemptible": None}, True),
        ({"grace": "5 weeks"}, False),
        ({"grace": -1}, False),
        ({"min_tasks": 0}, False),
        ({"tasks": []}, False),
        ({"tasks": [{"gpu_milli": -1}]}, False),
        ({"tasks": [{"gpu_milli": 2**53}]}, False),
        ({"tasks": [{"count": 100_001}]}, False),
        ({"job": "Bert"}, False),
        ({"preemptible": 1}, False),
        ({"max_failures": 1001}, False),
    ],
)
def test_schema_and_code_agree_on_what_fits(demand: dict[str, Any], fits: bool) -> None:
    data = submit_data(**demand)
    assert Draft202012Validator(schema(SubmitJob.TYPE)).is_valid(data) is fits
    if fits:
        Draft202012Validator(schema(SubmitJob.TYPE)).validate(submit(**demand).to_data())
    else:
        with pytest.raises(ValueError):
            submit(**demand)


def test_a_real_policy_fits_its_schema() -> None:
    name = PolicyApplied.type_name()
    Draft202012Validator(schema(name)).validate(PolicyApplied(policy=DEFAULT_POLICY.complete()).to_data())


# --- AsyncAPI


def keys(value: object) -> Iterator[str]:
    """All keys at any depth."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from keys(item)


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "$ref":
                yield item
            else:
                yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def resolved(reference: str) -> Any:
    file, _, pointer = reference.partition("#")
    found: Any = asyncapi() if not file else json.loads(generated()[file.removeprefix("./")])
    for part in filter(None, pointer.split("/")):
        found = found[part]
    return found


def test_the_asyncapi_document_has_what_version_3_asks_for() -> None:
    assert asyncapi()["asyncapi"] == "3.0.0"
    assert {"title", "version"} <= asyncapi()["info"].keys()
    assert set(asyncapi()) <= {"asyncapi", "info", "defaultContentType", "channels", "operations", "components"}
    for channel in asyncapi()["channels"].values():
        assert channel["messages"]
        assert channel["bindings"]["kafka"]["topic"] == channel["address"]
    for operation in asyncapi()["operations"].values():
        assert operation["action"] in {"send", "receive"}
        assert all(part.startswith(f"{operation['channel']['$ref']}/messages/") for part in references(operation["messages"]))


def test_all_references_resolve() -> None:
    everything = [asyncapi(), *(json.loads(text) for name, text in generated().items() if name.endswith(".json"))]
    for document in everything:
        for reference in references(document):
            if reference.startswith("#/$defs/"):
                assert reference.removeprefix("#/$defs/") in document["$defs"]
            else:
                assert resolved(reference) is not None


def test_every_topic_is_a_channel_and_every_type_travels_on_exactly_one() -> None:
    assert {channel["address"] for channel in asyncapi()["channels"].values()} == set(TOPICS)
    names = [
        resolved(reference)["name"]
        for channel in asyncapi()["channels"].values()
        for reference in references(channel["messages"])
    ]
    assert sorted(names) == sorted([*TYPES, "text"])


def test_the_page_lists_every_type_and_its_links_resolve() -> None:
    page = generated()["README.md"]
    anchors = {line.lstrip("# ").lower().replace(".", "").replace(" ", "-") for line in page.splitlines() if line.startswith("#")}
    for name in TYPES:
        assert f"### {name}\n" in page
    for target in page.split("](")[1:]:
        link = target.partition(")")[0]
        assert link.removeprefix("#") in anchors or link in generated(), link


# --- the command


def run(*arguments: object) -> int:
    return main("Writes the event reference.", generated(), REMOVABLE, [str(each) for each in arguments])


def test_a_second_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(generated())
    assert run(tmp_path) == 0
    assert run("--check", tmp_path) == 0
    assert capsys.readouterr().out == ""


def test_check_names_what_is_stale_missing_or_left_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path)
    (tmp_path / "README.md").write_text("edited", encoding="utf-8")
    (tmp_path / "metrics.md").unlink()
    (tmp_path / "schemas" / "gone.json").write_text("{}", encoding="utf-8")
    capsys.readouterr()
    assert run("--check", tmp_path) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path / name} is out of date: make docs" for name in ("README.md", "metrics.md", "schemas/gone.json")
    ]
    run(tmp_path)
    assert run("--check", tmp_path) == 0


@pytest.mark.slow
def test_two_runs_give_the_same_bytes() -> None:
    assert generated.__wrapped__() == generated()


def test_the_committed_reference_is_up_to_date() -> None:
    assert run("--check", REPOSITORY / "docs" / "events") == 0, "run: python -m bailiff_service.event_reference docs/events"
