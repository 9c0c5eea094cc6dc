import { useState } from "preact/hooks";

import type { NodeCells } from "../live/shapes";
import { deadline, MODES, type Mode } from "./draining";
import { RequestDialog } from "./RequestDialog";
import { filled } from "./requests";

interface OfNode {
  pool: string;
  node: NodeCells;
  onClose: () => void;
}

export function DrainDialog({ pool, node, onClose }: OfNode) {
  const [mode, choose] = useState<Mode>("graceful");
  const [within, setWithin] = useState("");
  const [reason, say] = useState("");
  const until = deadline(within);
  const asked = until === null ? null : { kind: "drain", ...filled({ node: node.node, mode, deadline: until, reason }) };
  return (
    <RequestDialog pool={pool} title={`Drain ${node.node}`} verb="Drain" danger asked={asked} onClose={onClose} reason={{ value: reason, say }}>
      <fieldset class="modes">
        <legend class="label">How</legend>
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
        <span class="label">Empty within</span>
        <input class="input" value={within} placeholder="whenever" onInput={(event) => setWithin(event.currentTarget.value)} />
        {until === null ? <span class="fault">A time, as in 30m, 2h or 1d.</span> : <span class="hint">As in 30m, 2h or 1d, from now on. Left out: whenever its jobs are done.</span>}
      </label>
    </RequestDialog>
  );
}

export function UndrainDialog({ pool, node, onClose }: OfNode) {
  const [reason, say] = useState("");
  return (
    <RequestDialog pool={pool} title={`Undrain ${node.node}`} verb="Undrain" asked={{ kind: "undrain", ...filled({ node: node.node, reason }) }} onClose={onClose} reason={{ value: reason, say }} />
  );
}
