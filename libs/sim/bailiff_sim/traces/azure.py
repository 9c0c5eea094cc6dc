"""Azure's LLM inference of 2023 (ISCA '24): one hour of requests of two services, as the serving replicas that they need.

Each minute needs enough replicas of one GPU for its tokens; when the number falls, the youngest ends first.
"""

from collections import Counter

from .jobs import Trace, TraceJob
from .rows import SECOND, Row, shipped, table

MINUTE = 60 * SECOND
TOKENS_PER_SECOND = 1_000  # assumed per replica, prompt and generated tokens together
COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
TIERS = {"serving": "inference"}
NOTES = (f"replicas are computed: one GPU each, {TOKENS_PER_SECOND} tokens per second, adjusted every minute",)


def load(variant: str) -> Trace:
    """Loads the service `code` or `conv`."""
    tokens: Counter[int] = Counter()

    def request(row: Row) -> None:
        tokens[row.moment("TIMESTAMP") // MINUTE] += row.count("ContextTokens") + row.count("GeneratedTokens")

    table(shipped("azure-llm-inference-2023", f"AzureLLMInferenceTrace_{variant}.csv.gz"), COLUMNS, request)
    replicas = {minute: -(-tokens[minute] // (60 * TOKENS_PER_SECOND)) for minute in range(min(tokens), max(tokens) + 1)}
    jobs, running = list[TraceJob](), list[int]()
    for minute in (*replicas, max(replicas) + 1):
        for _ in range(max(0, replicas.get(minute, 0) - len(running))):
            running.append(minute)
        for _ in range(len(running) - replicas.get(minute, 0)):
            began = running.pop()
            name = f"{variant}-{len(jobs):05d}"
            jobs.append(TraceJob(name, began * MINUTE, (minute - began) * MINUTE, 1, project=f"serve-{variant}", tier="serving"))
    return Trace(f"azure-llm-inference-2023/{variant}", jobs, "4x8", TIERS, notes=NOTES)
