import { describe, expect, test } from "vitest";

import vectors from "../../../../../docs/log-protocol-vectors.json";
import type { Line } from "./chain";
import { type Ask, verify, type Wanted } from "./run";
import sealVectors from "./seal-vectors.json";

const LOG: Line[] = vectors.chain.map((each, at) => ({ offset: at * 2, time: 0, headers: each.headers as [string, string][], value: each.value }));

/** An archive of this log; `pieces`: how many messages it gives at a time, at most. */
function archive(log: Line[], { seals = sealVectors as unknown[], first = 0, pieces = 3, identity = vectors.chain[0]!.hash } = {}): { ask: Ask; asked: string[] } {
  const asked: string[] = [];
  const answer = (path: string): unknown => {
    asked.push(path);
    if (path === "") return { domain: "a100", identity, first_seq: first, next_seq: log.length };
    if (path.startsWith("seals")) return path.includes("cursor") ? { items: seals.slice(2), next: null } : { items: seals.slice(0, 2), next: "more/1" };
    const from = Number(/from_offset=(\d+)/.exec(path)![1]);
    const found = log.filter((line) => line.offset >= from).slice(0, pieces);
    return { end: 99, next_offset: found.length ? found.at(-1)!.offset + 1 : 99, messages: found };
  };
  return { ask: <T>(path: string) => Promise.resolve(answer(path) as T), asked };
}

const wanted = (seq: number): Wanted => ({ pool: "a100", seq, offset: seq * 2, data: JSON.parse(vectors.chain[seq]!.value), hash: vectors.chain[seq]!.hash });
const said = (checks: { ok: boolean | null; text: string }[]) => checks.map((check) => `${check.ok === null ? "-" : check.ok ? "✓" : "✗"} ${check.text}`).join("\n");

describe("one record, checked in the browser", () => {
  test("the whole log up to the seal: chain, record, seals, place under the seal; and what was not checked", async () => {
    const seen: number[] = [];
    const found = await verify(archive(LOG).ask, wanted(6), null, (done) => seen.push(done));
    expect(found.whole).toBe(true);
    expect(found.inclusion).toMatchObject({ ok: true });
    expect(seen).toEqual([3, 6, 9]);
    expect(said(found.checks)).toMatch(/^✓ All 9 records from the log's first to #8[^\n]*\n✓ What this page shows[^\n]*\n✓ 3 seals: [^\n]*\n✓ Record #6 is under the seal over the first 9 records\. Its path of 4 hashes/);
    expect(found.checks.filter((check) => check.ok === false)).toEqual([]);
    expect(found.checks.filter((check) => check.ok === null).map((check) => check.text).join(" ")).toMatch(/compare it with the one.*audit replay/);
  });

  test("only around it: no more is said than was checked", async () => {
    const found = await verify(archive(LOG, { pieces: 50 }).ask, wanted(6), false, () => undefined);
    expect([found.whole, found.inclusion]).toEqual([false, null]);
    expect(found.checks.filter((check) => check.ok === false)).toEqual([]);
    expect(said(found.checks)).toMatch(/- Its place under the seal .* was not checked/);
  });

  test("an archive that was pruned has no way to the first record, and says where the rest is", async () => {
    const found = await verify(archive(LOG.slice(3), { first: 3, pieces: 50 }).ask, wanted(6), null, () => undefined);
    expect(found.whole).toBe(false);
    expect(said(found.checks)).toMatch(/begins with record #3/);
  });

  test("a message that is no record lies before it: it is passed over and counted", async () => {
    const log = [...LOG.slice(0, 5), { ...LOG[3]!, offset: 9 }, ...LOG.slice(5)];
    for (const whole of [true, false]) {
      const found = await verify(archive(log, { pieces: 50 }).ask, wanted(6), whole, () => undefined);
      expect(said(found.checks)).toMatch(/✓ .*One message between them does not continue/);
      expect(found.links.filter((link) => link.reason).map((link) => link.seq)).toEqual([3]);
    }
  });

  const changed = (at: number, value: string): Line[] => LOG.with(at, { ...LOG[at]!, value });
  test.each<[string, Line[], Partial<Wanted>, object, RegExp]>([
    ["the record's bytes", changed(6, vectors.chain[6]!.value.replace("grosse-1", "grosse-2")), {}, {}, /✗ The archive names another hash|✗ The chain does not lead/],
    ["a record before it", changed(3, '{"a":1}'), {}, {}, /✗ The chain does not lead to record #6: after 4 records it ends where prev is/],
    ["a record after it", changed(8, '{"a":1}'), {}, {}, /✗ The first 9 records are not those that were sealed/],
    ["what the page shows", LOG, { data: { job: "another" } }, {}, /✗ What this page shows is not/],
    ["the hash that the archive names", LOG, { hash: "0".repeat(64) }, {}, /✗ The archive names another hash/],
    ["the log's identity", LOG, {}, { identity: "0".repeat(64) }, /The first record's hash is .* and the archive says/],
    ["a seal", LOG, {}, { seals: sealVectors.map((each, at) => (at === 1 ? { ...each, data: { ...each.data, root: "0".repeat(64) } } : each)) }, /✗ Seals: the seal over 3 records: its signature does not fit/],
    ["the end of the log", LOG.slice(0, 8), {}, {}, /✗ 9 records were sealed, but only 8/],
  ])("%s was changed: found", async (_, log, other, options, text) => {
    const found = await verify(archive(log, options).ask, { ...wanted(6), ...other }, true, () => undefined);
    expect(said(found.checks)).toMatch(text);
  });

  test("no seals yet: the chain is checked, and it says what it cannot show", async () => {
    const found = await verify(archive(LOG, { seals: [] }).ask, wanted(6), null, () => undefined);
    expect(said(found.checks)).toMatch(/- There are no seals/);
  });

  test("it can be stopped", async () => {
    const stop = new AbortController();
    const going = verify(archive(LOG).ask, wanted(6), true, () => stop.abort(), stop.signal);
    await expect(going).rejects.toThrow("stopped");
  });
});
