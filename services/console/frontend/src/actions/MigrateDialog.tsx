import { useState } from "preact/hooks";

import { useLive } from "../live/live";
import type { OfJob } from "./JobDialog";
import { RequestDialog } from "./RequestDialog";
import { filled } from "./requests";

/** To where there is room, or to one node that takes work. */
export function MigrateDialog({ pool, job, over, onClose }: OfJob) {
  const live = useLive(pool);
  const [node, choose] = useState("");
  const [reason, say] = useState("");
  void live.nodesAt.value;
  const takes = [...live.nodes.values()].filter((row) => row.state === "ready" && row.drain === null && !job.nodes.includes(row.node)).map((row) => row.node);
  const known = node === "" || live.nodes.has(node);
  return (
    <RequestDialog pool={pool} title={`Migrate ${job.job}`} verb="Migrate" asked={known ? { kind: "migrate", ...filled({ job: job.job, node, reason }) } : null} over={over} onClose={onClose} reason={{ value: reason, say }}>
      <label class="field">
        <span class="label">To which node</span>
        <input class="input" list="migrate-nodes" value={node} placeholder="wherever there is room" onInput={(event) => choose(event.currentTarget.value.trim())} />
        <datalist id="migrate-nodes">
          {takes.slice(0, 500).map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        {known ? <span class="hint">It stands on {job.nodes.join(", ") || "no node"} now. A place is kept for it first, then it saves its state and moves.</span> : <span class="fault">There is no node {node}.</span>}
      </label>
    </RequestDialog>
  );
}
