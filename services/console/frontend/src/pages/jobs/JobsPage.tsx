import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { useEffect, useRef } from "preact/hooks";

import { JOB_ACTIONS, offlineReason } from "../../actions/allowedActions";
import { get, toApiError, useArchive, type ApiError, type Page } from "../../api";
import { count, duration, usePageTitle, userText } from "../../lib";
import { useLive } from "../../live";
import { Button, Card, DataTable, EmptyState, ErrorMessage, JobLink, Loading, RelativeTime, StateBadge, type Column } from "../../ui";
import { BULK_ACTIONS, BulkDialog, type BulkAction } from "./BulkDialog";
import { JobFilters } from "./JobFilters";
import { addressOf, archiveQuestion, current, jobsPath, liveQuestion, questionOf, type ColumnName, type JobItem, type Question } from "./jobsQuery";
import "../../ui/segmented.css";
import "./jobs.css";

const PAGE = 100;
const MOST_CHOSEN = 50;
const TYPING_MS = 300;
const REFRESH_MS = 5_000;

/** All jobs, also ended ones: from the archive, with the live state of those that have not ended. */
export default function JobsPage({ pool }: { pool: string }) {
  const live = useLive(pool);
  const { query, route } = useLocation();
  usePageTitle(`${pool}: jobs`);
  const question = questionOf(query);
  const archive = useArchive();
  const chosen = useSignal<ReadonlySet<string>>(new Set());
  const dialog = useSignal<BulkAction | null>(null);
  const version = live.jobsVersion.value;
  const source = archive.state === "none" ? liveQuestion : archiveQuestion;
  const found = useJobs(pool, question, archive.state === "loading" ? null : source, version);
  const ask = (next: Question): void => {
    route(jobsPath(pool, addressOf(next)), true);
  };
  const items = found.items.map((item) => current(item, live.jobs));
  const over = new Set(items.filter((row) => row.ended_at !== null).map((row) => row.job));
  const selected = [...chosen.value].filter((job) => !over.has(job));
  const offline = offlineReason(live.connection.value, live.consoleState.value.kafka);
  return (
    <div class="stack page">
      <div class="row page-head">
        <h1>Jobs</h1>
        <span class="soft">{live.row.value && `${count(live.row.value.jobs_running, "job")} running, ${live.row.value.jobs_pending} pending`}</span>
      </div>
      <JobFilters pool={pool} live={live} question={question} ask={ask} />
      <Card>
        {selected.length > 0 && (
          <div class="row bulk-bar" role="toolbar" aria-label="Selected jobs">
            <strong>{count(selected.length, "job")} selected</strong>
            {BULK_ACTIONS.map((action) => (
              <Button key={action} danger={JOB_ACTIONS[action].danger} disabled={offline !== null} onClick={() => (dialog.value = action)}>
                {JOB_ACTIONS[action].name}
              </Button>
            ))}
            <Button quiet onClick={() => (chosen.value = new Set())}>
              Clear selection
            </Button>
            {offline && <span class="soft">{offline}</span>}
            {selected.length >= MOST_CHOSEN && <span class="soft">At most {MOST_CHOSEN} at a time.</span>}
          </div>
        )}
        {found.failure && !items.length ? (
          <ErrorMessage error={found.failure} retry={found.refresh} />
        ) : archive.state === "loading" || (found.loading && !items.length) ? (
          <Loading what="the jobs" />
        ) : items.length ? (
          <DataTable caption="Jobs" columns={columnsOf(pool, question, chosen.value, (next) => (chosen.value = next))} rows={items} rowKey={(row) => `${row.job} ${row.submitted_at}`} />
        ) : (
          <EmptyState title="No jobs match">{addressOf(question) ? "Clear the filters to see all jobs." : "No job was submitted yet."}</EmptyState>
        )}
        <div class="more">
          {found.next !== null && <Button onClick={found.more}>{found.loading ? "Loading…" : `${PAGE} more`}</Button>}
          {archive.state === "none" && <p class="soft note">Ended jobs are in the archive, and none is configured.</p>}
          {found.failure && items.length > 0 && <p class="fault" role="alert">{archive.state === "none" ? "The list" : "The archive"} is unavailable: {found.failure.message}</p>}
        </div>
      </Card>
      {dialog.value && <BulkDialog pool={pool} action={dialog.value} jobs={selected} onClose={() => { dialog.value = null; chosen.value = new Set(); }} />}
    </div>
  );
}

