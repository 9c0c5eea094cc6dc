// Checks one record in the browser: reads the raw log around it, or all of it up to a seal, and says what holds and what was not looked at.
import { GENESIS, header, type Line, recordHash, start } from "./chain";
import { judgeSeals, type Seal, type Sealed, type SealItem } from "./seals";
import { headBefore, type Inclusion, type Link, underSeal, Walk } from "./walk";

export interface Domain {
  domain: string;
  identity: string;
  first_seq: number;
  next_seq: number;
}

interface RawLog {
  end: number;
  next_offset: number;
  messages: Line[];
}

/** Asks the archive, at a path below `domains/{pool}`. */
export type Ask = <T>(path: string) => Promise<T>;

/** ok: null where it is said and not checked. */
export interface Check {
  ok: boolean | null;
  text: string;
  more?: string[];
}

export interface Verified {
  whole: boolean;
  checks: Check[];
  links: Link[];
  inclusion: Inclusion | null;
  keys: string[];
  /** Records up to the seal, or to the end: what checking the whole log takes. */
  total: number;
}

export const WHOLE_AT_ONCE = 10_000;
const AROUND = 12;
const PIECE = 2_000;

export interface Wanted {
  pool: string;
  seq: number;
  offset: number;
  /** What the page shows as the record's data; what the archive says is its hash. */
  data: unknown;
  hash: string;
}

/** whole: from the log's first record to the first seal above this one; progress: is told how many records were checked. */
export async function verify(ask: Ask, wanted: Wanted, whole: boolean | null, progress: (done: number, of: number) => void, signal?: AbortSignal): Promise<Verified> {
  const domain = await ask<Domain>("");
  const sealed = judgeSeals(wanted.pool, domain.identity, await allSeals(ask, signal));
  const seal = sealed.seals.find((each) => each.size > wanted.seq) ?? null;
  const total = seal?.size ?? domain.next_seq;
  const fromStart = domain.first_seq === 0 && (whole ?? total <= WHOLE_AT_ONCE);
  const walk = fromStart ? await wholeLog(ask, wanted, total, progress, signal) : await neighbours(ask, wanted);
  const inclusion = fromStart && seal && walk.found ? underSeal(walk, seal) : null;
  return {
    whole: fromStart, links: walk.links, inclusion, keys: sealed.keys, total,
    checks: [chainCheck(walk, wanted, domain), recordCheck(walk, wanted), ...sealChecks(sealed, seal, inclusion), ...notChecked(fromStart, seal, domain)],
  };
}

async function allSeals(ask: Ask, signal?: AbortSignal): Promise<SealItem[]> {
  const found: SealItem[] = [];
  let next: string | null = "";
  while (next !== null && !signal?.aborted) {
    const page: { items: SealItem[]; next: string | null } = await ask(`seals?order=asc&limit=1000${next && `&cursor=${encodeURIComponent(next)}`}`);
    found.push(...page.items);
    next = page.next;
  }
  return found;
}

async function wholeLog(ask: Ask, wanted: Wanted, total: number, progress: (done: number, of: number) => void, signal?: AbortSignal): Promise<Walk> {
  const walk = new Walk(wanted.pool, wanted.seq, AROUND);
  let offset = 0;
  while (walk.head.nextSeq < total) {
    if (signal?.aborted) throw new DOMException("stopped", "AbortError");
    const piece: RawLog = await ask(`log?from_offset=${offset}&limit=${PIECE}`);
    for (const line of piece.messages) {
      if (walk.head.nextSeq >= total) break;
      walk.take(line);
    }
    progress(walk.head.nextSeq, total);
    if (!piece.messages.length || piece.next_offset <= offset) break;
    offset = piece.next_offset;
  }
  return walk;
}

/** Around the record only. The first message that leads to it is taken as it says it stands. */
async function neighbours(ask: Ask, wanted: Wanted): Promise<Walk> {
  const from = Math.max(0, wanted.offset - 2 * AROUND);
  const { messages } = await ask<RawLog>(`log?from_offset=${from}&limit=${4 * AROUND}`);
  let best: Walk | null = null;
  for (let at = 0; at < messages.length && messages[at]!.offset <= wanted.offset; at += 1) {
    const first = messages[at]!;
    const anchor = header(first, "ce_prev") === GENESIS ? start(wanted.pool) : headBefore(first);
    const walk = new Walk(wanted.pool, wanted.seq, AROUND, anchor);
    messages.slice(at).forEach((line) => walk.take(line));
    if (walk.found) return walk;
    best ??= walk;
  }
  return best ?? new Walk(wanted.pool, wanted.seq, AROUND);
}

