import { describe, expect, test } from "vitest";

import vectors from "../../../../../docs/log-protocol-vectors.json";
import sealVectors from "./seal-vectors.json";
import { hex } from "./bytes";
import { nextHead, preimage, recordHash, start, type Head, type Line } from "./chain";
import { ChainVerifier, claimedHead, sealInclusion } from "./chainVerifier";
import { consistent, included, inclusionPath, leafHash, rootOf } from "./merkle";
import { verifySeals, type Seal, type SealItem } from "./seals";

interface Vector {
  headers: string[][];
  value: string;
}

const line = (each: Vector, offset = 0): Line => ({ offset, time: 0, headers: each.headers as [string, string][], value: each.value });
const LOG = vectors.chain.map((each, at) => line(each, at));
const SEALS = sealVectors as SealItem[];
const IDENTITY = vectors.chain[0]!.hash;
const headAfter = (many: number): Head => LOG.slice(0, many).reduce((head, each) => nextHead(head, each) as Head, start("a100"));
const verifiedChain = (log: Line[], wanted: number): ChainVerifier => {
  const verifier = new ChainVerifier("a100", wanted, 100);
  log.forEach((each) => verifier.add(each));
  return verifier;
};

describe("protocol vectors", () => {
  test("hash input and hash", () => {
    expect(hex(preimage(line(vectors.hash)))).toBe(vectors.hash.preimage_hex);
    expect(recordHash(line(vectors.hash))).toBe(vectors.hash.hash);
  });

  test("the chain is continuous", () => {
    vectors.chain.forEach((each, at) => expect(headAfter(at + 1).hash).toBe(each.hash));
  });

  test.each(vectors.breaks)("$name: $reason", ({ after, headers, value, reason }) => {
    expect(nextHead(headAfter(after), line({ headers, value }))).toBe(reason);
  });

  test("a modified record has another hash, and its successor is an orphan", () => {
    const { at, hash, next_breaks, ...changed } = vectors.tampered;
    const head = nextHead(headAfter(at), line(changed)) as Head;
    expect(head.hash).toBe(hash);
    expect(nextHead(head, LOG[at + 1]!)).toBe(next_breaks);
  });

  test("non-UTF-8 bytes are hashed unchanged", () => {
    const raw: Line = { ...line(vectors.hash), value: { base64: "/wB7" } };
    expect(hex(preimage(raw)).endsWith("00000003ff007b")).toBe(true);
  });
});

describe("tampering", () => {
  const flipped = (text: string, at: number): string => text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ 1) + text.slice(at + 1);

  test("every flipped bit of a header or value is detected by the chain or the seal", () => {
    const seal = SEALS.at(-1)!.data as Seal;
    expect(sealInclusion(verifiedChain(LOG, 4), seal).ok).toBe(true);
    let flips = 0;
    LOG.forEach((record, number) => {
      const parts = [...record.headers.map(([name, text], at) => ({ name, text: text as string, at })), { name: "", text: record.value as string, at: -1 }];
      for (const { name, text, at } of parts.filter((part) => part.at < 0 || part.name.startsWith("ce_"))) {
        for (let place = 0; place < text.length; place += Math.max(1, Math.floor(text.length / 3))) {
          const changed = flipped(text, place);
          const other: Line =
            at < 0 ? { ...record, value: changed } : { ...record, headers: record.headers.map((each, place) => (place === at ? [name, changed] : each)) };
          const verifier = verifiedChain(LOG.with(number, other), 4);
          expect(verifier.orphans > 0 || !sealInclusion(verifier, seal).ok, `record ${number}, ${name || "value"}, at ${place}`).toBe(true);
          flips += 1;
        }
      }
    });
    expect(flips).toBeGreaterThan(400);
  });

  test("insertion, omission and truncation are detected", () => {
    const seal = SEALS.at(-1)!.data as Seal;
    expect(verifiedChain([...LOG.slice(0, 5), LOG[3]!, ...LOG.slice(5)], 4).links.filter((link) => link.reason).map((link) => link.reason)).toEqual(["seq is 3, expected 5"]);
    expect(sealInclusion(verifiedChain(LOG.toSpliced(6, 1), 4), seal).ok).toBe(false);
    expect(sealInclusion(verifiedChain(LOG.slice(0, 8), 4), seal).text).toContain("truncated");
  });

  test("a log rewritten from some record on is a valid chain, but differs from the sealed one", () => {
    const forged = LOG.slice(0, 4);
    let head = headAfter(4);
    for (const record of LOG.slice(4)) {
      const headers = record.headers.map(([name, text]): [string, string] => [name, name === "ce_prev" ? head.hash : name === "ce_actor" ? "x" : (text as string)]);
      const other = { ...record, headers: [...headers, ["ce_forged", "1"] as [string, string]] };
      forged.push(other);
      head = nextHead(head, other) as Head;
    }
    const verifier = verifiedChain(forged, 4);
    expect(verifier.orphans).toBe(0);
    expect(sealInclusion(verifier, SEALS.at(-1)!.data as Seal).ok).toBe(false);
  });
});

