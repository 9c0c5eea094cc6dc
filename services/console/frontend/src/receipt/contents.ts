// A receipt with its records decoded, and what each record is in it for, as bailiff.audit.receipt.check.
import rules from "../../../../../libs/client/bailiff/audit/receipt/rules.json";
import { header, recordHash } from "../verify/chain";
import { strictBase64 } from "./notes";
import type { Raw, Receipt, ReceiptRecord } from "./receipt";

/** The data of a record, as its JSON has it. */
export type Data = Record<string, any>;

export interface Decoded {
  kept: ReceiptRecord;
  seq: number;
  kind: string;
  /** RFC 3339, UTC, six fractional digits. */
  time: string;
  epoch: string;
  policy: string;
  data: Data;
  hash: string;
}

/** A check failed. */
export class Fault extends Error {}

const PURPOSES: Record<string, string> = rules.purposes;
const TYPE = /^bailiff\.audit\.([A-Za-z]+)\.v1$/;
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$/;
const REQUIRED = ["ce_pool", "ce_seq", "ce_prev", "ce_type", "ce_epoch", "ce_time", "ce_source", "ce_engine", "ce_policy", "ce_cycle"];
const RANGES = /^[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?){0,999}$/;

export class Contents {
  readonly records: Decoded[];
  readonly decision: Decoded;

  /** Throws `Fault` if there is nothing to check: a record cannot be read, or the decision is missing. */
  constructor(readonly receipt: Receipt) {
    this.records = receipt.records.map(decoded);
    const decision = this.records.find((each) => each.seq === receipt.decision);
    if (decision?.kind !== "PreemptionDecided") throw new Fault(`record ${receipt.decision}, the decision, is not in it, or decides no preemption`);
    this.decision = decision;
    this.choices().forEach((choice) => this.outcome(choice["job"]));
  }

  get preemptor(): string {
    return this.decision.data["preemptor"].job;
  }

  of(kind: string): Decoded[] {
    return this.records.filter((each) => each.kind === kind);
  }

  /** What the decision says about this victim, or all of them. */
  choices(job?: string): Data[] {
    return (this.decision.data["victims"] as Data[]).filter((choice) => job === undefined || choice["job"] === job);
  }

  submission(job: string): Decoded | undefined {
    return this.of("JobSubmitted").find((each) => each.data["demand"].job === job);
  }

  /** How the eviction of this victim ended; empty: it had not. */
  outcome(job: string): string {
    const wanted = this.choices(job).flatMap((choice) => taskNumbers(choice["tasks"] ?? ""));
    const refused = this.of("TaskCancelEvictionRefused").some((each) => each.data["job"] === job);
    const settled = new Set<number>();
    const settledAll = (): boolean => wanted.every((task) => settled.has(task));
    for (const { seq, kind, data } of this.records) {
      if (seq <= this.decision.seq || data["job"] !== job) continue;
      if (kind === "JobRequeued" || kind === "JobEnded") return data["outcome"];
      if (kind === "JobShrunk") {
        taskNumbers(data["tasks"] ?? "").forEach((task) => settled.add(task));
        if (wanted.length && settledAll()) return `shrunk, ${data["outcome"]}`;
      } else if (kind === "TaskEvictionCancelled") {
        settled.add(data["task"]);
        if (settledAll() && !refused) return "eviction cancelled";
      } else if (kind === "EvictionCancelled" && !data["notified"]) return "eviction cancelled";
      else if (kind === "ReservationDropped") return "reservation dropped";
    }
    return "";
  }

  /** What the record at this index is in the receipt for; empty: nothing. */
  purpose(at: number): string {
    const { seq, kind, data, kept } = this.records[at]!;
    const purpose = PURPOSES[kind] ?? "";
    const { victims } = this.receipt;
    const request = this.decision.data["request"];
    const fits: Record<string, () => boolean> = {
      keys: () => true,
      policy: () => true,
      submission: () => [...victims, this.preemptor].includes(data["demand"].job),
      request: () => seq === request,
      proposal: () => (data["proposals"] as Data[]).some((each) => each["request"] === request),
      decision: () => seq === this.receipt.decision,
      stage: () => victims.includes(data["job"]),
      outcome: () => victims.includes(data["job"]),
      use: () => data["job"] === this.preemptor,
    };
    if (fits[purpose]?.()) return purpose;
    return this.records[at + 1]?.seq === seq + 1 && header(kept, "ce_nextcontent") ? "support" : "";
  }
}

export const hasPurpose = (record: Decoded, ...purposes: string[]): boolean => purposes.includes(PURPOSES[record.kind] ?? "");

function decoded(kept: ReceiptRecord): Decoded {
  try {
    [kept.value, ...kept.headers.map(([, raw]) => raw)].forEach(checkRaw);
    const data: unknown = JSON.parse(typeof kept.value === "string" ? kept.value : "");
    const [kind, time, seq] = [TYPE.exec(header(kept, "ce_type"))?.[1], header(kept, "ce_time"), header(kept, "ce_seq")];
    if (kind === undefined || !TIME.test(time) || !/^[0-9]{1,16}$/.test(seq) || !REQUIRED.every((name) => header(kept, name))) throw new Error("a header is missing or not valid");
    if (typeof data !== "object" || data === null || Array.isArray(data)) throw new Error("its data is no object");
    return { kept, seq: Number(seq), kind, time, epoch: header(kept, "ce_epoch"), policy: header(kept, "ce_policy"), data, hash: recordHash(kept) };
  } catch (error) {
    throw new Fault(`record ${kept.seq} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

const checkRaw = (raw: Raw): unknown => typeof raw === "string" || strictBase64(raw.base64);

/** The tasks in these ranges, as in `0-3,7`. */
export function taskNumbers(ranges: string): number[] {
  if (!ranges) return [];
  if (!RANGES.test(ranges)) throw new Fault(`${ranges.slice(0, 40)} names no tasks`);
  return ranges.split(",").flatMap((part) => {
    const [first, last] = part.split("-").map(Number) as [number, number | undefined];
    return Array.from({ length: Math.max(0, (last ?? first) - first + 1) }, (_, at) => first + at);
  });
}
