import { useComputed, useSignal } from "@preact/signals";

import { JobActions } from "../../actions/JobActions";
import { archivePath, poolPath, type Page } from "../../lib/api";
import { useArchive } from "../../lib/archive";
import { useLoad } from "../../lib/load";
import { useTitle } from "../../lib/title";
import { useSettled } from "../../lib/settled";
import { count } from "../../lib/words";
import { useLive } from "../../live/live";
import type { LiveJob } from "../../live/shapes";
import { StateBadge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Empty } from "../../ui/Empty";
import { Failure } from "../../ui/Failure";
import { Loading } from "../../ui/Loading";
import type { Explained } from "../../ui/Sections";
import { Events } from "./Events";
import { Facts, Lead } from "./Heading";
import "./job.css";
import { Logs } from "./Logs";
import { presenceOf } from "./presence";
import { Progress, Tasks } from "./Progress";
import { fromLive } from "./reason";
import { ReasonCard } from "./ReasonCard";
import type { Eviction, JobDetails, JobWhole, RecordItem } from "./shapes";
import { Timeline } from "./Timeline";
import { Story, Waits } from "./Waits";

const SHOWN = 4;
const WAITS = new Set(["pending", "held", "reserved"]);

export default function JobPage({ pool, job }: { pool: string; job: string }) {
  const live = useLive(pool, "events");
  const all = useSignal(false);
  useTitle(job);
  const found = useComputed(() => (live.jobsAt.value, live.jobs.get(job) ?? null));
  const row = found.value && placed(found.value, live.queue.value);
  const archive = useArchive();
  const again = useSettled(row ? [row.state, row.attempt, row.evictions, row.eviction?.stage, row.checkpoint_step].join("/") : "gone");
  const ask = archive.state === "there";
  const details = useLoad<JobDetails>(poolPath(pool, "jobs", job), again).value;
  const whole = useLoad<JobWhole>(ask ? archivePath(pool, `jobs/${encodeURIComponent(job)}`) : null, again).value;
  const records = useLoad<Page<RecordItem>>(ask && whole.value ? archivePath(pool, `jobs/${encodeURIComponent(job)}/timeline?limit=200`) : null, again).value;
  const explained = useLoad<Explained>(row && (WAITS.has(row.state) || row.evictions > 0 || row.eviction) ? poolPath(pool, "explain", job) : null, again).value;

  const presence = presenceOf({ connection: live.connection.value, live: row, details, whole, archive: archive.state });
  if (presence === "loading") return <Loading what={`the job ${job}`} />;
  if (presence === "failed") return <Failure refusal={details.failure!} />;
  if (presence === "unknown" || presence === "unsure") return <Missing pool={pool} job={job} sure={presence === "unknown"} />;

  const past = whole.value ?? null;
  const evictions = allEvictions(past, row);
  const newest = evictions.at(-1);
  const isOut = newest !== undefined && row !== null && (row.eviction !== null || !["running", "starting"].includes(row.state)) && !newest.stages.resumed && newest.outcome !== "spared";
  const earlier = [...evictions].reverse().filter((each) => !(isOut && each === newest));
  const state = row?.state ?? past?.state ?? details.value?.summary.state ?? "";
  const ended = row ? null : (past?.outcome ?? state);
  const told = explained.value?.sections.find((section) => section.question.startsWith("Why did"))?.says.map((each) => each.text) ?? [];
  const items = records.value?.items ?? [];
  const card = (eviction: Eviction, urgent: boolean) => (
    <ReasonCard key={eviction.decided_seq} pool={pool} eviction={eviction} live={row} ended={ended} last={eviction === newest} urgent={urgent} records={items} told={urgent ? told : []} />
  );
  return (
    <div class="page job-page">
      <div class="page-head">
        <h1>{job}</h1>
        <StateBadge state={state} />
        <span class="spring" />
        <JobActions key={job} pool={pool} job={row} />
      </div>
      <Lead pool={pool} live={row} whole={past} details={details.value ?? null} />
      {archive.state === "there" && whole.failure && whole.failure.status !== 404 && (
        <p class="notice">The archive does not answer ({whole.failure.detail || whole.failure.title}): what is live is shown, earlier attempts and evictions are not.</p>
      )}
      {isOut && card(newest, true)}
      {row && WAITS.has(row.state) && <Waits pool={pool} live={row} explained={explained} />}
      <Timeline whole={past} live={row} />
      <div class="job-columns">
        <Progress pool={pool} live={row} details={details.value ?? null} records={items} />
        <Facts pool={pool} live={row} whole={past} details={details.value ?? null} />
      </div>
      {earlier.slice(0, all.value ? Infinity : SHOWN).map((each) => card(each, false))}
      {earlier.length > SHOWN && !all.value && (
        <div>
          <Button onClick={() => (all.value = true)}>{count(earlier.length - SHOWN, "earlier eviction")}</Button>
        </div>
      )}
      {row && details.value && details.value.task_list.length > 1 && <Tasks pool={pool} tasks={details.value.task_list} />}
      <Logs pool={pool} job={job} live={row !== null} />
      <Events pool={pool} job={job} live={live} page={records.value ?? null} lines={details.value?.events ?? []} />
      <Story pool={pool} explained={explained} />
    </div>
  );
}

/** The row with its place in the queue, which is sent beside the rows. */
function placed(row: LiveJob, queue: string[]): LiveJob {
  const at = row.waiting_since === null ? -1 : queue.indexOf(row.job);
  return { ...row, ahead: at >= 0 ? at : (row.ahead ?? null) };
}

/** Those of the archive, and the one that is under way where the archive does not have it yet. */
function allEvictions(whole: JobWhole | null, live: LiveJob | null): Eviction[] {
  const found = whole?.evictions ?? [];
  const now = live ? fromLive(live) : null;
  return now && !found.some((each) => each.decided_seq === now.decided_seq) ? [...found, now] : found;
}

function Missing({ pool, job, sure }: { pool: string; job: string; sure: boolean }) {
  return (
    <Empty title={sure ? `There is no job “${job}” in ${pool}` : `“${job}” is not among the jobs that are known now`}>
      {sure
        ? "Neither the live state nor the archive knows it. Names are case-sensitive; a job of another pool is shown there."
        : "If it ended more than a week ago, only the archive knows it, and the archive cannot be asked now."}{" "}
      <a href={`/${encodeURIComponent(pool)}/queue`}>To the queue</a> or <a href={`/${encodeURIComponent(pool)}/record?job=${encodeURIComponent(job)}`}>look for it in the record</a>.
    </Empty>
  );
}
