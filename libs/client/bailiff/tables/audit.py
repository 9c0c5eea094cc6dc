"""Tables of audit results: seals, proofs, chain, replay, engines."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from bailiff.audit.replay import OF_DATASET, EngineUsed, Replayed
from bailiff.audit.verify import Verified
from bailiff.render.plain_text import plain
from bailiff_core.explain.evictions import end_text
from bailiff_core.humanize import cost_text, count_text
from bailiff_log.chain_verifier import ORPHAN_MEANINGS, ORPHANS_SHOWN

from .style import indented, pairs, table, text, time_cell


def seals_block(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff audit seals`."""
    listed = table("RECORDS", "ROOT", "SEALED AT", "KEY", right=("RECORDS",))
    for seal in found["seals"]:
        listed.add_row(str(seal["size"]), seal["root"], seal["sealed_at"], text(seal["key"]))
    if found["problem"]:
        head = text(f"{found['pool']}: {found['problem']}", "bold red")
    elif not found["seals"]:
        return Text(f"{found['pool']}: nothing is sealed yet")
    else:
        head = Text(f"{found['pool']}: each seal is signed and continues the one before it", "bold green")
    return Group(head, indented(listed))


def proof_block(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff audit check-proof`, of a record or of a segment."""
    if not found["ok"]:
        return text(f"not proved: {found['problem']}", "bold red")
    facts = pairs()
    if "seq" in found:
        proved = "the record is in the sealed log"
        facts.add_row("record", text(f"{found['pool']}#{found['seq']}  {found['type']}  {found['time']}"))
        facts.add_row("data", text(json.dumps(found["data"], ensure_ascii=False)))
    else:
        proved = "the rows of both files are those of the sealed log"
        facts.add_row("records", text(f"{found['pool']}#{found['first_seq']} to #{found['last_seq']}"))
    facts.add_row("seal", text(f"over {count_text(found['sealed_records'], 'record')}, {found['sealed_at']}"))
    facts.add_row("key", text(found["key"]))
    if found["keys"][:-1]:
        facts.add_row("took over from", text(", ".join(reversed(found["keys"][:-1]))))
    return Group(Text(f"proved: {proved}", "bold green"), indented(facts))


MARKS = {"passed": ("✓", "green"), "failed": ("✗", "bold red"), "not-checked": ("–", "yellow")}


def receipt_block(found: Mapping[str, Any], file: str) -> RenderableType:
    """`bailiff audit check-receipt`: the verdict, each check with what it proves, what was not checked, how to repeat it."""
    if found["verdict"] == "unreadable":
        return text(f"not a receipt: {found['problem']}", "bold red")
    failed = [each["title"].lower() for each in found["checks"] if each["status"] == "failed"]
    ended = "" if found["finished"] else "; the eviction had not ended when it was written"
    if failed:
        verdict = f"refuted: {', '.join(failed)}"
    elif found["verdict"] == "proven":
        verdict = f"proven: the log has this preemption as the receipt shows it{ended}"
    else:
        verdict = f"consistent: the log of these keys has this preemption as the receipt shows it; compare the keys{ended}"
    facts = pairs()
    facts.add_row("decision", text(f"{found['pool']}#{found['decision']}  {found['time']}"))
    facts.add_row("preemptor", text(f"{found['preemptor']}, action {found['action']}"))
    for each in found["victims"]:
        what = f"{each['job']}, tasks {each['tasks']}" if each["tasks"] else each["job"]
        price = f"{count_text(each['gpus'], 'GPU')}, {cost_text(each['lost_gpu_ms'])} of work lost and restarts"
        facts.add_row("victim", text(f"{what}: {price}; {end_text(each['outcome']) or 'not ended yet'}"))
    if found["others"]:
        facts.add_row("", f"{count_text(found['others'], 'other victim')}: named in the decision")
    facts.add_row("root key", text(found["root_key"] or "none"))
    facts.add_row("sealing key", text(found["sealing_key"]))
    for each in found["witnesses"]:
        facts.add_row("witness", text(each))
    checks = pairs()
    for each in found["checks"]:
        mark, style = MARKS[each["status"]]
        checks.add_row(
            Text(f"{mark} {each['title']}", style),
            text(f"{each['detail']}. {'' if each['status'] == 'passed' else 'It would prove: '}{each['proves']}"),
        )
    parts: list[RenderableType] = [
        text(verdict, "bold red" if failed else "bold green"),
        indented(facts),
        "",
        indented(checks),
        "",
    ]
    if found["page"] == "other":
        parts.append(
            text("The page is not the one that this release writes: do not believe what a browser shows of it.", "yellow")
        )
    parts.append("Not checked:")
    parts += [indented(text(f"{each['text']}")) for each in found["not_checked"] if each["id"] != "page"]
    parts += ["", "To repeat it, and to check what a file cannot show:"]
    parts += [indented(text(line.replace("FILE", file))) for line in found["repeat"]]
    return Group(*parts)


def verification_block(found: Verified) -> RenderableType:
    """`bailiff audit verify`."""
    facts = pairs()
    facts.add_row("records", f"{found['records']}")
    if found["first_seq"]:
        earlier = "are stored elsewhere and were not verified"
        if found["passed_over"]:
            earlier = f"were verified before, and their files are unchanged ({found['passed_over']})"
        facts.add_row("begins with", text(f"#{found['first_seq']}: earlier records {earlier}"))
    facts.add_row("head", f"#{found['head_seq']}  {found['head_hash']}")
    facts.add_row("head time", found["head_time"])
    facts.add_row("log identity", found["identity"])
    if not found["first_seq"]:
        facts.add_row("root key", text(found["root_key"] or "none: the log is not signed"))
    for epoch in found["epochs"]:
        facts.add_row(
            f"epoch {epoch['epoch']}",
            text(f"from #{epoch['from_seq']}, {count_text(epoch['records'], 'record')}, writer {epoch['writer'] or '-'}"),
        )
    if found["seals"]:
        facts.add_row("seals", text(f"{found['seals']}, over the first {count_text(found['sealed'], 'record')}"))
        facts.add_row("sealed by", text(", ".join(found["seal_keys"])))
    witnessed = found["witnesses"]
    if witnessed["cosigned"]:
        by = ", ".join(witnessed["by"]) + ("" if witnessed["named"] else ", whose keys were not given")
        facts.add_row("cosigned", text(f"the first {count_text(witnessed['cosigned'], 'record')}, {witnessed['at']}, by {by}"))
    orphans = [
        f"{count} {kind} ({ORPHAN_MEANINGS[kind]})" for kind, count in found["orphans_by_kind"].items() if kind != "breaks-chain"
    ]
    requests = found["requests"]
    if requests["signed"] or requests["unsigned"]:
        unproven = ", whose senders are not proven" if requests["unsigned"] else ""
        judged = f"{requests['signed']} signed and {requests['unsigned']} unsigned{unproven}; judged again"
        facts.add_row("requests", text(judged))
    for each in requests["not_judged"]:
        codes = ", ".join(f"{count} {code}" for code, count in each["codes"].items())
        facts.add_row("not judged", text(f"rejections ({codes}): {each['detail']}"))
    facts.add_row("orphans", text("; ".join(orphans) or "none"))
    parts: list[RenderableType] = []
    if found["broken"] is None:
        parts.append(Text(f"{found['pool']}: the chain is unbroken", "bold green"))
    else:
        parts.append(Text(f"{found['pool']}: the chain is BROKEN", "bold red"))
    wrong = [each for each in (found["root_problem"], found["seal_problem"]) if each]
    parts += [text(f"{found['pool']}: {each}", "bold red") for each in wrong]
    parts += [text(f"{found['pool']}: {each}", "bold red") for each in (*witnessed["problems"], *found["derived"])]
    for fault in requests["faults"]:
        parts.append(text(f"{found['pool']}#{fault['seq']}: {fault['fault']}: {fault['detail']}", "bold red"))
    if requests["fault_count"] > len(requests["faults"]):
        parts.append(
            Text(f"… and {requests['fault_count'] - len(requests['faults'])} more records with such requests", "bold red")
        )
    parts += [text(f"{found['pool']}: to judge: {each}", "yellow") for each in found["to_judge"]]
    if found["derived_rows"]:
        value = "differences from the records, see above" if found["derived"] else "all match the records"
        facts.add_row("derived tables", text(f"{count_text(found['derived_rows'], 'row')} compared, {value}"))
    parts.append(indented(facts))
    shown = found["orphan_list"]
    if shown:
        listed = table("OFFSET", "KIND", "SEQ", "EPOCH", "REASON", right=("OFFSET", "SEQ", "EPOCH"))
        for orphan in shown:
            listed.add_row(
                str(orphan["offset"]), orphan["kind"], text(orphan["seq"]), text(orphan["epoch"]), text(orphan["reason"], "dim")
            )
        parts += ["", indented(listed)]
        more = found["orphans"] - found["unexplained"] - ORPHANS_SHOWN
        if more > 0:
            parts.append(Text(f"    … and {more} more orphans", "dim"))
    broken = found["broken"]
    if broken is not None:
        parts += [
            "",
            text(
                f"First break: the record at offset {broken['offset']} with seq {broken['seq']}: {broken['reason']}.",
                "red",
            ),
            text(f"Meaning: {broken['meaning']}."),
        ]
        if found["unexplained"] > 1:
            parts.append(Text(f"{count_text(found['unexplained'], 'record')} in total continue no record of the log."))
    return Group(*parts)


def replayed_block(found: Replayed) -> RenderableType:
    """`bailiff audit replay`."""
    facts = pairs()
    facts.add_row("records", f"{found['records']}, chain verified")
    if found["from_seq"] <= found["to_seq"] and (found["from_seq"] or found["to_seq"] + 1 < found["records"]):
        facts.add_row("replayed", f"#{found['from_seq']} to #{found['to_seq']}; earlier records were folded")
    facts.add_row("cycles", f"{found['cycles']}, {found['cycles_replayed']} replayed")
    facts.add_row("decisions", str(found["decisions"]))
    facts.add_row("state digests", str(found["digests"]))
    if found["proposals"]:
        missing = found["proposals"] - found["proposals_searched"]
        skipped = f"; {missing} not searched again" if missing else ""
        facts.add_row("proposals", f"{found['proposals']}, {found['proposals_searched']} searched again{skipped}")
    if found["orphans"]:
        facts.add_row("orphans", str(found["orphans"]))
    parts: list[RenderableType] = [_verdict(found), indented(facts)]
    if len(found["engines"]) > 1 or any(engine["advice"] for engine in found["engines"]):
        parts += ["", *_engines(found["engines"])]
    parts += [Padding(text(f"to judge: {each}", "yellow"), (0, 0, 0, 2)) for each in found["to_judge"]]
    difference = found["difference"]
    if difference is not None:
        where = f"#{difference['seq']}, at {time_cell(difference['time'] or None)}, in cycle {difference['cycle']}"
        by = difference["decided_by"].replace("its wheel", "the recorded engine, from its wheel")
        parts += ["", text(f"First difference: {where}, written by the engine {difference['engine']}.", "red")]
        for name, sentences in (("Recorded: ", difference["recorded"]), (f"Replayed by {by}: ", difference["now"])):
            parts += [Padding(Text.assemble((name, "dim"), plain(line)), (0, 0, 0, 2)) for line in sentences]
        parts += [Padding(text(field, "bold"), (0, 0, 0, 4)) for field in difference["fields"]]
        for name, value in (("in the log", difference["found"]), ("replayed", difference["expected"])):
            parts.append(Padding(Text.assemble((f"{name}: ", "dim"), plain(value)), (0, 0, 0, 4)))
    if found["proposal_differences"]:
        parts += ["", *_proposals_not_reproduced(found)]
    if found["error"]:
        parts += ["", text(found["error"], "red")]
    return Group(*parts)


def _proposals_not_reproduced(found: Replayed) -> Iterable[RenderableType]:
    shown = found["proposal_differences"]
    records = len(dict.fromkeys(each["seq"] for each in shown))
    for each in shown:
        yield text(f"Proposal #{each['seq']} is not reproduced.", "red")
        yield from (Padding(text(sentence), (0, 0, 0, 2)) for sentence in each["text"])
    if found["proposals_not_reproduced"] > records:
        yield Text(f"… and {found['proposals_not_reproduced'] - records} more records with such proposals", "dim")


def _verdict(found: Replayed) -> Text:
    if found["difference"] is not None:
        return Text(f"{found['pool']}: the replay differs", "bold red")
    if found["error"]:
        return Text(f"{found['pool']}: the log could not be replayed to its end", "bold red")
    if found["proposals_not_reproduced"]:
        what = count_text(found["proposals_not_reproduced"], "proposal record")
        return Text(f"{found['pool']}: {what} cannot be reproduced by searching again", "bold red")
    if found["cycles_of_other_engines"] and all(engine["logic"] == OF_DATASET for engine in found["engines"]):
        return Text(f"{found['pool']}: folded; of an anonymised log no decision can be computed again", "bold yellow")
    if found["cycles_of_other_engines"] and not found["cycles_replayed"]:
        return Text(f"{found['pool']}: nothing was replayed: the engine of its decisions is not stored here", "bold yellow")
    if found["cycles_of_other_engines"]:
        return Text(
            f"{found['pool']}: the replayed part is identical, byte for byte; not all of the log was replayed", "bold yellow"
        )
    if found["from_seq"] > found["to_seq"] >= 0:
        return Text(f"{found['pool']}: nothing new since #{found['to_seq']}, up to which it was replayed before", "bold green")
    if not found["cycles"] and not found["decisions"]:
        return Text(f"{found['pool']}: no decision cycle has ended yet, nothing to replay", "bold yellow")
    if not found["decisions"]:
        return Text(f"{found['pool']}: no decision is recorded, and the replay gives none", "bold green")
    return Text(f"{found['pool']}: replayed, every byte is identical", "bold green")


def _engines(used: Sequence[EngineUsed]) -> Iterable[RenderableType]:
    listed = table("ENGINE", "RECORDS", "CYCLES", "REPLAYED BY", right=("CYCLES",))
    for engine in used:
        by = text(engine["decided_by"]) if engine["decided_by"] else Text("not replayed: verified and folded only", "yellow")
        listed.add_row(engine["engine"], f"#{engine['from_seq']} to #{engine['to_seq']}", str(engine["cycles"]), by)
    yield indented(listed)
    for engine in used:
        if engine["advice"]:
            yield Padding(text(f"To replay the cycles of {engine['engine']}, {engine['advice']}.", "dim"), (0, 0, 0, 2))


def engines_block(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff engine list`."""
    listed = table("RELEASE", "LOGIC", "DIGEST", "WHEEL'S SHA-256", "", right=("LOGIC",))
    for row in found["engines"]:
        note = text(row["problem"], "red") if row["problem"] else Text("this release" if row["running"] else "", "dim")
        listed.add_row(text(row["release"]), str(row["logic"] or ""), text(row["digest"][:12]), text(row["sha256"][:12]), note)
    head = text(f"{found['store']}: {count_text(len(found['engines']), 'engine')}; this release is {found['running']['engine']}")
    return Group(head, indented(listed)) if found["engines"] else head
