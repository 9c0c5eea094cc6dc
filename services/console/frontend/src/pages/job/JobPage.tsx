import { useComputed, useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { useEffect } from "preact/hooks";

import type { Permissions } from "../../actions/allowedActions";
import { JobActions } from "../../actions/JobActions";
import { archivePath, poolPath, useArchive, useFetch, type Eviction, type Explained, type JobHistory, type JobPage, type LiveJob, type Page, type QueuedJob, type RecordItem } from "../../api";
import { count, usePageTitle, useRefreshCounter } from "../../lib";
import { useLive } from "../../live";
import { Button, CopyButton, EmptyState, ErrorMessage, Loading, pagePath, StateBadge, Summary, Tabs } from "../../ui";
import { CompareJobs } from "./CompareJobs";
import { EvictionCard } from "./EvictionCard";
import { liveEviction } from "./evictionReason";
import { JobCommand } from "./JobCommand";
import { JobEvents } from "./JobEvents";
import { JobFacts, JobStatusLine } from "./JobHeading";
import { JobLogs } from "./JobLogs";
import { JobMeasurements, PastMeasurements } from "./JobMeasurements";
import { jobPresence } from "./jobPresence";
import { JobProgress, TaskTable } from "./JobProgress";
import { JobShell } from "./JobShell";
import { JobTimeline } from "./JobTimeline";
import { devicesOfTasks } from "./measuredDevices";
import { FullExplanation, PendingReasons } from "./PendingReasons";
import "./job.css";

const INITIAL_EVICTIONS = 4;
const EXPLAINED_STATES = new Set(["pending", "suspended", "reserved"]);

export default function JobPage({ pool, job }: { pool: string; job: string }) {
  const live = useLive(pool, "events");
  const all = useSignal(false);
  const { path, query, route } = useLocation();
  usePageTitle(job);
  useEffect(() => {
    live.watch(job);
    return () => live.watch(null);
  }, [live, job]);
  const found = useComputed(() => (live.jobsVersion.value, live.jobs.get(job) ?? null));
  const row = found.value && placed(found.value, live.queue.value);
  const archive = useArchive();
  const refreshKey = useRefreshCounter(row ? [row.state, row.attempt, row.evictions, row.eviction?.stage, row.checkpoint_step].join("/") : "gone");
  const ask = archive.state === "there";
  const details = useFetch<JobPage>(poolPath(pool, "jobs", job), refreshKey).value;
  const rights = useFetch<Permissions>(poolPath(pool, "jobs", job, "permissions")).value;
  const whole = useFetch<JobHistory>(ask ? archivePath(pool, `jobs/${encodeURIComponent(job)}`) : null, refreshKey).value;
  const records = useFetch<Page<RecordItem>>(ask && whole.value ? archivePath(pool, `jobs/${encodeURIComponent(job)}/timeline?limit=200`) : null, refreshKey).value;
  const explained = useFetch<Explained>(row && (EXPLAINED_STATES.has(row.state) || row.evictions > 0 || row.eviction) ? poolPath(pool, "explain", job) : null, refreshKey).value;

  const presence = jobPresence({ connection: live.connection.value, live: row, details, whole, archive: archive.state });
  if (presence === "loading") return <Loading what={`the job ${job}`} />;
  if (presence === "failed") return <ErrorMessage error={details.failure!} />;
  if (presence === "unknown" || presence === "unsure") return <NoSuchJob pool={pool} job={job} sure={presence === "unknown"} />;

  const past = whole.value ?? null;
  const evictions = allEvictions(past, row);
  const newest = evictions.at(-1);
  const counted = evictions.filter((each) => each.cause !== "cancelled").length;
  const isEvicted = newest !== undefined && row !== null && (row.eviction !== null || !["running", "starting"].includes(row.state)) && !newest.stages.resumed && newest.outcome !== "eviction-cancelled";
  const state = row?.state ?? past?.state ?? details.value?.summary.state ?? "";
  const ended = row ? null : (past?.outcome ?? state);
  const whyEvicted = explained.value?.sections.find((section) => /^Why (was|were) /.test(section.question))?.sentences.map((each) => each.text) ?? [];
  const items = records.value?.items ?? [];
  const card = (eviction: Eviction, urgent: boolean) => (
    <EvictionCard key={eviction.decided_seq} pool={pool} job={job} eviction={eviction} live={row} ended={ended} last={eviction === newest} urgent={urgent} records={items} explanation={urgent ? whyEvicted : []} />
  );
  const openEviction = (seq: number): void => {
    route(`${path}?tab=evictions`, true);
    requestAnimationFrame(() => document.getElementById(`eviction-${seq}`)?.scrollIntoView());
  };
  const answered = archive.state !== "loading" && [details, rights, ...(ask ? [whole] : [])].every((each) => each.value !== undefined || each.failure !== undefined);
  const overview = () => !answered ? <Loading what="its details" /> : (
    <>
      {isEvicted && card(newest, true)}
      {row && EXPLAINED_STATES.has(row.state) && <PendingReasons pool={pool} live={row} explained={explained} />}
      <JobTimeline whole={past} live={row} onEviction={openEviction} />
      <div class="cards">
        <JobProgress pool={pool} live={row} details={details.value ?? null} records={items} succeeded={state === "succeeded" || ended === "succeeded"} />
        <JobFacts pool={pool} live={row} whole={past} details={details.value ?? null} />
      </div>
      {details.value && <JobCommand key={job} pool={pool} job={job} details={details.value} rights={rights.value ?? null} />}
      {row && details.value && details.value.task_list.length > 1 && <TaskTable pool={pool} tasks={details.value.task_list} />}
      {row?.started_at && details.value && details.value.task_list.length > 0 ? (
        <JobMeasurements pool={pool} devices={devicesOfTasks(details.value.task_list)} attempt={row.attempt} from={Date.parse(row.started_at)} to={null} />
      ) : (
        past?.attempts.at(-1)?.ended_at && <PastMeasurements pool={pool} job={job} submittedSeq={past.submitted_seq} attempt={past.attempts.at(-1)!} />
      )}
      <FullExplanation pool={pool} explained={explained} />
    </>
  );
  const attempts = () => (
    <>
      {!evictions.length && (answered ? <EmptyState title="It was never evicted" /> : <Loading what="its evictions" />)}
      {[...evictions].reverse().slice(0, all.value ? Infinity : INITIAL_EVICTIONS).map((each) => card(each, isEvicted && each === newest))}
      {evictions.length > INITIAL_EVICTIONS && !all.value && (
        <div>
          <Button onClick={() => (all.value = true)}>{count(evictions.length - INITIAL_EVICTIONS, "earlier eviction")}</Button>
        </div>
      )}
      {past && past.attempts.length > 0 && <CompareJobs pool={pool} job={past} />}
    </>
  );
  return (
    <div class="stack page job-page">
      <Summary>
        <div class="row page-head">
          <h1>
            {job} <CopyButton text={job} what="the job's name" />
          </h1>
          <StateBadge state={state} />
          <span class="spring" />
          <JobActions key={job} pool={pool} job={row} />
        </div>
        <JobStatusLine pool={pool} live={row} whole={past} details={details.value ?? null} />
        {archive.state === "there" && whole.failure && whole.failure.status !== 404 && (
          <p class="notice">The archive is unavailable ({whole.failure.message}): earlier attempts and evictions are not shown.</p>
        )}
      </Summary>
      <Tabs
        label={`Views of ${job}`}
        tabs={[
          { key: "overview", name: "Overview", content: overview },
          { key: "evictions", name: counted ? `Evictions (${counted})` : "Evictions", content: attempts },
          { key: "log", name: "Log", content: () => <JobLogs pool={pool} job={job} live={row !== null} /> },
          // It stays once it is open: what the shell showed last, and why it ended.
          ...(rights.value?.attach === null && (row || query.tab === "shell") && details.value ? [{ key: "shell", name: "Shell", content: () => <JobShell key={job} pool={pool} job={job} details={details.value!} /> }] : []),
          { key: "events", name: "Events", content: () => <JobEvents pool={pool} job={job} live={live} page={records.value ?? null} lines={details.value?.events ?? []} evictions={evictions} /> },
        ]}
      />
    </div>
  );
}

/** The row with its queue position, which the stream sends separately. */
function placed(row: LiveJob, queue: string[]): QueuedJob {
  const at = row.pending_since === null ? -1 : queue.indexOf(row.job);
  return { ...row, jobs_ahead: at >= 0 ? at : null };
}

/** The archive's evictions, plus the current one until the archive has it. */
function allEvictions(whole: JobHistory | null, live: QueuedJob | null): Eviction[] {
  const found = whole?.evictions ?? [];
  const now = live ? liveEviction(live) : null;
  return now && !found.some((each) => each.decided_seq === now.decided_seq) ? [...found, now] : found;
}

function NoSuchJob({ pool, job, sure }: { pool: string; job: string; sure: boolean }) {
  return (
    <EmptyState title={sure ? `Job “${job}” does not exist in ${pool}` : `Job “${job}” was not found in the live state`}>
      {sure
        ? "It is neither in the live state nor in the archive. Names are case-sensitive; jobs of other pools are shown there."
        : "Jobs that ended more than a week ago are only in the archive, which is unavailable."}{" "}
      <a href={pagePath(pool, ["queue"])}>Queue</a> · <a href={pagePath(pool, ["record"], { job })}>Search the record</a>
    </EmptyState>
  );
}
