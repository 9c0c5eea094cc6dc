import type { AttachmentRow, JobHistory, JobPage, LiveJob } from "../../api";
import { allocatedText, count, duration, evictionCauseText, gpusText, moment, sanitizeLine, times, userText } from "../../lib";
import { Card, CopyButton, Elapsed, NodeLinks, projectPath, RelativeTime, SeqLink } from "../../ui";
import { claimRows } from "./claimRows";
import { evictedText } from "./evictedText";

interface Props {
  live: LiveJob | null;
  whole: JobHistory | null;
  details: JobPage | null;
}

/** The job's status in one sentence. */
export function JobStatusLine({ pool, live, whole, details }: Props & { pool: string }) {
  if (!live) return <Ended pool={pool} whole={whole} details={details} />;
  const gpus = gpusText(live);
  const allocated = allocatedText(live);
  const part = live.placed_tasks > 0 && live.placed_tasks < live.tasks ? `, ${live.placed_tasks} of ${live.tasks} tasks` : "";
  return (
    <p class="lead">
      {live.state === "running" && <>Running on <NodeLinks pool={pool} nodes={live.nodes} /> with {allocated}{part}{live.started_at && <> for <Elapsed at={live.started_at} /></>}.</>}
      {live.state === "starting" && <>Starting on <NodeLinks pool={pool} nodes={live.nodes} /> with {allocated}{part}.</>}
      {live.state === "reserved" && <>{gpus} reserved on <NodeLinks pool={pool} nodes={live.reserved_nodes.length ? live.reserved_nodes : live.nodes} />: <bdi>{sanitizeLine(live.note || "it starts when they are released")}</bdi>.</>}
      {live.state === "pending" && <>Pending{live.pending_since && <> for <Elapsed at={live.pending_since} /></>}: requests {gpus}.</>}
      {live.state === "evicting" && (
        <>
          Being evicted from <NodeLinks pool={pool} nodes={live.nodes} /> ({allocated}){live.eviction && (live.eviction.for_job ? <>, preempted by <bdi>{live.eviction.for_job}</bdi></> : `, because ${evictionCauseText(live.eviction.cause)}`)}.
        </>
      )}
      {!["running", "starting", "reserved", "pending", "evicting"].includes(live.state) && <>State: {live.state}{live.note && <>: <bdi>{sanitizeLine(live.note)}</bdi></>}; requests {gpus}.</>}{" "}
      <span class="soft">
        <ProjectAndClass pool={pool} project={live.project} /> {live.priority_class} {live.priority}
        {live.preemptible ? "" : ", not preemptible"}
        {live.attempt > 0 && `, attempt ${live.attempt}`}
        {whole?.evictions.length ? evictedText(whole) : live.evictions > 0 && `, evicted ${times(live.evictions)}`}
      </span>
    </p>
  );
}

/** `Project vision, class`, or `Class`: the name of the class follows. */
const ProjectAndClass = ({ pool, project }: { pool: string; project: string | null | undefined }) => (
  project ? <>Project <a href={projectPath(pool, project)}>{project}</a>, class</> : <>Class</>
);

function Ended({ pool, whole, details }: { pool: string; whole: JobHistory | null; details: JobPage | null }) {
  const summary = details?.summary;
  const [state, at] = [whole?.outcome ?? whole?.state ?? summary?.state ?? "ended", whole?.ended_at ?? summary?.ended_at ?? null];
  const project = whole?.project ?? summary?.project;
  const from = whole?.submitted_at ?? summary?.submitted_at ?? null;
  return (
    <p class="lead">
      Ended: {state}
      {at && <> <RelativeTime at={at} /></>}
      {whole?.reason && <>: <bdi>{sanitizeLine(whole.reason)}</bdi></>}
      {at && from && `, ${duration((Date.parse(at) - Date.parse(from)) / 1000)} after it was submitted`}.{" "}
      <span class="soft">
        <ProjectAndClass pool={pool} project={project} /> {whole?.priority_class ?? summary?.priority_class ?? "unknown"}
        {evictedText(whole)}
        {!whole && ". Its attempts and evictions are in the archive, which is unavailable"}
      </span>
    </p>
  );
}

/** How the name of the job's owner was verified. */
function ownerProof(details: JobPage): string {
  if (!details.summary.user_verified) return "(not verified)";
  return details.signed_by ? `signed by ${details.signed_by}` : "";
}

const ATTACHMENTS = 5;

function Attached({ pool, of }: { pool: string; of: AttachmentRow }) {
  return (
    <div>
      <bdi>{sanitizeLine(userText(of.user || "unnamed", of.user_verified))}</bdi> {of.port !== null ? `to port ${of.port}` : of.shell ? "to a shell" : "to the terminal"} of task {of.task}, {of.started_at ? <>from <RelativeTime at={of.started_at} /></> : "not connected"}
      {of.ended_at && <> to <RelativeTime at={of.ended_at} /></>} <SeqLink pool={pool} seq={of.seq} />
    </div>
  );
}

/** The job's specification. */
export function JobFacts({ pool, live, whole, details }: Props & { pool: string }) {
  const labels = Object.entries(details?.summary.labels ?? {});
  const submitted = live?.submitted_at ?? whole?.submitted_at ?? details?.summary.submitted_at;
  const seq = details?.summary.submitted_seq ?? whole?.submitted_seq;
  const user = live?.user || whole?.user;
  const digest = details?.spec_digest;
  return (
    <Card title="Specification">
      <dl class="facts">
        {details?.demand && <><dt>Demand</dt><dd>{details.demand}</dd></>}
        {!details?.demand && whole && <><dt>Demand</dt><dd>{count(whole.tasks ?? 0, "task")}, {whole.gpus ?? 0} GPUs in total</dd></>}
        {live && live.min_tasks < live.tasks && <><dt>Elastic</dt><dd>at least {live.min_tasks} of {live.tasks} tasks</dd></>}
        {submitted && <><dt>Submitted</dt><dd><RelativeTime at={submitted} /> <span class="soft">{moment(submitted)}</span> {seq !== undefined && <SeqLink pool={pool} seq={seq} />}</dd></>}
        {user && <><dt>Submitted by</dt><dd>{user} {details && <span class="soft">{ownerProof(details)}</span>}</dd></>}
        {whole?.waited_s !== null && whole?.waited_s !== undefined && <><dt>Time to first start</dt><dd>{duration(whole.waited_s)}</dd></>}
        {details && claimRows(details).length > 0 && <><dt>Claims</dt><dd>{claimRows(details).map(([said, holds]) => <div key={said}>{said} <span class="soft">{holds}</span></div>)}</dd></>}
        {labels.length > 0 && <><dt>Labels</dt><dd>{labels.map(([name, value]) => <div key={name} class="mono">{sanitizeLine(`${name}=${value}`)}</div>)}</dd></>}
        {digest && <><dt>Spec</dt><dd><span class="mono cut" title={digest}>{digest.slice(0, 16)}…</span> <CopyButton text={digest} what="the digest" /> <span class="soft">salted SHA-256; the log does not contain the command</span></dd></>}
        {details && details.attachments.length > 0 && <><dt>Attached</dt><dd>{details.attachments.slice(-ATTACHMENTS).map((each) => <Attached key={each.seq} pool={pool} of={each} />)}</dd></>}
        {details && details.victims.length > 0 && <><dt>Preempting</dt><dd>{details.victims.join(", ")}</dd></>}
      </dl>
    </Card>
  );
}
