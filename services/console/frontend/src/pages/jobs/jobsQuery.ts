// The question of the jobs page: it lives in the address, so that it can be sent to others and saved.
import { archivePath } from "../../lib/api";
import type { LiveJob } from "../../live/types";

export const STATES = ["pending", "reserved", "starting", "running", "evicting", "paused", "succeeded", "failed", "cancelled", "evicted", "timed-out"] as const;
export const NOT_ENDED = ["pending", "reserved", "starting", "running", "evicting", "paused"] as const;
export const COLUMNS = ["job", "state", "project", "user", "class", "gpus", "submitted", "waited", "ended", "outcome"] as const;
export type ColumnName = (typeof COLUMNS)[number];
export const SORTS = ["submitted", "ended", "gpus", "job"] as const;
export type Sort = (typeof SORTS)[number];

export interface Question {
  states: string[];
  name: string;
  project: string;
  user: string;
  priorityClass: string;
  node: string;
  from: string;
  to: string;
  sort: Sort;
  order: "asc" | "desc";
  columns: ColumnName[];
}

const DEFAULT_COLUMNS: ColumnName[] = ["job", "state", "project", "user", "class", "gpus", "submitted", "waited", "ended"];
export const DEFAULT: Question = { states: [], name: "", project: "", user: "", priorityClass: "", node: "", from: "", to: "", sort: "submitted", order: "desc", columns: DEFAULT_COLUMNS };
const MOST_TEXT = 256;

/** A row of the list, from the archive or the live state. */
export interface JobItem {
  job: string;
  submitted_seq: number | null;
  project: string | null;
  user: string | null;
  user_verified: boolean | null;
  priority_class: string | null;
  gpus: number | null;
  state: string;
  submitted_at: string | null;
  waited_s: number | null;
  ended_at: string | null;
  outcome: string | null;
  reason: string | null;
}

type Address = Record<string, string | undefined>;

/** The question in an address. What is not understood is ignored. */
export function questionOf(address: Address): Question {
  const text = (name: string): string => (address[name] ?? "").slice(0, MOST_TEXT);
  const listed = <T extends string>(name: string, known: readonly T[]): T[] => known.filter((each) => (address[name] ?? "").split(",").includes(each));
  const columns = listed("columns", COLUMNS);
  return {
    states: listed("state", STATES),
    name: text("name"),
    project: text("project"),
    user: text("user"),
    priorityClass: text("class"),
    node: text("node"),
    from: moment(address.from),
    to: moment(address.to),
    sort: SORTS.find((each) => each === address.sort) ?? DEFAULT.sort,
    order: address.order === "asc" ? "asc" : "desc",
    columns: columns.length ? columns : DEFAULT_COLUMNS,
  };
}

const moment = (text: string | undefined): string => (text && !Number.isNaN(Date.parse(text)) ? new Date(text).toISOString() : "");

/** The address of a question, without what is as by default; empty: the default. */
export function addressOf(question: Question): string {
  const found = new URLSearchParams();
  const put = (name: string, value: string, usual = ""): void => void (value !== usual && found.set(name, value));
  put("state", question.states.join(","));
  put("name", question.name);
  put("project", question.project);
  put("user", question.user);
  put("class", question.priorityClass);
  put("node", question.node);
  put("from", question.from);
  put("to", question.to);
  put("sort", question.sort, DEFAULT.sort);
  put("order", question.order, DEFAULT.order);
  put("columns", question.columns.join(","), DEFAULT_COLUMNS.join(","));
  return found.toString();
}

/** The same question to the archive. */
export function archiveQuestion(pool: string, question: Question, cursor: string | null, limit: number): string {
  const asked = new URLSearchParams({ sort: question.sort, order: question.order, limit: String(limit) });
  for (const state of question.states) asked.append("state", state);
  const filters: [string, string][] = [["contains", question.name], ["project", question.project], ["user", question.user], ["priority_class", question.priorityClass], ["node", question.node], ["from", question.from], ["to", question.to]];
  for (const [name, value] of filters) if (value) asked.set(name, value);
  if (cursor !== null) asked.set("cursor", cursor);
  return archivePath(pool, `jobs?${asked}`);
}

/** The live state of a job that the archive may have an older state of. */
export function current(item: JobItem, live: ReadonlyMap<string, LiveJob>): JobItem {
  const row = live.get(item.job);
  return row && row.submitted_at === item.submitted_at && item.ended_at === null ? { ...item, state: row.state, user: row.user || item.user, user_verified: row.user_verified } : item;
}

/** Live jobs that match: what is shown without an archive. */
export function liveItems(jobs: Iterable<LiveJob>, question: Question): JobItem[] {
  const { states, name, project, user, priorityClass, node, from, to, sort, order } = question;
  const time = (row: LiveJob): number => Date.parse(row.submitted_at ?? "") || 0;
  const rows = [...jobs].filter(
    (row) =>
      (!states.length || states.includes(row.state)) && row.job.includes(name) && (!project || row.project === project) && (!user || row.user === user) &&
      (!priorityClass || row.priority_class === priorityClass) && (!node || row.nodes.includes(node)) && (!from || time(row) >= Date.parse(from)) && (!to || time(row) < Date.parse(to)),
  );
  const sign = order === "asc" ? 1 : -1;
  const byName = (a: LiveJob, b: LiveJob): number => (a.job < b.job ? -1 : 1);
  const by = { submitted: (a: LiveJob, b: LiveJob) => time(a) - time(b), ended: (a: LiveJob, b: LiveJob) => time(a) - time(b), gpus: (a: LiveJob, b: LiveJob) => a.gpus - b.gpus, job: byName }[sort];
  rows.sort((a, b) => sign * (by(a, b) || byName(a, b)));
  return rows.map((row) => ({ job: row.job, submitted_seq: null, project: row.project, user: row.user, user_verified: row.user_verified, priority_class: row.priority_class, gpus: row.gpus, state: row.state, submitted_at: row.submitted_at, waited_s: null, ended_at: null, outcome: null, reason: null }));
}

// Saved views: questions by name, in this browser.
export interface SavedView {
  name: string;
  address: string;
}

const MOST_VIEWS = 30;
const viewsKey = (pool: string): string => `bailiff-job-views-${pool}`;

export function loadViews(pool: string): SavedView[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(viewsKey(pool)) ?? "[]");
    if (!Array.isArray(found)) return [];
    return found.filter((each): each is SavedView => typeof each?.name === "string" && typeof each?.address === "string").slice(0, MOST_VIEWS);
  } catch {
    return [];
  }
}

/** The views with this one added or replaced, newest first. */
export const withView = (views: readonly SavedView[], view: SavedView): SavedView[] => [view, ...views.filter((each) => each.name !== view.name)].slice(0, MOST_VIEWS);

export const saveViews = (pool: string, views: readonly SavedView[]): void => localStorage.setItem(viewsKey(pool), JSON.stringify(views));
