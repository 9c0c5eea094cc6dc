import { useState } from "preact/hooks";

import { useLive } from "../live/livePool";
import type { JobDialogProps } from "./JobActionDialog";
import { RequestDialog } from "./RequestDialog";
import { withoutEmpty } from "./requests";

/** Migrates a job to any node with free resources, or to the chosen one. */
export function MigrateDialog({ pool, job, endedMessage, onClose }: JobDialogProps) {
  const live = useLive(pool);
  const [node, choose] = useState("");
  const [reason, setReason] = useState("");
  void live.nodesVersion.value;
  const takes = [...live.nodes.values()].filter((row) => row.state === "ready" && row.drain === null && !job.nodes.includes(row.node)).map((row) => row.node);
  const known = node === "" || live.nodes.has(node);
  return (
    <RequestDialog pool={pool} title={`Migrate ${job.job}`} action="Migrate" request={known ? { kind: "migrate", ...withoutEmpty({ job: job.job, node, reason }) } : null} endedMessage={endedMessage} onClose={onClose} reason={{ value: reason, setReason }}>
      <label class="field">
        <span class="label">Target node</span>
        <input class="input" list="migrate-nodes" value={node} placeholder="any node with free resources" onInput={(event) => choose(event.currentTarget.value.trim())} />
        <datalist id="migrate-nodes">
          {takes.slice(0, 500).map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        {known ? <span class="hint">It runs on {job.nodes.join(", ") || "no node"} now. Resources are reserved first; then it saves a checkpoint and restarts there.</span> : <span class="fault">Node {node} does not exist.</span>}
      </label>
    </RequestDialog>
  );
}
