import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { DebouncedQuery } from "../../actions/debouncedQuery";
import { poolPath, post, type ErrorDetail } from "../../lib/api";
import { useFetch } from "../../lib/useFetch";
import { useLive } from "../../live/livePool";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { ErrorMessage } from "../../ui/ErrorMessage";
import { ErrorList } from "../../ui/ErrorList";
import { SeqLink } from "../../ui/Links";
import { Loading } from "../../ui/Loading";
import { loadDraft, dropDraft, saveDraft } from "../submit/draftStorage";
import { YamlEditor } from "../submit/YamlEditor";
import { PolicyDiff } from "./PolicyDiff";
import { PastSimulation } from "./PastSimulation";

export interface Policy {
  seq: number;
  yaml: string;
}

interface PolicyPlan {
  errors: ErrorDetail[];
  diff: string[];
  sentences: string[];
}

/** Edits the policy in force: the differences, their immediate effects, and a simulation on the log. */
export function PolicyWhatIf({ pool }: { pool: string }) {
  const live = useLive(pool);
  const inForce = useFetch<Policy>(poolPath(pool, "policy"), live.row.value?.policy_seq).value;
  if (inForce.value) return <PolicyEditor pool={pool} policy={inForce.value} />;
  return inForce.failure ? <ErrorMessage error={inForce.failure} /> : <Loading what="the policy in force" />;
}

function PolicyEditor({ pool, policy }: { pool: string; policy: Policy }) {
  const key = `what-if-policy-${pool}`;
  const edited = useSignal<Policy | null>(loadDraft<Policy>(key));
  const yaml = edited.value?.yaml ?? policy.yaml;
  const changed = yaml !== policy.yaml;
  const plan = useMemo(() => new DebouncedQuery<string, PolicyPlan>((text) => post(poolPath(pool, "plan-policy"), { yaml: text }), 700), []);
  useEffect(() => plan.set(changed ? yaml : null, plan.state.peek().of === null ? 0 : 700), [yaml, changed]);
  useEffect(() => () => plan.stop(), []);
  const write = (text: string) => {
    edited.value = { seq: edited.value?.seq ?? policy.seq, yaml: text };
    saveDraft(key, edited.value);
  };
  const revert = () => {
    edited.value = null;
    dropDraft(key);
  };
  const state = plan.state.value;
  const errors = (changed && state.answer?.errors) || [];
  const disabledReason = !changed ? "Change the policy first." : errors.length ? "Fix the errors in the policy first." : null;
  return (
    <>
      <div class="submit">
        <Card
          title="Policy"
          aside={
            <span class="soft">
              in force since record <SeqLink pool={pool} seq={policy.seq} />
            </span>
          }
        >
          {edited.value && edited.value.seq !== policy.seq && (
            <p class="caution">
              The policy in force has changed: your draft is based on record #{edited.value.seq}. Differences are shown against the current policy.
            </p>
          )}
          <YamlEditor label="Policy as YAML" value={yaml} onInput={write} errors={errors} />
          <div class="editor-actions">
            <Button onClick={revert} disabled={!changed}>
              Reset to the policy in force
            </Button>
          </div>
        </Card>
        <div class="submit-side">
          <Card title="Effects">
            <PolicyChanges state={state} changed={changed} again={() => plan.set(yaml, 0)} />
          </Card>
        </div>
      </div>
      {changed && <PolicyDiff before={policy.yaml} after={yaml} />}
      <PastSimulation pool={pool} yaml={yaml} disabledReason={disabledReason} />
    </>
  );
}

function PolicyChanges({ state, changed, again }: { state: DebouncedQuery<string, PolicyPlan>["state"]["value"]; changed: boolean; again: () => void }) {
  if (!changed) return <p class="soft">This is the policy in force. Edit it to see the effects.</p>;
  if (state.error) return <ErrorMessage error={state.error} retry={again} />;
  if (!state.answer) return <Loading what="the effects" />;
  const { errors, diff, sentences } = state.answer;
  return (
    <div class="plan" aria-busy={state.loading} aria-live="polite">
      {errors.length > 0 && (
        <>
          <Badge tone="bad">! Invalid policy</Badge>
          <ErrorList errors={errors} />
        </>
      )}
      {!errors.length && (
        <>
          <h3>Changed fields</h3>
          {diff.length ? (
            <ul class="changes">
              {diff.map((line) => (
                <li key={line}>{line}</li>
              ))}
            </ul>
          ) : (
            <p class="soft">No effective changes.</p>
          )}
          <h3>Immediate effects</h3>
          {sentences.map((sentence, at) => (
            <p key={at}>{sentence}</p>
          ))}
          {!sentences.length && <p class="soft">None.</p>}
        </>
      )}
    </div>
  );
}
