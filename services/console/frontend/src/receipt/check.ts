// Checks a receipt from the file alone, as bailiff.audit.receipt.check: same checks, same verdict (tests/contract/test_receipts.py).
import rules from "../../../../../libs/client/bailiff/audit/receipt/rules.json";
import { count } from "../lib/amounts";
import { endText } from "../lib/evictionTexts";
import { compareBytes, fromHex } from "../verify/bytes";
import { header } from "../verify/chain";
import { leafHash, multiproofRoot } from "../verify/merkle";
import { addKey, signatureHolds } from "../verify/seals";
import { Contents, Fault, hasPurpose } from "./contents";
import { checkpointSignatures, cosigner } from "./notes";
import { parse, type Receipt } from "./receipt";
import { checkRequesters, checkWriter } from "./signatures";

export type Status = "passed" | "failed" | "not-checked";
export type CheckId = keyof typeof rules.checks;

export interface Check {
  id: CheckId;
  status: Status;
  detail: string;
}

/** What the reader knows from elsewhere: keys as text; empty: nothing. */
export interface Trust {
  roots: string[];
  sealing: string[];
  witnesses: string[];
}

export interface Checked {
  verdict: "proven" | "consistent" | "refuted" | "unreadable";
  problem: string;
  finished: boolean;
  checks: Check[];
  /** Of `rules.not_checked`. */
  notChecked: (keyof typeof rules.not_checked)[];
  receipt: Receipt | null;
  contents: Contents | null;
}

/** The receipt has nothing to check here. */
class NotChecked extends Error {}

const ALWAYS = ["rules", "permissions", "candidates", "prices", "stages", "revocations", "page"] as const;
const IDS = Object.keys(rules.checks) as CheckId[];

export function checkReceipt(text: string, trust: Trust): Checked {
  const none = { finished: false, checks: [], notChecked: [], receipt: null, contents: null, problem: "" };
  let receipt: Receipt;
  try {
    receipt = parse(text);
  } catch (error) {
    return { ...none, verdict: "unreadable", problem: reason(error) };
  }
  let contents: Contents;
  try {
    contents = new Contents(receipt);
  } catch (error) {
    const checks = IDS.map((id): Check => (id === "records" ? { id, status: "failed", detail: reason(error) } : { id, status: "not-checked", detail: "a record cannot be read" }));
    return { ...none, verdict: "refuted", checks, receipt };
  }
  const checks = IDS.map((id) => run(id, () => LOOKS[id](contents, trust)));
  const ok = checks.every((each) => each.status !== "failed");
  const skipped = checks.filter((each) => each.status === "not-checked").map((each) => (each.id === "writer" ? "unsigned" : each.id) as keyof typeof rules.not_checked);
  return {
    verdict: !ok ? "refuted" : trust.roots.length || trust.sealing.length ? "proven" : "consistent",
    problem: "",
    finished: receipt.victims.every((job) => contents.outcome(job)),
    checks,
    notChecked: [...skipped, ...(receipt.left_out ? (["left_out"] as const) : []), ...ALWAYS],
    receipt,
    contents,
  };
}

const reason = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Any error is a failed check: what cannot be read proves nothing. */
function run(id: CheckId, look: () => string): Check {
  try {
    return { id, status: "passed", detail: look() };
  } catch (error) {
    return { id, status: error instanceof NotChecked ? "not-checked" : "failed", detail: reason(error) };
  }
}

