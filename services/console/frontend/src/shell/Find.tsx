import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";

import { liveOf } from "../live/live";
import { jobPath } from "../ui/Links";
import { findJobs, meant } from "./find";

const SUGGESTED = 20;

/** To a job by its name or its user's, wherever one is. */
export function Find({ pool }: { pool: string }) {
  const { route } = useLocation();
  const text = useSignal("");
  const { jobs } = liveOf(pool);
  const go = (): void => {
    const job = meant(jobs, text.value);
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
        go();
      }}
    >
      <input class="input" type="search" aria-label="Find a job by its name or its user" placeholder="Find a job" list="find-jobs" autocomplete="off" value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} />
      <datalist id="find-jobs">
        {findJobs(jobs.values(), text.value, SUGGESTED).map((row) => (
          <option key={row.job} value={row.job} label={[row.state, row.project, row.user].filter(Boolean).join(", ")} />
        ))}
      </datalist>
    </form>
  );
}
