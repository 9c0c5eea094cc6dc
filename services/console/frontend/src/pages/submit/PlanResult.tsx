import type { ApiError } from "../../lib/api";
import { now } from "../../lib/serverClock";
import { count, gpuTime } from "../../lib/format";
import type { LivePool } from "../../live/livePool";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { DataTable } from "../../ui/DataTable";
import { EmptyState } from "../../ui/EmptyState";
import { ErrorMessage } from "../../ui/ErrorMessage";
import { ErrorList } from "../../ui/ErrorList";
import { JobLink, SeqLink } from "../../ui/Links";
import { Loading } from "../../ui/Loading";
import { victimOutcome, planSentences, VERDICTS, type Plan } from "./planResponse";

interface Props {
  pool: string;
  live: LivePool;
  state: { answer: Plan | null; error: ApiError | null; loading: boolean };
  empty: boolean;
  refresh: () => void;
}

/** The predicted outcome of the job: where it would start, its victims and their cost, or why it would be pending. */
export function PlanResult({ pool, live, state, empty, refresh }: Props) {
  if (empty) return <EmptyState title="Nothing to plan yet">Describe the job; the predicted outcome is shown here before anything is sent.</EmptyState>;
  if (state.error) return <ErrorMessage error={state.error} retry={refresh} />;
  const plan = state.answer;
  if (!plan) return <Loading what="the plan" />;
  return (
    <div class="plan" aria-busy={state.loading} aria-live="polite">
      {plan.errors.length > 0 ? <Errors plan={plan} /> : plan.answer && <Outcome pool={pool} plan={plan} answer={plan.answer} />}
      {plan.answer && <Computed pool={pool} live={live} at={plan.answer.computed_at} refresh={refresh} />}
    </div>
  );
}

function Errors({ plan }: { plan: Plan }) {
  return (
    <>
      <Badge tone="bad">! {count(plan.errors.length, "error")}</Badge>
      <ErrorList errors={plan.errors} />
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
      {planSentences(plan).map(({ text, items }, at) => (
        <div key={at}>
          <p>{text}</p>
          {items.length > 0 && (
            <ul class="alternatives">
              {items.map((item) => (
                <li key={item}>{item}</li>
              ))}
            </ul>
          )}
        </div>
      ))}
      {victims.length > 0 && (
        <DataTable
          caption="Jobs that would be preempted"
          rows={victims}
          rowKey={(victim) => victim.job}
          columns={[
            { head: "Victim", cell: (victim) => <JobLink pool={pool} job={victim.job} /> },
            { head: "GPUs", right: true, cell: (victim) => victim.gpus },
            { head: "Work lost", right: true, cell: (victim) => (victim.lost_gpu_seconds ? gpuTime(victim.lost_gpu_seconds * 1000) : "none") },
            { head: "Afterwards", cell: (victim) => victimOutcome(victim, plan.sentences) },
          ]}
        />
      )}
    </>
  );
}

function Computed({ pool, live, at, refresh }: { pool: string; live: LivePool; at: number; refresh: () => void }) {
  void now.value;
  const newer = Math.max(0, live.seq.value - at);
  return (
    <p class="computed soft">
      As of record <SeqLink pool={pool} seq={at} />
      {newer > 0 ? `, ${count(newer, "record")} ago.` : ", the newest."}
      {newer > 0 && (
        <Button quiet onClick={refresh}>
          Refresh
        </Button>
      )}
    </p>
  );
}
