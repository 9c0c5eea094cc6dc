import { useComputed, useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { useEffect, useMemo } from "preact/hooks";
import "../../shared/submit.css";

import { DebouncedQuery, type JobPlan, type LiveProject } from "../../api";
import { useLive } from "../../live";
import { loadDraft, prefillSubmit, saveDraft } from "../../shared/draftStorage";
import { fetchPlan } from "../../shared/planResponse";
import { PlanResult } from "../../shared/PlanResult";
import { YamlEditor } from "../../shared/YamlEditor";
import { Button, Card, pagePath } from "../../ui";

/** A job that the policy accepts: of the first project that has no children, where there are projects. */
function example(projects: Iterable<LiveProject>): string {
  const all = [...projects];
  const leaf = all.find((each) => each.project && !all.some((other) => other.parent === each.project));
  return `name: what-if\n${leaf ? `project: ${leaf.project}\n` : ""}command: python train.py\ngpus: 8\n`;
}

/** Plans a job against the current state without submitting it. */
export function JobWhatIf({ pool }: { pool: string }) {
  const live = useLive(pool);
  const { route } = useLocation();
  const key = `what-if-job-${pool}`;
  const draft = useSignal(loadDraft<string>(key) ?? null);
  const yaml = useComputed(() => draft.value ?? (live.projectsVersion.value, example(live.projects.values())));
  const plan = useMemo(() => new DebouncedQuery<string, JobPlan>((text) => fetchPlan(pool, text), 500), []);
  const empty = !yaml.value.trim();
  useEffect(() => plan.set(empty ? null : yaml.value, plan.state.peek().of === null ? 0 : 500), [yaml.value]);
  useEffect(() => () => plan.stop(), []);
  const write = (text: string) => {
    draft.value = text;
    saveDraft(key, text);
  };
  return (
    <div class="with-side submit">
      <Card title="Job">
        <YamlEditor label="Job as YAML" value={yaml.value} onInput={write} errors={plan.state.value.answer?.errors ?? []} />
      </Card>
      <div class="stack submit-side">
        <Card title="Plan">
          <PlanResult pool={pool} live={live} state={plan.state.value} empty={empty} refresh={() => plan.set(yaml.value, 0)} />
        </Card>
        <div class="row sender">
          <Button
            disabled={empty}
            onClick={() => {
              prefillSubmit(pool, yaml.value);
              route(pagePath(pool, ["submit"]));
            }}
          >
            Open in Submit
          </Button>
          <span class="soft">There it can be edited and submitted.</span>
        </div>
      </div>
    </div>
  );
}
