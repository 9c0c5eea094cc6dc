// Who wrote the records and who asked, as bailiff_log.log_signatures and signed_requests check it.
import rules from "../../../../../libs/client/bailiff/audit/receipt/rules.json";
import { hash, hex, utf8 } from "../verify/bytes";
import { contentHash, header } from "../verify/chain";
import { signed } from "../verify/seals";
import { Fault, hasPurpose, type Contents, type Data, type Decoded } from "./contents";

const DAY = 86_400_000_000;
const REQUEST_IDS = 60 * DAY;

interface WriterKeys {
  root: string;
  writer: string;
  /** µs UTC. */
  until: number;
  revoked: string[];
}

/** µs UTC. */
export const micros = (time: string): number => Date.parse(`${time.slice(0, 19)}Z`) * 1000 + Number(time.slice(20, 26));

/** Verifies that the log's writer signed each record or announced it in the one before; null: the log is not signed. Throws `Fault`. */
export function checkWriter(contents: Contents): { signatures: number; keys: WriterKeys } | null {
  const { pool } = contents.receipt;
  if (contents.records[0]!.kind !== "PoolCreated") throw new Fault("the log's first record is missing");
  if (contents.records[0]!.data["root_key"] == null) return null;
  let keys: WriterKeys | null = null;
  let before: Decoded | null = null;
  let signatures = 0;
  for (const record of contents.records) {
    const fail = (why: string): never => {
      throw new Fault(`record ${record.seq}: ${why}`);
    };
    const signature = header(record.kept, "ce_sig");
    const previous: WriterKeys | null = keys;
    keys = keysAfter(previous, record, pool, fail);
    const signer: WriterKeys | null = ["KeyRevoked", "RootKeyChanged"].includes(record.kind) ? previous : keys;
    if (!signer) return fail("the log's first record is not before it");
    if (micros(record.time) > signer.until) fail("the writer's certificate has expired");
    const announced: string = before?.seq === record.seq - 1 ? header(before.kept, "ce_nextcontent") : "";
    if (signature) signatures += 1;
    before = record;
    if (announced && record.kind !== "WriterStarted") {
      if (contentHash(record.kept) !== announced) fail("it is not what the record before it announces");
      continue;
    }
    if (signer.revoked.includes(signer.writer)) fail(`the writer's key ${signer.writer} was revoked`);
    const fields = ["bailiff-record-1", pool, header(record.kept, "ce_prev"), contentHash(record.kept)];
    if (!signed(signer.writer, signature, fields)) fail(`its signature is not that of the writer's key ${signer.writer}`);
  }
  return { signatures, keys: keys! };
}

function keysAfter(keys: WriterKeys | null, { kind, data, time }: Decoded, pool: string, fail: (why: string) => never): WriterKeys | null {
  if (kind === "PoolCreated") {
    if (data["root_key"] == null) return null;
    return withWriter({ root: data["root_key"], writer: "", until: 0, revoked: [] }, data["certificate"], pool, time, fail);
  }
  if (!keys) return null;
  if (kind === "WriterStarted") return withWriter(keys, data["certificate"], pool, time, fail);
  if (kind === "KeyRevoked") return { ...keys, revoked: [...keys.revoked, data["key"]] };
  if (kind !== "RootKeyChanged") return keys;
  const { identity, key, signature } = data["change"];
  if (!signed(keys.root, signature, ["bailiff-root-key-1", identity, key])) fail("the change of the root key is not signed with the one before it");
  return { ...keys, root: key };
}

function withWriter(keys: WriterKeys, certificate: Data | undefined, pool: string, time: string, fail: (why: string) => never): WriterKeys {
  if (!certificate) return fail("the writer has no certificate");
  const { key, role, name, signature, not_before: begin, expires } = certificate;
  const [forPool, encryption] = [certificate["pool"] ?? "*", certificate["encryption_key"] ?? null];
  const at = Math.max(micros(time), begin);
  if (role !== "admission") fail("its certificate does not permit to write the log");
  if (forPool !== "*" && forPool !== pool) fail("its certificate is for another pool");
  if (keys.revoked.includes(key)) fail(`its key ${key} was revoked`);
  if (!(begin <= at && at <= expires)) fail("its certificate is not valid at this time");
  if (!signed(keys.root, signature, ["bailiff-certificate-1", key, role, name, forPool, begin, expires, encryption])) fail("its certificate is not signed with the pool's root key");
  return { ...keys, writer: key, until: expires };
}

// --- requests

/** Verifies each signed submission. Returns who submitted what, and how many of them are signed. Throws `Fault`. */
export function checkRequesters(contents: Contents): { names: string[]; signed: number } {
  const state = { root: "", keys: {} as Record<string, string>, revoked: [] as string[], retention: REQUEST_IDS, used: new Set<string>() };
  const found = { names: [] as string[], signed: 0 };
  let inForce = "";
  for (const record of contents.records) {
    const { kind, data } = record;
    if (kind === "PoolCreated") [state.root, state.keys] = [data["root_key"] ?? "", {}];
    else if (kind === "RootKeyChanged") state.root = data["change"].key;
    else if (kind === "KeyRevoked") state.revoked.push(data["key"]);
    else if (kind === "PolicyApplied") [state.keys, state.retention, inForce] = [data["policy"].identity?.keys ?? {}, data["policy"].retention?.request_ids ?? REQUEST_IDS, String(record.seq)];
    else if (hasPurpose(record, "submission")) {
      if (record.policy !== inForce) throw new Fault(`record ${record.seq}: the policy in force is not in the file`);
      const request = header(record.kept, "ce_request");
      const isSigned = request !== "" || header(record.kept, "ce_auth") === "signed";
      found.names.push(`${data["demand"].job}: ${isSigned ? header(record.kept, "ce_actor") : "not signed"}`);
      if (data["user_verified"] && ["", "none"].includes(header(record.kept, "ce_auth"))) throw new Fault(`record ${record.seq} names ${data["user"] ?? ""} as verified, and nobody signed it`);
      const { source, id } = data["request"];
      if (state.used.has(`${source}\n${id}`)) throw new Fault(`record ${record.seq}: the same request has led to an earlier record`);
      state.used.add(`${source}\n${id}`);
      if (!isSigned) continue;
      found.signed += 1;
      const fault = requestFault(record, request, contents.receipt.pool, state);
      if (fault) throw new Fault(`record ${record.seq}: ${fault}`);
    }
  }
  return found;
}

