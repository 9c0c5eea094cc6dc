"""Which field of which record nobody can check from the log: measured, and compared with the page that says so.

The attacker holds the writer's and the sealing key. Each field of a record of each type is changed to other values that its type
permits; `audit verify` or `audit replay` names it, or `docs/reference/what-the-log-shows.md` says why it cannot be known. The
records are those of services in a signed pool, of a gang that nodes save, and, of rare types, of histories made from seeds.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

import pytest
from tests.kits.altered_fields import HEADERS, Checked, alterations, kind_of
from tests.kits.examples import SHARE
from tests.kits.honest_logs import told
from tests.kits.log_builder import HOUR, Story, policy
from tests.property.rich_stories import Rich
from tests.simulation.played import SECOND, Played, submit

from bailiff_core.records import AUDIT_TYPES, Record, decode, facts
from bailiff_core.records.payload import Decision
from bailiff_log.snapshot_file import SnapshotDraft

pytestmark = pytest.mark.slow  # thousands of altered logs are verified and replayed

PAGE = Path(__file__).parents[2] / "docs/reference/what-the-log-shows.md"
SEEDS, CYCLES = (0, 1, 2, 4, 8, 11, 12, 14, 22, 24, 31, 38), 25
"""Histories that have, together, every rare type of record."""


def of_seed(seed: int) -> list[Record]:
    rich = Rich(Random(seed), lambda _: None)
    rich.play(CYCLES)
    return rich.story.records


def of_saved_gang(outcome: str) -> list[Record]:
    """Its nodes save its tasks, and restore them or not."""
    env = {"BAILIFF_SIM_SNAPSHOT": outcome}
    saved = submit(1.0, "saved", 4, tasks=2, grace=20 * SECOND, env=env, checkpoint="snapshot", run_for=200)
    return Played(saved, submit(101.0, "high", 8, cls="inference", run_for=3)).records


def of_writer() -> list[Record]:
    """What a writer says of itself, and of a node that is gone."""
    story = Story()
    story.node("n1", gpus=2)
    story.node("n2", gpus=2)
    story.runs("job", gpus=2)
    story.cycle(facts.JobCheckpointRequested(request=story.request(), job="job"))
    story.quarantined("n1", 0)
    story.cleared("n1", 0)
    story.cycle(SnapshotDraft(None, story.state).fact())
    story.cycle(facts.InputsAdvanced(topic_ids={"bailiff.requests": "id"}))
    story.cycle(facts.InputsLost(topic="bailiff.node-reports", partition=0, from_offset=1, to_offset=9))
    story.lost("n1")
    story.submit("other", gpus=2)
    return story.records


def of_budgets() -> list[Record]:
    """Of two budgets, one of which is used up with what it was given."""
    rows = [{"name": name, "priority_class": name, "gpu_hours": 8} for name in ("train", "build")]
    story = Story(policy(budgets=rows))
    story.node("n1", gpus=8)
    story.runs("job", gpus=8)
    story.cycle(facts.BudgetToppedUp(request=story.request(), budget="train", gpu_hours=1, reason="paper"))
    story.cycle(facts.BudgetTransferred(request=story.request(), budget="build", to="train", gpu_hours=7, reason="a gift"))
    story.wait(3 * HOUR)
    return story.records


def of_reservations() -> list[Record]:
    """GPUs are reserved, and the last of it is cancelled."""
    story = Story(policy(projects=[{"name": "demo"}, {"name": "other"}]))
    story.node("n1", gpus=8)
    story.runs("job", gpus=8, project="other")
    begin = story.state.now + HOUR
    reserve = facts.ReserveGpus(reservation="course", project="demo", gpus=4, begin=begin, duration=HOUR)
    story.cycle(facts.GpusReserved(request=story.request(), **dict(reserve)))
    story.wait(3 * HOUR)
    story.cycle(
        facts.GpusReserved(request=story.request(), **dict(reserve) | {"reservation": "next", "begin": story.state.now + HOUR})
    )
    story.cycle(facts.ReservationCancelled(request=story.request(), reservation="next"))
    return story.records


def logs() -> Iterator[Checked]:
    """Honest logs, the signed one first."""
    wires, writer = told()
    yield Checked([decode(wire) for wire in wires], writer)
    yield Checked(of_saved_gang("works:0.5"), None)
    yield Checked(of_saved_gang("lost:0.5"), None)
    yield Checked(of_writer(), None)
    yield Checked(of_budgets(), None)
    yield Checked(of_reservations(), None)
    yield from (Checked(of_seed(seed), None) for seed in SEEDS)


def rows() -> list[tuple[str, set[str]]]:
    """Of the page's table: record types, and their fields that the log cannot show."""
    lines = [line.split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return [(line[1], set(re.findall(r"`([^`]+)`", line[2]))) for line in lines]


def excused() -> dict[str, set[str]]:
    """Fields by record type."""
    found: dict[str, set[str]] = {}
    for kinds, fields in rows():
        for kind in re.findall(r"`([^`]+)`", kinds):
            found.setdefault(kind, set()).update(fields)
    return found


def is_excused(fields: set[str], name: str) -> bool:
    """Whether the field, or what it is a part of, is among these."""
    parts = name.split(".")
    return "all" in fields or any(".".join(parts[: number + 1]) in fields for number in range(len(parts)))


@cache
def unnamed() -> dict[str, set[str]]:
    """By kind of record: the fields of which some alteration is named by nobody. In `make test-long` of each of services."""
    found, tried = dict[str, set[str]](), 0
    for checked in logs():
        known = set(found)
        for record in checked.records:
            kind = kind_of(record)
            if kind in known or (kind in found and (SHARE > 1 or checked.writer is None)):
                continue
            fields = found.setdefault(kind, set())
            for each in alterations(record):
                if checked.writer is None and each.name in HEADERS:
                    continue  # measured in the signed log
                tried += 1
                if checked.named_by(each.record) == "nobody":
                    fields.add(each.name)
    assert tried > 2_000
    return found


def test_what_nobody_names_is_on_the_page_with_its_reason() -> None:
    page = excused()
    everywhere = page["every record"]
    missing = [
        f"{kind}: {name}"
        for kind, fields in unnamed().items()
        for name in sorted(fields)
        if not is_excused(everywhere | page.get(kind, set()), name)
    ]
    assert missing == []


def test_the_page_names_fields_that_there_are() -> None:
    kinds = {kind.__name__: kind for kind in AUDIT_TYPES.values()}
    wrong = [
        f"{kind}: {field}"
        for kind, fields in excused().items()
        if kind not in ("every record", "unsigned")
        for field in sorted(fields - {"all"})
        if kind not in kinds or field not in {*kinds[kind].model_fields, *HEADERS}
    ]
    assert wrong == []


def test_every_type_of_record_is_measured_or_on_the_page() -> None:
    facts = {kind.__name__ for kind in AUDIT_TYPES.values() if not issubclass(kind, Decision)}
    assert facts - set(unnamed()) - set(excused()) == set()
    decisions = {kind.__name__ for kind in AUDIT_TYPES.values() if issubclass(kind, Decision)}
    free = excused()["every record"]
    assert {kind for kind in decisions & set(unnamed()) if unnamed()[kind] - free} == set()
