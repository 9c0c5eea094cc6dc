import { useSignal } from "@preact/signals";

import { archivePath } from "../../lib/api";
import { duration, few } from "../../lib/format";
import { useFetch } from "../../lib/useFetch";
import { userText } from "../../lib/userText";
import { Card } from "../../ui/Card";
import { comparison, losses, type Compared } from "./comparison";
import type { JobHistory } from "./types";

/** The attempts of the job side by side, or the job beside another one. */
export function CompareJobs({ pool, job, restartMs }: { pool: string; job: JobHistory; restartMs: number | null }) {
  const other = useSignal("");
  const asked = useSignal("");
  const found = useFetch<JobHistory>(asked.value ? archivePath(pool, `jobs/${encodeURIComponent(asked.value)}`) : null, asked.value).value;
  const beside = asked.value && found.value?.job === asked.value ? found.value : null;
  const columns = beside ? [wholeJob(job, restartMs), wholeJob(beside, restartMs)] : job.attempts.slice(-6).map((attempt) => ofAttempt(job, attempt, restartMs));
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
      {asked.value && found.failure && <p class="fault">{found.failure.detail || found.failure.title}</p>}
      <div class="table-scroll" tabIndex={0} role="region" aria-label="Comparison">
        <table class="table">
          <caption class="visually-hidden">{beside ? `${job.job} beside ${beside.job}` : `Attempts of ${job.job}`}</caption>
          <thead>
            <tr>
              <th scope="col" />
              {columns.map((column) => (
                <th key={column.name} scope="col">
                  {column.name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {comparison(columns).map((row) => (
              <tr key={row.name} data-differs={row.differs}>
                <th scope="row">{row.name}</th>
                {row.values.map((value, at) => (
                  <td key={at}>{row.differs ? <strong>{value}</strong> : value}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="soft note">What differs is bold.</p>
    </Card>
  );
}

const seconds = (from: string | null, to: string | null): string => (from && to ? duration((Date.parse(to) - Date.parse(from)) / 1000) : "–");
function ofAttempt(job: JobHistory, attempt: JobHistory["attempts"][number], restartMs: number | null): Compared {
  return {
    name: `Attempt ${attempt.attempt}`,
    values: { Placed: attempt.placed_at ? seconds(job.submitted_at, attempt.placed_at) + " after submission" : "–", Action: attempt.action ?? "–", Nodes: few(attempt.nodes) || "–", Started: seconds(attempt.placed_at, attempt.started_at) + " after placement", Ran: attempt.ran_s === null ? "–" : duration(attempt.ran_s), Outcome: attempt.outcome ?? "running", Cause: attempt.cause || "–", ...losses([attempt], job.gpus, restartMs) },
  };
}

function wholeJob(job: JobHistory, restartMs: number | null): Compared {
  const ran = job.attempts.reduce((sum, attempt) => sum + (attempt.ran_s ?? 0), 0);
  return {
    name: job.job,
    values: { State: job.outcome ?? job.state, Project: job.project || "none", Class: job.priority_class ?? "–", User: userText(job.user, job.user_verified) || "–", GPUs: String(job.gpus ?? "–"), Tasks: String(job.tasks ?? "–"), "Time to first start": job.waited_s === null ? "–" : duration(job.waited_s), Attempts: String(job.attempts.length), "Ran in all": duration(ran), "From submission to end": seconds(job.submitted_at, job.ended_at), Evictions: String(job.evictions.length), ...losses(job.attempts, job.gpus, restartMs) },
  };
}
