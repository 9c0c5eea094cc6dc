"""What a page shows after any number of changes is what it would show if it were opened anew."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.console_kit import Heard
from tests.history_files import from_lines
from tests.property.random_stories import Chance

from bailiff_console.live.change import SHOWN, Change, merged
from bailiff_console.live.eventlines import event_lines
from bailiff_console.live.memo import Memo
from bailiff_console.live.picture import Picture
from bailiff_console.live.touched import Touched
from bailiff_core.fold import apply
from bailiff_core.model.pool import Pool
from bailiff_core.records import Wire, decode

HISTORIES = sorted((Path(__file__).parents[2] / "histories").glob("*.jsonl"))


def data_of(message: bytes) -> Any:
    """What an event holds."""
    return json.loads(message.decode().split("data: ", 1)[1])


def differing(shown: Any, expected: Any) -> list[Any]:
    """Row by row, field by field, what is not as it should be."""
    if not isinstance(shown, dict) or not isinstance(expected, dict):
        return [] if shown == expected else [(shown, expected)]
    found = [(name, "there or not") for name in shown.keys() ^ expected.keys()]
    return found + [(name, each) for name in shown.keys() & expected.keys() for each in differing(shown[name], expected[name])]


def watched(wires: list[Wire], dice: Random) -> None:
    """Follow the log with ticks now and then; compare with a picture made anew at each."""
    pool, memo, touched = Pool(), Memo(), Touched()
    kept = Picture("pool-a", memo)
    kept.all_anew(pool, "")
    heard, slow, lines, missed = Heard(), Heard(), list[bytes](), list[Change]()
    for each in (heard, slow):
        each.take("board", data_of(kept.board(SHOWN)), "")
    for wire in wires:
        record = decode(wire)
        apply(pool, record)
        memo.take(record, pool)
        touched.take(record, pool)
        lines += event_lines(record, pool)
        if dice.random() < 0.4:
            touched.settle(pool)
            change = kept.update(pool, record.type, touched, lines)
            lines = []
            touched.clear()
            heard.take("change", data_of(change.message(SHOWN)), str(change.place))
            missed.append(change)
            if dice.random() < 0.3:
                slow.take("change", data_of(merged(missed).message(SHOWN)), str(change.place))
                missed.clear()
                assert differing(slow.board | {"events": []}, heard.board | {"events": []}) == [], f"in one, after #{record.seq}"
                assert slow.events == heard.events
            anew = Picture("pool-a", memo)
            anew.all_anew(pool, record.type)
            expected = data_of(anew.board(SHOWN))
            for part in ("seq", "time", "pool", "nodes", "jobs", "projects", "queue"):
                assert differing(heard.board.get(part), expected.get(part)) == [], f"{part} after #{record.seq} {record.type}"
            assert data_of(kept.board(SHOWN)) | {"events": [], "classes": []} == expected | {"events": [], "classes": []}


@pytest.mark.parametrize("history", HISTORIES, ids=lambda path: path.stem)
def test_changes_add_up_to_what_a_new_page_shows(history: Path) -> None:
    watched(from_lines(history.read_text()), Random(history.stem))


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 60))])
def test_changes_of_random_histories_add_up_too(seed: int) -> None:
    dice, chance = Random(seed), Chance()
    for _ in range(60):
        chance.turn([(dice.randint(0, 59), dice.randint(0, 11), dice.randint(0, 23)) for _ in range(dice.randint(1, 3))])
    watched(list(chance.story.wires), dice)
