"""The process that thinks: `python -m bailiff_console.acting.thinker_child`. It ends with its standard input.

Each question is a line of JSON, with the bytes of the pool's state behind it unless it is the one that was sent last; each
answer is a line of JSON.
"""

import os
import sys
import traceback
from typing import Any, BinaryIO

import orjson

from bailiff.problem import Problem
from bailiff_core.fold.snapshot import from_snapshot
from bailiff_core.model.pool import Pool

from .thinking import think

NICE = 5


def answer(asked: dict[str, Any], pool: Pool) -> dict[str, Any]:
    """What came of it: an answer, a problem for the person, or an error of ours."""
    try:
        return {"answer": think(asked["question"], asked["fields"], pool)}
    except Problem as problem:
        return {"problem": {"code": int(problem.code), "text": problem.text, "advice": problem.advice}}
    except Exception as error:  # noqa: BLE001 - told to the console, which reports it
        return {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}


def serve(asked: BinaryIO, told: BinaryIO) -> None:
    """Until there are no more questions. The first line says that it is there."""
    told.write(b"{}\n")
    told.flush()
    pool = Pool()
    for line in asked:
        question = orjson.loads(line)
        if question["size"] is not None:
            pool = from_snapshot(asked.read(question["size"]))
        told.write(orjson.dumps(answer(question, pool), default=str) + b"\n")
        told.flush()


if __name__ == "__main__":
    os.nice(NICE)
    serve(sys.stdin.buffer, sys.stdout.buffer)
