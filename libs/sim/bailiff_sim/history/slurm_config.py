"""Nodes, partitions, QOS and accounts: of slurm.conf and gres.conf, `sacctmgr show qos -P` and `sacctmgr show assoc -P`."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from bailiff_sim.cluster import Machine
from bailiff_sim.text_files import numbered_lines

from . import slurm_values as slurm
from .records import ProjectFact, Site, Tier
from .values import Unreadable, shown

MIB = 1 << 20
PAIR = re.compile(r'(\w+)=("[^"]*"|\S*)')
MODEL = re.compile(r"[^\w.]+")


def site(conf: Path | None, gres: Path | None, qos: Path | None, assoc: Path | None, tier: str = "qos") -> Site:
    """What these files say. tier: `qos` or `partition`, what ranks jobs. Raises `ValueError` with file, line and field."""
    found = Site("Slurm")
    rules = _configuration(conf, gres, found) if conf is not None else {}
    if tier == "qos":
        found.tiers = _qos(qos, rules.get("preemptmode", "")) if qos is not None else {}
        if qos is None:
            found.unknown.append("which QOS outranks which: give the output of `sacctmgr show qos -P` with --qos")
    elif conf is None:
        found.unknown.append("which partition outranks which: give slurm.conf with --conf")
    if assoc is not None:
        found.projects = _accounts(assoc)
    else:
        found.unknown.append("limits and shares of accounts: give the output of `sacctmgr show assoc -P` with --assoc")
    if not found.machines:
        found.unknown.append(
            "the machines: give slurm.conf with --conf; those in NodeList are taken, with the most GPUs seen in use"
        )
    return found


def tier_column(conf: Path | None) -> str:
    """`qos` or `partition`, whichever slurm.conf's PreemptType goes by; `qos` without it."""
    if conf is None:
        return "qos"
    kinds = [pairs["preempttype"] for _, pairs in _statements(conf) if "preempttype" in pairs]
    return "partition" if kinds and kinds[-1].endswith("partition_prio") else "qos"


def _configuration(conf: Path, gres: Path | None, into: Site) -> dict[str, str]:
    """Adds machines and partitions to `into`; returns the other settings."""
    rules, defaults = dict[str, str](), {"nodename": dict[str, str](), "partitionname": dict[str, str]()}
    counts = _gres_file(gres) if gres is not None else {}
    for where, pairs in _statements(conf):
        kind = next((each for each in defaults if each in pairs), "")
        if not kind:
            rules |= pairs
        elif pairs[kind].upper() == "DEFAULT":
            defaults[kind] |= pairs
        elif kind == "nodename":
            into.machines += _nodes(where, {**defaults[kind], **pairs}, counts)
        else:
            full = {**defaults[kind], **pairs}
            mode = full.get("preemptmode", rules.get("preemptmode", ""))
            if "SUSPEND" in mode.upper():
                into.unknown.append(
                    f"preemptions in the partition {full[kind]} (PreemptMode=SUSPEND): sacct has a suspended job as running, and "
                    "they are in no figure of preemption; the simulation evicts instead, and the job starts again"
                )
            try:
                into.tiers[full[kind]] = Tier(int(full.get("prioritytier", "1")), "OFF" not in mode.upper())
            except ValueError:
                raise ValueError(f"{where}: PriorityTier: expected a whole number, found {shown(full['prioritytier'])}") from None
        if "include" in pairs:
            into.unknown.append(f"what {pairs['include']} has, which {conf.name} includes: it is not read")
    return rules


