"""Previews of what operators ask of nodes: drain, undrain."""

from bailiff.foreseen import anyway, fact_of, foreseen
from bailiff.present.drains import AffectedRow, affected_rows
from bailiff_bus.messages import DrainNode, UndrainNode
from bailiff_core.model.pool import Drain, Pool
from bailiff_core.words import cost_text, count_text, duration_text

from .telling import MOST_NAMED, Preview, listed, news, node_of, some, starting


def drained(pool: Pool, body: DrainNode) -> Preview:
    node = node_of(pool, body.node)
    until = None if body.deadline is None else pool.now + body.deadline
    rows = affected_rows(pool, node, Drain(0, body.mode, body.reason, until))
    within = f" within {duration_text(body.deadline)}" if body.deadline is not None else ""
    how = {
        "graceful": "its jobs move where there is room, and the others may finish"
        + (f"{within}; then they leave" if within else ""),
        "quick": f"its jobs leave now{within}, with their whole grace",
        "fast": f"its jobs leave now{within}, with the short grace",
    }[body.mode]
    said = Preview([f"{node.name} gets nothing new; {how}."], rows)
    if not rows:
        said.sentences.append("Nobody stands on it, so it is empty at once.")
    for row in rows[:MOST_NAMED]:
        said.sentences.append(_of_drain(row, body.mode))
    if len(rows) > MOST_NAMED:
        said.sentences.append(f"And {count_text(len(rows) - MOST_NAMED, 'more job')}.")
    if node.drain is not None:
        said.sentences.append(f"It is being emptied already ({node.drain.mode}); what is asked for now takes the place of that.")
    return said


def _of_drain(row: AffectedRow, mode: str) -> str:
    job, gpus = row["job"], f"{row['gpus']} GPU{'' if row['gpus'] == '1' else 's'}"
    lost = f", and loses {cost_text(row['lost_gpu_ms'])} at most if it does not save"
    match row["what"]:
        case "moves":
            return f"{job} ({gpus}) moves to {some(row['to'])}: it has {row['grace_s']} s to save{lost}."
        case "promise goes elsewhere":
            return f"{job} was promised {gpus} there, and gets them elsewhere."
        case "is leaving already":
            return f"{job} is leaving already."
        case what:
            does = f"goes on without its tasks {row['tasks']} there" if what == "shrinks" else "goes back to the queue"
            when = "may finish first; at the deadline it " if mode == "graceful" else ""
            return f"{job} ({gpus}) {when}{does}, with {row['grace_s']} s to save{lost}."


def undrained(pool: Pool, body: UndrainNode) -> Preview:
    node = node_of(pool, body.node)
    if node.drain is None:
        return Preview(faults=[f"node {node.name} is not drained: there is nothing to take back"])
    found = foreseen(pool, fact_of(body))
    got = news(found, anyway(pool), "")
    said = Preview([f"{node.name} takes work again. Who was told to leave leaves all the same."])
    if got:
        said.sentences.append(f"As things are {listed(f'{name} ({some(nodes)})' for name, nodes in got.items())} can start.")
    said.affected = list(starting(found.pool, got))
    return said
