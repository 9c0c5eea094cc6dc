// Verifies the hash chain of a log around one record, and its inclusion in a seal.
import { compareBytes, fromHex, hex } from "./bytes";
import { header, nextHead, start, type Head, type Line } from "./chain";
import { included, inclusionPath, leafHash, rootOf } from "./merkle";
import type { Seal } from "./seals";

/** A message of the log with its verdict. reason: why it is an orphan; empty: it is in the chain. */
export interface Link {
  seq: number;
  offset: number;
  type: string;
  hash: string;
  prev: string;
  reason: string;
}

/** Verifies a log from its first record, or from an anchor. Keeps the links near `wanted`, and all leaf hashes. */
export class ChainVerifier {
  head: Head;
  readonly links: Link[] = [];
  readonly leaves: Uint8Array[] = [];
  checked = 0;
  orphans = 0;
  /** The hash of the first record. */
  identity = "";
  found: Line | null = null;
  /** The start was not verified: earlier records were not read. */
  readonly anchored: boolean;

  constructor(
    pool: string,
    readonly wanted: number,
    private readonly window: number,
    anchor: Head | null = null,
  ) {
    this.head = anchor ?? start(pool);
    this.anchored = anchor !== null;
  }

  add(line: Line): void {
    const after = nextHead(this.head, line);
    const reason = typeof after === "string" ? after : "";
    if (typeof after === "string") this.orphans += 1;
    else {
      this.head = after;
      this.checked += 1;
      if (after.nextSeq === 1) this.identity = after.hash;
      if (!this.anchored) this.leaves.push(leafHash(fromHex(after.hash)));
      if (after.nextSeq - 1 === this.wanted) this.found = line;
    }
    const seq = Number(header(line, "ce_seq"));
    if (reason ? seq >= this.wanted - this.window && seq <= this.wanted + this.window : Math.abs(this.head.nextSeq - 1 - this.wanted) <= this.window) {
      const hash = typeof after === "string" ? "" : after.hash;
      this.links.push({ seq, offset: line.offset, type: header(line, "ce_type"), hash, prev: header(line, "ce_prev"), reason });
    }
  }
}

/** The chain head before this line, as claimed by the line itself. */
export function claimedHead(line: Line): Head {
  const seq = Number(header(line, "ce_seq"));
  const epoch = BigInt(header(line, "ce_epoch") || "0");
  const starts = header(line, "ce_type").includes("WriterStarted");
  return { pool: header(line, "ce_pool"), nextSeq: seq, hash: header(line, "ce_prev"), epoch: starts ? epoch - 1n : epoch, time: "" };
}

export interface Inclusion {
  ok: boolean;
  seal: Seal;
  path: string[];
  text: string;
}

/** Verifies that the records are those under the seal, and returns the inclusion path of `wanted`. */
export function sealInclusion(verifier: ChainVerifier, seal: Seal): Inclusion {
  const leaves = verifier.leaves.slice(0, seal.size);
  const invalid = (text: string): Inclusion => ({ ok: false, seal, path: [], text });
  if (leaves.length < seal.size) return invalid(`${seal.size} records were sealed, but only ${leaves.length} exist: the log was truncated or replaced.`);
  if (seal.size <= verifier.wanted) return invalid(`Record #${verifier.wanted} is not covered by the seal over ${seal.size} records.`);
  const [root, sealed] = [rootOf(leaves), fromHex(seal.root)];
  const path = inclusionPath(leaves, verifier.wanted);
  if (!included(leaves[verifier.wanted]!, verifier.wanted, seal.size, path, sealed) || compareBytes(root, sealed) !== 0) {
    return invalid(`The first ${seal.size} records differ from the sealed ones: a record was modified, inserted or moved.`);
  }
  return {
    ok: true,
    seal,
    path: path.map(hex),
    text: `Record #${verifier.wanted} is covered by the seal over the first ${seal.size} records.`,
  };
}
