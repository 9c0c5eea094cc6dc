import { useLocation } from "preact-iso";

import { usePageTitle } from "../../lib";
import { ViewSwitch } from "../../ui";
import { JobWhatIf } from "./JobWhatIf";
import { PolicyWhatIf } from "./PolicyWhatIf";

/** What-if analysis: the outcome of a job, or of another policy, now and on the log. */
export default function WhatIfPage({ pool }: { pool: string }) {
  const { query, path, route } = useLocation();
  usePageTitle(`${pool}: what if`);
  const policy = query.of === "policy";
  const show = (of: string) => route(`${path}?of=${of}`, true);
  return (
    <div class="stack page">
      <div class="row page-head">
        <h1>What if</h1>
        <span class="soft">Nothing on this page is submitted.</span>
        <span class="spring" />
        <ViewSwitch legend="What to analyse" options={[["job", "Job"], ["policy", "Policy"]]} value={policy ? "policy" : "job"} onChange={show} />
      </div>
      {policy ? <PolicyWhatIf key={pool} pool={pool} /> : <JobWhatIf key={pool} pool={pool} />}
    </div>
  );
}
