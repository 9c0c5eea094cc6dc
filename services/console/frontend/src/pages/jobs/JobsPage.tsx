import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { useEffect, useRef } from "preact/hooks";

import { offlineReason } from "../../actions/allowedActions";
import { get, toApiError, type ApiError, type Page } from "../../lib/api";
import { count, duration } from "../../lib/format";
import { useArchive } from "../../lib/useArchive";
import { userText } from "../../lib/userText";
import { usePageTitle } from "../../lib/usePageTitle";
import { useLive } from "../../live/livePool";
import { StateBadge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { DataTable, type Column } from "../../ui/DataTable";
import { EmptyState } from "../../ui/EmptyState";
import { ErrorMessage } from "../../ui/ErrorMessage";
import { JobLink } from "../../ui/Links";
import { Loading } from "../../ui/Loading";
import { RelativeTime } from "../../ui/RelativeTime";
import "../../ui/segmented.css";
import { BULK_NAMES, BulkDialog, type BulkAction } from "./BulkDialog";
import { JobFilters } from "./JobFilters";
import { addressOf, archiveQuestion, current, liveItems, questionOf, type ColumnName, type JobItem, type Question } from "./jobsQuery";
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
  const found = useJobs(pool, question, archive.state === "there", version);
  const ask = (next: Question): void => {
    const address = addressOf(next);
    route(`/${encodeURIComponent(pool)}/jobs${address ? `?${address}` : ""}`, true);
  };
  const items = archive.state === "none" ? liveItems(live.jobs.values(), question) : found.items.map((item) => current(item, live.jobs));
  const selected = [...chosen.value].filter((job) => live.jobs.has(job));
  const offline = offlineReason(live.connection.value, live.consoleState.value.kafka);
  return (
    <div class="page">
      <div class="page-head">
        <h1>Jobs</h1>
        <span class="soft">{live.row.value && `${count(live.row.value.jobs_running, "job")} running, ${live.row.value.jobs_pending} pending`}</span>
      </div>
      <JobFilters pool={pool} live={live} question={question} ask={ask} />
      <Card>
        {selected.length > 0 && (
          <div class="bulk-bar" role="toolbar" aria-label="Selected jobs">
            <strong>{count(selected.length, "job")} selected</strong>
            {(Object.keys(BULK_NAMES) as BulkAction[]).map((action) => (
              <Button key={action} danger={action === "cancel"} disabled={offline !== null} onClick={() => (dialog.value = action)}>
                {BULK_NAMES[action]}
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
          <DataTable caption="Jobs" columns={columnsOf(pool, question, live.jobs, chosen.value, (next) => (chosen.value = next))} rows={items} rowKey={(row) => `${row.job} ${row.submitted_at}`} />
        ) : (
          <EmptyState title="No jobs match">{addressOf(question) ? "Clear the filters to see all jobs." : "No job was submitted yet."}</EmptyState>
        )}
        <div class="more">
          {found.next !== null && archive.state === "there" && <Button onClick={found.more}>{found.loading ? "Loading…" : `${PAGE} more`}</Button>}
          {archive.state === "none" && <p class="soft note">Ended jobs are in the archive, and none is configured.</p>}
          {found.failure && items.length > 0 && <p class="fault" role="alert">The archive is unavailable: {found.failure.detail || found.failure.title}</p>}
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

/** The pages of the archive's list. The first one is read again as jobs change. */
function useJobs(pool: string, question: Question, ready: boolean, version: number): Found & { more: () => void; refresh: () => void } {
  const state = useSignal<Found>({ items: [], next: null, loading: true, failure: null });
  const pages = useRef(1);
  const asked = useRef(0);
  const key = `${pool} ${addressOf({ ...question, columns: [] })}`;
  const load = async (most: number): Promise<void> => {
    const mine = (asked.current += 1);
    state.value = { ...state.peek(), loading: true };
    try {
      const items: JobItem[] = [];
      let next: string | null = null;
      for (let page = 0; page < most; page += 1) {
        const answer: Page<JobItem> = await get<Page<JobItem>>(archiveQuestion(pool, question, next, PAGE));
        items.push(...answer.items);
        next = answer.next;
        if (next === null) break;
      }
      if (mine === asked.current) state.value = { items, next, loading: false, failure: null };
    } catch (failure) {
      if (mine === asked.current) state.value = { ...state.peek(), loading: false, failure: toApiError(failure) };
    }
  };
  const more = async (): Promise<void> => {
    const { next, items } = state.peek();
    if (next === null) return;
    const mine = (asked.current += 1);
    state.value = { ...state.peek(), loading: true };
    try {
      const answer = await get<Page<JobItem>>(archiveQuestion(pool, question, next, PAGE));
      pages.current += 1;
      if (mine === asked.current) state.value = { items: [...items, ...answer.items], next: answer.next, loading: false, failure: null };
    } catch (failure) {
      if (mine === asked.current) state.value = { ...state.peek(), loading: false, failure: toApiError(failure) };
    }
  };
  useEffect(() => {
    if (!ready) return;
    pages.current = 1;
    const timer = setTimeout(() => void load(1), state.peek().items.length ? TYPING_MS : 0);
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
      void load(1);
    }, REFRESH_MS);
    return () => clearInterval(timer);
  }, [key, ready]);
  return { ...state.value, more: () => void more(), refresh: () => void load(1) };
}

function columnsOf(pool: string, question: Question, live: ReadonlyMap<string, unknown>, chosen: ReadonlySet<string>, choose: (next: ReadonlySet<string>) => void): Column<JobItem>[] {
  const toggle = (job: string): void => {
    const next = new Set(chosen);
    if (!next.delete(job) && next.size < MOST_CHOSEN) next.add(job);
    choose(next);
  };
  const cells: Record<ColumnName, Column<JobItem>> = {
    job: { head: "Job", cell: (row) => <JobLink pool={pool} job={row.job} /> },
    state: { head: "State", cell: (row) => <StateBadge state={row.state} /> },
    project: { head: "Project", cell: (row) => row.project || <span class="soft">none</span> },
    user: { head: "User", cell: (row) => userText(row.user, row.user_verified) },
    class: { head: "Class", cell: (row) => row.priority_class ?? "" },
    gpus: { head: "GPUs", right: true, cell: (row) => row.gpus ?? "" },
    submitted: { head: "Submitted", cell: (row) => row.submitted_at && <RelativeTime at={row.submitted_at} /> },
    waited: { head: "Waited", right: true, cell: (row) => (row.waited_s === null ? "" : duration(row.waited_s)) },
    ended: { head: "Ended", cell: (row) => row.ended_at && <RelativeTime at={row.ended_at} /> },
    outcome: { head: "Reason", cell: (row) => <span class="job-reason" title={row.reason ?? ""}>{row.reason ?? ""}</span> },
  };
  const box: Column<JobItem> = {
    head: "",
    narrow: true,
    cell: (row) => (live.has(row.job) && row.ended_at === null ? <input type="checkbox" aria-label={`Select ${row.job}`} checked={chosen.has(row.job)} onChange={() => toggle(row.job)} /> : null),
  };
  return [box, ...question.columns.map((name) => cells[name])];
}
