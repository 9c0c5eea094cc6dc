import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
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
import { offlineReason } from "../../actions/allowedActions";
import { ApplyPolicyDialog } from "../policy/ApplyPolicyDialog";
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
  /** Whether a job becomes evictable or would leave. */
  harms: boolean;
  rejected: boolean;
}

interface Editing {
  pool: string;
  /** A form of the YAML, above it; absent: none. */
  form?: (yaml: string, write: (yaml: string) => void) => ComponentChildren;
  /** Whether it can be applied here. */
  applicable?: boolean;
}

/** Edits the policy in force: the differences, their immediate effects, and a simulation on the log. */
export function PolicyWhatIf({ pool, form, applicable = false }: Editing) {
  const live = useLive(pool);
  const inForce = useFetch<Policy>(poolPath(pool, "policy"), live.row.value?.policy_seq).value;
  if (inForce.value) return <PolicyEditor pool={pool} policy={inForce.value} form={form} applicable={applicable} />;
  return inForce.failure ? <ErrorMessage error={inForce.failure} /> : <Loading what="the policy in force" />;
}

function PolicyEditor({ pool, policy, form, applicable }: Omit<Editing, "form"> & { policy: Policy; form: Editing["form"] | undefined }) {
  const live = useLive(pool);
  const applying = useSignal(false);
  const accepted = useSignal(false);
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
  const offline = offlineReason(live.connection.value, live.consoleState.value.kafka);
  return (
    <>
      <div class={form ? "policy-layout" : "submit"}>
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
              The policy in force has changed: your draft is based on record #{edited.value.seq}. Differences are shown against the current policy.{" "}
              {applicable && (
                <Button
                  onClick={() => {
                    edited.value = { seq: policy.seq, yaml };
                    saveDraft(key, edited.value);
                  }}
                >
                  I have checked them: keep my draft
                </Button>
              )}
            </p>
          )}
          <div class={form ? "policy-both" : undefined}>
            {form && <div>{form(yaml, write)}</div>}
            <YamlEditor label="Policy as YAML" value={yaml} onInput={write} errors={errors} />
          </div>
          <div class="editor-actions">
            <Button onClick={revert} disabled={!changed}>
              Reset to the policy in force
            </Button>
            {applicable && (
              <Button primary disabled={disabledReason !== null || offline !== null || state.loading} onClick={() => (applying.value = true)}>
                Apply…
              </Button>
            )}
            {applicable && (offline ?? disabledReason) && <span class="soft">{offline ?? disabledReason}</span>}
          </div>
        </Card>
        <div class="submit-side">
          <Card title="Effects">
            <PolicyChanges state={state} changed={changed} again={() => plan.set(yaml, 0)} />
          </Card>
        </div>
      </div>
      {applying.value && (
        <ApplyPolicyDialog
          pool={pool}
          yaml={yaml}
          revision={edited.value?.seq ?? policy.seq}
          onAccepted={() => (accepted.value = true)}
          onClose={() => {
            applying.value = false;
            if (accepted.value) revert(); // the page may not have heard of the new policy yet
            accepted.value = false;
          }}
        />
      )}
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
