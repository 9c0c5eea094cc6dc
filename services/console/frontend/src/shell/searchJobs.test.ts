import { expect, test } from "vitest";

import { aJob, jobMap } from "../testing/liveRows";
import { resolveJob, searchJobs } from "./searchJobs";

const jobs = jobMap(aJob("train-2", { user: "ada" }), aJob("train-1", { user: "bob" }), aJob("pretrain", { user: "ada" }), aJob("serve", { user: "carol" }));

test("matches part of the name or the whole user, prefixes first", () => {
  const names = (text: string, most = 9): string[] => searchJobs(jobs.values(), text, most).map((row) => row.job);
  expect(names("TRAIN")).toEqual(["train-1", "train-2", "pretrain"]);
  expect(names("train", 1)).toEqual(["train-1"]);
  expect(names("ada")).toEqual(["pretrain", "train-2"]);
  expect([names("ad"), names(" ")]).toEqual([[], []]);
});

test("Enter opens the only match, or the name as typed, which only the archive may know", () => {
  expect([resolveJob(jobs, "train-1"), resolveJob(jobs, "serv"), resolveJob(jobs, "carol"), resolveJob(jobs, "train"), resolveJob(jobs, "gone-7 "), resolveJob(jobs, " ")]).toEqual([
    "train-1", "serve", "serve", "train", "gone-7", null,
  ]);
});
