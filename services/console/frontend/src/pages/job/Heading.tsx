import { count, duration, moment, times } from "../../lib/words";
import { becauseOf, gpusText } from "../../lib/terms";
import { plainLine } from "../../lib/plain";
import type { LiveJob } from "../../live/shapes";
import { Ago, Since } from "../../ui/Ago";
import { Card } from "../../ui/Card";
import { NodeLinks, SeqLink } from "../../ui/Links";
import { projectPath } from "../projects/path";
import type { JobDetails, JobWhole } from "./shapes";

interface Props {
  live: LiveJob | null;
  whole: JobWhole | null;
  details: JobDetails | null;
}

/** Where it stands, in one sentence. */
export function Lead({ pool, live, whole, details }: Props & { pool: string }) {
  if (!live) return <Ended pool={pool} whole={whole} details={details} />;
  const gpus = gpusText(live);
  const part = live.placed > 0 && live.placed < live.tasks ? `, ${live.placed} of ${live.tasks} tasks` : "";
  return (
    <p class="lead">
      {live.state === "running" && <>Runs on <NodeLinks pool={pool} nodes={live.nodes} /> with {gpus}{part}{live.started_at && <> for <Since at={live.started_at} /></>}.</>}
      {live.state === "starting" && <>Is starting on <NodeLinks pool={pool} nodes={live.nodes} /> with {gpus}.</>}
      {live.state === "reserved" && <>Has room for {gpus} reserved on <NodeLinks pool={pool} nodes={live.reserved_nodes.length ? live.reserved_nodes : live.nodes} />: <bdi>{plainLine(live.note || "it starts when that is free")}</bdi>.</>}
      {live.state === "pending" && <>Waits for {gpus}{live.waiting_since && <> for <Since at={live.waiting_since} /></>}.</>}
      {live.state === "evicting" && (
        <>
          Leaves <NodeLinks pool={pool} nodes={live.nodes} /> ({gpus}){live.eviction && (live.eviction.for_job ? <> for <bdi>{live.eviction.for_job}</bdi></> : `, because ${becauseOf(live.eviction.cause)}`)}.
        </>
      )}
      {!["running", "starting", "reserved", "pending", "evicting"].includes(live.state) && <>Is {live.state}{live.note && <>: <bdi>{plainLine(live.note)}</bdi></>}; it asks for {gpus}.</>}{" "}
      <span class="soft">
        {live.project && <OfProject pool={pool} project={live.project} />}class {live.class} {live.priority}
        {live.preemptible ? "" : ", not preemptible"}
        {live.attempt > 0 && `, attempt ${live.attempt}`}
        {live.evictions > 0 && `, had to leave ${times(live.evictions)}`}
      </span>
    </p>
  );
}

const OfProject = ({ pool, project }: { pool: string; project: string }) => (
  <>
    Project <a href={projectPath(pool, project)}>{project}</a>,{" "}
  </>
);

function Ended({ pool, whole, details }: { pool: string; whole: JobWhole | null; details: JobDetails | null }) {
  const summary = details?.summary;
  const [state, at] = [whole?.outcome ?? whole?.state ?? summary?.state ?? "ended", whole?.ended_at ?? summary?.ended_at ?? null];
  const project = whole?.project ?? summary?.project;
  const from = whole?.submitted_at ?? summary?.submitted_at ?? null;
  return (
    <p class="lead">
      Over: {state}
      {at && <> <Ago at={at} /></>}
      {whole?.reason && <>: <bdi>{plainLine(whole.reason)}</bdi></>}
      {at && from && `, ${duration((Date.parse(at) - Date.parse(from)) / 1000)} after it was submitted`}.{" "}
      <span class="soft">
        {project && <OfProject pool={pool} project={project} />}class {whole?.priority_class ?? summary?.priority_class ?? "unknown"}
        {(whole?.evictions.length ?? 0) > 0 && `, had to leave ${times(whole!.evictions.length)}`}
        {!whole && ". Its attempts and evictions are in the archive, which cannot be asked now"}
      </span>
    </p>
  );
}

/** What it is and what it asked for. */
export function Facts({ pool, live, whole, details }: Props & { pool: string }) {
  const labels = Object.entries(details?.labels ?? {});
  const submitted = live?.submitted_at ?? whole?.submitted_at ?? details?.summary.submitted_at;
  const seq = details?.submitted_seq ?? whole?.submitted_seq;
  const user = live?.user || whole?.user;
  const digest = details?.spec_digest;
  return (
    <Card title="What it asked for">
      <dl class="facts">
        {details?.demand && <><dt>Demand</dt><dd>{details.demand}</dd></>}
        {!details?.demand && whole && <><dt>Demand</dt><dd>{count(whole.tasks ?? 0, "task")}, {whole.gpus ?? 0} GPUs in all</dd></>}
        {live && live.min_tasks < live.tasks && <><dt>Elastic</dt><dd>at least {live.min_tasks} of {live.tasks} tasks</dd></>}
        {submitted && <><dt>Submitted</dt><dd><Ago at={submitted} /> <span class="soft">{moment(submitted)}</span> {seq !== undefined && <SeqLink pool={pool} seq={seq} />}</dd></>}
        {user && <><dt>By</dt><dd>{user}</dd></>}
        {whole?.waited_s !== null && whole?.waited_s !== undefined && <><dt>First waited</dt><dd>{duration(whole.waited_s)}</dd></>}
        {labels.length > 0 && <><dt>Labels</dt><dd>{labels.map(([name, value]) => <div key={name} class="mono">{plainLine(`${name}=${value}`)}</div>)}</dd></>}
        {digest && <><dt>Spec</dt><dd><span class="mono digest" title={digest}>{digest.slice(0, 16)}…</span> <span class="soft">salted SHA-256; what it runs is not in the log</span></dd></>}
        {details && details.preempts.length > 0 && <><dt>Waits for</dt><dd>{details.preempts.join(", ")} to leave</dd></>}
      </dl>
    </Card>
  );
}
