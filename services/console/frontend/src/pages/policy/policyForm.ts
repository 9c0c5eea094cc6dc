// The form's view of a policy in YAML: projects and the settings that are changed most. Everything else stays as it is written.
import { parseDocument, type Document } from "yaml";

export interface ProjectFields {
  name: string;
  parent: string;
  quota: string;
  limit: string;
  weight: string;
  priority: string;
  description: string;
}

interface PolicyFields {
  projects: ProjectFields[];
  actions: Record<string, boolean>;
  scope: string;
  grace: string;
}

export const ACTIONS = ["allocate", "consolidate", "reclaim", "preempt"] as const;

const text = (value: unknown): string => (value === null || value === undefined ? "" : String(value));
const UNLIMITED = "unlimited";
const gpus = (milli: unknown): string => (typeof milli !== "number" ? text(milli) : milli < 0 ? UNLIMITED : String(milli / 1000));
/** Thousandths of a GPU; -1: unlimited; null: nothing is stated; undefined: not a number. */
export const milli = (typed: string): number | null | undefined => (typed.trim() === "" ? null : typed.trim() === UNLIMITED ? -1 : /^\d{1,7}(\.\d{1,3})?$/.test(typed.trim()) ? Math.round(Number(typed) * 1000) : undefined);

/** The fields of a policy; null: it cannot be read as one. */
export function fieldsOf(yaml: string): PolicyFields | null {
  const document = parsed(yaml);
  const whole: unknown = document?.toJS();
  if (typeof whole !== "object" || whole === null) return null;
  const { projects, preemption, eviction } = whole as Record<string, Record<string, unknown> | unknown[] | undefined>;
  if (projects !== undefined && !Array.isArray(projects)) return null;
  const rows = ((projects ?? []) as Record<string, unknown>[]).filter((row) => typeof row === "object" && row !== null);
  const part = (of: unknown, name: string): unknown => (typeof of === "object" && of !== null ? (of as Record<string, unknown>)[name] : undefined);
  const actions = part(preemption, "actions");
  return {
    projects: rows.map((row) => ({ name: text(row.name), parent: text(row.parent), quota: gpus(part(row.quota, "gpu_milli")), limit: gpus(part(row.limit, "gpu_milli")), weight: text(part(row.over_quota_weight, "gpu") ?? 1), priority: text(row.priority ?? 0), description: text(row.description) })),
    actions: Object.fromEntries(ACTIONS.map((action) => [action, Array.isArray(actions) ? actions.includes(action) : true])),
    scope: text(part(preemption, "scope")),
    grace: text(part(eviction, "grace")),
  };
}

function parsed(yaml: string): Document | null {
  const document = parseDocument(yaml, { maxAliasCount: 0 } as object);
  return document.errors.length ? null : document;
}

/** The policy with one field of a project changed; what cannot be a number is written as it was typed, so that the check names it. */
export function withProject(yaml: string, at: number, field: keyof ProjectFields, typed: string): string {
  return changed(yaml, (document) => {
    const where = ["projects", at];
    if (field === "quota" || field === "limit") document.setIn([...where, field, "gpu_milli"], milli(typed) === undefined ? typed : milli(typed));
    else if (field === "weight") for (const resource of ["gpu", "cpu", "memory"]) document.setIn([...where, "over_quota_weight", resource], integer(typed));
    else if (field === "priority") document.setIn([...where, field], integer(typed));
    else document.setIn([...where, field], field === "parent" && typed === "" ? null : typed);
  });
}

const integer = (typed: string): number | string => (/^-?\d{1,9}$/.test(typed.trim()) ? Number(typed) : typed);

export function withNewProject(yaml: string, name: string): string {
  return changed(yaml, (document) => {
    const project = { name, parent: null, quota: { gpu_milli: 0 }, description: "" };
    if (Array.isArray((document.toJS() as { projects?: unknown }).projects)) document.addIn(["projects"], project);
    else document.set("projects", [project]);
  });
}

export const withoutProject = (yaml: string, at: number): string => changed(yaml, (document) => void document.deleteIn(["projects", at]));

export const withAction = (yaml: string, action: string, on: boolean): string =>
  changed(yaml, (document) => {
    const fields = fieldsOf(yaml)!;
    document.setIn(["preemption", "actions"], ACTIONS.filter((each) => (each === action ? on : fields.actions[each])));
  });

export const withSetting = (yaml: string, section: "preemption" | "eviction", name: string, value: string): string => changed(yaml, (document) => document.setIn([section, name], value === "" ? null : value));

function changed(yaml: string, change: (document: Document) => void): string {
  const document = parsed(yaml);
  if (document === null) return yaml;
  change(document);
  return document.toString({ lineWidth: 0, indentSeq: false, flowCollectionPadding: false });
}
