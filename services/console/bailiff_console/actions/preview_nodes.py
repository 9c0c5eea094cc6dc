"""Previews of drain and undrain."""

from bailiff.client.preview import baseline, forecast
from bailiff.render.serializers.victims import AffectedView, affected_by
from bailiff_core.humanize import cost_text, count_text, duration_text
from bailiff_core.model.state import Drain, PoolState
from bailiff_core.records.facts import DrainNode, NodeUndrained
from bailiff_core.records.payload import Fact

from .preview_text import MOST_NAMED, Preview, first_of, gains, node_of


def preview_drain(state: PoolState, body: DrainNode) -> Preview:
    node = node_of(state, body.node)
    until = None if body.deadline is None else state.now + body.deadline
    rows = affected_by(state, node, Drain(0, body.mode, body.reason, until))
    within = f" within {duration_text(body.deadline)}" if body.deadline is not None else ""
    how = {
        "graceful": "jobs that fit elsewhere migrate, the others may finish"
        + (f"{within}; then they are evicted" if within else ""),
        "quick": f"its jobs are evicted now{within}, with their full grace period",
        "fast": f"its jobs are evicted now{within}, with the short grace period",
    }[body.mode]
    found = Preview([f"No new tasks start on {node.name}; {how}."], rows)
    if not rows:
        found.sentences.append("No tasks and no reservations on it: it is drained at once.")
    for row in rows[:MOST_NAMED]:
        found.sentences.append(_of_drain(row, body.mode))
    if len(rows) > MOST_NAMED:
        found.sentences.append(f"And {count_text(len(rows) - MOST_NAMED, 'more job')}.")
    if node.drain is not None:
        found.sentences.append(f"It is draining already ({node.drain.mode}); this request replaces that drain.")
    return found


DOES = {
    "evicted": "is evicted and requeued",
    "ends": "is evicted and ends, as it was submitted with on_eviction: end",
    "shrinks": "continues without its tasks {tasks} there",
    "restarts with fewer tasks": "restarts without its tasks {tasks} there",
}
"""By the effect of a drain on a job that has no other place."""


def _of_drain(row: AffectedView, mode: str) -> str:
    job, gpus = row["job"], f"{row['gpus_text']} GPU{'' if row['gpus_text'] == '1' else 's'}"
    grace = duration_text(row["grace_s"] * 1_000_000)
    lost = f"; without a checkpoint it loses up to {cost_text(row['work_lost_gpu_ms'])} of work"
    match row["effect"]:
        case "migrates":
            return f"{job} ({gpus}) migrates to {first_of(dict.fromkeys(row['to']))}: grace period {grace}{lost}."
        case "reservation moves":
            return f"{job}: its reservation of {gpus} moves to other nodes."
        case "already evicting":
            return f"{job} is evicting already."
        case effect:
            does = DOES[effect].format(**row)
            when = "may finish first; at the deadline it " if mode == "graceful" else ""
            return f"{job} ({gpus}) {when}{does}, with a grace period of {grace}{lost}."


def preview_undrain(state: PoolState, fact: Fact) -> Preview:
    assert isinstance(fact, NodeUndrained)
    predicted = forecast(state, fact)
    gained = gains(predicted, baseline(state))
    found = Preview([f"New tasks can start on {fact.node} again. Evictions already started there continue."])
    if gained:
        found.sentences.append(f"Now {gained.text()}.")
    found.affected = list(gained.rows(predicted.state))
    return found
