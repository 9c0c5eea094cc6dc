import { expect, test } from "vitest";

import { fieldsOf, milli, withAction, withNewProject, withoutProject, withProject, withSetting } from "./policyForm";

const POLICY = `# ours
priority_classes:
- name: train
projects:
- name: vision
  parent: null
  quota:
    gpu_milli: 8000
    cpu_milli: null
  over_quota_weight: {gpu: 2, cpu: 2, memory: 2}
preemption:
  actions: [allocate, preempt]
  scope: null
eviction:
  grace: 150s
`;

test("the form shows projects and settings of the YAML", () => {
  expect(fieldsOf(POLICY)).toEqual({
    projects: [{ name: "vision", parent: "", quota: "8", limit: "", weight: "2", priority: "0", description: "" }],
    actions: { allocate: true, consolidate: false, reclaim: false, preempt: true }, scope: "", grace: "150s",
  });
});

test("a change in the form changes that field of the YAML and keeps the rest, comments too", () => {
  const after = withProject(POLICY, 0, "quota", "4.5");
  expect(fieldsOf(after)!.projects[0]!.quota).toBe("4.5");
  expect(after).toContain("# ours");
  expect(after.split("\n").filter((line, at) => line !== POLICY.split("\n")[at])).toEqual(["    gpu_milli: 4500"]);
  expect(fieldsOf(withProject(POLICY, 0, "quota", ""))!.projects[0]!.quota).toBe("");
  expect(fieldsOf(withAction(POLICY, "reclaim", true))!.actions).toEqual({ allocate: true, consolidate: false, reclaim: true, preempt: true });
  expect(fieldsOf(withSetting(POLICY, "preemption", "scope", "pool"))!.scope).toBe("pool");
});

test("projects are added, also the first one, and removed", () => {
  expect(fieldsOf("projects:\n- name: guests\n")!.projects[0]!.quota).toBe(""); // the sum of its children's, or 0
  const unlimited = withProject(POLICY, 0, "quota", "unlimited");
  expect(unlimited).toContain("gpu_milli: -1");
  expect(fieldsOf(unlimited)!.projects[0]!.quota).toBe("unlimited");
  expect(fieldsOf(withProject(POLICY, 0, "quota", "unl"))!.projects[0]!.quota).toBe("unl"); // typed letter by letter
  expect(fieldsOf(withNewProject(POLICY, "speech"))!.projects.map((row) => row.name)).toEqual(["vision", "speech"]);
  expect(fieldsOf(withNewProject("priority_classes: []\n", "first"))!.projects.map((row) => row.name)).toEqual(["first"]);
  expect(fieldsOf(withoutProject(POLICY, 0))!.projects).toEqual([]);
});

test("what is not a number is kept as typed, so that the check names it; broken YAML has no form and is not touched", () => {
  expect(withProject(POLICY, 0, "quota", "many")).toContain("gpu_milli: many");
  expect([milli("4"), milli("0.5"), milli(""), milli("-1"), milli("1e9")]).toEqual([4000, 500, null, undefined, undefined]);
  expect(fieldsOf("a: [")).toBeNull();
  expect(withProject("a: [", 0, "name", "x")).toBe("a: [");
  expect(fieldsOf("projects: 7")).toBeNull();
});
