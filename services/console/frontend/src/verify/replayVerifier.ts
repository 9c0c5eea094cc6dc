// Verifies the records that a player passes: computes their hashes from the bytes of the log, each from the one before it.
import { fromHex, hex } from "./bytes";
import { claimedHead } from "./chainVerifier";
import { nextHead, start, type Head, type Line } from "./chain";
import { leafHash, rootOf } from "./merkle";
import type { Seal } from "./seals";
import type { ArchiveQuery } from "./verifyRecord";

const FROM_FIRST = 2_000;
const FAR = 10_000;
const PIECE = 500;

interface Position {
  seq: number;
  offset: number;
  hash: string;
}

/** first to last: the records whose chain was computed without a gap. computed: the hash of the record; null: the log does not reach it. */
export interface ReplayState {
  seq: number;
  first: number;
  last: number;
  orphans: number;
  computed: string | null;
  same: boolean;
}

/** Short logs are read from their first record; others from where the player begins, and again where it moves back or far ahead. */
export class ReplayVerifier {
  private head: Head | null = null;
  private offset = 0;
  private first = 0;
  private orphans = 0;
  private readonly hashes = new Map<number, string>();
  private readonly sealed = new Map<string, boolean>();

  constructor(
    private readonly pool: string,
    private readonly query: ArchiveQuery,
  ) {}

  async at({ seq, offset, hash }: Position): Promise<ReplayState> {
    if (!this.hashes.has(seq)) await this.reach(seq, offset);
    const computed = this.hashes.get(seq) ?? null;
    return { seq, first: this.first, last: (this.head?.nextSeq ?? 0) - 1, orphans: this.orphans, computed, same: computed === hash };
  }

  /** Whether the records that `at` has computed, and those after them, are those under this seal; null: not all of them are read, as in a long log. */
  async isUnder(seal: Pick<Seal, "size" | "root">): Promise<boolean | null> {
    if (this.head === null || this.first > 0 || seal.size - this.head.nextSeq > FAR) return null;
    if (!this.hashes.has(seal.size - 1)) await this.reach(seal.size - 1, 0);
    const about = `${seal.size} ${seal.root}`;
    if (!this.sealed.has(about)) {
      const hashes = Array.from({ length: seal.size }, (_, seq) => this.hashes.get(seq));
      this.sealed.set(about, hashes.every((each) => each !== undefined) && hex(rootOf(hashes.map((each) => leafHash(fromHex(each!))))) === seal.root);
    }
    return this.sealed.get(about)!;
  }

  private async reach(seq: number, offset: number): Promise<void> {
    if (this.head === null || seq < this.head.nextSeq || seq - this.head.nextSeq > FAR) {
      this.hashes.clear();
      this.orphans = 0;
      this.offset = offset < FROM_FIRST ? 0 : offset;
      this.head = this.offset === 0 ? start(this.pool) : null;
      this.first = this.offset === 0 ? 0 : seq;
    }
    while (this.head === null || this.head.nextSeq <= seq) {
      const piece = await this.query<{ messages: Line[]; next_offset: number }>(`log?from_offset=${this.offset}&limit=${PIECE}`);
      for (const line of piece.messages) this.add(line);
      if (!piece.messages.length || piece.next_offset <= this.offset) return;
      this.offset = piece.next_offset;
    }
  }

  private add(line: Line): void {
    const after = nextHead(this.head ?? claimedHead(line), line);
    if (typeof after === "string") {
      this.orphans += 1;
      return;
    }
    this.head = after;
    this.hashes.set(after.nextSeq - 1, after.hash);
  }
}
