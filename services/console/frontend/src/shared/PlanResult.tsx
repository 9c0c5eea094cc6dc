import type { ApiError, JobPlan } from "../api";
import { count, gpuTime, now } from "../lib";
import type { LivePool } from "../live";
import { Badge, Button, DataTable, EmptyState, ErrorList, ErrorMessage, JobLink, Loading, SeqLink } from "../ui";
import { victimOutcome } from "./effectText";
import { planSentences, VERDICTS } from "./planResponse";

interface Props {
  pool: string;
  live: LivePool;
  state: { answer: JobPlan | null; error: ApiError | null; loading: boolean };
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
    <div class="stack plan" aria-busy={state.loading} aria-live="polite">
      {plan.errors.length > 0 ? <Errors plan={plan} /> : plan.answer && <Outcome pool={pool} plan={plan} answer={plan.answer} />}
      {plan.answer && <Computed pool={pool} live={live} at={plan.answer.computed_at} refresh={refresh} />}
    </div>
  );
}

function Errors({ plan }: { plan: JobPlan }) {
  return (
    <>
      <Badge tone="bad">! {count(plan.errors.length, "error")}</Badge>
      <ErrorList errors={plan.errors} />
    </>
  );
}

function Outcome({ pool, plan, answer }: { pool: string; plan: JobPlan; answer: NonNullable<JobPlan["answer"]> }) {
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
            { head: "Work lost", right: true, cell: (victim) => (victim.work_lost_gpu_ms ? gpuTime(victim.work_lost_gpu_ms) : "none") },
            { head: "Restart (assumed or measured)", right: true, cell: (victim) => gpuTime(victim.restart_gpu_ms) },
            { head: "Afterwards", cell: victimOutcome },
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
