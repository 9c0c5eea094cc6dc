// Verifies one record in the browser: reads the raw log around it, or all of it up to a seal, and reports each check and what was not checked.
import type { PoolItem, RawLog as ArchivedLog } from "../../generated/query";
import { momentAt, times } from "../lib";
import { GENESIS, header, recordHash, start, type Line } from "./chain";
import { ChainVerifier, claimedHead, sealInclusion, type Inclusion, type Link } from "./chainVerifier";
import { verifySeals, type Seal, type SealItem, type SealVerification } from "./seals";

type ArchivedPool = Pick<PoolItem, "pool" | "identity" | "first_seq" | "next_seq">;

type RawLog = Pick<ArchivedLog, "end_offset" | "next_offset"> & { messages: Line[] };

/** Fetches from the archive, at a path below `pools/{pool}`. */
export type ArchiveQuery = <T>(path: string) => Promise<T>;

/** A check. ok null: not checked. */
export interface Check {
  ok: boolean | null;
  text: string;
  more?: string[];
}

export interface Verified {
  wholeLog: boolean;
  checks: Check[];
  links: Link[];
  inclusion: Inclusion | null;
  keys: string[];
  /** Number of records that a full verification reads: up to the seal, or the end. */
  total: number;
}

export const WHOLE_AT_ONCE = 10_000;
const AROUND = 12;
const PIECE = 2_000;

export interface ExpectedRecord {
  pool: string;
  seq: number;
  offset: number;
  /** The record's data as shown by the page, and its hash from the archive. */
  data: unknown;
  hash: string;
}

/** Verifies a record. wholeLog: from the first record to the first seal over this one; null: if the log is short. progress: called with the number of records. */
export async function verify(query: ArchiveQuery, expected: ExpectedRecord, wholeLog: boolean | null, progress: (done: number, of: number) => void, signal?: AbortSignal): Promise<Verified> {
  const archived = await query<ArchivedPool>("");
  const seals = verifySeals(expected.pool, archived.identity, await allSeals(query, signal));
  const seal = seals.seals.find((each) => each.size > expected.seq) ?? null;
  const total = seal?.size ?? archived.next_seq;
  const fromStart = archived.first_seq === 0 && (wholeLog ?? total <= WHOLE_AT_ONCE);
  const verifier = fromStart ? await verifyWholeLog(query, expected, total, progress, signal) : await verifyNeighbours(query, expected);
  const inclusion = fromStart && seal && verifier.found ? sealInclusion(verifier, seal) : null;
  return {
    wholeLog: fromStart, links: verifier.links, inclusion, keys: seals.keys, total,
    checks: [chainCheck(verifier, expected, archived), recordCheck(verifier, expected), ...sealChecks(seals, seal, inclusion), ...uncheckedClaims(fromStart, seal, archived)],
  };
}

async function allSeals(query: ArchiveQuery, signal?: AbortSignal): Promise<SealItem[]> {
  const found: SealItem[] = [];
  let next: string | null = "";
  while (next !== null && !signal?.aborted) {
    const page: { items: SealItem[]; next: string | null } = await query(`seals?order=asc&limit=1000${next && `&cursor=${encodeURIComponent(next)}`}`);
    found.push(...page.items);
    next = page.next;
  }
  return found;
}

async function verifyWholeLog(query: ArchiveQuery, expected: ExpectedRecord, total: number, progress: (done: number, of: number) => void, signal?: AbortSignal): Promise<ChainVerifier> {
  const verifier = new ChainVerifier(expected.pool, expected.seq, AROUND);
  let offset = 0;
  while (verifier.head.nextSeq < total) {
    if (signal?.aborted) throw new DOMException("stopped", "AbortError");
    const piece: RawLog = await query(`log?from_offset=${offset}&limit=${PIECE}`);
    for (const line of piece.messages) {
      if (verifier.head.nextSeq >= total) break;
      verifier.add(line);
    }
    progress(verifier.head.nextSeq, total);
    if (!piece.messages.length || piece.next_offset <= offset) break;
    offset = piece.next_offset;
  }
  return verifier;
}

/** Verifies only the records around this one, anchored at the first message that leads to it. */
async function verifyNeighbours(query: ArchiveQuery, expected: ExpectedRecord): Promise<ChainVerifier> {
  const from = Math.max(0, expected.offset - 2 * AROUND);
  const { messages } = await query<RawLog>(`log?from_offset=${from}&limit=${4 * AROUND}`);
  let best: ChainVerifier | null = null;
  for (let at = 0; at < messages.length && messages[at]!.offset <= expected.offset; at += 1) {
    const first = messages[at]!;
    const anchor = header(first, "ce_prev") === GENESIS ? start(expected.pool) : claimedHead(first);
    const verifier = new ChainVerifier(expected.pool, expected.seq, AROUND, anchor);
    messages.slice(at).forEach((line) => verifier.add(line));
    if (verifier.found) return verifier;
    best ??= verifier;
  }
  return best ?? new ChainVerifier(expected.pool, expected.seq, AROUND);
}

