import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { offlineReason } from "../../actions/allowedActions";
import { DebouncedQuery, poolPath, post, useFetch, type PolicyPlan, type PolicyText } from "../../api";
import { count } from "../../lib";
import { useLive } from "../../live";
import { dropDraft, loadDraft, saveDraft } from "../../shared/draftStorage";
import { YamlEditor } from "../../shared/YamlEditor";
import { Badge, Button, Card, ErrorList, ErrorMessage, Loaded, Loading, SeqLink } from "../../ui";
import { ApplyPolicyDialog } from "./ApplyPolicyDialog";
import { PastSimulation } from "./PastSimulation";
import { PolicyDiff } from "./PolicyDiff";
import { PolicyForm } from "./PolicyForm";
import "../../shared/submit.css";
import "./policy.css";
import "./whatif.css";

interface Editing {
  pool: string;
  /** Whether it can be applied here. */
  applicable?: boolean;
}

/** Edits the policy in force: the differences, their immediate effects, and a simulation on the log. */
export function PolicyWhatIf({ pool, applicable = false }: Editing) {
  const live = useLive(pool);
  const inForce = useFetch<PolicyText>(poolPath(pool, "policy"), live.row.value?.policy_seq).value;
  return (
    <Loaded of={inForce} what="the policy in force">
      {(policy) => <PolicyEditor pool={pool} policy={policy} applicable={applicable} />}
    </Loaded>
  );
}

function PolicyEditor({ pool, policy, applicable }: Required<Editing> & { policy: PolicyText }) {
  const live = useLive(pool);
  const applying = useSignal<PolicyText | null>(null);
  const opened = useSignal(false);
  const key = `what-if-policy-${pool}`;
  const edited = useSignal<PolicyText | null>(loadDraft<PolicyText>(key));
  const yaml = edited.value?.yaml ?? policy.yaml;
  const changed = yaml !== policy.yaml;
  const plan = useMemo(() => new DebouncedQuery<string, PolicyPlan>((text) => post(poolPath(pool, "plan-policy"), { yaml: text }), 700), []);
  useEffect(() => plan.set(changed ? yaml : null, plan.state.peek().of === null ? 0 : 700), [yaml, changed, policy.seq]);
  useEffect(() => () => plan.stop(), []);
  const keep = (draft: PolicyText): void => {
    edited.value = draft;
    saveDraft(key, draft);
  };
  const revert = (): void => {
    edited.value = null;
    dropDraft(key);
  };
  const write = (text: string): void => (text === policy.yaml ? revert() : keep({ seq: edited.value?.seq ?? policy.seq, yaml: text }));
  const state = plan.state.value;
  const stale = edited.value !== null && edited.value.seq !== policy.seq;
  const nothingLeft = stale && (!changed || (!state.loading && state.of === yaml && state.answer !== null && !state.answer.errors.length && !state.answer.diff.length));
  useEffect(() => {
    if (nothingLeft) revert(); // as after one's own apply, or another's of the same
  }, [nothingLeft]);
  const errors = (changed && state.answer?.errors) || [];
  const disabledReason = !changed ? "Change the policy first." : errors.length ? "Fix the errors in the policy first." : null;
  const notApplicable = disabledReason ?? (stale ? "The policy in force has changed: check the differences first." : null);
  const offline = offlineReason(live.connection.value, live.consoleState.value.kafka);
  return (
    <>
      <div class="stack spaced">
        <Card
          title="Policy"
          aside={
            <span class="soft">
              in force since record <SeqLink pool={pool} seq={policy.seq} />
            </span>
          }
        >
          {edited.value && stale && !nothingLeft && (
            <p class="caution">
              The policy in force has changed: your draft is based on record #{edited.value.seq}. Differences are shown against the current policy.{" "}
              {applicable && <Button onClick={() => keep({ seq: policy.seq, yaml })}>I have checked them: keep my draft</Button>}
            </p>
          )}
          <PolicyForm yaml={yaml} write={write} />
          <details class="fold policy-yaml" open={opened.value || errors.length > 0} onToggle={(event) => (opened.value = event.currentTarget.open)}>
            <summary>
              <strong>YAML</strong> <span class="soft">{count(yaml.split("\n").length - 1, "line")}, every field</span>
            </summary>
            <YamlEditor label="Policy as YAML" value={yaml} onInput={write} errors={errors} />
          </details>
          <div class="row editor-actions">
            <Button onClick={revert} disabled={!changed}>
              Reset to the policy in force
            </Button>
            {applicable && (
              <Button primary disabled={notApplicable !== null || offline !== null || state.loading} onClick={() => (applying.value = { seq: edited.value?.seq ?? policy.seq, yaml })}>
                Apply…
              </Button>
            )}
            {applicable && (offline ?? notApplicable) && <span class="soft">{offline ?? notApplicable}</span>}
          </div>
        </Card>
        <Card title="Effects">
          <PolicyChanges state={state} changed={changed} again={() => plan.set(yaml, 0)} />
        </Card>
      </div>
      {applying.value && (
        <ApplyPolicyDialog
          pool={pool}
          yaml={applying.value.yaml}
          revision={applying.value.seq}
          onAccepted={revert}
          onClose={() => (applying.value = null)}
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
    <div class="stack plan" aria-busy={state.loading} aria-live="polite">
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
            <ul class="stack sentences changes">
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
