import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { Latest } from "../../actions/latest";
import { poolPath, post, type Fault } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { useLive } from "../../live/live";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { Failure } from "../../ui/Failure";
import { FaultList } from "../../ui/FaultList";
import { SeqLink } from "../../ui/Links";
import { Loading } from "../../ui/Loading";
import { draft, dropDraft, keepDraft } from "../submit/drafts";
import { Editor } from "../submit/Editor";
import { DiffView } from "./DiffView";
import { PastPart } from "./PastPart";

export interface Policy {
  seq: number;
  yaml: string;
}

interface PolicyPlan {
  faults: Fault[];
  diff: string[];
  sentences: string[];
}

/** The policy in force, changed: what differs, what that would change now, and what it would have changed. */
export function PolicyPart({ pool }: { pool: string }) {
  const live = useLive(pool);
  const inForce = useLoad<Policy>(poolPath(pool, "policy"), live.row.value?.policy_seq).value;
  if (inForce.value) return <Changing pool={pool} policy={inForce.value} />;
  return inForce.failure ? <Failure refusal={inForce.failure} /> : <Loading what="the policy in force" />;
}

function Changing({ pool, policy }: { pool: string; policy: Policy }) {
  const key = `what-if-policy-${pool}`;
  const kept = useSignal<Policy | null>(draft<Policy>(key));
  const yaml = kept.value?.yaml ?? policy.yaml;
  const changed = yaml !== policy.yaml;
  const plan = useMemo(() => new Latest<string, PolicyPlan>((text) => post(poolPath(pool, "plan-policy"), { yaml: text }), 700), []);
  useEffect(() => plan.put(changed ? yaml : null, plan.state.peek().of === null ? 0 : 700), [yaml, changed]);
  useEffect(() => () => plan.stop(), []);
  const write = (text: string) => {
    kept.value = { seq: kept.value?.seq ?? policy.seq, yaml: text };
    keepDraft(key, kept.value);
  };
  const back = () => {
    kept.value = null;
    dropDraft(key);
  };
  const state = plan.state.value;
  const faults = (changed && state.answer?.faults) || [];
  const hindrance = !changed ? "Change the policy first." : faults.length ? "What is wrong with the policy must be put right first." : null;
  return (
    <>
      <div class="submit">
        <Card
          title="The policy"
          aside={
            <span class="soft">
              in force since record <SeqLink pool={pool} seq={policy.seq} />
            </span>
          }
        >
          {kept.value && kept.value.seq !== policy.seq && (
            <p class="caution">
              Another policy has come into force since you began: yours is made from that of record #{kept.value.seq}. What differs is shown against the one that holds now.
            </p>
          )}
          <Editor label="The policy as YAML" value={yaml} onInput={write} faults={faults} />
          <div class="after-editor">
            <Button onClick={back} disabled={!changed}>
              Back to the policy in force
            </Button>
          </div>
        </Card>
        <div class="beside">
          <Card title="What it would change">
            <Changes state={state} changed={changed} again={() => plan.put(yaml, 0)} />
          </Card>
        </div>
      </div>
      {changed && <DiffView before={policy.yaml} after={yaml} />}
      <PastPart pool={pool} yaml={yaml} hindrance={hindrance} />
    </>
  );
}

function Changes({ state, changed, again }: { state: Latest<string, PolicyPlan>["state"]["value"]; changed: boolean; again: () => void }) {
  if (!changed) return <p class="soft">This is the policy in force. Change it, and what that would mean shows here.</p>;
  if (state.refusal) return <Failure refusal={state.refusal} again={again} />;
  if (!state.answer) return <Loading what="what it would change" />;
  const { faults, diff, sentences } = state.answer;
  return (
    <div class="plan" aria-busy={state.asking} aria-live="polite">
      {faults.length > 0 && (
        <>
          <Badge tone="bad">! It is no policy</Badge>
          <FaultList faults={faults} />
        </>
      )}
      {!faults.length && (
        <>
          <h3>In the policy</h3>
          {diff.length ? (
            <ul class="changes">
              {diff.map((line) => (
                <li key={line}>{line}</li>
              ))}
            </ul>
          ) : (
            <p class="soft">It says the same, in other words.</p>
          )}
          <h3>Now</h3>
          {sentences.map((sentence, at) => (
            <p key={at}>{sentence}</p>
          ))}
          {!sentences.length && <p class="soft">Nothing would change at once.</p>}
        </>
      )}
    </div>
  );
}
