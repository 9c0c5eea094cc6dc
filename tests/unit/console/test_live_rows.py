"""A page after any number of changes equals a page opened anew."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.kits.console import ClientState
from tests.kits.history_files import from_lines
from tests.property.random_stories import Chance

from bailiff_console.live import pool_projection
from bailiff_console.live.change import SHOWN, Change, merged
from bailiff_console.live.change_tracker import ChangeTracker
from bailiff_console.live.event_lines import event_lines
from bailiff_console.live.pool_projection import PoolProjection
from bailiff_console.live.view_cache import ViewCache
from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_core.records import Wire, decode

HISTORIES = sorted((Path(__file__).parents[2] / "histories").glob("*.jsonl"))


def data_of(message: bytes) -> Any:
    """Data of a server-sent event."""
    return json.loads(message.decode().split("data: ", 1)[1])


def differing(shown: Any, expected: Any) -> list[Any]:
    """Returns the differing rows and fields."""
    if not isinstance(shown, dict) or not isinstance(expected, dict):
        return [] if shown == expected else [(shown, expected)]
    found = [(name, "there or not") for name in shown.keys() ^ expected.keys()]
    return found + [(name, each) for name in shown.keys() & expected.keys() for each in differing(shown[name], expected[name])]


def check_changes(wires: list[Wire], rng: Random) -> None:
    """Follows the log with random ticks and compares the page with a rebuilt projection at each."""
    state, view_cache, tracker = PoolState(), ViewCache(), ChangeTracker()
    kept = PoolProjection("pool-a", view_cache)
    kept.rebuild(state, "")
    full, slow, lines, missed = ClientState(), ClientState(), list[bytes](), list[Change]()
    for each in (full, slow):
        each.take("snapshot", data_of(kept.snapshot_event(SHOWN)), "")
    for wire in wires:
        record = decode(wire)
        apply(state, record)
        view_cache.take(record, state)
        tracker.take(record, state)
        lines += event_lines(record, state)
        if rng.random() < 0.4:
            tracker.include_preemptors(state)
            change = kept.update(state, record.type, tracker, lines)
            lines = []
            tracker.clear()
            full.take("change", data_of(change.message(SHOWN)), str(change.position))
            missed.append(change)
            if rng.random() < 0.3:
                slow.take("change", data_of(merged(missed).message(SHOWN)), str(change.position))
                missed.clear()
                assert differing(slow.snapshot | {"events": []}, full.snapshot | {"events": []}) == [], f"after #{record.seq}"
                assert slow.events == full.events
            rebuilt = PoolProjection("pool-a", view_cache)
            rebuilt.rebuild(state, record.type)
            expected = data_of(rebuilt.snapshot_event(SHOWN))
            for part in ("seq", "time", "pool", "nodes", "jobs", "projects", "queue"):
                assert differing(full.snapshot.get(part), expected.get(part)) == [], f"{part} after #{record.seq} {record.type}"
            assert data_of(kept.snapshot_event(SHOWN)) | {"events": [], "classes": []} == expected | {"events": [], "classes": []}


@pytest.mark.parametrize("history", HISTORIES, ids=lambda path: path.stem)
def test_changes_add_up_to_a_new_snapshot(history: Path) -> None:
    check_changes(from_lines(history.read_text()), Random(history.stem))


@pytest.mark.parametrize("history", HISTORIES[::3], ids=lambda path: path.stem)
def test_changes_add_up_where_only_some_of_the_jobs_are_sent(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_projection, "MAX_PENDING", 2)
    monkeypatch.setattr(pool_projection, "MAX_ASIDE", 1)
    check_changes(from_lines(history.read_text()), Random(history.stem))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 60))])
def test_changes_of_random_histories_add_up_to_a_new_snapshot(seed: int) -> None:
    rng, chance = Random(seed), Chance()
    for _ in range(60):
        chance.cycle([(rng.randint(0, 59), rng.randint(0, 11), rng.randint(0, 23)) for _ in range(rng.randint(1, 3))])
    check_changes(list(chance.story.wires), rng)