function chainCheck(verifier: ChainVerifier, expected: ExpectedRecord, archived: ArchivedPool): Check {
  const orphans = verifier.orphans ? ` ${verifier.orphans === 1 ? "One message between them does" : `${verifier.orphans} messages between them do`} not continue the chain and are ignored by every reader.` : "";
  if (!verifier.found) {
    const broken = verifier.links.find((link) => link.reason);
    return { ok: false, text: `The chain does not reach record #${expected.seq}: it ends after ${verifier.checked} records${broken ? `, as ${broken.reason}` : ""}.` };
  }
  if (verifier.anchored) {
    return { ok: true, text: `${verifier.checked} records around it: the hash of each was recomputed from its bytes, and each contains the hash of the previous one.${orphans}` };
  }
  const identity = verifier.identity === archived.identity ? "" : ` The first record's hash is ${verifier.identity.slice(0, 16)}…, but the archive reports ${archived.identity.slice(0, 16)}….`;
  return { ok: !identity, text: `All ${verifier.checked.toLocaleString("en")} records from the first to #${verifier.head.nextSeq - 1}: the hash of each was recomputed from its bytes, and each contains the hash of the previous one.${identity}${orphans}` };
}

function recordCheck(verifier: ChainVerifier, expected: ExpectedRecord): Check {
  const line = verifier.found;
  if (!line) return { ok: false, text: `Record #${expected.seq} was not found among the bytes of the log.` };
  if (recordHash(line) !== expected.hash) return { ok: false, text: "The archive reports a different hash for this record than its bytes have." };
  const parsedValue = typeof line.value === "string" ? parsed(line.value) : undefined;
  if (!same(parsedValue, expected.data)) return { ok: false, text: "The data shown on this page differs from the record's bytes." };
  return { ok: true, text: "The data shown on this page equals the record's bytes, field by field." };
}

function sealChecks(seals: SealVerification, seal: Seal | null, inclusion: Inclusion | null): Check[] {
  const found: Check[] = [];
  if (seals.problem) found.push({ ok: false, text: `Seals: ${seals.problem}.` });
  if (seals.seals.length) {
    const acceptedLoss = seals.invalidations ? ` Sealed records were lost and accepted as lost by an operator ${times(seals.invalidations)}.` : "";
    found.push({ ok: true, text: `${seals.seals.length === 1 ? "One seal: its" : `${seals.seals.length} seals: each`} signature (Ed25519) is valid for its key${seals.seals.length === 1 ? "" : ", and each tree continues the one before"}.${acceptedLoss}`, more: seals.keys.map((key, at) => `${at ? "next key" : "first key"} ${key}`) });
  }
  if (!seal) {
    found.push({ ok: null, text: seals.seals.length ? "This record is not sealed yet: until the next seal, only the chain protects it." : "There are no seals: the chain alone cannot prove that the log was not truncated or rewritten." });
  } else if (inclusion) {
    const when = momentAt(seal.sealed_at / 1000);
    found.push({ ok: inclusion.ok, text: inclusion.ok ? `${inclusion.text} Its inclusion path of ${inclusion.path.length} hashes leads to the root signed at ${when}.` : inclusion.text, more: inclusion.ok ? inclusion.path : [] });
  } else {
    found.push({ ok: null, text: `Its inclusion in the seal over the first ${seal.size.toLocaleString("en")} records was not checked: that requires all of them.` });
  }
  return found;
}

function uncheckedClaims(fromStart: boolean, seal: Seal | null, archived: ArchivedPool): Check[] {
  const found: Check[] = [];
  if (!fromStart && archived.first_seq > 0) found.push({ ok: null, text: `The archive begins with record #${archived.first_seq}: earlier records are in exported files, which bailiff audit verify reads.` });
  else if (!fromStart) found.push({ ok: null, text: "The link of this segment to the log's first record was not checked." });
  if (seal) found.push({ ok: null, text: "The authenticity of the first key was not checked: compare it with the key that your auditor published." });
  found.push({ ok: null, text: "Whether the rules lead to this decision was not checked: use bailiff audit replay." });
  return found;
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** Whether two values are equal as JSON, regardless of key order. */
function same(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null || Array.isArray(left) !== Array.isArray(right)) return false;
  const [names, others] = [Object.keys(left), Object.keys(right)];
  return names.length === others.length && names.every((name) => Object.hasOwn(right, name) && same((left as Record<string, unknown>)[name], (right as Record<string, unknown>)[name]));
}
