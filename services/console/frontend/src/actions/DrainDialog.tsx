import { useState } from "preact/hooks";

import type { NodeCells } from "../live/types";
import { deadline, MODES, type Mode } from "./drainModes";
import { RequestDialog } from "./RequestDialog";
import { withoutEmpty } from "./requests";

interface NodeDialogProps {
  pool: string;
  node: NodeCells;
  onClose: () => void;
}

export function DrainDialog({ pool, node, onClose }: NodeDialogProps) {
  const [mode, choose] = useState<Mode>("graceful");
  const [within, setWithin] = useState("");
  const [reason, setReason] = useState("");
  const until = deadline(within);
  const request = until === null ? null : { kind: "drain", ...withoutEmpty({ node: node.node, mode, deadline: until, reason }) };
  return (
    <RequestDialog pool={pool} title={`Drain ${node.node}`} action="Drain" danger request={request} onClose={onClose} reason={{ value: reason, setReason }}>
      <fieldset class="modes">
        <legend class="label">Mode</legend>
        {MODES.map((each) => (
          <label key={each.mode}>
            <input type="radio" name="drain-mode" checked={mode === each.mode} onChange={() => choose(each.mode)} />
            <span>
              <strong>{each.name}</strong> <span class="soft">{each.means}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <label class="field">
        <span class="label">Deadline</span>
        <input class="input" value={within} placeholder="none" onInput={(event) => setWithin(event.currentTarget.value)} />
        {until === null ? <span class="fault">Enter a duration, e.g. 30m, 2h or 1d.</span> : <span class="hint">A duration from now, e.g. 30m, 2h or 1d. Empty: no deadline; the drain completes when its jobs have ended.</span>}
      </label>
    </RequestDialog>
  );
}

export function UndrainDialog({ pool, node, onClose }: NodeDialogProps) {
  const [reason, setReason] = useState("");
  return (
    <RequestDialog pool={pool} title={`Undrain ${node.node}`} action="Undrain" request={{ kind: "undrain", ...withoutEmpty({ node: node.node, reason }) }} onClose={onClose} reason={{ value: reason, setReason }} />
  );
}
