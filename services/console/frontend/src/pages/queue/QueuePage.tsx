import { useSignal } from "@preact/signals";

import { now } from "../../lib/serverClock";
import { gpusText } from "../../lib/format";
import { usePageTitle } from "../../lib/usePageTitle";
import { useLive, type LivePool } from "../../live/livePool";
import type { LiveJob } from "../../live/types";
import { StateBadge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { EmptyState } from "../../ui/EmptyState";
import { JobLink } from "../../ui/Links";
import { useShowMore } from "../../ui/useShowMore";
import { PoolStatePending } from "../../ui/PoolStatePending";
import { ProjectSelect } from "../../ui/ProjectSelect";
import { projectSubtree } from "../pool/map/gpuFilter";
import { preemptionGroups } from "./preemptionGroups";
import { ActivePreemptions } from "./ActivePreemptions";
import { PendingJobRow } from "./PendingJobRow";
import { ProjectShares } from "./ProjectShares";
import { NO_FILTER, matchesFilter, queueText, queueView, pendingText, type QueueEntry, type QueueFilter } from "./pendingJobs";
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
  const subtree = filter.value.project === null ? null : projectSubtree(projects, filter.value.project);
  const matches = (job: LiveJob): boolean => matchesFilter(job, filter.value, subtree);
  const pending = view.pending.filter(({ job }) => matches(job));
  const group = preemptionGroups(jobs);
  return (
    <div class="page queue-page">
      <div class="page-head">
        <h1>Queue</h1>
        <Summary pending={view.pending} free={live.row.value!.gpus_free} />
      </div>
      <div class="with-side">
        <div class="queue-main">
          {group.length > 0 && (
            <Card title="Preemptions in progress">
              <ActivePreemptions pool={pool} preemptionGroups={group} />
            </Card>
          )}
          <Card title="Pending" aside={<span class="soft number">{view.pending.length}</span>}>
            {view.pending.length > 0 && <Filters live={live} filter={filter.value} onFilter={(next) => (filter.value = next)} />}
            {view.pending.length === 0 ? (
              <EmptyState title="No pending jobs">
                Submitted jobs that cannot start immediately are listed here, with the reason. <a href={`/${encodeURIComponent(pool)}/submit`}>Submit a job</a>
              </EmptyState>
            ) : pending.length === 0 ? (
              <EmptyState title="No pending jobs match the filter">
                <Button onClick={() => (filter.value = NO_FILTER)}>Clear filter</Button>
              </EmptyState>
            ) : (
              <PendingList pool={pool} entries={pending} />
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

const Summary = ({ pending, free }: { pending: readonly QueueEntry[]; free: number }) => <p class="soft">{queueText(pending, free, now.value)}</p>;

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
                {job.project || "no project"}, {job.priority_class}, {gpusText(job)}
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
    <div class="queue-filters">
      <ProjectSelect projects={projects} value={filter.project} onChange={(project) => onFilter({ ...filter, project })} />
      <label>
        <span class="visually-hidden">Class</span>
        <select class="input" value={filter.class} onChange={(event) => onFilter({ ...filter, class: event.currentTarget.value })}>
          <option value="">Any class</option>
          {classes.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span class="visually-hidden">Job or user</span>
        <input class="input" type="search" placeholder="Job or user" value={filter.text} onInput={(event) => onFilter({ ...filter, text: event.currentTarget.value })} />
      </label>
    </div>
  );
}
