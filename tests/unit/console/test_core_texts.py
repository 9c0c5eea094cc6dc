"""The console's texts for rules, eviction causes and refusals equal the core's, and its list of decisions is complete."""

import json
from pathlib import Path

from bailiff_core.explain.eviction_stages import STAGES
from bailiff_core.explain.evictions import ATTEMPT_ENDS
from bailiff_core.explain.victims import EVICTION_CAUSES, REFUSAL_REASONS, STOP_WORDS
from bailiff_core.humanize import SIGNALS
from bailiff_core.protections import RULES
from bailiff_core.records.payload import AUDIT_TYPES

LIB = Path(__file__).parents[3] / "services/console/frontend/src/lib"
TEXTS = LIB / "core-texts.json"


def test_the_console_has_the_texts_of_the_core() -> None:
    expected = {
        "rules": {rule.name: rule.predicate for rule in RULES},
        "evictions": dict(EVICTION_CAUSES),
        "stops": dict(STOP_WORDS),
        "refusals": dict(REFUSAL_REASONS),
        "decisions": sorted(kind.NAME for kind in AUDIT_TYPES.values() if kind.KIND == "decision"),
    }
    assert json.loads(TEXTS.read_text(encoding="utf-8")) == expected
    words = {"stages": STAGES, "ends": ATTEMPT_ENDS}
    assert json.loads((LIB / "eviction-texts.json").read_text(encoding="utf-8")) == words


def test_the_console_has_the_signals_of_the_core() -> None:
    assert json.loads((LIB / "signals.json").read_text(encoding="utf-8")) == {
        str(number): name for number, name in SIGNALS.items()
    }
