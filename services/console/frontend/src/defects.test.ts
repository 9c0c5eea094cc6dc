// Each test is a defect that a user saw once.
import { expect, test } from "vitest";

import type { Cell } from "./api";
import { projectName, times } from "./lib";
import { label, separatorParts } from "./pages/pool/map/paintMap";
import { topOf } from "./pages/pool/map/Tooltip";
import { usageLines, withCurrent, type UsagePoint } from "./pages/projects/usageSeries";
import { FIELDS, NEW_JOB } from "./pages/submit/jobFields";
import { withFields } from "./pages/submit/jobYaml";
import { jobSigns, signOf } from "./shared/gpuCellStyle";
import { aNode, aProject } from "./testing/liveRows";
import { columns } from "./ui/Chart";

const usage = (time: string, gpus: number): UsagePoint => ({ time, gpus, quota: null, fair_share: 16, past_use: null, borrowed: null });

test("the time axis extends to the newest time of the log, and the newest sample holds until then", () => {
  const items = [usage("2026-01-01T00:00:00Z", 0), usage("2026-01-01T00:00:09Z", 8)];
  const end = Date.parse("2026-01-01T00:05:00Z");
  const [times, used, borrowed, quota, fair] = columns(items.map((item) => Date.parse(item.time)), end, usageLines(items));
  expect(times!.at(-1)).toBe(end / 1000);
  expect([used, borrowed, quota, fair]).toEqual([[0, 8, 8], [0, 8, 8], [null, null, null], [16, 16, 16]]);
});

test("a project is shown as it is now, not as the archive last sampled it", () => {
  const now = aProject("vision", 7, 6, 8);
  const items = withCurrent([usage("2026-01-01T00:00:00Z", 0), usage("2026-01-01T00:00:30Z", 5)], now, "2026-01-01T00:00:30Z");
  expect(items.map((item) => [item.time, item.gpus, item.quota, item.fair_share, item.borrowed])).toEqual([["2026-01-01T00:00:00Z", 0, null, 16, null], ["2026-01-01T00:00:30Z", 7, 6, 8, 1]]);
  expect(withCurrent([], now, "2026-01-01T00:00:30Z").length).toBe(1);
});

test("jobs without a project are not shown as a project called *", () => {
  expect(["*", "", "research*", "vision"].map(projectName)).toEqual(["no project", "no project", "research, directly", "vision"]);
});

test("the lines between GPUs leave out the middle, where the job's name is", () => {
  const parts = separatorParts(60, 60);
  expect(parts.some(([from, to]) => from < 30 && to > 30)).toBe(false);
  expect(parts.length).toBe(2);
});

test("a job's name is written without the letter of its project before it", () => {
  expect([label("V", "v1", true), label("V", "v1", false), label("V", null, true)]).toEqual(["v1", "V", "V"]);
});

test("on a small map, jobs with the same first letter have different signs", () => {
  const cell = (job: string): Cell => ["allocated", job, null, [], null];
  const node = aNode("n", ["train-1", "train-2", "train-12", "serve-1"].map(cell));
  const signs = jobSigns([node]);
  const shown = node.devices.map((each) => signOf(each, signs));
  expect(new Set(shown).size).toBe(4);
  expect(shown).toEqual(["1", "2", "12", "S"]);
});

test("the card of a GPU never covers what is above the map", () => {
  expect([topOf(-1, 80), topOf(0, 80)]).toEqual([88, 0]);
});

test("a new job asks for one GPU, in the form and as YAML", () => {
  expect(withFields("", NEW_JOB, Object.keys(FIELDS) as (keyof typeof FIELDS)[])).toBe("gpus: 1\n");
});

test("how often is a number from two on", () => {
  expect([times(1), times(2), times(3)]).toEqual(["once", "2 times", "3 times"]);
});
