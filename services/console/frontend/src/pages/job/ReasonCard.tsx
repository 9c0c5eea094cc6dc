import { bytes, count, moment } from "../../lib/words";
import { plainLine } from "../../lib/plain";
import { VERBS } from "../../lib/terms";
import type { LiveJob } from "../../live/shapes";
import { Ago } from "../../ui/Ago";
import { Answer } from "../../ui/Answer";
import { Badge } from "../../ui/Badge";
import { decisionPath, JobLink, SeqLink } from "../../ui/Links";
import { alternatives, reasonOf } from "./reason";
import type { Eviction, RecordItem } from "./shapes";
import { afterText, proofsOf, type Stage, stagesNow, stagesOf } from "./stages";

interface Props {
  pool: string;
  eviction: Eviction;
  live: LiveJob | null;
  ended: string | null;
  last: boolean;
  urgent: boolean;
  records: RecordItem[];
  told: string[];
}

/** One eviction: for whom, by which rule, what it lost, when it is back; its way out; what else could have been done. */
export function ReasonCard({ pool, eviction, live, ended, last, urgent, records, told }: Props) {
  const reason = reasonOf(eviction, live, ended, last);
  const leaving = last && live?.eviction?.decided_seq === eviction.decided_seq ? live.eviction : null;
  const stages = Object.keys(eviction.stages).length || !leaving ? stagesOf(eviction) : stagesNow(leaving);
  const other = alternatives(eviction.explanation);
  const proofs = proofsOf(records, eviction.attempt ?? -1);
  const preempted = eviction.cause === "preemption";
  return (
    <section class="card reason" id={`eviction-${eviction.decided_seq}`} data-urgent={urgent}>
      <header>
        <h2>{urgent ? (leaving ? "Why it has to leave" : "Why it had to leave") : `Attempt ${eviction.attempt ?? "?"}: told to leave`}</h2>
        {eviction.verb && <Badge tone="warn" title={VERBS[eviction.verb] ?? ""}>{eviction.verb}</Badge>}
        {eviction.tasks && <Badge>only tasks {eviction.tasks}</Badge>}
        <span class="spring" />
        {eviction.decided_at && <span class="soft"><Ago at={eviction.decided_at} /></span>}
        {preempted ? <a href={decisionPath(pool, eviction.decided_seq)}>The decision #{eviction.decided_seq}</a> : <SeqLink pool={pool} seq={eviction.decided_seq} />}
      </header>
      <div class="body">
        <dl class="answers">
          <Answer name="For whom">
            {reason.forJob ? (
              <>
                <strong><JobLink pool={pool} job={reason.forJob} /></strong> {reason.forWhom && <span class="soft">{reason.forWhom}</span>}
              </>
            ) : (
              reason.forWhom
            )}
          </Answer>
          <Answer name="By which rule">{plainLine(reason.rule)}</Answer>
          <Answer name="What it lost">{reason.lost}</Answer>
          <Answer name="When it is back">
            <span class={reason.isBack ? "good" : undefined}>{reason.isBack ? "✓ " : ""}{reason.back}</span>
          </Answer>
        </dl>
        <WayOut stages={stages} done={!leaving} deadline={leaving?.deadline ?? null} />
        {proofs.length > 0 && (
          <p class="soft note">
            Proof of release: {proofs.slice(0, 4).map((proof, at) => (
              <span key={proof.seq}>
                {at > 0 && "; "}
                {proof.devices ? count(proof.devices, "GPU") : "the room"} of task {proof.task} on {proof.node}
                {proof.after !== null && <>, {bytes(proof.before ?? 0)} in use before, {bytes(proof.after)} and {count(proof.processes ?? 0, "process", "processes")} after</>} <SeqLink pool={pool} seq={proof.seq} />
              </span>
            ))}
            {proofs.length > 4 && `; and ${proofs.length - 4} more tasks`}.
          </p>
        )}
        {(other.length > 0 || told.length > 0) && (
          <details open={urgent}>
            <summary>Could another have left instead?</summary>
            <ul class="sentences">{(other.length ? other : told).map((text) => <li key={text}>{plainLine(text)}</li>)}</ul>
          </details>
        )}
      </div>
    </section>
  );
}

/** The stages that were reached, as a strip. */
function WayOut({ stages, done, deadline }: { stages: Stage[]; done: boolean; deadline: string | null }) {
  return (
    <ol class="stages" aria-label="Its way out">
      {stages.map((stage) => (
        <li key={stage.name} data-stage={stage.name} title={stage.at ? moment(stage.at) : ""}>
          <span class="sign" aria-hidden="true">{stage.sign}</span>
          <span class="word">{stage.word}</span>
          {stage.after !== null && <span class="after number">{afterText(stage.after)}</span>}
        </li>
      ))}
      {!done && (
        <li data-stage="next">
          <span class="sign" aria-hidden="true">…</span>
          <span class="word">on its way out</span>
          {deadline && <span class="after">KILL <Ago at={deadline} /> at the latest</span>}
        </li>
      )}
    </ol>
  );
}