const LOOKS: Record<CheckId, (contents: Contents, trust: Trust) => string> = {
  records: (contents) => {
    const { receipt, records } = contents;
    let last = -1;
    for (const { kept, seq } of records) {
      const names = kept.headers.map(([name]) => name);
      if (new Set(names).size !== names.length || !names.every((name) => name.startsWith("ce_"))) throw new Fault(`record ${kept.seq} has a header twice, or one that is not hashed`);
      if (header(kept, "ce_pool") !== receipt.pool || header(kept, "ce_seq") !== String(kept.seq)) throw new Fault(`record ${kept.seq} is ${header(kept, "ce_pool")}#${seq} by its own headers`);
      if (kept.seq <= last) throw new Fault(`record ${kept.seq} comes after record ${last}: they are not in the order of the log`);
      last = kept.seq;
    }
    if (records[0]!.seq !== 0 || records[0]!.kind !== "PoolCreated") throw new Fault("the log's first record is missing");
    const stray = records.find((_, at) => !contents.purpose(at));
    if (stray) throw new Fault(`record ${stray.seq}, ${stray.kind}, has nothing to do with this preemption`);
    const epochs = new Set(["0", ...contents.of("WriterStarted").map((each) => each.epoch)]);
    const homeless = records.find((each) => !epochs.has(each.epoch));
    if (homeless) throw new Fault(`the start of the writer of record ${homeless.seq} is missing`);
    for (const job of [contents.preemptor, ...receipt.victims]) {
      const submission = contents.submission(job);
      if (!submission || submission.seq > contents.decision.seq) throw new Fault(`the submission of ${job} is missing`);
      if (!contents.of("PolicyApplied").some((each) => String(each.seq) === submission.policy)) throw new Fault(`record ${submission.policy}, the policy under which ${job} was submitted, is missing`);
    }
    return `${count(records.length, "record")} of ${receipt.pool}, #0 to #${last}`;
  },

  inclusion: ({ receipt: { seal, proof }, records }) => {
    const leaves = new Map(records.map(({ kept, hash }) => [kept.seq, leafHash(fromHex(hash))]));
    const root = leaves.size < records.length ? null : multiproofRoot(leaves, seal.size, proof.map(fromHex));
    if (root === null || compareBytes(root, fromHex(seal.root))) throw new Fault("the records with these bytes are not at their positions under the seal");
    return `each is under the root over ${count(seal.size, "record")}, ${seal.root.slice(0, 16)}…`;
  },

  seal: ({ receipt, records }) => {
    const { seal, pool } = receipt;
    if (!signatureHolds(pool, seal)) throw new Fault(`the seal's signature is not valid for key ${seal.key}`);
    if (seal.identity !== records[0]!.hash) throw new Fault("the seal is of a log with another first record");
    checkpointSignatures(seal.checkpoint, pool, seal);
    if (sealingKeys(receipt).at(-1) !== seal.key) throw new Fault(`the seal was signed with key ${seal.key}, which does not follow from the keys in the file`);
    return `sealed at ${new Date(seal.sealed_at / 1000).toISOString()}, signed by key ${seal.key}`;
  },

  writer: (contents) => {
    const found = checkWriter(contents);
    if (!found) throw new NotChecked("this log is not signed");
    return `${count(found.signatures, "signature")}, the newest by key ${found.keys.writer}, certified by root key ${found.keys.root}`;
  },

  requesters: (contents) => {
    const found = checkRequesters(contents);
    if (!found.signed) throw new NotChecked("none of these submissions is signed");
    return found.names.join("; ");
  },

  decision: (contents) => {
    const { receipt, decision, records, preemptor } = contents;
    if (new Set(receipt.victims).size !== receipt.victims.length) throw new Fault("a victim is named twice");
    const stranger = receipt.victims.find((job) => !contents.choices(job).length);
    if (stranger !== undefined) throw new Fault(`${stranger} is not a victim of this decision`);
    const request = records.find((each) => each.seq === decision.data["request"]);
    if (request?.kind !== "PreemptionRequested" || request.seq >= decision.seq) throw new Fault(`record ${decision.data["request"]}, the request that it answers, is missing`);
    if (request.data["job"] !== preemptor) throw new Fault(`it answers a request of ${request.data["job"]}, not of ${preemptor}`);
    const proposals = contents
      .of("ProposalReceived")
      .filter((each) => each.seq < decision.seq && each.data["selection"] === request.data["selection"])
      .flatMap((each) => (each.data["proposals"] as { request: number; job: string }[]).filter((one) => one.request === decision.data["request"]));
    if (!proposals.length) throw new Fault("the proposal that it accepts is missing");
    if (proposals.some((each) => each.job !== preemptor)) throw new Fault("the proposal is for another job");
    const all = new Set(contents.choices().map((choice) => choice["job"])).size;
    return `#${decision.seq}, ${decision.data["action"] ?? "preempt"} for ${preemptor}: ${count(all, "victim")}, ${receipt.victims.length} of them in this file`;
  },

  stages: (contents) => {
    const { receipt, decision } = contents;
    let stages = 0;
    for (const record of contents.records) {
      const { seq, kind, data } = record;
      if (!hasPurpose(record, "stage", "outcome") || !receipt.victims.includes(data["job"])) continue;
      stages += 1;
      const attempts = contents.choices(data["job"]).map((choice) => choice["attempt"]);
      if (seq <= decision.seq) throw new Fault(`record ${seq} is before the decision`);
      if (data["attempt"] !== undefined && !attempts.includes(data["attempt"])) throw new Fault(`record ${seq} is about another attempt of ${data["job"]}`);
      if (kind === "EvictionStarted" && data["decided_by"] !== decision.seq) throw new Fault(`record ${seq} starts an eviction that record ${data["decided_by"]} decided`);
    }
    return `${count(stages, "stage")}; ${receipt.victims.map((job) => `${job}: ${endText(contents.outcome(job)) || "not ended yet"}`).join("; ")}`;
  },

  cosignatures: ({ receipt }) => {
    if (!receipt.cosignatures.length) throw new NotChecked("no witness cosigned this seal");
    return [...new Set(receipt.cosignatures.map((each) => cosigner(each.checkpoint, each.witness, receipt.pool, receipt.seal)))].sort().join(", ");
  },

  trust: ({ receipt, records }, trust) => {
    const found: string[] = [];
    if (trust.roots.length) {
      const root = records[0]!.kind === "PoolCreated" ? records[0]!.data["root_key"] : null;
      if (!trust.roots.includes(root)) throw new Fault(`the log's root key is ${root ?? "none"}, which is not yours`);
      found.push("root key");
    }
    if (trust.sealing.length) {
      if (!sealingKeys(receipt).some((key) => trust.sealing.includes(key))) throw new Fault(`the log was sealed with key ${receipt.seal.key}, which does not follow from yours`);
      found.push("sealing key");
    }
    if (trust.witnesses.length) {
      receipt.cosignatures.forEach((each) => cosigner(each.checkpoint, each.witness, receipt.pool, receipt.seal));
      const missing = trust.witnesses.filter((key) => !receipt.cosignatures.some((each) => each.witness === key));
      if (missing.length) throw new Fault(`not cosigned by ${missing.map((key) => key.split("+")[0]).join(", ")}`);
      found.push(count(trust.witnesses.length, "witness", "witnesses"));
    }
    if (!found.length) throw new NotChecked("compare them: no key was given that you know");
    return `as you know them: ${found.join(", ")}`;
  },
};

/** The log's sealing keys up to the seal's; each signed the next. Throws `Fault`. */
function sealingKeys(receipt: Receipt): string[] {
  const result = { keys: [] as string[] };
  for (const body of receipt.keys) {
    const problem = body.identity === receipt.seal.identity ? addKey(receipt.pool, result, body) : "a key is of another log";
    if (problem) throw new Fault(problem);
  }
  return result.keys.length ? result.keys : [receipt.seal.key];
}
