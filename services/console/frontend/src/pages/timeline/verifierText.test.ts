import { expect, test } from "vitest";

import type { Verification } from "../../api";
import sealVectors from "../../verify/seal-vectors.json";
import { sealHolds, type Seal, type SealItem } from "../../verify/seals";
import { chainText, isSettled, newestText, proposalsText, sealText } from "./verifierText";

const proposals = (reproduced: number, not_reproduced = 0, not_searched = 0) => ({ reproduced, not_reproduced, not_searched });
const audited = (changed: Partial<Verification> = {}): Verification => ({ seq: 9, identity: "", next_seq: 12, broken: "", checked_seq: 11, proposals: proposals(3), proposal: null, seal: null, keys: [], ...changed });

test("the auditor's chain, and where it ends", () => {
  expect(chainText(audited())).toEqual({ ok: true, text: "✓ Chain verified up to #11" });
  expect(chainText(audited({ broken: "a gap" }))).toEqual({ ok: false, text: "✗ Chain verified up to #11 only:", more: "a gap" });
});

test("proposals: all reproduced, one not, one that nobody could search, and those not reached yet", () => {
  expect(proposalsText(audited())).toEqual({ ok: true, text: "✓ 3 of 3 proposals up to here reproduced" });
  expect(proposalsText(audited({ proposals: proposals(2, 1, 1) }))).toEqual({ ok: false, text: "✗ 2 of 4 proposals up to here reproduced, 1 not reproduced, 1 not searched again" });
  expect(proposalsText(audited({ proposals: proposals(2, 0, 1) })).ok).toBe(null);
  expect(proposalsText(audited({ proposals: proposals(0), checked_seq: 4 }))).toEqual({ ok: null, text: "No proposals up to #4, as far as it is." });
});

test("the newest proposal says what differs, or why it was not searched", () => {
  const newest = (result: string) => newestText(audited({ proposal: { seq: 8, computed_at: 7, result, text: "why" } }));
  expect(newest("reproduced")).toBe(null);
  expect(newest("not-reproduced")).toEqual({ ok: false, text: "✗ #8 is not reproduced.", more: "why" });
  expect(newest("not-searched")).toEqual({ ok: null, text: "#8 was not searched again:", more: "why" });
});

test("it is asked again until a seal covers the record and its proposals are checked", () => {
  const seal = { offset: 1, kind: "LogSealed", data: {} };
  expect([audited(), audited({ seal, checked_seq: 8 }), audited({ seal })].map(isSettled)).toEqual([false, false, true]);
});

test("a seal holds for the log's key and identity only", () => {
  const items = sealVectors as SealItem[];
  const keys = items.filter((each) => each.kind === "SealingKey");
  const seal = items.at(-1)!.data as Seal;
  expect(sealHolds("a100", seal.identity, keys, seal)).toBe(true);
  expect(sealHolds("a100", seal.identity, keys, { ...seal, size: seal.size + 1 })).toBe(false);
  expect(sealHolds("a100", seal.identity, [], seal)).toBe(false);
  expect(sealHolds("a100", "f".repeat(64), keys, seal)).toBe(false);
  expect(sealHolds("h100", seal.identity, keys, seal)).toBe(false);
});

test("a valid signature is not called an inclusion", () => {
  const seal = { size: 9, sealed_at: 0 };
  const found = (same: boolean, holds: boolean, isUnder: boolean | null) => sealText({ seq: 4, same }, seal, holds, isUnder);
  expect(found(true, true, true)).toMatchObject({ ok: true, text: expect.stringContaining("#4 is included in the seal over the first 9 records") as string });
  expect(found(true, true, null)).toMatchObject({ ok: null, text: expect.stringContaining("Whether #4 is among them was not computed") as string });
  for (const each of [found(false, true, true), found(true, true, false)]) expect(each).toMatchObject({ ok: false, text: expect.stringContaining("Other records") as string });
  expect(found(true, false, null)).toMatchObject({ ok: false, text: expect.stringContaining("The signature is not valid") as string });
});
