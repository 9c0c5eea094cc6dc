import { useLocation } from "preact-iso";

import { useTitle } from "../../lib/title";
import { Switch } from "../../ui/Switch";
import { JobPart } from "./JobPart";
import { PolicyPart } from "./PolicyPart";
import "../submit/submit.css";
import "./whatif.css";

/** Two questions: what would come of a job, and what another policy would do, now and in the past. */
export default function WhatIfPage({ pool }: { pool: string }) {
  const { query, path, route } = useLocation();
  useTitle(`${pool}: what if`);
  const policy = query.of === "policy";
  const show = (of: string) => route(`${path}?of=${of}`, true);
  return (
    <div class="page">
      <div class="page-head">
        <h1>What if</h1>
        <span class="soft">Nothing here is sent to anybody.</span>
        <span class="spring" />
        <Switch legend="What is to be tried" options={[["job", "A job"], ["policy", "Another policy"]]} value={policy ? "policy" : "job"} onChange={show} />
      </div>
      {policy ? <PolicyPart key={pool} pool={pool} /> : <JobPart key={pool} pool={pool} />}
    </div>
  );
}
