// The receipt of a preemption (docs/reference/receipt.md), as bailiff.audit.receipt.model: parsed from canonical JSON, or refused.
import type { Line } from "../verify/chain";
import type { Key, Seal } from "../verify/seals";

export type Raw = Line["value"];

type Header = [string, Raw];

export interface ReceiptRecord {
  seq: number;
  headers: Header[];
  value: Raw;
}

export interface Receipt {
  pool: string;
  decision: number;
  victims: string[];
  records: ReceiptRecord[];
  proof: string[];
  left_out: number;
  seal: Seal & { checkpoint: string };
  keys: Key[];
  cosignatures: { witness: string; checkpoint: string }[];
}

/** The text is not a receipt. */
export class InvalidReceipt extends Error {}

const FORMAT = 2;
const MAX_RECORDS = 10_000;
const MAX_PROOF = 640_000;
const MAX_HEADERS = 64;
const MAX_REPEATED = 128;
const MAX_INTEGER = Number.MAX_SAFE_INTEGER;

type Shape = (value: unknown) => boolean;
type Members = Record<string, unknown>;

const matches = (pattern: RegExp): Shape => (value) => typeof value === "string" && value.isWellFormed() && pattern.test(value);
const integer = (least: number): Shape => (value) => Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= MAX_INTEGER;
const text = (most: number): Shape => (value) => typeof value === "string" && value.isWellFormed() && [...value].length <= most;
const list = (item: Shape, most: number, least = 0): Shape => (value) => Array.isArray(value) && value.length >= least && value.length <= most && value.every(item);
const isObject = (value: unknown): value is Members => typeof value === "object" && value !== null && !Array.isArray(value);

/** An object with these members. Those that may be absent have another value than their default where they are present. */
const object = (members: Record<string, Shape>, optional: Record<string, Shape> = {}): Shape => (value) =>
  isObject(value) &&
  Object.keys(members).every((name) => Object.hasOwn(value, name)) &&
  Object.entries(value).every(([name, each]) => (Object.hasOwn(members, name) ? members[name]!(each) : Object.hasOwn(optional, name) && optional[name]!(each)));

const COUNT = integer(0);
const HASH = matches(/^[0-9a-f]{64}$/);
const NAME = matches(/^[a-z0-9]([-a-z0-9._]{0,61}[a-z0-9])?$/);
const KEY = matches(/^[A-Za-z0-9_-]{43}$/);
const SIGNATURE = matches(/^[A-Za-z0-9_-]{86}$/);
const NOTE = text(16_384);
const RAW: Shape = (value) => text(Infinity)(value) || object({ base64: text(2_000_000) })(value);
const HEADER: Shape = (value) => Array.isArray(value) && value.length === 2 && text(Infinity)(value[0]) && RAW(value[1]);
const RUN = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_HEADERS;
const SEAL = object(
  { identity: HASH, size: integer(1), root: HASH, hash: HASH, sealed_at: COUNT, key: KEY, signature: SIGNATURE, checkpoint: NOTE },
  { previous_size: integer(1), consistency: list(HASH, 128, 1) },
);
const RECEIPT = object({
  receipt_version: (value) => value === FORMAT,
  pool: NAME,
  decision: COUNT,
  victims: list(NAME, 10_000, 1),
  records: list(object({ seq: COUNT, headers: list((value) => RUN(value) || HEADER(value), MAX_HEADERS), value: RAW }), MAX_RECORDS, 1),
  proof: list(HASH, MAX_PROOF),
  left_out: COUNT,
  seal: SEAL,
  keys: list(object({ identity: HASH, key: KEY }, { previous_key: KEY, signature: SIGNATURE }), 1_000),
  cosignatures: list(object({ witness: (value) => text(512)(value) && value !== "", checkpoint: NOTE }), 64),
});

/** The receipt in this JSON. Throws `InvalidReceipt` for any other, and for JSON that is not canonical. */
export function parse(content: string): Receipt {
  let data: unknown;
  try {
    data = JSON.parse(content);
    if (canonical(data) !== content) throw new InvalidReceipt("its JSON is not canonical: it was changed, or written by another program");
  } catch (error) {
    throw error instanceof InvalidReceipt ? error : new InvalidReceipt("not the JSON of a receipt");
  }
  const version = isObject(data) ? data["receipt_version"] : undefined;
  if (typeof version === "number" && version !== FORMAT) throw new InvalidReceipt(`a receipt of the format ${version}: this page reads ${FORMAT}`);
  if (!RECEIPT(data)) throw new InvalidReceipt("a member is missing, unknown or of the wrong type");
  const receipt = data as unknown as Receipt;
  let before: Header[] = [];
  receipt.records = receipt.records.map((record) => {
    const headers = expanded(record.headers, before);
    if (headers.length > MAX_HEADERS || canonical(shortened(headers, before)) !== canonical(record.headers)) throw new InvalidReceipt("its headers are not as this release writes them");
    before = headers;
    return { ...record, headers };
  });
  return receipt;
}

const isRepeatable = (header: Header): boolean => header.every((each) => typeof each === "string" && text(MAX_REPEATED)(each));

/** These headers; each run of those that are as in the record before, at the same places, as how many they are. */
function shortened(headers: Header[], before: Header[]): (Header | number)[] {
  const found: (Header | number)[] = [];
  headers.forEach((header, at) => {
    const [same, last] = [before[at], found.at(-1)];
    if (!same || canonical(same) !== canonical(header) || !isRepeatable(header)) found.push(header);
    else if (typeof last === "number") found[found.length - 1] = last + 1;
    else found.push(1);
  });
  return found;
}

/** The inverse of `shortened`. */
function expanded(headers: (Header | number)[], before: Header[]): Header[] {
  const found: Header[] = [];
  for (const header of headers) found.push(...(typeof header === "number" ? before.slice(found.length, found.length + header) : [header]));
  return found;
}

/** JSON with sorted members and without spaces; each `<` is escaped, so that it can stand in a page. */
export function canonical(value: unknown): string {
  return sorted(value).replaceAll("<", "\\u003c");
}

function sorted(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sorted).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  return `{${Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${sorted(value[name])}`).join(",")}}`;
}
