import { useComputed, useSignal } from "@preact/signals";

import { JobActions } from "../../actions/JobActions";
import { archivePath, poolPath, type Page } from "../../lib/api";
import { useArchive } from "../../lib/useArchive";
import { useFetch } from "../../lib/useFetch";
import { usePageTitle } from "../../lib/usePageTitle";
import { useRefreshCounter } from "../../lib/useRefreshCounter";
import { count } from "../../lib/format";
import { useLive } from "../../live/livePool";
import type { LiveJob } from "../../live/types";
import { StateBadge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { CopyButton } from "../../ui/CopyButton";
import { EmptyState } from "../../ui/EmptyState";
import { ErrorMessage } from "../../ui/ErrorMessage";
import { Loading } from "../../ui/Loading";
import type { ExplanationResponse } from "../../ui/ExplanationSections";
import { JobEvents } from "./JobEvents";
import { JobCommand } from "./JobCommand";
import { JobFacts, JobStatusLine } from "./JobHeading";
import "./job.css";
import { CompareJobs } from "./CompareJobs";
import { JobMeasurements, PastMeasurements } from "./JobMeasurements";
import { devicesOfTasks } from "./measuredDevices";
import { JobLogs } from "./JobLogs";
import { jobPresence } from "./jobPresence";
import { JobProgress, TaskTable } from "./JobProgress";
import { liveEviction, restartCostOf } from "./evictionReason";
import { EvictionCard } from "./EvictionCard";
import type { Eviction, JobDetails, JobHistory, RecordItem } from "./types";
import { JobTimeline } from "./JobTimeline";
import { FullExplanation, PendingReasons } from "./PendingReasons";

const INITIAL_EVICTIONS = 4;
const EXPLAINED_STATES = new Set(["pending", "suspended", "reserved"]);

export default function JobPage({ pool, job }: { pool: string; job: string }) {
  const live = useLive(pool, "events");
  const all = useSignal(false);
  usePageTitle(job);
  const found = useComputed(() => (live.jobsVersion.value, live.jobs.get(job) ?? null));
  const row = found.value && placed(found.value, live.queue.value);
  const archive = useArchive();
  const refreshKey = useRefreshCounter(row ? [row.state, row.attempt, row.evictions, row.eviction?.stage, row.checkpoint_step].join("/") : "gone");
  const ask = archive.state === "there";
  const details = useFetch<JobDetails>(poolPath(pool, "jobs", job), refreshKey).value;
  const whole = useFetch<JobHistory>(ask ? archivePath(pool, `jobs/${encodeURIComponent(job)}`) : null, refreshKey).value;
  const records = useFetch<Page<RecordItem>>(ask && whole.value ? archivePath(pool, `jobs/${encodeURIComponent(job)}/timeline?limit=200`) : null, refreshKey).value;
  const explained = useFetch<ExplanationResponse>(row && (EXPLAINED_STATES.has(row.state) || row.evictions > 0 || row.eviction) ? poolPath(pool, "explain", job) : null, refreshKey).value;

  const rules = useFetch<{ yaml: string }>(whole.value && (whole.value.evictions.length > 0 || whole.value.attempts.some((each) => each.lost_gpu_hours)) ? poolPath(pool, "policy") : null, live.row.value?.policy_seq).value;

  const presence = jobPresence({ connection: live.connection.value, live: row, details, whole, archive: archive.state });
  if (presence === "loading") return <Loading what={`the job ${job}`} />;
  if (presence === "failed") return <ErrorMessage error={details.failure!} />;
  if (presence === "unknown" || presence === "unsure") return <NoSuchJob pool={pool} job={job} sure={presence === "unknown"} />;

  const past = whole.value ?? null;
  const evictions = allEvictions(past, row);
  const newest = evictions.at(-1);
  const isEvicted = newest !== undefined && row !== null && (row.eviction !== null || !["running", "starting"].includes(row.state)) && !newest.stages.resumed && newest.outcome !== "eviction-cancelled";
  const earlier = [...evictions].reverse().filter((each) => !(isEvicted && each === newest));
  const state = row?.state ?? past?.state ?? details.value?.summary.state ?? "";
  const ended = row ? null : (past?.outcome ?? state);
  const whyEvicted = explained.value?.sections.find((section) => /^Why (was|were) /.test(section.question))?.sentences.map((each) => each.text) ?? [];
  const items = records.value?.items ?? [];
  const restartCostMs = rules.value ? restartCostOf(rules.value.yaml) : null;
  const card = (eviction: Eviction, urgent: boolean) => (
    <EvictionCard key={eviction.decided_seq} pool={pool} eviction={eviction} live={row} ended={ended} last={eviction === newest} urgent={urgent} restartCostMs={restartCostMs} records={items} explanation={urgent ? whyEvicted : []} />
  );
  return (
    <div class="page job-page">
      <div class="page-head">
        <h1>
          {job} <CopyButton text={job} what="the job's name" />
        </h1>
        <StateBadge state={state} />
        <span class="spring" />
        <JobActions key={job} pool={pool} job={row} />
      </div>
      <JobStatusLine pool={pool} live={row} whole={past} details={details.value ?? null} />
      {archive.state === "there" && whole.failure && whole.failure.status !== 404 && (
        <p class="notice">The archive is unavailable ({whole.failure.detail || whole.failure.title}): earlier attempts and evictions are not shown.</p>
      )}
      {isEvicted && card(newest, true)}
      {row && EXPLAINED_STATES.has(row.state) && <PendingReasons pool={pool} live={row} explained={explained} />}
      <JobTimeline whole={past} live={row} />
      <div class="job-columns">
        <JobProgress pool={pool} live={row} details={details.value ?? null} records={items} succeeded={state === "succeeded" || ended === "succeeded"} />
        <JobFacts pool={pool} live={row} whole={past} details={details.value ?? null} />
      </div>
      {details.value && <JobCommand key={job} pool={pool} job={job} details={details.value} />}
      {earlier.slice(0, all.value ? Infinity : INITIAL_EVICTIONS).map((each) => card(each, false))}
      {earlier.length > INITIAL_EVICTIONS && !all.value && (
        <div>
          <Button onClick={() => (all.value = true)}>{count(earlier.length - INITIAL_EVICTIONS, "earlier eviction")}</Button>
        </div>
      )}
      {row && details.value && details.value.task_list.length > 1 && <TaskTable pool={pool} tasks={details.value.task_list} />}
      {row?.started_at && details.value && details.value.task_list.length > 0 ? (
        <JobMeasurements pool={pool} devices={devicesOfTasks(details.value.task_list)} attempt={row.attempt} from={Date.parse(row.started_at)} to={null} />
      ) : (
        past?.attempts.at(-1)?.ended_at && <PastMeasurements pool={pool} job={job} submittedSeq={past.submitted_seq} attempt={past.attempts.at(-1)!} />
      )}
      {past && past.attempts.length > 0 && <CompareJobs pool={pool} job={past} restartMs={restartCostMs} />}
      <JobLogs pool={pool} job={job} live={row !== null} />
      <JobEvents pool={pool} job={job} live={live} page={records.value ?? null} lines={details.value?.events ?? []} />
      <FullExplanation pool={pool} explained={explained} />
    </div>
  );
}

/** The row with its queue position, which the stream sends separately. */
function placed(row: LiveJob, queue: string[]): LiveJob {
  const at = row.pending_since === null ? -1 : queue.indexOf(row.job);
  return { ...row, jobs_ahead: at >= 0 ? at : (row.jobs_ahead ?? null) };
}

/** The archive's evictions, plus the current one until the archive has it. */
function allEvictions(whole: JobHistory | null, live: LiveJob | null): Eviction[] {
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
      <a href={`/${encodeURIComponent(pool)}/queue`}>Queue</a> · <a href={`/${encodeURIComponent(pool)}/record?job=${encodeURIComponent(job)}`}>Search the record</a>
    </EmptyState>
  );
}
