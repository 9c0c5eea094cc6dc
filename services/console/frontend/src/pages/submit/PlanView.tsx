import type { Refusal } from "../../lib/api";
import { now } from "../../lib/clock";
import { gpuTime } from "../../lib/terms";
import { count } from "../../lib/words";
import type { Live } from "../../live/live";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { DataTable } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { Failure } from "../../ui/Failure";
import { FaultList } from "../../ui/FaultList";
import { JobLink, SeqLink } from "../../ui/Links";
import { Loading } from "../../ui/Loading";
import { fate, told, VERDICTS, type Plan } from "./plan";

interface Props {
  pool: string;
  live: Live;
  state: { answer: Plan | null; refusal: Refusal | null; asking: boolean };
  empty: boolean;
  again: () => void;
}

/** What would come of the job: would it start, where, whom would it displace and what would that cost, or why would it wait. */
export function PlanView({ pool, live, state, empty, again }: Props) {
  if (empty) return <Empty title="Nothing to plan yet">Say what to run; what would come of it shows here before anything is sent.</Empty>;
  if (state.refusal) return <Failure refusal={state.refusal} again={again} />;
  const plan = state.answer;
  if (!plan) return <Loading what="what would come of it" />;
  return (
    <div class="plan" aria-busy={state.asking} aria-live="polite">
      {plan.faults.length > 0 ? <Faults plan={plan} /> : plan.answer && <Outcome pool={pool} plan={plan} answer={plan.answer} />}
      {plan.answer && <Computed pool={pool} live={live} at={plan.answer.computed_at} again={again} />}
    </div>
  );
}

function Faults({ plan }: { plan: Plan }) {
  return (
    <>
      <Badge tone="bad">! {count(plan.faults.length, "fault")}</Badge>
      <FaultList faults={plan.faults} />
    </>
  );
}

function Outcome({ pool, plan, answer }: { pool: string; plan: Plan; answer: NonNullable<Plan["answer"]> }) {
  const verdict = VERDICTS[answer.outcome];
  const victims = answer.decision?.victims ?? [];
  return (
    <>
      <Badge tone={verdict.tone}>
        <span aria-hidden="true">{verdict.sign}</span> {verdict.text}
      </Badge>
      {told(plan).map(({ text, items }, at) => (
        <div key={at}>
          <p>{text}</p>
          {items.length > 0 && (
            <ul class="tried">
              {items.map((item) => (
                <li key={item}>{item}</li>
              ))}
            </ul>
          )}
        </div>
      ))}
      {victims.length > 0 && (
        <DataTable
          caption="Jobs that would have to leave"
          rows={victims}
          rowKey={(victim) => victim.job}
          columns={[
            { head: "Must leave", cell: (victim) => <JobLink pool={pool} job={victim.job} /> },
            { head: "GPUs", right: true, cell: (victim) => victim.gpus },
            { head: "Loses", right: true, cell: (victim) => (victim.lost_gpu_seconds ? gpuTime(victim.lost_gpu_seconds * 1000) : "nothing") },
            { head: "Then it", cell: (victim) => fate(victim, plan.sentences) },
          ]}
        />
      )}
    </>
  );
}

function Computed({ pool, live, at, again }: { pool: string; live: Live; at: number; again: () => void }) {
  void now.value;
  const newer = Math.max(0, live.seq.value - at);
  return (
    <p class="computed soft">
      As of record <SeqLink pool={pool} seq={at} />
      {newer > 0 ? `, ${count(newer, "record")} ago.` : ", the newest."}
      {newer > 0 && (
        <Button quiet onClick={again}>
          Ask again
        </Button>
      )}
    </p>
  );
}
