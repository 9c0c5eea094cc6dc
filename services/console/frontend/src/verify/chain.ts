// The chain rule of docs/log-protocol.md (sections 2 and 3), as bailiff_core.records.chain has it: which record continues a log.
import { compared, four, fromBase64, hash, hex, joined, utf8 } from "./bytes";

/** Text; bytes that are not UTF-8 stand as base64. */
export type Raw = string | { base64: string };

/** A message of the log as the archive gives it out: every byte of the wire. */
export interface Line {
  offset: number;
  time: number;
  headers: [string, Raw][];
  value: Raw;
}

export interface Head {
  domain: string;
  nextSeq: number;
  hash: string;
  epoch: bigint;
  time: string;
}

export const GENESIS = "0".repeat(64);
export const start = (domain: string): Head => ({ domain, nextSeq: 0, hash: GENESIS, epoch: 0n, time: "" });

const TAG = prefixed(utf8("bailiff-audit-1"));
const STARTS = "bailiff.audit.WriterStarted.v1";
const CREATES = "bailiff.audit.DomainCreated.v1";

export const rawBytes = (raw: Raw): Uint8Array => (typeof raw === "string" ? utf8(raw) : fromBase64(raw.base64));

/** The last header of that name; empty where there is none. */
export function header(line: Line, name: string): string {
  const found = line.headers.findLast((each) => each[0] === name)?.[1] ?? "";
  return typeof found === "string" ? found : "�";
}

/** What is hashed: the tag, each `ce_*` header sorted by name, the value; each behind its length. */
export function preimage(line: Line): Uint8Array {
  const headers = line.headers.filter(([name]) => name.startsWith("ce_")).map(([name, raw]) => [utf8(name), rawBytes(raw)] as const);
  headers.sort((left, right) => compared(left[0], right[0]) || compared(left[1], right[1]));
  const parts = headers.flatMap(([name, value]) => [prefixed(name), prefixed(value)]);
  return joined([TAG, four(headers.length), ...parts, prefixed(rawBytes(line.value))]);
}

export const recordHash = (line: Line): string => hex(hash(preimage(line)));

/** The head after this record, or why it does not continue the chain. */
export function follow(head: Head, line: Line): Head | string {
  const [domain, seq, prev, kind, epochText, time] = ["ce_domain", "ce_seq", "ce_prev", "ce_type", "ce_epoch", "ce_time"].map((name) => header(line, name)) as [
    string, string, string, string, string, string,
  ];
  if (domain !== head.domain) return `domain is '${domain}', expected '${head.domain}'`;
  if (seq !== String(head.nextSeq)) return `seq is ${seq || "?"}, expected ${head.nextSeq}`;
  if (prev !== head.hash) return `prev is ${(prev || "?").slice(0, 12)}…, expected ${head.hash.slice(0, 12)}…`;
  if ((head.nextSeq === 0) !== (kind === CREATES)) return `${kind || "a record without a type"} at seq ${head.nextSeq}`;
  const epoch = /^[0-9]{1,16}$/.test(epochText) ? BigInt(epochText) : -1n;
  if (kind === STARTS) {
    if (epoch <= head.epoch) return `a writer started with epoch ${epoch}, but ${head.epoch} is taken`;
  } else if (epoch !== head.epoch) return `epoch is '${epochText}', expected ${head.epoch}`;
  if ([...time].length !== 27 || time < head.time) return `time is '${time}', before '${head.time}'`;
  return { domain, nextSeq: head.nextSeq + 1, hash: recordHash(line), epoch, time };
}

function prefixed(part: Uint8Array): Uint8Array {
  return joined([four(part.length), part]);
}
