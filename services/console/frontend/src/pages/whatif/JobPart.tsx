import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { useEffect, useMemo } from "preact/hooks";

import { Latest } from "../../actions/latest";
import { useLive } from "../../live/live";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { draft, keepDraft } from "../submit/drafts";
import { Editor } from "../submit/Editor";
import { handOver } from "../submit/job";
import { askPlan, type Plan } from "../submit/plan";
import { PlanView } from "../submit/PlanView";

const EXAMPLE = `name: what-if
command: python train.py
gpus: 8
`;

/** A job that nobody submits: what would come of it now. */
export function JobPart({ pool }: { pool: string }) {
  const live = useLive(pool);
  const { route } = useLocation();
  const key = `what-if-job-${pool}`;
  const yaml = useSignal(draft<string>(key) ?? EXAMPLE);
  const plan = useMemo(() => new Latest<string, Plan>((text) => askPlan(pool, text), 500), []);
  const empty = !yaml.value.trim();
  useEffect(() => plan.put(empty ? null : yaml.value, plan.state.peek().of === null ? 0 : 500), [yaml.value]);
  useEffect(() => () => plan.stop(), []);
  const write = (text: string) => {
    yaml.value = text;
    keepDraft(key, text);
  };
  return (
    <div class="submit">
      <Card title="A job">
        <Editor label="A job as YAML" value={yaml.value} onInput={write} faults={plan.state.value.answer?.faults ?? []} />
      </Card>
      <div class="beside">
        <Card title="What it would do now">
          <PlanView pool={pool} live={live} state={plan.state.value} empty={empty} again={() => plan.put(yaml.value, 0)} />
        </Card>
        <div class="sender">
          <Button
            disabled={empty}
            onClick={() => {
              handOver(pool, yaml.value);
              route(`/${encodeURIComponent(pool)}/submit`);
            }}
          >
            Take it to Submit
          </Button>
          <span class="soft">There it can be changed, and sent.</span>
        </div>
      </div>
    </div>
  );
}
