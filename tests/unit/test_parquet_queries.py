"""The queries of docs/how-to/years-of-record.md, as they stand there, on the Parquet files of a log with preemptions."""

import asyncio
import re
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from tests.kits.parquet import SEALED, STORY, export, parquet

from bailiff_core.records import decode
from bailiff_core.records.decisions import PreemptionDecided

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "years-of-record.md"
DECIDED = [data for wire in STORY.wires[:SEALED] if isinstance(data := decode(wire).data, PreemptionDecided)]
LOST = sum(each.lost_gpu_ms for data in DECIDED for each in data.victims)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("segments")
    asyncio.run(export(found))
    asyncio.run(parquet(found))
    return found


def queries(language: str, folder: Path) -> list[str]:
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [each.replace("FOLDER", str(folder)) for each in blocks]


def test_duckdb_says_who_lost_most_when_and_to_whom(folder: Path) -> None:
    rows = duckdb.sql(queries("sql", folder)[0]).fetchall()
    assert sum(row[3] for row in rows) == sum(len(data.victims) for data in DECIDED) > 0
    assert sum(row[4] for row in rows) == pytest.approx(LOST / 3.6e6)
    assert {(row[0], row[2]) for row in rows} == {
        (each.project, data.preemptor.project) for data in DECIDED for each in data.victims
    }


def test_duckdb_tells_the_history_of_a_job(folder: Path) -> None:
    job = DECIDED[0].victims[0].job
    rows = duckdb.sql(queries("sql", folder)[1].replace("JOB", job)).fetchall()
    types = [row[2] for row in rows]
    assert types[0] == "bailiff.audit.JobSubmitted.v1"
    assert "bailiff.audit.PreemptionDecided.v1" in types


def test_pandas_gives_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, pd.DataFrame] = {}
    exec(queries("python", folder)[0], names)
    worst = names["worst"]
    assert worst["sum"].sum() == pytest.approx(LOST / 3.6e6)
    assert worst["count"].sum() == sum(len(data.victims) for data in DECIDED)
    assert DECIDED[0].victims[0].project in capsys.readouterr().out
