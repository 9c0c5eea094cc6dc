import { useState } from "preact/hooks";

import type { Cell } from "../../api";
import { count } from "../../lib";
import { Button } from "../../ui";
import { LegendSwatch } from "./LegendSwatch";
import type { Group } from "../../shared/colourGroups";
import { CELL_STATES, NODE_STATES, type Tally } from "./map/gpuFilter";
import type { Measure } from "./map/telemetry";

interface Props {
  groups: readonly Group[];
  tally: Tally;
  measure: Measure | null;
  highlighted: string | null;
  onHighlight: (key: string | null) => void;
}

const AT_FIRST = 12;

/** The legend of the map with the number of GPUs and nodes of each kind. Absent kinds are omitted. */
export function MapLegend({ groups, tally, measure, highlighted, onHighlight }: Props) {
  const [expanded, setExpanded] = useState(false);
  const allocated = groups.filter((group) => tally.groups.has(group.key)).sort((a, b) => tally.groups.get(b.key)! - tally.groups.get(a.key)!);
  const shown = expanded ? allocated : allocated.slice(0, AT_FIRST);
  const example = allocated[0] ?? groups[0] ?? null;
  const states = CELL_STATES.filter((state) => (state === "free" ? tally.usable : tally.states[state]) > 0 && state !== "allocated");
  const nodes = NODE_STATES.filter((state) => tally.nodes[state]);
  return (
    <div class="row map-legend">
      {measure !== null ? (
        <ul aria-label="Cell values">
          {[0.1, 0.5, 0.9].map((part) => (
            <li key={part}>
              <LegendSwatch face={{ cell: HELD, group: null, reserved: null, level: part }} /> {Math.round(part * 100)} %
            </li>
          ))}
          <li>
            <LegendSwatch face={{ cell: HELD, group: null, reserved: null, level: null }} /> unknown
          </li>
        </ul>
      ) : (
        <ul aria-label="Allocated GPUs by group">
          {shown.map((group) => (
            <li key={group.key}>
              <button
                type="button"
                class="legend-entry"
                aria-pressed={highlighted === group.key}
                title={`${group.name}: ${count(tally.groups.get(group.key)!, "GPU")}. Click to highlight.`}
                onClick={() => onHighlight(highlighted === group.key ? null : group.key)}
              >
                <LegendSwatch face={{ cell: HELD, group, reserved: null }} letter={group.letter} />
                <span class="ellipsis legend-name">{group.name}</span>
                {group.pattern > 0 && <span class="soft">({group.letter})</span>}
                <span class="number soft">{tally.groups.get(group.key)}</span>
              </button>
            </li>
          ))}
          {allocated.length > AT_FIRST && (
            <li>
              <Button quiet onClick={() => setExpanded(!expanded)}>
                {expanded ? "Fewer" : `${allocated.length - AT_FIRST} more`}
              </Button>
            </li>
          )}
        </ul>
      )}
      <ul aria-label="GPUs and nodes by state">
        {states.map((state) => (
          <li key={state}>
            <LegendSwatch face={{ cell: [state, null, null, [], null], group: example, reserved: null, ...(measure === null ? {} : { level: 0 }) }} />
            {state} <span class="number soft">{state === "free" ? tally.usable : tally.states[state]}</span>
          </li>
        ))}
        {tally.states.free > tally.usable && (
          <li title="Free GPUs on nodes that are not schedulable">
            <LegendSwatch face={{ cell: ["free", null, null, [], null], group: null, reserved: null, idle: true }} /> unavailable{" "}
            <span class="number soft">{tally.states.free - tally.usable}</span>
          </li>
        )}
        {nodes.map((state) => (
          <li key={state}>
            <LegendSwatch node={state} /> node {state} <span class="number soft">{tally.nodes[state]}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

const HELD: Cell = ["allocated", null, null, [], null];
