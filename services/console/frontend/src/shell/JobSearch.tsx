import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";

import { userText } from "../lib";
import { livePoolOf } from "../live";
import { jobPath } from "../ui";
import { resolveJob, searchJobs } from "./searchJobs";

const SUGGESTED = 20;

/** Search field that opens a job by its name or user. */
export function JobSearch({ pool }: { pool: string }) {
  const { route } = useLocation();
  const text = useSignal("");
  const { jobs } = livePoolOf(pool);
  const open = (): void => {
    const job = resolveJob(jobs, text.value);
    if (job === null) return;
    text.value = "";
    route(jobPath(pool, job));
  };
  return (
    <form
      class="find"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        open();
      }}
    >
      <input class="input" type="search" aria-label="Find a job by its name or its user" placeholder="Find a job" list="find-jobs" autocomplete="off" value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} />
      <datalist id="find-jobs">
        {searchJobs(jobs.values(), text.value, SUGGESTED).map((row) => (
          <option key={row.job} value={row.job} label={[row.state, row.project, userText(row.user, row.user_verified)].filter(Boolean).join(", ")} />
        ))}
      </datalist>
    </form>
  );
}
