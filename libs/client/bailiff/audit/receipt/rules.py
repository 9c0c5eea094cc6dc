"""What both verifiers share, this one and the page's: the purpose of each record type, and the texts of the checks."""

import json
from importlib.resources import files
from typing import Any

RULES: dict[str, Any] = json.loads(files(__package__).joinpath("rules.json").read_text(encoding="utf-8"))
PURPOSES: dict[str, str] = RULES["purposes"]
CHECKS: dict[str, dict[str, str]] = RULES["checks"]
NOT_CHECKED: dict[str, str] = RULES["not_checked"]
