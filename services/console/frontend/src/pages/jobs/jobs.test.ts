import { expect, test } from "vitest";

import { aJob, jobMap } from "../../testing/liveRows";
import { addressOf, archiveQuestion, current, DEFAULT, liveQuestion, questionOf, withView, type JobItem } from "./jobsQuery";

test("a question is in the address, and back", () => {
  expect(addressOf(DEFAULT)).toBe("");
  const question = { ...DEFAULT, states: ["pending", "running"], name: "träin &", project: "vision", from: "2026-01-01T00:00:00.000Z", sort: "ended" as const, order: "asc" as const };
  expect(questionOf(Object.fromEntries(new URLSearchParams(addressOf(question))))).toEqual(question);
});

test("what an address has that no question has is ignored", () => {
  expect(questionOf({ state: "on-fire,running", sort: "password", order: "up", columns: "secret", from: "soon" })).toEqual({ ...DEFAULT, states: ["running"] });
  expect(questionOf({ name: "x".repeat(10_000) }).name.length).toBe(256);
});

test("the archive is asked the same, page by page", () => {
  const asked = new URL(archiveQuestion("a/b", { ...DEFAULT, states: ["failed", "cancelled"], name: "a&b" }, "cur", 100), "http://x");
  expect(asked.pathname).toBe("/api/archive/pools/a%2Fb/jobs");
  expect(asked.searchParams.getAll("state")).toEqual(["failed", "cancelled"]);
  expect([asked.searchParams.get("contains"), asked.searchParams.get("cursor"), asked.searchParams.get("sort")]).toEqual(["a&b", "cur", "submitted"]);
});

const item: JobItem = { job: "a", submitted_seq: 1, project: "p", user: "", user_verified: false, priority_class: "train", gpus: 1, state: "pending", submitted_at: "2026-01-01T00:00:00Z", waited_s: null, ended_at: null, outcome: null, reason: null };

test("the live state of a job goes before the archive's, but not that of a later job of the same name", () => {
  const live = jobMap(aJob("a", { state: "running", submitted_at: "2026-01-01T00:00:00Z" }));
  expect(current(item, live).state).toBe("running");
  expect(current({ ...item, submitted_at: "2025-01-01T00:00:00Z" }, live).state).toBe("pending");
});

test("without an archive the live state is asked the same", () => {
  const asked = new URL(liveQuestion("a/b", { ...DEFAULT, states: ["pending"], name: "train", sort: "gpus" }, null, 100), "http://x");
  expect(asked.pathname).toBe("/api/pools/a%2Fb/jobs");
  expect([asked.searchParams.get("state"), asked.searchParams.get("contains"), asked.searchParams.get("sort"), asked.searchParams.get("cursor")]).toEqual(["pending", "train", "gpus", null]);
});

test("a saved view replaces the one of its name", () => {
  const views = withView(withView([], { name: "mine", address: "user=a" }), { name: "mine", address: "user=b" });
  expect(views).toEqual([{ name: "mine", address: "user=b" }]);
});