interface Found {
  items: JobItem[];
  next: string | null;
  loading: boolean;
  failure: ApiError | null;
}

/** The pages of a list, of the archive or of the live state. The first one is read again as jobs change. source null: not known yet. */
function useJobs(pool: string, question: Question, source: typeof archiveQuestion | null, version: number): Found & { more: () => void; refresh: () => void } {
  const state = useSignal<Found>({ items: [], next: null, loading: true, failure: null });
  const pages = useRef(1);
  const asked = useRef(0);
  const ready = source !== null;
  const key = `${pool} ${addressOf({ ...question, columns: [] })}`;
  /** The page after those `before`; without any, the first. */
  const load = async (before: Pick<Found, "items" | "next"> = { items: [], next: null }): Promise<void> => {
    if (source === null) return;
    const mine = (asked.current += 1);
    state.value = { ...state.peek(), loading: true };
    try {
      const { items, next } = await get<Page<JobItem>>(source(pool, question, before.next, PAGE));
      if (mine !== asked.current) return;
      pages.current = before.next === null ? 1 : pages.current + 1;
      state.value = { items: [...before.items, ...items], next, loading: false, failure: null };
    } catch (failure) {
      if (mine === asked.current) state.value = { ...state.peek(), loading: false, failure: toApiError(failure) };
    }
  };
  useEffect(() => {
    if (!ready) return;
    pages.current = 1;
    const timer = setTimeout(() => void load(), state.peek().items.length ? TYPING_MS : 0);
    return () => clearTimeout(timer);
  }, [key, ready]);
  const due = useRef(false);
  useEffect(() => {
    due.current = true;
  }, [version]);
  useEffect(() => {
    if (!ready) return;
    const timer = setInterval(() => {
      if (!due.current || document.hidden || pages.current > 1) return; // longer lists are not reloaded under the reader
      due.current = false;
      void load();
    }, REFRESH_MS);
    return () => clearInterval(timer);
  }, [key, ready]);
  return { ...state.value, more: () => void (state.peek().next !== null && load(state.peek())), refresh: () => void load() };
}

/** One line; what does not fit is cut, and shown by its title. */
function Line({ text }: { text: string }) {
  return <span class="ellipsis job-line" title={text}>{text}</span>;
}

function columnsOf(pool: string, question: Question, chosen: ReadonlySet<string>, choose: (next: ReadonlySet<string>) => void): Column<JobItem>[] {
  const toggle = (job: string): void => {
    const next = new Set(chosen);
    if (!next.delete(job) && next.size < MOST_CHOSEN) next.add(job);
    choose(next);
  };
  const cells: Record<ColumnName, Column<JobItem>> = {
    job: { head: "Job", cell: (row) => <JobLink pool={pool} job={row.job} /> },
    state: { head: "State", cell: (row) => <StateBadge state={row.state} /> },
    project: { head: "Project", cell: (row) => (row.project ? <Line text={row.project} /> : <span class="soft">none</span>) },
    user: { head: "User", cell: (row) => <Line text={userText(row.user, row.user_verified)} /> },
    class: { head: "Class", cell: (row) => row.priority_class ?? "" },
    gpus: { head: "GPUs", right: true, cell: (row) => row.gpus ?? "" },
    submitted: { head: "Submitted", cell: (row) => row.submitted_at && <RelativeTime at={row.submitted_at} /> },
    waited: { head: "Waited", right: true, cell: (row) => (row.waited_s == null ? "" : duration(row.waited_s)) },
    ended: { head: "Ended", cell: (row) => row.ended_at && <RelativeTime at={row.ended_at} /> },
    outcome: { head: "Reason", cell: (row) => <span class="ellipsis job-reason" title={row.reason ?? ""}>{row.reason ?? ""}</span> },
  };
  const box: Column<JobItem> = {
    head: "Select",
    narrow: true,
    cell: (row) => (row.ended_at === null ? <input type="checkbox" aria-label={`Select ${row.job}`} checked={chosen.has(row.job)} onChange={() => toggle(row.job)} /> : null),
  };
  return [box, ...question.columns.map((name) => cells[name])];
}
