import { describe, expect, it } from "vitest";

import type { Accounting, AccountingRow } from "../../api";
import { accountingPath, chartOf, csvOf, knownPart, monthOf, named, nameOf, neighbour, OTHERS, viewOf, viewPath, windowOf } from "./accountingData";

const ZERO = { used: 0, borrowed: 0, lost: 0, lost_other: 0, restart: 0, waiting: 0, preemptions: 0, jobs: 0 };
const row = (time: string, project: string | null, used: number): AccountingRow => ({ ...ZERO, time, project, user: null, user_verified: null, priority_class: null, job: null, submitted_seq: null, gpu_model: null, preemptor: null, preemptor_project: null, used });
const answer = (rows: AccountingRow[], capacity: [string, number][], known_from: string | null = null): Accounting => ({
  from: "",
  to: "",
  known_from,
  known_until: null,
  by: [],
  rows,
  more: false,
  totals: ZERO,
  capacity_gpu_hours: 0,
  capacity: capacity.map(([time, gpu_hours]) => ({ time, gpu_hours })),
});
const at = (text: string): number => Date.parse(text);

describe("the address", () => {
  it("has what differs from the default, and unknown values are the default", () => {
    const view = viewOf({ by: "user", range: "30d", figure: "lost" });
    expect(viewPath("a/b", view)).toBe("/a%2Fb/accounting?by=user&figure=lost&range=30d");
    expect(viewPath("p", viewOf({}))).toBe("/p/accounting");
    expect(viewOf({ by: "x", range: "x", from: "soon", to: "2026-01-01" })).toEqual(viewOf({}));
    expect(viewOf({ from: "2026-02-01", to: "2026-01-01" }).from).toBeNull();
  });

  it("may ask to whom work was lost", () => {
    expect(viewOf({ by: "preemptor", figure: "lost" }).by).toBe("preemptor");
    const lost = { ...row("2026-01-01T00:00:00Z", null, 0), preemptor: "serve", lost: 2 };
    expect([nameOf(lost, "preemptor"), nameOf({ ...lost, preemptor: null }, "preemptor"), nameOf(lost, "project")]).toEqual(["serve", "no preemption", "(none)"]);
    expect([nameOf({ ...lost, gpu_model: "h100" }, "gpu_model"), nameOf(lost, "gpu_model")]).toEqual(["h100", "no GPU yet"]);
  });

  it("keeps chosen days", () => {
    const view = viewOf({ from: "2026-01-01", to: "2026-02-01" });
    expect(viewPath("p", view)).toBe("/p/accounting?from=2026-01-01&to=2026-02-01");
    expect(viewPath("p", viewOf({ from: "2026-01-01T10:30Z", to: "2026-01-01T12:00:05Z" }))).toBe("/p/accounting?from=2026-01-01T10%3A30Z&to=2026-01-01T12%3A00%3A05Z");
    expect(windowOf(view, 0)).toEqual({ from: at("2026-01-01"), to: at("2026-02-01"), period: "day" });
    expect(windowOf(viewOf({ range: "1h" }), at("2026-01-01T10:00:01Z"))).toEqual({ from: at("2026-01-01T09:01Z"), to: at("2026-01-01T10:01Z"), period: "minute" });
  });

  it("of the request repeats by", () => {
    expect(accountingPath("p", ["user", "day"], 0, 86_400_000, { project: "a&b" })).toBe(
      "/api/archive/pools/p/accounting?by=user&by=day&from=1970-01-01T00%3A00%3A00.000Z&to=1970-01-02T00%3A00%3A00.000Z&project=a%26b",
    );
  });
});

describe("a young pool", () => {
  const window = { from: at("2026-01-01"), to: at("2026-01-02"), period: "hour" as const };
  it("is shown from the first period that is known, in shorter periods if that is short", () => {
    const found = answer([row("2026-01-01T22:00:00Z", "red", 1)], [["2026-01-01T22:00:00Z", 1]], "2026-01-01T22:30:00Z");
    expect(knownPart(found, window)).toEqual({ from: at("2026-01-01T22:30Z"), to: window.to, period: "minute" });
    expect(knownPart(answer([], []), window)).toEqual(window);
    expect(knownPart({ ...found, known_until: "2026-01-01T23:40:00Z" }, window).to).toBe(at("2026-01-01T23:40Z"));
    expect(knownPart({ ...found, known_from: "2025-12-31T23:00:00Z" }, window).from).toBe(window.from);
    expect(chartOf(found, "project", "used", { ...knownPart(found, window), period: "hour" }).capacity[0]).toBe(2); // not of time before the pool
  });
});

describe("the chart", () => {
  const window = { from: at("2026-01-01T00:30Z"), to: at("2026-01-01T03:00Z"), period: "hour" as const };

  it("shows mean GPUs of the part of each period that is inside the window", () => {
    const found = answer([row("2026-01-01T00:00:00Z", "red", 1), row("2026-01-01T02:00:00Z", "red", 3), row("2026-01-01T02:00:00Z", null, 1)], [["2026-01-01T00:00:00Z", 4], ["2026-01-01T01:00:00Z", 8]]);
    const chart = chartOf(found, "project", "used", window);
    expect(chart.areas).toEqual([{ name: "red", values: [2, 0, 3] }, { name: "(none)", values: [0, 0, 1] }]);
    expect(chart.capacity).toEqual([8, 8, 0]);
    expect(chartOf(found, "project", "waiting", window).areas).toEqual([]);
  });

  it("sums what is beyond the largest", () => {
    const found = answer(["a", "b", "c"].map((name, nth) => row("2026-01-01T01:00:00Z", name, 3 - nth)), []);
    expect(chartOf(found, "project", "used", window, 1).areas.map(({ name, values }) => [name, values[1]])).toEqual([["a", 3], [OTHERS, 3]]);
  });
});

it("CSV quotes texts, and none becomes a formula", () => {
  const text = csvOf([row("2026-01-01T00:00:00Z", '=1,"x"', 1.5)], "project");
  expect(text.split("\n")[0]).toBe("time,project,used_gpu_hours,borrowed_gpu_hours,lost_gpu_hours,lost_other_gpu_hours,restart_gpu_hours,waiting_gpu_hours,preemptions,jobs");
  expect(text.split("\n")[1]).toBe(`2026-01-01T00:00:00Z,"'=1,""x""",1.500000,0.000000,0.000000,0.000000,0.000000,0.000000,0,0`);
});

it("months are those of UTC, and of now where the address has none", () => {
  expect(monthOf("2026-12", 0)).toEqual({ text: "2026-12", from: at("2026-12-01"), to: at("2027-01-01") });
  expect(monthOf("2026-13", at("2026-02-03")).text).toBe("2026-02");
  expect([neighbour(monthOf("2026-01", 0), -1), neighbour(monthOf("2026-12", 0), 1)]).toEqual(["2025-12", "2027-01"]);
});

it("lists jobs of a name that was not verified apart from those of the user", () => {
  const rows = [{ ...row("", null, 1), user: "ada", user_verified: true }, { ...row("", null, 2), user: "ada", user_verified: false }];
  expect(named(answer(rows, [])).rows.map((each) => each.user)).toEqual(["ada", "ada (not verified)"]);
});
