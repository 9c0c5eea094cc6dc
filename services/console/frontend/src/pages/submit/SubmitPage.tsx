import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { useEffect, useMemo } from "preact/hooks";

import { offlineReason } from "../../actions/allowedActions";
import { OutcomeMessage } from "../../actions/RequestDialog";
import { RequestSubmission } from "../../actions/requestSubmission";
import { DebouncedQuery, type ErrorDetail, type JobPlan } from "../../api";
import { few, usePageTitle } from "../../lib";
import { currentUser, useLive } from "../../live";
import { jobKey, loadDraft, saveDraft } from "../../shared/draftStorage";
import { NearLimits } from "../../shared/NearLimits";
import { errorField, fetchPlan } from "../../shared/planResponse";
import { PlanResult } from "../../shared/PlanResult";
import { YamlEditor } from "../../shared/YamlEditor";
import { Button, Card, ErrorMessage, jobPath, ViewSwitch } from "../../ui";
import { JobDraft } from "./jobDraft";
import { JobForm } from "./JobForm";
import "../../shared/submit.css";

const DEBOUNCE_MS = 500;
type View = "form" | "yaml";

export default function SubmitPage({ pool }: { pool: string }) {
  return <SubmitForm key={pool} pool={pool} />;
}

function SubmitForm({ pool }: { pool: string }) {
  const live = useLive(pool);
  usePageTitle(`${pool}: submit a job`);
  const only = currentUser.value?.projects?.length === 1 && !currentUser.value.operator ? currentUser.value.projects[0]! : "";
  const job = useMemo(() => new JobDraft(jobKey(pool), only ? { project: only } : {}), []);
  const view = useSignal<View>(loadDraft<View>(`submit-view-${pool}`) === "yaml" ? "yaml" : "form");
  const plan = useMemo(() => new DebouncedQuery<string, JobPlan>((yaml) => fetchPlan(pool, yaml), DEBOUNCE_MS), []);
  const yaml = job.yaml.value;
  const empty = !yaml.trim() || (job.fields.value !== null && !job.fields.value.command && !job.fields.value.sim_run_for && !job.fields.value.name);
  useEffect(() => plan.set(empty ? null : yaml, plan.state.peek().of === null ? 0 : DEBOUNCE_MS), [yaml, empty]);
  useEffect(() => () => plan.stop(), []);
  const planned = plan.state.value;
  const errors = planned.answer?.errors ?? [];
  const show = (next: View) => {
    view.value = next;
    saveDraft(`submit-view-${pool}`, next);
  };
  return (
    <div class="stack page">
      <div class="row page-head">
        <h1>Submit a job</h1>
        <span class="spring" />
        <ViewSwitch legend="Show the job as" options={[["form", "Form"], ["yaml", "YAML"]]} value={view.value} onChange={show} />
        <Button quiet onClick={() => job.clear()} disabled={empty}>
          Reset
        </Button>
      </div>
      <div class="with-side submit">
        <Card>
          {view.value === "yaml" ? (
            <YamlEditor label="Job as YAML" value={yaml} onInput={(text) => job.write(text)} errors={errors} />
          ) : job.fields.value === null ? (
            <div class="stack state" data-kind="empty">
              <strong>The YAML cannot be shown as a form</strong>
              {job.fault.value}.
              <Button onClick={() => show("yaml")}>Edit as YAML</Button>
            </div>
          ) : (
            <>
              {job.others.value.length > 0 && <p class="caution">Not in the form, and kept as written: {few(job.others.value)}.</p>}
              <JobForm pool={pool} of={{ fields: job.fields.value, errors: byField(errors), set: (some) => job.set(some) }} />
            </>
          )}
        </Card>
        <div class="stack submit-side">
          <Card title="Plan">
            <PlanResult pool={pool} live={live} state={planned} empty={empty} refresh={() => plan.set(yaml, 0)} />
          </Card>
          <NearLimits pool={pool} project={job.fields.value?.project ?? only} />
          <SubmitButton pool={pool} yaml={yaml} job={job} disabledReason={disabledReason(empty, errors.length, planned.loading)} offline={offlineReason(live.connection.value, live.consoleState.value.kafka)} />
        </div>
      </div>
    </div>
  );
}

function disabledReason(empty: boolean, errors: number, loading: boolean): string | null {
  if (empty) return "Nothing to submit yet.";
  if (loading) return "Computing the plan…";
  return errors ? "Fix the errors first." : null;
}

function byField(errors: ErrorDetail[]): Map<string, ErrorDetail[]> {
  const found = new Map<string, ErrorDetail[]>();
  for (const error of errors) found.set(errorField(error), [...(found.get(errorField(error)) ?? []), error]);
  return found;
}

/** The submit button: one request per text; a changed text is a new request. */
function SubmitButton({ pool, yaml, job, disabledReason: blockedReason, offline }: { pool: string; yaml: string; job: JobDraft; disabledReason: string | null; offline: string | null }) {
  const { route } = useLocation();
  const sending = useMemo(() => new RequestSubmission(pool), [yaml]);
  const state = sending.state.value;
  const go = async () => {
    const answer = await sending.submit({ kind: "submit", yaml });
    if (answer?.accepted && answer.job) {
      job.clear();
      route(jobPath(pool, answer.job));
    }
  };
  if (state.status === "answered") {
    return (
      <>
        <OutcomeMessage pool={pool} answer={state.answer} />
        {state.answer.accepted === null && state.answer.job && <a href={jobPath(pool, state.answer.job)}>Open {state.answer.job}</a>}
      </>
    );
  }
  return (
    <div class="row sender">
      <Button primary disabled={blockedReason !== null || offline !== null || state.status === "sending"} onClick={() => void go()}>
        {state.status === "sending" ? "Sending…" : state.status === "failed" ? "Submit: retry" : "Submit"}
      </Button>
      <span class="soft" role="status">
        {offline ?? blockedReason ?? "Submitted with your name."}
      </span>
      {state.status === "failed" && <ErrorMessage error={state.error} />}
    </div>
  );
}
