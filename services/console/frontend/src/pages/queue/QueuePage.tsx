import { useSignal } from "@preact/signals";

import { now } from "../../lib/clock";
import { gpusText } from "../../lib/terms";
import { useTitle } from "../../lib/title";
import { useLive, type Live } from "../../live/live";
import type { LiveJob } from "../../live/shapes";
import { StateBadge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { Empty } from "../../ui/Empty";
import { JobLink } from "../../ui/Links";
import { useMore } from "../../ui/More";
import { NoBoard } from "../../ui/NoBoard";
import { ProjectSelect } from "../../ui/ProjectSelect";
import { within } from "../pool/map/selecting";
import { makings } from "./making";
import { Makings } from "./Makings";
import { Row } from "./Row";
import { Shares } from "./Shares";
import { ANY, fits, queueText, waitingOf, whyText, type Place, type QueueFilter } from "./waiting";
import "./queue.css";

const AT_FIRST = 100;
const STEP = 500;

/** Who waits, why, and what would free it. */
export default function QueuePage({ pool }: { pool: string }) {
  const live = useLive(pool);
  useTitle(`${pool}: queue`);
  return live.row.value === null ? <NoBoard title="Queue" what="the queue" live={live} /> : <Queue pool={pool} live={live} />;
}

function Queue({ pool, live }: { pool: string; live: Live }) {
  void [live.jobsAt.value, live.projectsAt.value];
  const filter = useSignal<QueueFilter>(ANY);
  const { jobs, projects } = live;
  const found = waitingOf(jobs, live.queue.value);
  const narrowed = filter.value.project === null ? null : within(projects, filter.value.project);
  const asked = (job: LiveJob): boolean => fits(job, filter.value, narrowed);
  const waiting = found.waiting.filter(({ job }) => asked(job));
  const making = makings(jobs);
  return (
    <div class="page queue-page">
      <div class="page-head">
        <h1>Queue</h1>
        <Summary waiting={found.waiting} free={live.row.value!.gpus_free} />
      </div>
      <div class="with-side">
        <div class="queue-main">
          {making.length > 0 && (
            <Card title="Room is being made">
              <Makings pool={pool} makings={making} />
            </Card>
          )}
          <Card title="Waiting" aside={<span class="soft number">{found.waiting.length}</span>}>
            {found.waiting.length > 0 && <Filters live={live} filter={filter.value} onFilter={(next) => (filter.value = next)} />}
            {found.waiting.length === 0 ? (
              <Empty title="Nobody waits">
                A job that is submitted and does not fit at once stands here, with the reason. <a href={`/${encodeURIComponent(pool)}/submit`}>Submit a job</a>
              </Empty>
            ) : waiting.length === 0 ? (
              <Empty title="No job that waits is like that">
                <Button onClick={() => (filter.value = ANY)}>Show all</Button>
              </Empty>
            ) : (
              <Places pool={pool} places={waiting} />
            )}
          </Card>
          <Apart pool={pool} title="Held" says="A decision about these failed. They are left alone until somebody looks." jobs={found.held.filter(asked)} />
          <Apart pool={pool} title="Running with fewer tasks than they want" says="The rest of their tasks stand in line." jobs={found.partly.filter(asked)} />
          <Apart pool={pool} title="Paused" says="Not in line. They go on when somebody resumes them." jobs={found.paused.filter(asked)} />
        </div>
        <div class="queue-side">
          <Shares pool={pool} projects={projects} />
        </div>
      </div>
    </div>
  );
}

const Summary = ({ waiting, free }: { waiting: readonly Place[]; free: number }) => <p class="soft">{queueText(waiting, free, now.value)}</p>;

function Places({ pool, places }: { pool: string; places: readonly Place[] }) {
  const [shown, more] = useMore(places, AT_FIRST, STEP);
  return (
    <>
      <ol class="places">
        {shown.map(({ job, position }) => (
          <Row key={job.job} pool={pool} job={job} position={position} />
        ))}
      </ol>
      {more}
    </>
  );
}

function Apart({ pool, title, says, jobs }: { pool: string; title: string; says: string; jobs: readonly LiveJob[] }) {
  const [shown, more] = useMore(jobs, AT_FIRST, STEP);
  if (!jobs.length) return null;
  return (
    <Card title={title} aside={<span class="soft number">{jobs.length}</span>}>
      <p class="soft">{says}</p>
      <ul class="apart">
        {shown.map((job) => (
          <li key={job.job}>
            <span class="cut">
              <JobLink pool={pool} job={job.job} />{" "}
              <span class="soft">
                {job.project || "no project"}, {job.class}, {gpusText(job)}
                {job.placed < job.tasks && job.placed > 0 && `, ${job.placed} of ${job.tasks} tasks run`}
              </span>
            </span>
            <StateBadge state={job.state} />
            {(job.note || job.why) && <small class="soft">{whyText(job, 1)}</small>}
          </li>
        ))}
      </ul>
      {more}
    </Card>
  );
}

function Filters({ live, filter, onFilter }: { live: Live; filter: QueueFilter; onFilter: (filter: QueueFilter) => void }) {
  const projects = new Set([...live.projects.keys(), ...[...live.jobs.values()].map((job) => job.project)]);
  const classes = [...new Set([...live.classes.value.map((row) => row.priority_class), ...[...live.jobs.values()].map((job) => job.class)])];
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