def _statements(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    held, first = "", 0
    for number, raw in numbered_lines(path):
        line = re.sub(r"(?<!\\)#.*", "", raw).strip()
        first = first or number
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        text, where = held + line, f"{path.name}:{first}"
        held, first = "", 0
        if text.lower().startswith("include "):
            yield where, {"include": text.split(None, 1)[1]}
        elif text:
            yield where, {name.lower(): value.strip('"') for name, value in PAIR.findall(text)}


def _nodes(where: str, pairs: Mapping[str, str], counts: Mapping[str, slurm.Gpus]) -> list[Machine]:
    try:
        names = slurm.nodes(pairs["nodename"])
        given = slurm.gres(pairs["gres"]) if "gres" in pairs else None
        found = []
        for name in names:
            gpus = given if given is not None and given.number else counts.get(name, counts.get("", slurm.Gpus(0, "", None)))
            if gpus.number > 64:
                raise Unreadable(f"expected at most 64 GPUs on a node, found {gpus.number}")
            if gpus.number:
                found.append(
                    Machine(
                        name,
                        gpus.number,
                        model_name(gpus.model),
                        cpu_milli=1000 * _cpus(pairs),
                        memory_bytes=MIB * int(pairs.get("realmemory", "0") or 0),
                    )
                )
    except ValueError as error:
        raise ValueError(f"{where}: NodeName={pairs['nodename']}: {error}") from None
    return found


def _cpus(pairs: Mapping[str, str]) -> int:
    """CPUs, else those of its sockets, cores and threads; 0: nothing says."""
    if "cpus" in pairs:
        return int(pairs["cpus"] or 0)
    sockets = pairs.get("sockets") or str(int(pairs.get("boards", "1")) * int(pairs.get("socketsperboard", "1")))
    known = {"sockets", "socketsperboard", "corespersocket", "threadspercore"} & pairs.keys()
    return int(sockets) * int(pairs.get("corespersocket", "1")) * int(pairs.get("threadspercore", "1")) if known else 0


def model_name(text: str) -> str:
    """A model as a label of Bailiff."""
    return MODEL.sub("-", text)[:63] or "gpu"


def _gres_file(path: Path) -> dict[str, slurm.Gpus]:
    """GPUs by node of gres.conf; without a node name under an empty one."""
    found = dict[str, slurm.Gpus]()
    for where, pairs in _statements(path):
        if pairs.get("name") != "gpu":
            continue
        try:
            files = len(slurm.nodes(pairs["file"].rpartition("/")[2])) if "file" in pairs else 1
            count = int(pairs.get("count", files))
            for node in slurm.nodes(pairs["nodename"]) if "nodename" in pairs else ("",):
                before = found.get(node, slurm.Gpus(0, pairs.get("type", ""), None))
                model = before.model if before.model == pairs.get("type", "") else ""
                found[node] = slurm.Gpus(before.number + count, model, None)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    return found


def _table(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    lines = numbered_lines(path)
    _, head = next(lines, (1, ""))
    columns = [name.strip().lower().replace(" ", "") for name in head.split("|")]
    missing = [name for name in needed if name not in columns]
    if missing:
        raise ValueError(f"{path}:1: expected a header with {', '.join(needed)}, as sacctmgr -P writes it; found {shown(head)}")
    for number, line in lines:
        if line:
            yield f"{path.name}:{number}", dict(zip(columns, (value.strip() for value in line.split("|")), strict=False))


def _qos(path: Path, cluster_mode: str) -> dict[str, Tier]:
    found = dict[str, Tier]()
    for where, row in _table(path, ("name", "priority")):
        if not row["priority"].isdecimal():
            raise ValueError(f"{where}: Priority: expected a whole number, found {shown(row['priority'])}")
        mode = row.get("preemptmode", "cluster")
        mode = (cluster_mode if mode == "cluster" else mode).upper()
        preempts = None
        if "preempt" in row:
            own = [row["name"]] if "WITHIN" in mode else []
            preempts = tuple(dict.fromkeys([*filter(None, row["preempt"].split(",")), *own]))
        found[row["name"]] = Tier(int(row["priority"]), "OFF" not in mode, preempts)
    return found


def _accounts(path: Path) -> dict[str, ProjectFact]:
    found = dict[str, ProjectFact]()
    for where, row in _table(path, ("account", "user")):
        if row["user"] or row["account"] == "root" or row.get("partition"):
            continue
        limit, share = slurm.tres(row.get("grptres", "")), row.get("share", "")
        if share and not share.isdecimal() and share != "parent":
            raise ValueError(f"{where}: Share: expected a whole number, found {shown(share)}")
        parent = row.get("parentname", row.get("parname", ""))  # 22.05 prints ParentName; "Par Name" is accepted, too
        has_limit = "gres/gpu" in row.get("grptres", "")
        found[row["account"]] = ProjectFact(
            "" if parent == "root" else parent,
            None,
            limit.number if has_limit else None,
            int(share) if share.isdecimal() else None,
        )
    return found
