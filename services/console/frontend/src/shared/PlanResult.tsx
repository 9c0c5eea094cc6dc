import type { ApiError, JobPlan } from "../api";
import { count, now } from "../lib";
import type { LivePool } from "../live";
import { Badge, Button, EmptyState, ErrorList, ErrorMessage, Loading, SeqLink } from "../ui";
import { planSentences, VERDICTS } from "./planResponse";
import { VictimTable } from "./VictimTable";

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
            <ul class="stack alternatives">
              {items.map((item) => (
                <li key={item}>{item}</li>
              ))}
            </ul>
          )}
        </div>
      ))}
      {victims.length > 0 && <VictimTable pool={pool} victims={victims} caption="Jobs that would be preempted" />}
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
