import { Fragment } from "preact";

import type { Eviction, QueuedJob, RecordItem } from "../../api";
import { ACTION_TEXTS, bytes, count, few, moment, sanitizeLine, stopWord } from "../../lib";
import { ReceiptButton } from "../../shared/ReceiptButton";
import { Badge, decisionPath, DescriptionItem, JobLink, RelativeTime, SeqLink } from "../../ui";
import { alternatives, evictionReason } from "./evictionReason";
import { afterText, alikeProofs, evictionStages, liveStages, proofsOf, type Stage } from "./evictionStages";

interface Props {
  pool: string;
  job: string;
  eviction: Eviction;
  live: QueuedJob | null;
  ended: string | null;
  last: boolean;
  urgent: boolean;
  records: RecordItem[];
  explanation: string[];
}

/** One eviction: preemptor, rule, work lost, restart; its stages; the alternatives. */
export function EvictionCard({ pool, job, eviction, live, ended, last, urgent, records, explanation }: Props) {
  const answers = evictionReason(eviction, live, ended, last);
  const current = last && live?.eviction?.decided_seq === eviction.decided_seq ? live.eviction : null;
  const stages = Object.keys(eviction.stages).length || !current ? evictionStages(eviction) : liveStages(current);
  const other = alternatives(eviction.explanation);
  const proofs = alikeProofs(proofsOf(records, eviction.attempt ?? -1));
  const preempted = eviction.cause === "preemption";
  const word = preempted ? "evicted" : stopWord(eviction.cause);
  return (
    <section class="card eviction-card" id={`eviction-${eviction.decided_seq}`} data-urgent={urgent}>
      <header>
        <h2>{urgent ? `Why it ${current ? "is being" : "was"} ${word}` : `Attempt ${eviction.attempt ?? "?"}: ${word}`}</h2>
        {eviction.action && <Badge tone="warn" title={ACTION_TEXTS[eviction.action] ?? ""}>{eviction.action}</Badge>}
        {eviction.tasks && <Badge>only tasks {eviction.tasks}</Badge>}
        <span class="spring" />
        {eviction.decided_at && <span class="soft"><RelativeTime at={eviction.decided_at} /></span>}
        {preempted && <ReceiptButton pool={pool} decision={eviction.decided_seq} job={job} />}
        {preempted ? <a href={decisionPath(pool, eviction.decided_seq)}>Decision #{eviction.decided_seq}</a> : <SeqLink pool={pool} seq={eviction.decided_seq} />}
      </header>
      <div class="stack body">
        <dl class="key-facts">
          <DescriptionItem name="Preempted by">
            {answers.forJob ? (
              <>
                <strong><JobLink pool={pool} job={answers.forJob} /></strong> {answers.preemptorText && <span class="soft">{answers.preemptorText}</span>}
              </>
            ) : (
              answers.preemptorText
            )}
          </DescriptionItem>
          <DescriptionItem name="Rule">{sanitizeLine(answers.rule)}</DescriptionItem>
          <DescriptionItem name="Work lost">{answers.workLost}</DescriptionItem>
          {answers.restartCost && <DescriptionItem name="Restart cost">{answers.restartCost}</DescriptionItem>}
          <DescriptionItem name="Resumed?">
            <span class={answers.hasRestarted ? "good" : undefined}>{answers.hasRestarted ? "✓ " : ""}{answers.restart}</span>
          </DescriptionItem>
        </dl>
        <EvictionStageList stages={stages} done={!current} deadline={current?.deadline ?? null} />
        {proofs.length > 0 && (
          <p class="soft note">
            Proof of release: {proofs.slice(0, 4).map((group, at) => {
              const [proof] = group;
              const each = group.length > 1 ? " each" : "";
              return (
                <span key={proof.seq}>
                  {at > 0 && "; "}
                  {proof.devices ? count(proof.devices, "GPU") : "the resources"}{each} of {each ? `tasks ${few(group.map(({ task }) => String(task)))}` : `task ${proof.task}`} on {proof.node}
                  {proof.after !== null && <>, {bytes(proof.before ?? 0)}{each} in use before, {bytes(proof.after)} and {count(proof.processes ?? 0, "process", "processes")} after</>}
                  {group.slice(0, 4).map(({ seq }) => <Fragment key={seq}> <SeqLink pool={pool} seq={seq} /></Fragment>)}{group.length > 4 && " …"}
                </span>
              );
            })}
            {proofs.length > 4 && `; and ${count(proofs.slice(4).flat().length, "more task")}`}.
          </p>
        )}
        {(other.length > 0 || explanation.length > 0) && (
          <details open={urgent}>
            <summary>Could another job have been evicted instead?</summary>
            <ul class="stack sentences">{(other.length ? other : explanation).map((text) => <li key={text}>{sanitizeLine(text)}</li>)}</ul>
          </details>
        )}
      </div>
    </section>
  );
}

const STAGE_TONES: Record<string, "good" | "bad"> = { released: "good", resumed: "good", kill_sent: "bad", stuck: "bad" };

/** The stages reached so far, in order. */
function EvictionStageList({ stages, done, deadline }: { stages: Stage[]; done: boolean; deadline: string | null }) {
  return (
    <ol class="row stages" aria-label="Eviction stages">
      {stages.map((stage) => (
        <li key={stage.name} data-tone={STAGE_TONES[stage.name]} title={stage.at ? moment(stage.at) : ""}>
          <span class="sign" aria-hidden="true">{stage.sign}</span>
          <span class="word">{stage.word}</span>
          {stage.after !== null && <span class="after number">{afterText(stage.after)}</span>}
        </li>
      ))}
      {!done && (
        <li data-stage="next">
          <span class="sign" aria-hidden="true">…</span>
          <span class="word">eviction in progress</span>
          {deadline && <span class="after">KILL <RelativeTime at={deadline} /> at the latest</span>}
        </li>
      )}
    </ol>
  );
}
