"""Previews of drain and undrain."""

from bailiff.client.preview import baseline, fact_of, forecast
from bailiff.render.serializers.drains import AffectedRow, affected_rows
from bailiff_bus.messages import DrainNode, UndrainNode
from bailiff_core.humanize import cost_text, count_text, duration_text
from bailiff_core.model.state import Drain, PoolState

from .preview_text import MOST_NAMED, Preview, first_of, listed, newly_placed, node_of, starting


def preview_drain(state: PoolState, body: DrainNode) -> Preview:
    node = node_of(state, body.node)
    until = None if body.deadline is None else state.now + body.deadline
    rows = affected_rows(state, node, Drain(0, body.mode, body.reason, until))
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


def _of_drain(row: AffectedRow, mode: str) -> str:
    job, gpus = row["job"], f"{row['gpus']} GPU{'' if row['gpus'] == '1' else 's'}"
    grace = duration_text(row["grace_s"] * 1_000_000)
    lost = f"; without a checkpoint it loses up to {cost_text(row['lost_gpu_ms'])}"
    match row["effect"]:
        case "migrates":
            return f"{job} ({gpus}) migrates to {first_of(row['to'])}: grace period {grace}{lost}."
        case "reservation moves":
            return f"{job}: its reservation of {gpus} moves to other nodes."
        case "already evicting":
            return f"{job} is evicting already."
        case effect:
            does = f"continues without its tasks {row['tasks']} there" if effect == "shrinks" else "is evicted and requeued"
            when = "may finish first; at the deadline it " if mode == "graceful" else ""
            return f"{job} ({gpus}) {when}{does}, with a grace period of {grace}{lost}."


def preview_undrain(state: PoolState, body: UndrainNode) -> Preview:
    node = node_of(state, body.node)
    if node.drain is None:
        return Preview(errors=[f"node {node.name} is not drained: nothing to undrain"])
    predicted = forecast(state, fact_of(body))
    gained = newly_placed(predicted, baseline(state), "")
    found = Preview([f"New tasks can start on {node.name} again. Evictions already started there continue."])
    if gained:
        found.sentences.append(f"Now {listed(f'{name} ({first_of(nodes)})' for name, nodes in gained.items())} can start.")
    found.affected = list(starting(predicted.state, gained))
    return found
