import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { useEffect, useMemo } from "preact/hooks";

import { DebouncedQuery, type JobPlan } from "../../api";
import { useLive } from "../../live";
import { loadDraft, prefillSubmit, saveDraft } from "../../shared/draftStorage";
import { fetchPlan } from "../../shared/planResponse";
import { PlanResult } from "../../shared/PlanResult";
import { YamlEditor } from "../../shared/YamlEditor";
import { Button, Card } from "../../ui";

const EXAMPLE = `name: what-if
command: python train.py
gpus: 8
`;

/** Plans a job against the current state without submitting it. */
export function JobWhatIf({ pool }: { pool: string }) {
  const live = useLive(pool);
  const { route } = useLocation();
  const key = `what-if-job-${pool}`;
  const yaml = useSignal(loadDraft<string>(key) ?? EXAMPLE);
  const plan = useMemo(() => new DebouncedQuery<string, JobPlan>((text) => fetchPlan(pool, text), 500), []);
  const empty = !yaml.value.trim();
  useEffect(() => plan.set(empty ? null : yaml.value, plan.state.peek().of === null ? 0 : 500), [yaml.value]);
  useEffect(() => () => plan.stop(), []);
  const write = (text: string) => {
    yaml.value = text;
    saveDraft(key, text);
  };
  return (
    <div class="submit">
      <Card title="Job">
        <YamlEditor label="Job as YAML" value={yaml.value} onInput={write} errors={plan.state.value.answer?.errors ?? []} />
      </Card>
      <div class="submit-side">
        <Card title="Plan">
          <PlanResult pool={pool} live={live} state={plan.state.value} empty={empty} refresh={() => plan.set(yaml.value, 0)} />
        </Card>
        <div class="row sender">
          <Button
            disabled={empty}
            onClick={() => {
              prefillSubmit(pool, yaml.value);
              route(`/${encodeURIComponent(pool)}/submit`);
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
