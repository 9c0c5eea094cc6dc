import { useState } from "preact/hooks";

import { useLive } from "../live/live";
import type { NodeCells } from "../live/shapes";
import { me } from "../shell/me";
import { Button } from "../ui/Button";
import "./actions.css";
import { DrainDialog, UndrainDialog } from "./DrainDialog";
import { undrainHindrance } from "./draining";
import { cutOff } from "./jobRules";

/** Drain and undrain, for operators. */
export function NodeActions({ pool, node }: { pool: string; node: NodeCells }) {
  const live = useLive(pool);
  const [open, show] = useState<"drain" | "undrain" | null>(null);
  if (!me.value?.operator) return <p class="why-not">Draining nodes is for operators.</p>;
  const cut = cutOff(live.connection.value, live.told.value.kafka);
  const hindrance = undrainHindrance(node);
  const close = () => show(null);
  return (
    <div class="actions">
      <div class="buttons">
        <Button disabled={cut !== null} onClick={() => show("drain")}>
          {node.drain === null ? "Drain" : "Drain otherwise"}
        </Button>
        <Button disabled={cut !== null || hindrance !== null} onClick={() => show("undrain")}>
          Undrain
        </Button>
      </div>
      {cut ? <p class="why-not">{cut}</p> : hindrance && <p class="why-not">Undrain: {hindrance}</p>}
      {open === "drain" && <DrainDialog pool={pool} node={node} onClose={close} />}
      {open === "undrain" && <UndrainDialog pool={pool} node={node} onClose={close} />}
    </div>
  );
}
