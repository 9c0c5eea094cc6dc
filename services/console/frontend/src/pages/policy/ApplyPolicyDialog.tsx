import { useState } from "preact/hooks";

import { RequestDialog } from "../../actions/RequestDialog";
import { CheckBox } from "../../ui";

/** Applies the policy: the request of `bailiff policy apply`, with its preview. revision: that it was made from. */
export function ApplyPolicyDialog({ pool, yaml, revision, onClose, onAccepted }: { pool: string; yaml: string; revision: number; onClose: () => void; onAccepted: () => void }) {
  const [enforce, setEnforce] = useState(false);
  const [losePermissions, setLosePermissions] = useState(false);
  return (
    <RequestDialog pool={pool} title="Apply the policy" action="Apply" danger reason request={{ kind: "policy", yaml, expected_revision: revision, enforce, lose_permissions: losePermissions }} onClose={onClose} onAccepted={onAccepted}>
      <CheckBox checked={enforce} onChange={setEnforce}>
        Evict running jobs that the policy would not admit (enforce)
      </CheckBox>
      <CheckBox checked={losePermissions} onChange={setLosePermissions}>
        Apply it even if I lose permissions
      </CheckBox>
    </RequestDialog>
  );
}
