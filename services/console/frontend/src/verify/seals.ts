// Seals (docs/concepts/audit-log.md): an Ed25519 signature over the root of a Merkle tree over a log's record hashes. As bailiff_log.seals.
import { ed25519 } from "@noble/curves/ed25519.js";

import { fromBase64Url, fromHex, utf8 } from "./bytes";
import { consistent } from "./merkle";

export interface Seal {
  identity: string;
  size: number;
  root: string;
  hash: string;
  sealed_at: number;
  previous_size?: number;
  consistency?: string[];
  key: string;
  signature: string;
}

export interface Key {
  identity: string;
  key: string;
  previous_key?: string | null;
  signature?: string | null;
}

interface InvalidatedSeals {
  identity: string;
  size?: number;
  invalidated_size: number;
  invalidated_root: string;
  from_seq?: number;
  reason?: string;
  invalidated_at: number;
  key: string;
  signature: string;
}

/** A message of the topic `bailiff.seals`, from the archive. */
export type SealItem =
  | { offset: number; kind: "LogSealed"; data: Seal }
  | { offset: number; kind: "SealingKey"; data: Key }
  | { offset: number; kind: "SealsInvalidated"; data: InvalidatedSeals };

/** The result of verifying all seals. problem: the first error; messages after it are ignored. */
export interface SealVerification {
  keys: string[];
  seals: Seal[];
  invalidations: number;
  problem: string;
}

/** Verifies the messages in topic order: each key is signed by the previous one, each tree continues the previous one. */
export function verifySeals(pool: string, identity: string, items: SealItem[]): SealVerification {
  const result: SealVerification = { keys: [], seals: [], invalidations: 0, problem: "" };
  for (const item of [...items].sort((left, right) => left.offset - right.offset)) {
    try {
      result.problem = item.data.identity === identity ? add(pool, result, item) : `the ${item.kind} at offset ${item.offset} belongs to another log`;
    } catch (error) {
      result.problem = `the ${item.kind} at offset ${item.offset} cannot be read: ${String(error)}`;
    }
    if (result.problem) break;
  }
  return result;
}

function add(pool: string, result: SealVerification, item: SealItem): string {
  if (item.kind === "SealingKey") return addKey(pool, result, item.data);
  if (item.kind === "SealsInvalidated") return invalidateSeals(pool, result, item.data);
  return addSeal(pool, result, item.data);
}

/** Adds the next key of the log; the reason if the one before has not signed it. */
export function addKey(pool: string, result: Pick<SealVerification, "keys">, body: Key): string {
  const last = result.keys.at(-1);
  if (body.key === last) return "";
  const signedValues = ["bailiff-seal-key-1", pool, body.identity, body.key];
  if (last !== undefined && !(body.previous_key === last && body.signature && signed(last, body.signature, signedValues))) {
    return `key ${body.key} replaced key ${last}, but is not signed by it`;
  }
  result.keys.push(body.key);
  return "";
}

function invalidateSeals(pool: string, result: SealVerification, body: InvalidatedSeals): string {
  const [size, seq, reason] = [body.size ?? 0, body.from_seq ?? 0, body.reason ?? ""];
  const signedValues = ["bailiff-seals-invalidated-1", pool, body.identity, size, body.invalidated_size, body.invalidated_root, seq, reason, body.invalidated_at];
  if (body.key !== result.keys.at(-1) || !signed(body.key, body.signature, signedValues)) return "an invalidation of seals is not signed by the log's key";
  const left = result.seals.filter((seal) => seal.size <= size);
  const last = result.seals.at(-1);
  if (last?.size !== body.invalidated_size || last.root !== body.invalidated_root || (left.at(-1)?.size ?? 0) !== size) {
    return "an invalidation does not name the newest seals";
  }
  result.seals = left;
  result.invalidations += 1;
  return "";
}

function addSeal(pool: string, result: SealVerification, seal: Seal): string {
  const what = `the seal over ${seal.size} records`;
  if (seal.key !== result.keys.at(-1)) return `${what} was signed with key ${seal.key}, which was not the log's key`;
  if (!signatureHolds(pool, seal)) return `${what}: its signature is not valid for key ${seal.key}`;
  const known = result.seals.findLast((each) => each.size === seal.size);
  if (known) return known.root === seal.root && known.hash === seal.hash ? "" : `two seals over ${seal.size} records have different roots`;
  const last = result.seals.at(-1);
  if (!last && seal.previous_size) return `${what} continues a seal over ${seal.previous_size} records, which is missing`;
  if (last) {
    const path = (seal.consistency ?? []).map(fromHex);
    if ((seal.previous_size ?? 0) !== last.size || !consistent(last.size, seal.size, path, fromHex(last.root), fromHex(seal.root))) {
      return `${what} does not continue the seal over ${last.size} records: the log was modified or truncated in between`;
    }
  }
  result.seals.push(seal);
  return "";
}

/** Whether a seal is of this log, and signed with a key of it: each key is signed by the previous one. Seals before it are not read. */
export function sealHolds(pool: string, identity: string, keys: readonly SealItem[], seal: Seal): boolean {
  const found: Pick<SealVerification, "keys"> = { keys: [] };
  const isBroken = keys.some((each) => each.kind !== "SealingKey" || each.data.identity !== identity || addKey(pool, found, each.data) !== "");
  return !isBroken && seal.identity === identity && found.keys.includes(seal.key) && signatureHolds(pool, seal);
}

export const signatureHolds = (pool: string, seal: Seal): boolean =>
  signed(seal.key, seal.signature, ["bailiff-seal-1", pool, seal.identity, seal.size, seal.root, seal.hash, seal.sealed_at]);

/** Verifies a signature over canonical JSON, which equals JSON.stringify for a flat list of strings, integers and nulls. */
export function signed(key: string, signature: string, signedValues: (string | number | null)[]): boolean {
  try {
    return signedBytes(fromBase64Url(key), fromBase64Url(signature), utf8(JSON.stringify(signedValues)));
  } catch {
    return false;
  }
}

/** Verifies an Ed25519 signature; false for malformed keys and signatures. */
export function signedBytes(key: Uint8Array, signature: Uint8Array, content: Uint8Array): boolean {
  try {
    return ed25519.verify(signature, content, key, { zip215: false });
  } catch {
    return false;
  }
}
