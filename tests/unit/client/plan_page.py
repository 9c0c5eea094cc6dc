"""The example of the page on planning."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs/how-to/plan.md"
FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
