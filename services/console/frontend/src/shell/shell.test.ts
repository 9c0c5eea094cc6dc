import { expect, test } from "vitest";

import { betweenOf, betweenQuery, localMoment, parseMoment, timeZone, typedMoment } from "../lib";
import { aJob, aNode, FREE } from "../testing/liveRows";
import { matching, type Command } from "./commands";
import { isMine, jobNotice, nodeNotice } from "./noticeText";

const eviction = { for_job: "urgent", cause: "preemption", stage: "decided", decided_seq: 7, started_at: null, deadline: null, grace_s: 30, stuck: false };

test("a preemption of one's own job is an urgent notice, that of another's is none", () => {
  const [before, after] = [aJob("mine", { user: "ada" }), aJob("mine", { user: "ada", state: "evicting", eviction })];
  expect(jobNotice(before, after, "ada")).toMatchObject({ text: "mine is being preempted by urgent.", urgent: true, job: "mine" });
  expect(jobNotice(before, after, "bob")).toBeNull();
  expect(jobNotice(after, { ...after, step: 3 }, "ada")).toBeNull();
  expect(jobNotice({ ...after, state: "pending", eviction: null }, { ...before, evictions: 1 }, "ada")!.text).toBe("mine runs again.");
  expect(jobNotice(before, null, "ada")!.text).toBe("mine has ended.");
  expect(["ada", "console/ada", "xada", ""].map((user) => isMine(user, "ada"))).toEqual([true, true, false, false]);
  expect(isMine("", "")).toBe(false);
});

test("operators get a notice of a silent node and of a quarantined GPU, once", () => {
  const ready = aNode("n", [FREE]);
  expect(nodeNotice(ready, { ...ready, state: "unreachable" })!.text).toBe("Node n is unreachable.");
  expect(nodeNotice({ ...ready, state: "unreachable" }, { ...ready, state: "lost" })).toBeNull();
  expect(nodeNotice(ready, { ...ready, devices: [["quarantined", null, null, [], "dirty"]] })!.text).toBe("A GPU of n is quarantined.");
  expect(nodeNotice(null, ready)).toBeNull();
});

test("the palette finds by words, prefixes first, and shows few", () => {
  const command = (name: string): Command => ({ name, kind: "job", run: () => undefined });
  const names = (text: string): string[] => matching(["pretrain", "train-2", "Submit"].map(command), text).map((each) => each.name);
  expect(names("train")).toEqual(["train-2", "pretrain"]);
  expect(names("sub mit")).toEqual(["Submit"]);
  expect(matching(Array.from({ length: 900 }, (_, at) => command(`job-${at}`)), "job").length).toBe(12);
});

test("local time has the same format, with its offset", () => {
  const at = new Date("2026-01-01T00:01:05Z");
  expect([localMoment(at, 0), localMoment(at, 330), localMoment(at, -210)]).toEqual(["2026-01-01 00:01:05 +00:00", "2026-01-01 05:31:05 +05:30", "2025-12-31 20:31:05 −03:30"]);
});

test("a time is typed as it is shown, in the chosen zone", () => {
  expect(["2026-01-31", " 2026-01-31 12:30 ", "2026-01-31T12:30:05"].map(parseMoment)).toEqual(["2026-01-31T00:00:00.000Z", "2026-01-31T12:30:00.000Z", "2026-01-31T12:30:05.000Z"]);
  expect(["", "soon", "2026-02-30", "2026-13-01", "2026-01-31 25:00", "2026-01-31 12:00:00Z", "31.01.2026"].map(parseMoment)).toEqual(Array(7).fill(null));
  expect([typedMoment("2026-01-31T12:30:00Z"), typedMoment("2026-01-31T12:30:05Z"), typedMoment("")]).toEqual(["2026-01-31 12:30", "2026-01-31 12:30:05", ""]);
  timeZone.value = "local";
  expect(parseMoment(typedMoment("2026-07-01T12:30:00.000Z"))).toBe("2026-07-01T12:30:00.000Z");
  expect(parseMoment("2026-07-01 12:30")).toBe(new Date(2026, 6, 1, 12, 30).toISOString());
  timeZone.value = "utc";
});

test("a time range is in the address, and a wrong one is ignored", () => {
  const between = { from: "2026-01-31T00:00:00.000Z", to: "2026-01-31T12:30:00.000Z" };
  expect(betweenQuery(between)).toEqual([["from", "2026-01-31"], ["to", "2026-01-31T12:30Z"]]);
  expect(betweenOf(Object.fromEntries(betweenQuery(between)))).toEqual(between);
  expect([betweenOf({}), betweenOf({ from: "2026-01-31" }), betweenOf({ from: "x", to: "y" }), betweenOf({ from: between.to, to: between.from })]).toEqual([null, null, null, null]);
});
