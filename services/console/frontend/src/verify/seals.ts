// Seals (docs/record.md): an Ed25519 signature over the root of a Merkle tree over a log's record hashes. As bailiff_bus.seals.
import { ed25519 } from "@noble/curves/ed25519.js";

import { fromBase64Url, fromHex, utf8 } from "./bytes";
import { consistent } from "./merkle";

export interface Seal {
  identity: string;
  size: number;
  root: string;
  hash: string;
  sealed_at: number;
  before?: number;
  consistency?: string[];
  key: string;
  signature: string;
}

interface Key {
  identity: string;
  key: string;
  before?: string | null;
  signature?: string | null;
}

interface Aside {
  identity: string;
  size?: number;
  lost: number;
  lost_root: string;
  from_seq?: number;
  reason?: string;
  set_aside_at: number;
  key: string;
  signature: string;
}

/** A message of `bailiff.seals` as the archive gives it out. */
export type SealItem =
  | { offset: number; kind: "LogSealed"; data: Seal }
  | { offset: number; kind: "SealingKey"; data: Key }
  | { offset: number; kind: "SealsSetAside"; data: Aside };

/** What stands after all seals were judged; problem: the first that does not hold, in words. Nothing after it counts. */
export interface Sealed {
  keys: string[];
  seals: Seal[];
  setAside: number;
  problem: string;
}

/** Keys that vouch for each other, trees that continue each other, in the order of their topic. */
export function judgeSeals(domain: string, identity: string, items: SealItem[]): Sealed {
  const found: Sealed = { keys: [], seals: [], setAside: 0, problem: "" };
  for (const item of [...items].sort((left, right) => left.offset - right.offset)) {
    try {
      found.problem = item.data.identity === identity ? take(domain, found, item) : `the ${item.kind} at offset ${item.offset} is of another log`;
    } catch (error) {
      found.problem = `the ${item.kind} at offset ${item.offset} cannot be read: ${String(error)}`;
    }
    if (found.problem) break;
  }
  return found;
}

function take(domain: string, found: Sealed, item: SealItem): string {
  if (item.kind === "SealingKey") return takeKey(domain, found, item.data);
  if (item.kind === "SealsSetAside") return takeAside(domain, found, item.data);
  return takeSeal(domain, found, item.data);
}

function takeKey(domain: string, found: Sealed, body: Key): string {
  const last = found.keys.at(-1);
  if (body.key === last) return "";
  const said = ["bailiff-seal-key-1", domain, body.identity, body.key];
  if (last !== undefined && !(body.before === last && body.signature && signed(last, body.signature, said))) {
    return `key ${body.key} took over, but key ${last} before it did not sign that`;
  }
  found.keys.push(body.key);
  return "";
}

function takeAside(domain: string, found: Sealed, body: Aside): string {
  const [size, seq, reason] = [body.size ?? 0, body.from_seq ?? 0, body.reason ?? ""];
  const said = ["bailiff-seals-aside-1", domain, body.identity, size, body.lost, body.lost_root, seq, reason, body.set_aside_at];
  if (body.key !== found.keys.at(-1) || !signed(body.key, body.signature, said)) return "seals were set aside, but the log's key did not sign that";
  const left = found.seals.filter((seal) => seal.size <= size);
  const last = found.seals.at(-1);
  if (last?.size !== body.lost || last.root !== body.lost_root || (left.at(-1)?.size ?? 0) !== size) {
    return "seals were set aside which are not the newest ones";
  }
  found.seals = left;
  found.setAside += 1;
  return "";
}

function takeSeal(domain: string, found: Sealed, seal: Seal): string {
  const what = `the seal over ${seal.size} records`;
  if (seal.key !== found.keys.at(-1)) return `${what} was made with key ${seal.key}, which was not the log's key then`;
  if (!signatureHolds(domain, seal)) return `${what}: its signature does not fit key ${seal.key}`;
  const known = found.seals.findLast((each) => each.size === seal.size);
  if (known) return known.root === seal.root && known.hash === seal.hash ? "" : `two seals over ${seal.size} records name different roots`;
  const last = found.seals.at(-1);
  if (!last && seal.before) return `${what} continues one over ${seal.before}, which is missing`;
  if (last) {
    const path = (seal.consistency ?? []).map(fromHex);
    if ((seal.before ?? 0) !== last.size || !consistent(last.size, seal.size, path, fromHex(last.root), fromHex(seal.root))) {
      return `${what} does not continue the one over ${last.size}: the log was changed or cut between`;
    }
  }
  found.seals.push(seal);
  return "";
}

export const signatureHolds = (domain: string, seal: Seal): boolean =>
  signed(seal.key, seal.signature, ["bailiff-seal-1", domain, seal.identity, seal.size, seal.root, seal.hash, seal.sealed_at]);

/** Signed is canonical JSON: of a flat list of texts and whole numbers that is what JSON.stringify writes. */
function signed(key: string, signature: string, said: (string | number)[]): boolean {
  try {
    return ed25519.verify(fromBase64Url(signature), utf8(JSON.stringify(said)), fromBase64Url(key), { zip215: false });
  } catch {
    return false;
  }
}
