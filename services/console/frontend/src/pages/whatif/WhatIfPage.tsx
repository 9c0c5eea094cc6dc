import { useLocation } from "preact-iso";

import { JobPart } from "./JobPart";
import { PolicyPart } from "./PolicyPart";
import "../submit/submit.css";
import "./whatif.css";

/** Two questions: what would come of a job, and what another policy would do, now and in the past. */
export default function WhatIfPage({ pool }: { pool: string }) {
  const { query, path, route } = useLocation();
  const policy = query.of === "policy";
  const show = (of: string) => route(`${path}?of=${of}`, true);
  return (
    <div class="page">
      <div class="page-head">
        <h1>What if</h1>
        <span class="soft">Nothing here is sent to anybody.</span>
        <span class="spring" />
        <div class="switch" role="group" aria-label="What is to be tried">
          <button type="button" aria-pressed={!policy} onClick={() => show("job")}>
            A job
          </button>
          <button type="button" aria-pressed={policy} onClick={() => show("policy")}>
            Another policy
          </button>
        </div>
      </div>
      {policy ? <PolicyPart key={pool} pool={pool} /> : <JobPart key={pool} pool={pool} />}
    </div>
  );
}