function requestFault(record: Decoded, kept: string, pool: string, state: { root: string; keys: Record<string, string>; revoked: string[]; retention: number }): string {
  const [actor, auth] = [header(record.kept, "ce_actor"), header(record.kept, "ce_auth")];
  if (!kept) return `it names ${actor} as verified by a signature, and has none`;
  const found: Data = JSON.parse(kept);
  const digest = hex(hash(utf8(`${JSON.stringify([found["type"], pool, found["actor"] ?? ""])}\n${found["data"] ?? ""}`)));
  if (!signed(found["key"], found["sig"], ["bailiff-request-1", digest, found["source"], found["id"], found["time"]])) return `the signature does not fit the request of ${actor} and the key`;
  const holder = state.root && found["key"] === state.root ? "root-key" : Object.hasOwn(state.keys, found["key"]) ? state.keys[found["key"]] : undefined;
  if (state.revoked.includes(found["key"])) return `the key ${found["key"]} was revoked`;
  if (holder === undefined) return `the policy in force names no key ${found["key"]}`;
  const signer: string = found["actor"] || holder;
  if (auth !== "signed" || signer !== actor) return `${signer} signed it, the record names ${actor || "nobody"}`;
  if (signer !== holder && !signer.startsWith(`${holder}/`)) return `the key is that of ${holder}, the record names ${signer}`;
  const named: Data = record.data["request"];
  if (named["source"] !== found["source"] || named["id"] !== found["id"] || named["digest"] !== digest || found["type"] !== "bailiff.SubmitJob.v1") return "another request was signed than the one that it names";
  const differing = submissionDifference(record.data, JSON.parse(found["data"]), actor);
  if (differing) return `signed with another ${differing}`;
  return found["time"] < micros(record.time) - state.retention - DAY ? "it was signed longer ago than request ids are remembered" : "";
}

/** The first member in which the record differs from what was signed; empty: none. */
function submissionDifference(recorded: Data, request: Data, actor: string): string {
  if (!same(request["vouched_by"], recorded["request"].vouched_by)) return "vouched_by";
  const user = recorded["user"] ?? "";
  if (!(user === actor || (request["demand"].user !== undefined && user === request["demand"].user)) || !recorded["user_verified"]) return "user";
  if (request["spec_digest"] !== recorded["spec_digest"]) return "spec_digest";
  const [mine, theirs]: [Data, Data] = [request["demand"], recorded["demand"]];
  const filled = rules.filled.filter((name) => isDefault(name, mine[name]) || (name === "checkpoint" && mine[name] === "auto"));
  const name = [...new Set([...Object.keys(mine), ...Object.keys(theirs)])].find((each) => !filled.includes(each) && each !== "tasks" && !same(mine[each], theirs[each], each));
  if (name) return name;
  const withoutAdded = (theirs["tasks"] as Data[]).map((group) => ({
    ...group,
    node_labels: Object.fromEntries(Object.entries(group["node_labels"] ?? {}).filter(([label]) => !rules.added_labels.some((added) => label.startsWith(added)))),
  }));
  return same(mine["tasks"], theirs["tasks"]) || same(mine["tasks"], withoutAdded) ? "" : "tasks";
}

/** Whether two values of a document are equal: a member at its default may be left out, a duration may be written with its unit. */
function same(left: unknown, right: unknown, name = ""): boolean {
  if (isDefault(name, left) && isDefault(name, right)) return true;
  if (rules.durations.includes(name)) return duration(left) === duration(right);
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) return left === right;
  if (Array.isArray(left) || Array.isArray(right)) return Array.isArray(left) && Array.isArray(right) && left.length === right.length && left.every((each, at) => same(each, right[at]));
  const [one, other] = [left as Data, right as Data];
  return [...new Set([...Object.keys(one), ...Object.keys(other)])].every((each) => same(one[each], other[each], each));
}

function isDefault(name: string, value: unknown): boolean {
  const stated = (rules.defaults as Record<string, unknown>)[name];
  if (value === undefined || value === null || value === stated) return true;
  if (stated !== undefined) return false;
  return value === 0 || value === "" || (typeof value === "object" && !Object.keys(value).length);
}

const UNITS: Record<string, number> = { us: 1, ms: 1e3, s: 1e6, m: 6e7, h: 3.6e9, d: 8.64e10 };

function duration(value: unknown): unknown {
  const [, number, unit] = typeof value === "string" ? (/^\s*([0-9]+)\s*(us|ms|s|m|h|d)\s*$/.exec(value) ?? []) : [];
  return number === undefined ? value : Number(number) * UNITS[unit!]!;
}
