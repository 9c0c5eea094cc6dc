// The chain rule of the log protocol (docs/reference/log-protocol.md), as in bailiff_core.records.chain: which record continues a log.
import { compareBytes, concat, fromBase64, hash, hex, uint32, utf8 } from "./bytes";

/** Text; bytes that are not UTF-8 as base64. */
type Raw = string | { base64: string };

/** A raw message of the log from the archive: every byte of the wire. */
export interface Line {
  offset: number;
  time: number;
  headers: [string, Raw][];
  value: Raw;
}

export interface Head {
  pool: string;
  nextSeq: number;
  hash: string;
  epoch: bigint;
  time: string;
}

export const GENESIS = "0".repeat(64);
export const start = (pool: string): Head => ({ pool, nextSeq: 0, hash: GENESIS, epoch: 0n, time: "" });

const TAG = prefixed(utf8("bailiff-audit-1"));
const CONTENT_TAG = prefixed(utf8("bailiff-content-1"));
const NOT_CONTENT = ["ce_prev", "ce_sig"];
const WRITER_STARTED = "bailiff.audit.WriterStarted.v1";
const POOL_CREATED = "bailiff.audit.PoolCreated.v1";

export const rawBytes = (raw: Raw): Uint8Array => (typeof raw === "string" ? utf8(raw) : fromBase64(raw.base64));

/** The last header of that name; empty if absent. */
export function header(line: Pick<Line, "headers">, name: string): string {
  const found = line.headers.findLast((each) => each[0] === name)?.[1] ?? "";
  return typeof found === "string" ? found : "�";
}

/** The hash input: the tag, the `ce_*` headers sorted by name, the value; each preceded by its length. */
export function preimage(line: Pick<Line, "headers" | "value">, tag = TAG, without: string[] = []): Uint8Array {
  const headers = line.headers.filter(([name]) => name.startsWith("ce_")).map(([name, raw]) => [utf8(name), rawBytes(without.includes(name) ? "" : raw)] as const);
  headers.sort((left, right) => compareBytes(left[0], right[0]) || compareBytes(left[1], right[1]));
  const parts = headers.flatMap(([name, value]) => [prefixed(name), prefixed(value)]);
  return concat([tag, uint32(headers.length), ...parts, prefixed(rawBytes(line.value))]);
}

export const recordHash = (line: Pick<Line, "headers" | "value">): string => hex(hash(preimage(line)));
/** The hash over what the record says: without the hash of the record before it, and without its signature. */
export const contentHash = (line: Pick<Line, "headers" | "value">): string => hex(hash(preimage(line, CONTENT_TAG, NOT_CONTENT)));

/** The chain head after this record, or why the record does not continue the chain. */
export function nextHead(head: Head, line: Line): Head | string {
  const [pool, seq, prev, kind, epochText, time] = ["ce_pool", "ce_seq", "ce_prev", "ce_type", "ce_epoch", "ce_time"].map((name) => header(line, name)) as [
    string, string, string, string, string, string,
  ];
  if (pool !== head.pool) return `pool is '${pool}', expected '${head.pool}'`;
  if (seq !== String(head.nextSeq)) return `seq is ${seq || "?"}, expected ${head.nextSeq}`;
  if (prev !== head.hash) return `prev is ${(prev || "?").slice(0, 12)}…, expected ${head.hash.slice(0, 12)}…`;
  if ((head.nextSeq === 0) !== (kind === POOL_CREATED)) return `${kind || "a record without a type"} at seq ${head.nextSeq}`;
  const epoch = /^[0-9]{1,16}$/.test(epochText) ? BigInt(epochText) : -1n;
  if (kind === WRITER_STARTED) {
    if (epoch <= head.epoch) return `a writer started with epoch ${epoch}, but ${head.epoch} is taken`;
  } else if (epoch !== head.epoch) return `epoch is '${epochText}', expected ${head.epoch}`;
  if ([...time].length !== 27 || time < head.time) return `time is '${time}', before '${head.time}'`;
  return { pool, nextSeq: head.nextSeq + 1, hash: recordHash(line), epoch, time };
}

function prefixed(part: Uint8Array): Uint8Array {
  return concat([uint32(part.length), part]);
}
