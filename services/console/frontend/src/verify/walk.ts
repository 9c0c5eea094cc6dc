// One record checked with the log around it: each link, and its place under a seal. Says what was checked, and what was not.
import { fromHex } from "./bytes";
import { follow, header, type Head, type Line, start } from "./chain";
import { included, inclusionPath, leafHash, rootOf } from "./merkle";
import type { Seal } from "./seals";

/** A message of the log, judged. reason: why it is no record of the chain; empty: it continues it. */
export interface Link {
  seq: number;
  offset: number;
  type: string;
  hash: string;
  prev: string;
  reason: string;
}

/** Walks a log from its first record, or from one that is taken as it is. Keeps the links near `wanted`, and all leaves. */
export class Walk {
  head: Head;
  readonly links: Link[] = [];
  readonly leaves: Uint8Array[] = [];
  checked = 0;
  passedOver = 0;
  /** The hash of the first record. */
  identity = "";
  found: Line | null = null;
  /** The first record was taken as it is: what came before it was not looked at. */
  readonly anchored: boolean;

  constructor(
    domain: string,
    readonly wanted: number,
    private readonly around: number,
    anchor: Head | null = null,
  ) {
    this.head = anchor ?? start(domain);
    this.anchored = anchor !== null;
  }

  take(line: Line): void {
    const after = follow(this.head, line);
    const reason = typeof after === "string" ? after : "";
    if (typeof after === "string") this.passedOver += 1;
    else {
      this.head = after;
      this.checked += 1;
      if (after.nextSeq === 1) this.identity = after.hash;
      if (!this.anchored) this.leaves.push(leafHash(fromHex(after.hash)));
      if (after.nextSeq - 1 === this.wanted) this.found = line;
    }
    const seq = Number(header(line, "ce_seq"));
    if (reason ? seq >= this.wanted - this.around && seq <= this.wanted + this.around : Math.abs(this.head.nextSeq - 1 - this.wanted) <= this.around) {
      const hash = typeof after === "string" ? "" : after.hash;
      this.links.push({ seq, offset: line.offset, type: header(line, "ce_type"), hash, prev: header(line, "ce_prev"), reason });
    }
  }
}

/** The head before this line, as the line itself claims it: where the records before were not read. */
export function headBefore(line: Line): Head {
  const seq = Number(header(line, "ce_seq"));
  const epoch = BigInt(header(line, "ce_epoch") || "0");
  const starts = header(line, "ce_type").includes("WriterStarted");
  return { domain: header(line, "ce_domain"), nextSeq: seq, hash: header(line, "ce_prev"), epoch: starts ? epoch - 1n : epoch, time: "" };
}

export interface Inclusion {
  ok: boolean;
  seal: Seal;
  path: string[];
  words: string;
}

/** Whether the walked records are those under the seal, and the path of `wanted` to its root. */
export function underSeal(walk: Walk, seal: Seal): Inclusion {
  const leaves = walk.leaves.slice(0, seal.size);
  const fail = (words: string): Inclusion => ({ ok: false, seal, path: [], words });
  if (leaves.length < seal.size) return fail(`${seal.size} records were sealed, but only ${leaves.length} of them are there: the log was cut short or replaced.`);
  if (seal.size <= walk.wanted) return fail(`Record #${walk.wanted} is not under the seal over ${seal.size} records.`);
  const [root, sealed] = [rootOf(leaves), fromHex(seal.root)];
  const path = inclusionPath(leaves, walk.wanted);
  if (!included(leaves[walk.wanted]!, walk.wanted, seal.size, path, sealed) || root.some((byte, at) => byte !== sealed[at])) {
    return fail(`The first ${seal.size} records are not those that were sealed: one of them was changed, inserted or put elsewhere.`);
  }
  return {
    ok: true,
    seal,
    path: path.map((each) => Array.from(each, (byte) => byte.toString(16).padStart(2, "0")).join("")),
    words: `Record #${walk.wanted} is under the seal over the first ${seal.size} records.`,
  };
}