describe("verification from the middle", () => {
  test("anchors at its first record, and reports that", () => {
    for (const begin of [1, 2, 6, 7]) {
      const verifier = new ChainVerifier("a100", 7, 2, claimedHead(LOG[begin]!));
      LOG.slice(begin).forEach((each) => verifier.add(each));
      expect([verifier.anchored, verifier.checked, verifier.orphans]).toEqual([true, LOG.length - begin, 0]);
      expect(verifier.links.map((link) => link.seq)).toEqual([5, 6, 7, 8].filter((seq) => seq >= begin));
    }
  });
});

describe("seals", () => {
  test("the auditor's seals are valid: two keys, an invalidation, three consistent trees", () => {
    const found = verifySeals("a100", IDENTITY, [...SEALS].reverse());
    expect([found.problem, found.keys.length, found.seals.map((seal) => seal.size), found.invalidations]).toEqual(["", 2, [3, 5, 9], 1]);
  });

  test("every record has an inclusion path to every later seal", () => {
    for (const seal of verifySeals("a100", IDENTITY, SEALS).seals) {
      for (let seq = 0; seq < seal.size; seq += 1) expect(sealInclusion(verifiedChain(LOG, seq), seal)).toMatchObject({ ok: true });
    }
  });

  const spoilt: [string, number, (data: Record<string, unknown>) => void, RegExp][] = [
    ["a root", 1, (data) => (data.root = "0".repeat(64)), /signature is not valid/],
    ["a size", 2, (data) => (data.size = 6), /signature is not valid/],
    ["a date", 1, (data) => (data.sealed_at = 1), /signature is not valid/],
    ["a consistency proof", 2, (data) => (data.consistency = []), /does not continue the seal over 3/],
    ["an unsigned key", 3, (data) => delete data.signature, /is not signed by it/],
    ["a seal with a foreign key", 1, (data) => (data.key = (SEALS[3]!.data as { key: string }).key), /was not the log's key/],
    ["a reason of an invalidation", 5, (data) => (data.reason = "other"), /is not signed by the log's key/],
    ["another log's", 2, (data) => (data.identity = "0".repeat(64)), /belongs to another log/],
    ["an invalid signature", 1, (data) => (data.signature = "!"), /signature is not valid/],
  ];
  test.each(spoilt)("a change of %s is detected", (_, at, spoil, problem) => {
    const items = structuredClone(SEALS);
    spoil(items[at]!.data as unknown as Record<string, unknown>);
    expect(verifySeals("a100", IDENTITY, items).problem).toMatch(problem);
  });

  test("a missing seal is detected by the next one", () => {
    expect(verifySeals("a100", IDENTITY, SEALS.toSpliced(1, 1)).problem).toMatch(/continues a seal over 3 records, which is missing/);
  });
});

describe("trees of up to 20 leaves", () => {
  const leaves = Array.from({ length: 20 }, (_, at) => leafHash(Uint8Array.of(at)));
  test("paths are valid only for their leaf, position and size", () => {
    for (let size = 1; size <= leaves.length; size += 1) {
      const root = rootOf(leaves, 0, size);
      for (let at = 0; at < size; at += 1) {
        const path = inclusionPath(leaves.slice(0, size), at);
        expect(included(leaves[at]!, at, size, path, root)).toBe(true);
        expect(included(leaves[(at + 1) % 20]!, at, size, path, root)).toBe(false);
        expect(included(leaves[at]!, at, size, [...path, root], root)).toBe(false);
      }
    }
    expect(consistent(3, 9, [], rootOf(leaves, 0, 3), rootOf(leaves, 0, 9))).toBe(false);
    expect(hex(rootOf([]))).toBe("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  });
});
