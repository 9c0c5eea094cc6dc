import { expect, test } from "vitest";

import { aJob, jobMap } from "../pages/pool/rows.fixture";
import { findJobs, meant } from "./find";

const jobs = jobMap(aJob("train-2", { user: "ada" }), aJob("train-1", { user: "bob" }), aJob("pretrain", { user: "ada" }), aJob("serve", { user: "carol" }));

test("by a part of the name or the whole user, beginnings first", () => {
  const names = (text: string, most = 9): string[] => findJobs(jobs.values(), text, most).map((row) => row.job);
  expect(names("TRAIN")).toEqual(["train-1", "train-2", "pretrain"]);
  expect(names("train", 1)).toEqual(["train-1"]);
  expect(names("ada")).toEqual(["pretrain", "train-2"]);
  expect([names("ad"), names(" ")]).toEqual([[], []]);
});

test("enter leads to the one that is meant, or to a name that only the archive may know", () => {
  expect([meant(jobs, "train-1"), meant(jobs, "serv"), meant(jobs, "carol"), meant(jobs, "train"), meant(jobs, "gone-7 "), meant(jobs, " ")]).toEqual([
    "train-1", "serve", "serve", "train", "gone-7", null,
  ]);
});
