import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { useEffect, useMemo } from "preact/hooks";

import { cutOff } from "../../actions/jobRules";
import { Latest } from "../../actions/latest";
import { Answered } from "../../actions/RequestDialog";
import { Sending } from "../../actions/sending";
import type { Fault } from "../../lib/api";
import { useTitle } from "../../lib/title";
import { useLive } from "../../live/live";
import { me } from "../../shell/me";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { Failure } from "../../ui/Failure";
import { jobPath } from "../../ui/Links";
import { draft, keepDraft } from "./drafts";
import { Switch } from "../../ui/Switch";
import { Editor } from "./Editor";
import { JobDraft, jobKey } from "./job";
import { JobForm } from "./JobForm";
import { askPlan, fieldOf, type Plan } from "./plan";
import { PlanView } from "./PlanView";
import "./submit.css";

const REST_MS = 500;
type View = "form" | "yaml";

export default function SubmitPage({ pool }: { pool: string }) {
  return <Writing key={pool} pool={pool} />;
}

function Writing({ pool }: { pool: string }) {
  const live = useLive(pool);
  useTitle(`${pool}: submit a job`);
  const only = me.value?.projects?.length === 1 && !me.value.operator ? me.value.projects[0]! : "";
  const job = useMemo(() => new JobDraft(jobKey(pool), only ? { project: only } : {}), []);
  const view = useSignal<View>(draft<View>(`submit-view-${pool}`) === "yaml" ? "yaml" : "form");
  const plan = useMemo(() => new Latest<string, Plan>((yaml) => askPlan(pool, yaml), REST_MS), []);
  const yaml = job.yaml.value;
  const empty = !yaml.trim() || (job.fields.value !== null && !job.fields.value.command && !job.fields.value.sim_run_for && !job.fields.value.name);
  useEffect(() => plan.put(empty ? null : yaml, plan.state.peek().of === null ? 0 : REST_MS), [yaml, empty]);
  useEffect(() => () => plan.stop(), []);
  const planned = plan.state.value;
  const faults = planned.answer?.faults ?? [];
  const show = (next: View) => {
    view.value = next;
    keepDraft(`submit-view-${pool}`, next);
  };
  return (
    <div class="page">
      <div class="page-head">
        <h1>Submit a job</h1>
        <span class="spring" />
        <Switch legend="Show the job as" options={[["form", "Form"], ["yaml", "YAML"]]} value={view.value} onChange={show} />
        <Button quiet onClick={() => job.clear()} disabled={empty}>
          Begin anew
        </Button>
      </div>
      <div class="submit">
        <Card>
          {view.value === "yaml" ? (
            <>
              <Editor label="The job as YAML" value={yaml} onInput={(text) => job.write(text)} faults={faults} />
              {job.more.value.length > 0 && !faults.length && <More texts={job.more.value} />}
            </>
          ) : job.fields.value === null ? (
            <div class="state" data-kind="empty">
              <strong>The YAML has more than the form shows</strong>
              <ul>
                {job.more.value.map((text) => (
                  <li key={text}>{text}</li>
                ))}
              </ul>
              <Button onClick={() => show("yaml")}>Go on in the YAML</Button>
            </div>
          ) : (
            <>
              {job.comments.value && <p class="caution">The YAML has comments. A change in the form writes it anew, without them.</p>}
              <JobForm pool={pool} of={{ fields: job.fields.value, faults: byField(faults), set: (some) => job.set(some) }} />
            </>
          )}
        </Card>
        <div class="beside">
          <Card title="What would come of it">
            <PlanView pool={pool} live={live} state={planned} empty={empty} again={() => plan.put(yaml, 0)} />
          </Card>
          <Sender pool={pool} yaml={yaml} job={job} hindrance={hindrance(empty, faults.length, planned.asking)} cut={cutOff(live.connection.value, live.told.value.kafka)} />
        </div>
      </div>
    </div>
  );
}

function hindrance(empty: boolean, faults: number, asking: boolean): string | null {
  if (empty) return "There is nothing to submit yet.";
  if (asking) return "What would come of it is being computed.";
  return faults ? "What is wrong must be put right first." : null;
}

function byField(faults: Fault[]): Map<string, Fault[]> {
  const found = new Map<string, Fault[]>();
  for (const fault of faults) found.set(fieldOf(fault), [...(found.get(fieldOf(fault)) ?? []), fault]);
  return found;
}

/** One request per text: whoever changes it after an answer asks for something else. */
function Sender({ pool, yaml, job, hindrance: why, cut }: { pool: string; yaml: string; job: JobDraft; hindrance: string | null; cut: string | null }) {
  const { route } = useLocation();
  const sending = useMemo(() => new Sending(pool), [yaml]);
  const state = sending.state.value;
  const go = async () => {
    const answer = await sending.go({ kind: "submit", yaml });
    if (answer?.accepted && answer.job) {
      job.clear();
      route(jobPath(pool, answer.job));
    }
  };
  if (state.at === "answered") {
    return (
      <>
        <Answered pool={pool} answer={state.answer} />
        {state.answer.accepted === null && state.answer.job && <a href={jobPath(pool, state.answer.job)}>To the page of {state.answer.job}</a>}
      </>
    );
  }
  return (
    <div class="sender">
      <Button primary disabled={why !== null || cut !== null || state.at === "sending"} onClick={() => void go()}>
        {state.at === "sending" ? "Sending…" : state.at === "failed" ? "Submit: try again" : "Submit"}
      </Button>
      <span class="soft" role="status">
        {cut ?? why ?? "It is sent as it stands, with your name."}
      </span>
      {state.at === "failed" && <Failure refusal={state.refusal} />}
    </div>
  );
}

function More({ texts }: { texts: string[] }) {
  return (
    <p class="caution">
      This is more than the form shows, and stays as it is: {texts.slice(0, 3).join("; ")}
      {texts.length > 3 && ` and ${texts.length - 3} more`}.
    </p>
  );
}
