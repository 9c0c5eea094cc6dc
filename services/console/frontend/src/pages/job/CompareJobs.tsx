import { useSignal } from "@preact/signals";

import { archivePath, useFetch, type JobHistory } from "../../api";
import { duration, endText, few, userText } from "../../lib";
import { Card, DataTable, type Column } from "../../ui";
import { comparison, losses, type Compared } from "./comparison";

type Row = ReturnType<typeof comparison>[number];

/** The attempts of the job side by side, or the job beside another one. */
export function CompareJobs({ pool, job }: { pool: string; job: JobHistory }) {
  const other = useSignal("");
  const asked = useSignal("");
  const found = useFetch<JobHistory>(asked.value ? archivePath(pool, `jobs/${encodeURIComponent(asked.value)}`) : null, asked.value).value;
  const beside = asked.value && found.value?.job === asked.value ? found.value : null;
  const columns = beside ? [wholeJob(job), wholeJob(beside)] : job.attempts.slice(-6).map((attempt) => ofAttempt(job, attempt));
  return (
    <Card
      title="Compare"
      aside={
        <form
          class="compare-form"
          onSubmit={(event) => {
            event.preventDefault();
            asked.value = other.value.trim();
          }}
        >
          <input class="input" aria-label="Compare with the job" placeholder="another job" list="find-jobs" value={other.value} maxLength={256} onInput={(event) => { other.value = event.currentTarget.value; if (!other.value) asked.value = ""; }} />
        </form>
      }
    >
      {asked.value && found.failure && <p class="fault">{found.failure.message}</p>}
      <DataTable
        caption={beside ? `${job.job} beside ${beside.job}` : `Attempts of ${job.job}`}
        rows={comparison(columns)}
        rowKey={(row) => row.name}
        columns={[{ head: "", cell: (row) => row.name }, ...columns.map(({ name }, at): Column<Row> => ({ head: name, cell: ({ differs, values }) => (differs ? <strong>{values[at]}</strong> : values[at]) }))]}
      />
      <p class="soft note">What differs is bold.</p>
    </Card>
  );
}

const seconds = (from: string | null, to: string | null): string => (from && to ? duration((Date.parse(to) - Date.parse(from)) / 1000) : "–");
function ofAttempt(job: JobHistory, attempt: JobHistory["attempts"][number]): Compared {
  return {
    name: `Attempt ${attempt.attempt}`,
    values: { Placed: attempt.placed_at ? seconds(job.submitted_at, attempt.placed_at) + " after submission" : "–", Action: attempt.action ?? "–", Nodes: few([...new Set(attempt.nodes)]) || "–", Started: seconds(attempt.placed_at, attempt.started_at) + " after placement", Ran: attempt.ran_s === null ? "–" : duration(attempt.ran_s), Outcome: endText(attempt.outcome ?? "running"), Cause: attempt.cause || "–", ...losses([attempt]) },
  };
}

function wholeJob(job: JobHistory): Compared {
  const ran = job.attempts.reduce((sum, attempt) => sum + (attempt.ran_s ?? 0), 0);
  return {
    name: job.job,
    values: { State: job.outcome ?? job.state, Project: job.project || "none", Class: job.priority_class ?? "–", User: userText(job.user, job.user_verified) || "–", GPUs: String(job.gpus ?? "–"), Tasks: String(job.tasks ?? "–"), "Time to first start": job.waited_s === null ? "–" : duration(job.waited_s), Attempts: String(job.attempts.length), "Ran in all": duration(ran), "From submission to end": seconds(job.submitted_at, job.ended_at), Evictions: String(job.evictions.length), ...losses(job.attempts) },
  };
}
