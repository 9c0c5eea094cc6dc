import { useState } from "preact/hooks";

import { useLive } from "../live/livePool";
import type { NodeCells } from "../live/types";
import { currentUser } from "../shell/currentUser";
import { Button } from "../ui/Button";
import "./actions.css";
import { DrainDialog, UndrainDialog } from "./DrainDialog";
import { undrainDisabledReason } from "./drainModes";
import { offlineReason } from "./allowedActions";

/** The drain and undrain buttons, for operators. */
export function NodeActions({ pool, node }: { pool: string; node: NodeCells }) {
  const live = useLive(pool);
  const [open, show] = useState<"drain" | "undrain" | null>(null);
  if (!currentUser.value?.operator) return <p class="disabled-reasons">Only operators can drain nodes.</p>;
  const offline = offlineReason(live.connection.value, live.consoleState.value.kafka);
  const disabledReason = undrainDisabledReason(node);
  const close = () => show(null);
  return (
    <div class="actions">
      <div class="buttons">
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
