"""Azure's LLM inference of 2023 (ISCA '24): requests of two services for an hour, as the replicas that it takes to serve them.

In each minute so many replicas of one GPU are wanted as its tokens need; the youngest leaves first when fewer are.
"""

from collections import Counter
from importlib.resources.abc import Traversable
from pathlib import Path

from .files import shipped
from .jobs import Trace, TraceJob
from .rows import SECOND, Row, table

MINUTE = 60 * SECOND
TOKENS_PER_SECOND = 1_000  # that one replica is taken to serve, prompts and answers together
COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
TIERS = {"serving": "inference"}
NOTES = (f"replicas are ours: one GPU each, {TOKENS_PER_SECOND} tokens a second, counted by the minute",)


def load(source: Path | Traversable | None = None, variant: str = "code") -> Trace:
    """The service `code` or `conv`, or a file with their columns."""
    tokens: Counter[int] = Counter()

    def request(row: Row) -> None:
        tokens[row.moment("TIMESTAMP") // MINUTE] += row.count("ContextTokens") + row.count("GeneratedTokens")

    table(source or shipped("azure-llm-inference-2023", f"AzureLLMInferenceTrace_{variant}.csv.gz"), COLUMNS, request)
    wanted = {minute: -(-tokens[minute] // (60 * TOKENS_PER_SECOND)) for minute in range(min(tokens), max(tokens) + 1)}
    jobs, running = list[TraceJob](), list[int]()
    for minute in (*wanted, max(wanted) + 1):
        for _ in range(max(0, wanted.get(minute, 0) - len(running))):
            running.append(minute)
        for _ in range(len(running) - wanted.get(minute, 0)):
            began = running.pop()
            name = f"{variant}-{len(jobs):05d}"
            jobs.append(TraceJob(name, began * MINUTE, (minute - began) * MINUTE, 1, project=f"serve-{variant}", tier="serving"))
    return Trace(f"azure-llm-inference-2023/{variant}", jobs, "4x8", TIERS, notes=NOTES)