function chainCheck(walk: Walk, wanted: Wanted, domain: Domain): Check {
  const orphans = walk.passedOver ? ` ${walk.passedOver === 1 ? "One message between them does" : `${walk.passedOver} messages between them do`} not continue the chain; every reader passes over that.` : "";
  if (!walk.found) {
    const broken = walk.links.find((link) => link.reason);
    return { ok: false, text: `The chain does not lead to record #${wanted.seq}: after ${walk.checked} records it ends${broken ? ` where ${broken.reason}` : ""}.` };
  }
  if (walk.anchored) {
    return { ok: true, text: `${walk.checked} records around it: the hash of each was computed anew from its bytes, and each names the hash of the one before.${orphans}` };
  }
  const identity = walk.identity === domain.identity ? "" : ` The first record's hash is ${walk.identity.slice(0, 16)}…, and the archive says ${domain.identity.slice(0, 16)}….`;
  return { ok: !identity, text: `All ${walk.checked.toLocaleString("en")} records from the log's first to #${walk.head.nextSeq - 1}: the hash of each was computed anew from its bytes, and each names the hash of the one before.${identity}${orphans}` };
}

function recordCheck(walk: Walk, wanted: Wanted): Check {
  const line = walk.found;
  if (!line) return { ok: false, text: `Record #${wanted.seq} was not found among the bytes of the log.` };
  if (recordHash(line) !== wanted.hash) return { ok: false, text: "The archive names another hash for this record than its bytes have." };
  const said = typeof line.value === "string" ? parsed(line.value) : undefined;
  if (!same(said, wanted.data)) return { ok: false, text: "What this page shows is not what the record's bytes say." };
  return { ok: true, text: "What this page shows of the decision is what the record's bytes say, field by field." };
}

function sealChecks(sealed: Sealed, seal: Seal | null, inclusion: Inclusion | null): Check[] {
  const found: Check[] = [];
  if (sealed.problem) found.push({ ok: false, text: `Seals: ${sealed.problem}.` });
  if (sealed.seals.length) {
    const aside = sealed.setAside ? ` ${sealed.setAside} times an operator accepted a loss of sealed records.` : "";
    found.push({ ok: true, text: `${sealed.seals.length === 1 ? "One seal: its" : `${sealed.seals.length} seals: each`} signature (Ed25519) fits its key${sealed.seals.length === 1 ? "" : ", and each tree continues the one before"}.${aside}`, more: sealed.keys.map((key, at) => `${at ? "then key" : "first key"} ${key}`) });
  }
  if (!seal) {
    found.push({ ok: null, text: sealed.seals.length ? "No seal is over this record yet: until the next one only the chain protects it." : "There are no seals: the chain alone cannot show that the log's end was not cut off, or all of it written anew." });
  } else if (inclusion) {
    const when = new Date(seal.sealed_at / 1000).toISOString().slice(0, 19).replace("T", " ");
    found.push({ ok: inclusion.ok, text: inclusion.ok ? `${inclusion.words} Its path of ${inclusion.path.length} hashes leads to the root that was signed at ${when} UTC.` : inclusion.words, more: inclusion.ok ? inclusion.path : [] });
  } else {
    found.push({ ok: null, text: `Its place under the seal over the first ${seal.size.toLocaleString("en")} records was not checked: that takes all of them.` });
  }
  return found;
}

function notChecked(fromStart: boolean, seal: Seal | null, domain: Domain): Check[] {
  const found: Check[] = [];
  if (!fromStart && domain.first_seq > 0) found.push({ ok: null, text: `The archive begins with record #${domain.first_seq}: what came before lies in exported files, and bailiff audit verify reads those.` });
  else if (!fromStart) found.push({ ok: null, text: "That this stretch goes back to the log's first record was not checked." });
  if (seal) found.push({ ok: null, text: "Whether the first key is the one that your auditor made nobody but you can say: compare it with the one that was written down." });
  found.push({ ok: null, text: "That the rules lead to this decision is checked by deciding it again: bailiff audit replay." });
  return found;
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** Whether two values are the same JSON, whatever the order of their keys. */
function same(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null || Array.isArray(left) !== Array.isArray(right)) return false;
  const [names, others] = [Object.keys(left), Object.keys(right)];
  return names.length === others.length && names.every((name) => Object.hasOwn(right, name) && same((left as Record<string, unknown>)[name], (right as Record<string, unknown>)[name]));
}
