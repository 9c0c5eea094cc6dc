import { describe, expect, test } from "vitest";

import vectors from "../../../../../docs/log-protocol-vectors.json";
import { hex } from "./bytes";
import { follow, type Head, type Line, preimage, recordHash, start } from "./chain";
import { consistent, included, inclusionPath, leafHash, rootOf } from "./merkle";
import { judgeSeals, type Seal, type SealItem } from "./seals";
import sealVectors from "./seal-vectors.json";
import { headBefore, underSeal, Walk } from "./walk";

interface Vector {
  headers: string[][];
  value: string;
}

const line = (each: Vector, offset = 0): Line => ({ offset, time: 0, headers: each.headers as [string, string][], value: each.value });
const LOG = vectors.chain.map((each, at) => line(each, at));
const SEALS = sealVectors as SealItem[];
const IDENTITY = vectors.chain[0]!.hash;
const headAfter = (many: number): Head => LOG.slice(0, many).reduce((head, each) => follow(head, each) as Head, start("a100"));
const walked = (log: Line[], wanted: number): Walk => {
  const walk = new Walk("a100", wanted, 100);
  log.forEach((each) => walk.take(each));
  return walk;
};

describe("the protocol's vectors", () => {
  test("the bytes that are hashed, and their hash", () => {
    expect(hex(preimage(line(vectors.hash)))).toBe(vectors.hash.preimage_hex);
    expect(recordHash(line(vectors.hash))).toBe(vectors.hash.hash);
  });

  test("the chain leads from record to record", () => {
    vectors.chain.forEach((each, at) => expect(headAfter(at + 1).hash).toBe(each.hash));
  });

  test.each(vectors.breaks)("$name: $reason", ({ after, headers, value, reason }) => {
    expect(follow(headAfter(after), line({ headers, value }))).toBe(reason);
  });

  test("a changed record has another hash, and the one after it does not continue", () => {
    const { at, hash, next_breaks, ...changed } = vectors.tampered;
    const head = follow(headAfter(at), line(changed)) as Head;
    expect(head.hash).toBe(hash);
    expect(follow(head, LOG[at + 1]!)).toBe(next_breaks);
  });

  test("bytes that are no text are hashed as they were", () => {
    const raw: Line = { ...line(vectors.hash), value: { base64: "/wB7" } };
    expect(hex(preimage(raw)).endsWith("00000003ff007b")).toBe(true);
  });
});

describe("a tampered record", () => {
  const flipped = (text: string, at: number): string => text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ 1) + text.slice(at + 1);

  test("each flip of a bit of any header or value is found by the chain or by the seal", () => {
    const seal = SEALS.at(-1)!.data as Seal;
    expect(underSeal(walked(LOG, 4), seal).ok).toBe(true);
    let flips = 0;
    LOG.forEach((record, number) => {
      const parts = [...record.headers.map(([name, text], at) => ({ name, text: text as string, at })), { name: "", text: record.value as string, at: -1 }];
      for (const { name, text, at } of parts.filter((part) => part.at < 0 || part.name.startsWith("ce_"))) {
        for (let place = 0; place < text.length; place += Math.max(1, Math.floor(text.length / 3))) {
          const changed = flipped(text, place);
          const other: Line =
            at < 0 ? { ...record, value: changed } : { ...record, headers: record.headers.map((each, place) => (place === at ? [name, changed] : each)) };
          const walk = walked(LOG.with(number, other), 4);
          expect(walk.passedOver > 0 || !underSeal(walk, seal).ok, `record ${number}, ${name || "value"}, at ${place}`).toBe(true);
          flips += 1;
        }
      }
    });
    expect(flips).toBeGreaterThan(400);
  });

  test("what was inserted, left out or cut off is found", () => {
    const seal = SEALS.at(-1)!.data as Seal;
    expect(walked([...LOG.slice(0, 5), LOG[3]!, ...LOG.slice(5)], 4).links.filter((link) => link.reason).map((link) => link.reason)).toEqual(["seq is 3, expected 5"]);
    expect(underSeal(walked(LOG.toSpliced(6, 1), 4), seal).ok).toBe(false);
    expect(underSeal(walked(LOG.slice(0, 8), 4), seal).words).toContain("cut short");
  });

  test("a log written anew from some record on chains well, and is not what was sealed", () => {
    const forged = LOG.slice(0, 4);
    let head = headAfter(4);
    for (const record of LOG.slice(4)) {
      const headers = record.headers.map(([name, text]): [string, string] => [name, name === "ce_prev" ? head.hash : name === "ce_actor" ? "x" : (text as string)]);
      const other = { ...record, headers: [...headers, ["ce_forged", "1"] as [string, string]] };
      forged.push(other);
      head = follow(head, other) as Head;
    }
    const walk = walked(forged, 4);
    expect(walk.passedOver).toBe(0);
    expect(underSeal(walk, SEALS.at(-1)!.data as Seal).ok).toBe(false);
  });
});

