import { useSignal } from "@preact/signals";

import type { LiveJob } from "../../api";
import { allocatedText, now, usePageTitle } from "../../lib";
import { PoolStatePending, unlistedPending, useLive, type LivePool } from "../../live";
import { ActivePreemptions } from "../../shared/ActivePreemptions";
import { preemptionGroups } from "../../shared/preemptionGroups";
import { projectSubtree } from "../../shared/shareText";
import { Button, Card, EmptyState, JobLink, pagePath, ProjectSelect, SearchInput, Select, StateBadge, useShowMore } from "../../ui";
import { PendingJobRow } from "./PendingJobRow";
import { matchesFilter, NO_FILTER, pendingText, queueText, queueView, type QueueEntry, type QueueFilter } from "./pendingJobs";
import { ProjectShares } from "./ProjectShares";
import "./queue.css";

const AT_FIRST = 100;
const STEP = 500;

/** The queue: pending jobs with reasons, preemptions in progress, suspended and paused jobs. */
export default function QueuePage({ pool }: { pool: string }) {
  const live = useLive(pool);
  usePageTitle(`${pool}: queue`);
  return live.row.value === null ? <PoolStatePending title="Queue" what="the queue" live={live} /> : <Queue pool={pool} live={live} />;
}

function Queue({ pool, live }: { pool: string; live: LivePool }) {
  void [live.jobsVersion.value, live.projectsVersion.value];
  const filter = useSignal<QueueFilter>(NO_FILTER);
  const { jobs, projects } = live;
  const view = queueView(jobs, live.queue.value);
  const more = unlistedPending(live);
  const subtree = filter.value.project === null ? null : projectSubtree(projects, filter.value.project);
  const matches = (job: LiveJob): boolean => matchesFilter(job, filter.value, subtree);
  const pending = view.pending.filter(({ job }) => matches(job));
  const group = preemptionGroups(jobs);
  return (
    <div class="stack page queue-page">
      <div class="row page-head">
        <h1>Queue</h1>
        <Summary pending={view.pending} more={more} free={live.row.value!.gpus_free} />
      </div>
      <div class="with-side">
        <div class="stack spaced queue-main">
          {group.length > 0 && (
            <Card title="Preemptions in progress">
              <ActivePreemptions pool={pool} preemptionGroups={group} />
            </Card>
          )}
          <Card title="Pending" aside={<span class="soft number">{view.pending.length + more}</span>}>
            {view.pending.length > 0 && <Filters live={live} filter={filter.value} onFilter={(next) => (filter.value = next)} />}
            {view.pending.length === 0 ? (
              <EmptyState title="No pending jobs">
                Submitted jobs that cannot start immediately are listed here, with the reason. <a href={pagePath(pool, ["submit"])}>Submit a job</a>
              </EmptyState>
            ) : pending.length === 0 ? (
              <EmptyState title="No pending jobs match the filter">
                <Button onClick={() => (filter.value = NO_FILTER)}>Clear filter</Button>
              </EmptyState>
            ) : (
              <PendingList pool={pool} entries={pending} />
            )}
            {more > 0 && (
              <p class="soft note">
                The first {view.pending.length} are shown; {more.toLocaleString("en")} more: <a href={pagePath(pool, ["jobs"], { state: "pending" })}>all pending jobs</a>
              </p>
            )}
          </Card>
          <JobSection pool={pool} title="Suspended" description="A decision about these jobs failed. They are excluded from scheduling until an operator intervenes." jobs={view.suspended.filter(matches)} />
          <JobSection pool={pool} title="Running with fewer tasks than requested" description="Their other tasks are pending." jobs={view.partial.filter(matches)} />
          <JobSection pool={pool} title="Waiting for other jobs" description="They join the queue when those have ended as needed." jobs={view.waiting.filter(matches)} />
          <JobSection pool={pool} title="Paused" description="Not in the queue until they are resumed." jobs={view.paused.filter(matches)} />
        </div>
        <div class="queue-side">
          <ProjectShares pool={pool} projects={projects} />
        </div>
      </div>
    </div>
  );
}

const Summary = ({ pending, more, free }: { pending: readonly QueueEntry[]; more: number; free: number }) => <p class="soft">{queueText(pending, free, now.value, more)}</p>;

function PendingList({ pool, entries }: { pool: string; entries: readonly QueueEntry[] }) {
  const [shown, more] = useShowMore(entries, AT_FIRST, STEP);
  return (
    <>
      <ol class="pending-jobs">
        {shown.map(({ job, position }) => (
          <PendingJobRow key={job.job} pool={pool} job={job} position={position} />
        ))}
      </ol>
      {more}
    </>
  );
}

function JobSection({ pool, title, description, jobs }: { pool: string; title: string; description: string; jobs: readonly LiveJob[] }) {
  const [shown, more] = useShowMore(jobs, AT_FIRST, STEP);
  if (!jobs.length) return null;
  return (
    <Card title={title} aside={<span class="soft number">{jobs.length}</span>}>
      <p class="soft">{description}</p>
      <ul class="other-jobs">
        {shown.map((job) => (
          <li key={job.job}>
            <span class="cut">
              <JobLink pool={pool} job={job.job} />{" "}
              <span class="soft">
                {job.project || "no project"}, {job.priority_class}, {allocatedText(job)}
                {job.placed_tasks < job.tasks && job.placed_tasks > 0 && `, ${job.placed_tasks} of ${job.tasks} tasks running`}
              </span>
            </span>
            <StateBadge state={job.state} />
            {(job.note || job.pending_reason) && <small class="soft">{pendingText(job, 1)}</small>}
          </li>
        ))}
      </ul>
      {more}
    </Card>
  );
}

function Filters({ live, filter, onFilter }: { live: LivePool; filter: QueueFilter; onFilter: (filter: QueueFilter) => void }) {
  const projects = new Set([...live.projects.keys(), ...[...live.jobs.values()].map((job) => job.project)]);
  const classes = [...new Set([...live.classes.value.map((row) => row.priority_class), ...[...live.jobs.values()].map((job) => job.priority_class)])];
  return (
    <div class="row queue-filters">
      <ProjectSelect projects={projects} value={filter.project} onChange={(project) => onFilter({ ...filter, project })} />
      <Select label="Class" value={filter.class} options={[["", "Any class"], ...classes]} onChange={(next) => onFilter({ ...filter, class: next })} />
      <SearchInput label="Job or user" value={filter.text} onInput={(text) => onFilter({ ...filter, text })} />
    </div>
  );
}
