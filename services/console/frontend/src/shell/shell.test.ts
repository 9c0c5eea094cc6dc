import { expect, test } from "vitest";

import { localMoment } from "../lib/timeZone";
import { aJob, aNode, FREE } from "../pages/pool/liveRows.fixture";
import { matching, type Command } from "./commands";
import { isMine, jobNotice, nodeNotice } from "./noticeText";

const eviction = { for_job: "urgent", cause: "preemption", stage: "decided", decided_seq: 7, started_at: null, deadline: null };

test("a preemption of one's own job is an urgent notice, that of another's is none", () => {
  const [before, after] = [aJob("mine", { user: "ada" }), aJob("mine", { user: "ada", state: "evicting", eviction })];
  expect(jobNotice(before, after, "ada")).toMatchObject({ text: "mine is being preempted by urgent.", urgent: true, job: "mine" });
  expect(jobNotice(before, after, "bob")).toBeNull();
  expect(jobNotice(after, { ...after, jobs_ahead: 3 }, "ada")).toBeNull();
  expect(jobNotice({ ...after, state: "pending", eviction: null }, { ...before, evictions: 1 }, "ada")!.text).toBe("mine runs again.");
  expect(jobNotice(before, null, "ada")!.text).toBe("mine has ended.");
  expect(["ada", "console/ada", "xada", ""].map((user) => isMine(user, "ada"))).toEqual([true, true, false, false]);
  expect(isMine("", "")).toBe(false);
});

test("operators get a notice of a silent node and of a quarantined GPU, once", () => {
  const ready = aNode("n", [FREE]);
  expect(nodeNotice(ready, { ...ready, state: "unreachable" })!.text).toBe("Node n is unreachable.");
  expect(nodeNotice({ ...ready, state: "unreachable" }, { ...ready, state: "lost" })).toBeNull();
  expect(nodeNotice(ready, { ...ready, quarantined: 1 })!.text).toBe("A GPU of n is quarantined.");
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
