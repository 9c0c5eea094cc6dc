// The question of the jobs page: it lives in the address, so that it can be sent to others and saved.
import { archivePath, poolPath, type ArchivedJob, type LiveJob } from "../../api";
import { pagePath } from "../../ui";

export const STATES = ["pending", "reserved", "starting", "running", "evicting", "paused", "succeeded", "failed", "cancelled", "evicted", "timed-out"] as const;
export const NOT_ENDED = ["pending", "reserved", "starting", "running", "evicting", "paused"] as const;
export const COLUMNS = ["job", "state", "project", "user", "class", "gpus", "submitted", "waited", "ended", "outcome"] as const;
export type ColumnName = (typeof COLUMNS)[number];
export const SORTS = ["submitted", "ended", "gpus", "job"] as const;
type Sort = (typeof SORTS)[number];

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

type Nullable<T> = { [K in keyof T]: T[K] | null };
/** A row of the list, from the archive or the live state. */
export type JobItem = { job: string; state: string } & Nullable<Pick<ArchivedJob, "submitted_seq" | "project" | "user" | "user_verified" | "priority_class" | "gpus" | "submitted_at" | "ended_at">> & Partial<Nullable<Pick<ArchivedJob, "waited_s" | "outcome" | "reason">>>;

/** The filters that are texts: in the address, in the question, and as a parameter of the archive. */
const FILTERS = [
  ["name", "name", "contains"],
  ["project", "project", "project"],
  ["user", "user", "user"],
  ["class", "priorityClass", "priority_class"],
  ["node", "node", "node"],
  ["from", "from", "from"],
  ["to", "to", "to"],
] as const;

type Address = Record<string, string | undefined>;

/** The question in an address. What is not understood is ignored. */
export function questionOf(address: Address): Question {
  const text = (name: string): string => (name === "from" || name === "to" ? moment(address[name]) : (address[name] ?? "").slice(0, MOST_TEXT));
  const texts = Object.fromEntries(FILTERS.map(([name, field]) => [field, text(name)])) as Record<(typeof FILTERS)[number][1], string>;
  const listed = <T extends string>(name: string, known: readonly T[]): T[] => known.filter((each) => (address[name] ?? "").split(",").includes(each));
  const columns = listed("columns", COLUMNS);
  return {
    states: listed("state", STATES),
    ...texts,
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
  for (const [name, field] of FILTERS) put(name, question[field]);
  put("sort", question.sort, DEFAULT.sort);
  put("order", question.order, DEFAULT.order);
  put("columns", question.columns.join(","), DEFAULT_COLUMNS.join(","));
  return found.toString();
}

/** URL of the list with such an address. */
export const jobsPath = (pool: string, address: string): string => pagePath(pool, ["jobs"], new URLSearchParams(address));

/** The same question to the archive. */
export const archiveQuestion = (pool: string, question: Question, cursor: string | null, limit: number): string => archivePath(pool, `jobs?${asked(question, cursor, limit)}`);

/** The same question to the live state: what is shown without an archive. */
export const liveQuestion = (pool: string, question: Question, cursor: string | null, limit: number): string => `${poolPath(pool, "jobs")}?${asked(question, cursor, limit)}`;

function asked(question: Question, cursor: string | null, limit: number): URLSearchParams {
  const found = new URLSearchParams({ sort: question.sort, order: question.order, limit: String(limit) });
  for (const state of question.states) found.append("state", state);
  for (const [, field, name] of FILTERS) if (question[field]) found.set(name, question[field]);
  if (cursor !== null) found.set("cursor", cursor);
  return found;
}

/** The live state of a job that the archive may have an older state of. */
export function current(item: JobItem, live: ReadonlyMap<string, LiveJob>): JobItem {
  const row = live.get(item.job);
  return row && row.submitted_at === item.submitted_at && item.ended_at === null ? { ...item, state: row.state, user: row.user || item.user, user_verified: row.user_verified } : item;
}

// Saved views: questions by name, in this browser.
interface SavedView {
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
