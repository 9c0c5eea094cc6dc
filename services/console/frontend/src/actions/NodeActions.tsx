import { useState } from "preact/hooks";

import type { LiveNode } from "../api";
import { currentUser, useLive } from "../live";
import { Button } from "../ui";
import { DrainDialog, UndrainDialog } from "./ActionDialog";
import { offlineReason } from "./allowedActions";
import { undrainDisabledReason } from "./drainModes";
import "./actions.css";

/** The drain and undrain buttons, for operators. */
export function NodeActions({ pool, node }: { pool: string; node: LiveNode }) {
  const live = useLive(pool);
  const [open, show] = useState<"drain" | "undrain" | null>(null);
  if (!currentUser.value?.operator) return <p class="disabled-reasons">Only operators can drain nodes.</p>;
  const offline = offlineReason(live.connection.value, live.consoleState.value.kafka);
  const disabledReason = undrainDisabledReason(node);
  const close = () => show(null);
  return (
    <div class="stack actions">
      <div class="row buttons">
        <Button disabled={offline !== null} onClick={() => show("drain")}>
          {node.drain === null ? "Drain" : "Change drain"}
        </Button>
        <Button disabled={offline !== null || disabledReason !== null} onClick={() => show("undrain")}>
          Undrain
        </Button>
      </div>
      {offline ? <p class="disabled-reasons">{offline}</p> : disabledReason && <p class="disabled-reasons">Undrain: {disabledReason}</p>}
      {open === "drain" && <DrainDialog pool={pool} node={node} onClose={close} />}
      {open === "undrain" && <UndrainDialog pool={pool} node={node} onClose={close} />}
    </div>
  );
}
