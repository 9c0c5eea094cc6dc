import { describe, expect, test } from "vitest";

import vectors from "../../../../../docs/log-protocol-vectors.json";
import sealVectors from "./seal-vectors.json";
import type { Line } from "./chain";
import { verify, type ArchiveQuery, type ExpectedRecord } from "./verifyRecord";

const LOG: Line[] = vectors.chain.map((each, at) => ({ offset: at * 2, time: 0, headers: each.headers as [string, string][], value: each.value }));

/** An archive of this log; `pieces`: how many messages it gives at a time, at most. */
function archive(log: Line[], { seals = sealVectors as unknown[], first = 0, pieces = 3, identity = vectors.chain[0]!.hash } = {}): { ask: ArchiveQuery; requests: string[] } {
  const requests: string[] = [];
  const answer = (path: string): unknown => {
    requests.push(path);
    if (path === "") return { pool: "a100", identity, first_seq: first, next_seq: log.length };
    if (path.startsWith("seals")) return path.includes("cursor") ? { items: seals.slice(2), next: null } : { items: seals.slice(0, 2), next: "more/1" };
    const from = Number(/from_offset=(\d+)/.exec(path)![1]);
    const found = log.filter((line) => line.offset >= from).slice(0, pieces);
    return { end_offset: 99, next_offset: found.length ? found.at(-1)!.offset + 1 : 99, messages: found };
  };
  return { ask: <T>(path: string) => Promise.resolve(answer(path) as T), requests };
}

const expectedRecord = (seq: number): ExpectedRecord => ({ pool: "a100", seq, offset: seq * 2, data: JSON.parse(vectors.chain[seq]!.value), hash: vectors.chain[seq]!.hash });
const texts = (checks: { ok: boolean | null; text: string }[]) => checks.map((check) => `${check.ok === null ? "-" : check.ok ? "✓" : "✗"} ${check.text}`).join("\n");

describe("verifying one record", () => {
  test("the whole log up to the seal: chain, record, seals, inclusion; and what was not checked", async () => {
    const seen: number[] = [];
    const found = await verify(archive(LOG).ask, expectedRecord(6), null, (done) => seen.push(done));
    expect(found.wholeLog).toBe(true);
    expect(found.inclusion).toMatchObject({ ok: true });
    expect(seen).toEqual([3, 6, 9]);
    expect(texts(found.checks)).toMatch(/^✓ All 9 records from the first to #8[^\n]*\n✓ The data shown[^\n]*\n✓ 3 seals: [^\n]*\n✓ Record #6 is covered by the seal over the first 9 records\. Its inclusion path of 4 hashes/);
    expect(found.checks.filter((check) => check.ok === false)).toEqual([]);
    expect(found.checks.filter((check) => check.ok === null).map((check) => check.text).join(" ")).toMatch(/compare it with the key.*audit replay/);
  });

  test("only around it: no more is claimed than was checked", async () => {
    const found = await verify(archive(LOG, { pieces: 50 }).ask, expectedRecord(6), false, () => undefined);
    expect([found.wholeLog, found.inclusion]).toEqual([false, null]);
    expect(found.checks.filter((check) => check.ok === false)).toEqual([]);
    expect(texts(found.checks)).toMatch(/- Its inclusion in the seal .* was not checked/);
  });

  test("a pruned archive does not reach the first record, and refers to exported files", async () => {
    const found = await verify(archive(LOG.slice(3), { first: 3, pieces: 50 }).ask, expectedRecord(6), null, () => undefined);
    expect(found.wholeLog).toBe(false);
    expect(texts(found.checks)).toMatch(/begins with record #3/);
  });

  test("an orphan before it is ignored and counted", async () => {
    const log = [...LOG.slice(0, 5), { ...LOG[3]!, offset: 9 }, ...LOG.slice(5)];
    for (const whole of [true, false]) {
      const found = await verify(archive(log, { pieces: 50 }).ask, expectedRecord(6), whole, () => undefined);
      expect(texts(found.checks)).toMatch(/✓ .*One message between them does not continue/);
      expect(found.links.filter((link) => link.reason).map((link) => link.seq)).toEqual([3]);
    }
  });

  const changed = (at: number, value: string): Line[] => LOG.with(at, { ...LOG[at]!, value });
  test.each<[string, Line[], Partial<ExpectedRecord>, object, RegExp]>([
    ["the record's bytes", changed(6, vectors.chain[6]!.value.replace("grosse-1", "grosse-2")), {}, {}, /✗ The archive reports a different hash|✗ The chain does not reach/],
    ["a record before it", changed(3, '{"a":1}'), {}, {}, /✗ The chain does not reach record #6: it ends after 4 records, as prev is/],
    ["a record after it", changed(8, '{"a":1}'), {}, {}, /✗ The first 9 records differ from the sealed ones/],
    ["what the page shows", LOG, { data: { job: "another" } }, {}, /✗ The data shown on this page differs/],
    ["the hash reported by the archive", LOG, { hash: "0".repeat(64) }, {}, /✗ The archive reports a different hash/],
    ["the log's identity", LOG, {}, { identity: "0".repeat(64) }, /The first record's hash is .* but the archive reports/],
    ["a seal", LOG, {}, { seals: sealVectors.map((each, at) => (at === 1 ? { ...each, data: { ...each.data, root: "0".repeat(64) } } : each)) }, /✗ Seals: the seal over 3 records: its signature is not valid/],
    ["the end of the log", LOG.slice(0, 8), {}, {}, /✗ 9 records were sealed, but only 8/],
  ])("a change of %s is detected", async (_, log, other, options, text) => {
    const found = await verify(archive(log, options).ask, { ...expectedRecord(6), ...other }, true, () => undefined);
    expect(texts(found.checks)).toMatch(text);
  });

  test("without seals: the chain is verified, and its limits are stated", async () => {
    const found = await verify(archive(LOG, { seals: [] }).ask, expectedRecord(6), null, () => undefined);
    expect(texts(found.checks)).toMatch(/- There are no seals/);
  });

  test("it can be cancelled", async () => {
    const stop = new AbortController();
    const going = verify(archive(LOG).ask, expectedRecord(6), true, () => stop.abort(), stop.signal);
    await expect(going).rejects.toThrow("stopped");
  });
});
