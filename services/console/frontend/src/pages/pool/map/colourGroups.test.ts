/// <reference types="node" />
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

import { aJob, aProject } from "../../../testing/liveRows";
import { classNames, COLOURS, groupsOf, projectNames } from "../../../shared/colourGroups";
import { contrast, inkOn } from "./palette";

describe("colours of projects and classes", () => {
  it("are unique in colour, pattern and letter for the first forty", () => {
    const names = Array.from({ length: 40 }, (_, at) => `team-${String.fromCharCode(97 + (at % 26))}${at}`);
    const groups = [...groupsOf(names).values()];
    expect(new Set(groups.map((group) => `${group.colour} ${group.pattern}`)).size).toBe(40);
    expect(new Set(groups.map((group) => group.letter)).size).toBe(40);
  });

  it("take the letter after the common prefix", () => {
    const letters = [...groupsOf(["team-a-models", "team-b-models", "team-c-models"]).values()].map((group) => group.letter);
    expect(letters).toEqual(["A", "B", "C"]);
    expect([...groupsOf(["research"]).values()][0]!.letter).toBe("R");
    expect(groupsOf(["", "research"]).get("")).toMatchObject({ name: "no project", letter: "–" });
  });

  it("are stable when jobs start or end: they follow the policy", () => {
    const projects = [aProject("research", 0, 4, 4), aProject("serving", 0, 4, 4)];
    const before = groupsOf(projectNames(projects, []));
    const after = groupsOf(projectNames(projects, [aJob("a", { project: "strays" }), aJob("b", { project: "research" })]));
    expect(after.get("serving")).toEqual(before.get("serving"));
    expect(after.get("strays")?.colour).toBe(2);
    const classes = [{ priority_class: "batch", value: 25 }, { priority_class: "serve", value: 125 }] as never;
    expect(classNames(classes, [aJob("a", { priority_class: "old" })])).toEqual(["serve", "batch", "old"]);
  });

  it("have sufficient text contrast, light and dark", () => {
    const css = readFileSync(new URL("../../../styles/tokens.css", import.meta.url), "utf8");
    const colours = [...css.matchAll(/--cat-\d: (#[0-9a-f]{6})/g)].map((found) => found[1]!);
    expect(colours.length).toBe(2 * COLOURS);
    for (const colour of colours) expect(contrast(colour, inkOn(colour)), colour).toBeGreaterThanOrEqual(4.5);
  });
});
