import { expect, test } from "vitest";

import vectors from "../../../../../docs/log-protocol-vectors.json";
import type { Line } from "./chain";
import { ReplayVerifier } from "./replayVerifier";
import sealVectors from "./seal-vectors.json";
import type { Seal, SealItem } from "./seals";

/** The log of the vectors, beginning at `shift`; and how often it was read. */
function log(shift = 0, change: (line: Line) => Line = (line) => line) {
  const lines: Line[] = vectors.chain.map((each, at) => change({ offset: shift + at, time: 0, headers: each.headers as [string, string][], value: each.value }));
  const read: string[] = [];
  const query = <T,>(path: string): Promise<T> => {
    read.push(path);
    const from = Number(/from_offset=(\d+)/.exec(path)![1]);
    const messages = lines.filter((line) => line.offset >= from).slice(0, 4);
    return Promise.resolve({ messages, next_offset: (messages.at(-1)?.offset ?? from - 1) + 1 } as T);
  };
  return { verifier: new ReplayVerifier("a100", query), read };
}
const position = (seq: number, shift = 0) => ({ seq, offset: shift + seq, hash: vectors.chain[seq]!.hash });

test("a short log is computed from its first record, and each record once", async () => {
  const { verifier, read } = log();
  expect(await verifier.at(position(5))).toMatchObject({ first: 0, same: true, computed: vectors.chain[5]!.hash });
  const before = read.length;
  expect(await verifier.at(position(2))).toMatchObject({ first: 0, same: true });
  expect(read.length).toBe(before);
});

test("a long log is computed from where the player begins: that record's own claim is what the others continue", async () => {
  const { verifier } = log(5_000);
  expect(await verifier.at(position(4, 5_000))).toMatchObject({ first: 4, same: true });
  expect(await verifier.at(position(6, 5_000))).toMatchObject({ first: 4, same: true });
  expect(await verifier.at(position(2, 5_000))).toMatchObject({ first: 2, same: true });
});

test("a changed record has another hash, and what follows it does not continue the chain", async () => {
  const changed = (line: Line): Line => (line.offset === 3 ? { ...line, value: `${line.value as string} ` } : line);
  const { verifier } = log(0, changed);
  expect(await verifier.at(position(3))).toMatchObject({ same: false });
  const after = await verifier.at(position(5));
  expect([after.same, after.computed, after.orphans > 0]).toEqual([false, null, true]);
});

const seals = (sealVectors as SealItem[]).filter((each) => each.kind === "LogSealed").map((each) => each.data as Seal);

test("the records of a short log are those under its seals, also before and after the record", async () => {
  const { verifier, read } = log();
  await verifier.at(position(2));
  const newest = seals.at(-1)!;
  expect(await verifier.isUnder(newest)).toBe(true);
  const before = read.length;
  expect([await verifier.isUnder(newest), await verifier.isUnder({ ...newest, root: "0".repeat(64) }), await verifier.isUnder({ ...newest, size: newest.size + 1 })]).toEqual([true, false, false]);
  expect(read.length).toBe(before + 1);
});

test("no record after a changed one is under the seal, and of a long log none is said to be", async () => {
  const changed = log(0, (line) => (line.offset === 5 ? { ...line, value: `${line.value as string} ` } : line)).verifier;
  await changed.at(position(2));
  expect(await changed.isUnder(seals.at(-1)!)).toBe(false);
  const long = log(5_000).verifier;
  await long.at(position(4, 5_000));
  expect(await long.isUnder(seals.at(-1)!)).toBe(null);
});
