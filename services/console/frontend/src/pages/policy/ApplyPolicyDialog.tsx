import { useState } from "preact/hooks";

import { RequestDialog } from "../../actions/RequestDialog";

/** Applies the policy: the request of `bailiff policy apply`, with its preview. revision: that it was made from. */
export function ApplyPolicyDialog({ pool, yaml, revision, onClose, onAccepted }: { pool: string; yaml: string; revision: number; onClose: () => void; onAccepted: () => void }) {
  const [enforce, setEnforce] = useState(false);
  const [losePermissions, setLosePermissions] = useState(false);
  return (
    <RequestDialog pool={pool} title="Apply the policy" action="Apply" danger reason request={{ kind: "policy", yaml, expected_revision: revision, enforce, lose_permissions: losePermissions }} onClose={onClose} onAccepted={onAccepted}>
      <label class="check">
        <input type="checkbox" checked={enforce} onChange={(event) => setEnforce(event.currentTarget.checked)} /> Evict running jobs that the policy would not admit (enforce)
      </label>
      <label class="check">
        <input type="checkbox" checked={losePermissions} onChange={(event) => setLosePermissions(event.currentTarget.checked)} /> Apply it even if I lose permissions
      </label>
    </RequestDialog>
  );
}
