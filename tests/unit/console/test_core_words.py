"""What the page says of rules, causes and refusals is what the core says of them; what it takes for a decision is one."""

import json
from pathlib import Path

from bailiff_core.explain.victims import EVICTIONS, REFUSALS
from bailiff_core.protections import RULES
from bailiff_core.records.payload import AUDIT_TYPES

KEPT = Path(__file__).parents[3] / "services/console/frontend/src/lib/core-words.json"


def test_the_page_has_the_words_of_the_core() -> None:
    said = {
        "rules": {rule.name: rule.says for rule in RULES},
        "evictions": dict(EVICTIONS),
        "refusals": dict(REFUSALS),
        "decisions": sorted(kind.NAME for kind in AUDIT_TYPES.values() if kind.KIND == "decision"),
    }
    assert json.loads(KEPT.read_text(encoding="utf-8")) == said