describe("a walk that begins in the middle", () => {
  test("takes what came before its first record as that record says, and says so", () => {
    for (const begin of [1, 2, 6, 7]) {
      const walk = new Walk("a100", 7, 2, headBefore(LOG[begin]!));
      LOG.slice(begin).forEach((each) => walk.take(each));
      expect([walk.anchored, walk.checked, walk.passedOver]).toEqual([true, LOG.length - begin, 0]);
      expect(walk.links.map((link) => link.seq)).toEqual([5, 6, 7, 8].filter((seq) => seq >= begin));
    }
  });
});

describe("seals", () => {
  test("the auditor's hold: two keys, an accepted loss, three trees that continue each other", () => {
    const found = judgeSeals("a100", IDENTITY, [...SEALS].reverse());
    expect([found.problem, found.keys.length, found.seals.map((seal) => seal.size), found.setAside]).toEqual(["", 2, [3, 5, 9], 1]);
  });

  test("every record has a path to the root of every seal above it", () => {
    for (const seal of judgeSeals("a100", IDENTITY, SEALS).seals) {
      for (let seq = 0; seq < seal.size; seq += 1) expect(underSeal(walked(LOG, seq), seal)).toMatchObject({ ok: true });
    }
  });

  const spoilt: [string, number, (data: Record<string, unknown>) => void, RegExp][] = [
    ["a root", 1, (data) => (data.root = "0".repeat(64)), /signature does not fit/],
    ["a size", 2, (data) => (data.size = 6), /signature does not fit/],
    ["a date", 1, (data) => (data.sealed_at = 1), /signature does not fit/],
    ["a consistency proof", 2, (data) => (data.consistency = []), /does not continue the one over 3/],
    ["a key that nobody signed", 3, (data) => delete data.signature, /did not sign that/],
    ["a seal by a key that is not the log's", 1, (data) => (data.key = (SEALS[3]!.data as { key: string }).key), /not the log's key then/],
    ["a reason of a loss", 5, (data) => (data.reason = "other"), /did not sign that/],
    ["another log's", 2, (data) => (data.identity = "0".repeat(64)), /of another log/],
    ["rubbish", 1, (data) => (data.signature = "!"), /signature does not fit/],
  ];
  test.each(spoilt)("%s that was changed is found", (_, at, spoil, problem) => {
    const items = structuredClone(SEALS);
    spoil(items[at]!.data as unknown as Record<string, unknown>);
    expect(judgeSeals("a100", IDENTITY, items).problem).toMatch(problem);
  });

  test("a seal that is missing is found by the one after it", () => {
    expect(judgeSeals("a100", IDENTITY, SEALS.toSpliced(1, 1)).problem).toMatch(/continues one over 3, which is missing/);
  });
});

describe("trees of every size up to 20", () => {
  const leaves = Array.from({ length: 20 }, (_, at) => leafHash(Uint8Array.of(at)));
  test("paths hold, and no other leaf, place or size does", () => {
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
