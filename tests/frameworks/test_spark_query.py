"""Spark's query of docs/how-to/years-of-record.md, as it stands there, on the Parquet files of a log with preemptions.

It needs a Python with pyspark, and Java 17 or later: `make test-long` installs the one, or BAILIFF_TEST_SPARK names it.
"""

import asyncio
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.kits.parquet import SEALED, STORY, export, parquet

from bailiff_core.records import decode
from bailiff_core.records.decisions import PreemptionDecided

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/years-of-record.md"
SPARK = Path(os.environ.get("BAILIFF_TEST_SPARK", ROOT / ".venv-spark/bin/python"))

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not SPARK.exists(), reason=f"no Python with Spark at {SPARK}: run make test-long"),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17 or later"),
]


def test_spark_says_who_lost_most_when_and_to_whom(tmp_path: Path) -> None:
    asyncio.run(export(tmp_path))
    asyncio.run(parquet(tmp_path))
    (query,) = re.findall(r"```python\n(from pyspark.*?)```", PAGE.read_text(), re.DOTALL)
    program = query.replace("FOLDER", str(tmp_path)) + "for row in worst.collect():\n    print('row', *row, sep='|')\n"
    env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    ran = subprocess.run([SPARK, "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    rows = [line.split("|")[1:] for line in ran.stdout.splitlines() if line.startswith("row|")]

    decided = [data for wire in STORY.wires[:SEALED] if isinstance(data := decode(wire).data, PreemptionDecided)]
    victims = [(each.project, data.preemptor.project) for data in decided for each in data.victims]
    assert {(project, to) for project, _, to, *_ in rows} == set(victims), ran.stderr
    assert sum(int(evictions) for *_, evictions, _ in rows) == len(victims) > 0
    lost = sum(each.lost_gpu_ms for data in decided for each in data.victims)
    assert sum(float(hours) for *_, hours in rows) == pytest.approx(lost / 3.6e6)
