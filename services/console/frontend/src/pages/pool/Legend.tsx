import { useState } from "preact/hooks";

import { count } from "../../lib/words";
import type { Cell } from "../../live/shapes";
import { Button } from "../../ui/Button";
import type { Group } from "./map/groups";
import { CELL_STATES, NODE_STATES, type Tally } from "./map/selecting";
import type { Measure } from "./map/telemetry";
import { Swatch } from "./Swatch";

interface Props {
  groups: readonly Group[];
  tally: Tally;
  measure: Measure | null;
  lit: string | null;
  onLit: (key: string | null) => void;
}

const AT_FIRST = 12;

/** Which sign stands for what, and how many there are of it. Signs that are nowhere on the map are left out. */
export function Legend({ groups, tally, measure, lit, onLit }: Props) {
  const [all, showAll] = useState(false);
  const held = groups.filter((group) => tally.groups.has(group.key)).sort((a, b) => tally.groups.get(b.key)! - tally.groups.get(a.key)!);
  const shown = all ? held : held.slice(0, AT_FIRST);
  const example = held[0] ?? groups[0] ?? null;
  const states = CELL_STATES.filter((state) => (state === "free" ? tally.usable : tally.states[state]) > 0 && state !== "held");
  const nodes = NODE_STATES.filter((state) => tally.nodes[state]);
  return (
    <div class="map-legend">
      {measure !== null ? (
        <ul aria-label="What the cells say">
          {[0.1, 0.5, 0.9].map((part) => (
            <li key={part}>
              <Swatch face={{ cell: HELD, group: null, promised: null, level: part }} /> {Math.round(part * 100)} %
            </li>
          ))}
          <li>
            <Swatch face={{ cell: HELD, group: null, promised: null, level: null }} /> not told
          </li>
        </ul>
      ) : (
        <ul aria-label="GPUs by who holds them">
          {shown.map((group) => (
            <li key={group.key}>
              <button
                type="button"
                class="legend-entry"
                aria-pressed={lit === group.key}
                title={`${group.name}: ${count(tally.groups.get(group.key)!, "GPU")}. Press to see only these.`}
                onClick={() => onLit(lit === group.key ? null : group.key)}
              >
                <Swatch face={{ cell: HELD, group, promised: null }} letter={group.letter} />
                <span class="legend-name">{group.name}</span>
                {group.pattern > 0 && <span class="soft">({group.letter})</span>}
                <span class="number soft">{tally.groups.get(group.key)}</span>
              </button>
            </li>
          ))}
          {held.length > AT_FIRST && (
            <li>
              <Button quiet onClick={() => showAll(!all)}>
                {all ? "Fewer" : `${held.length - AT_FIRST} more`}
              </Button>
            </li>
          )}
        </ul>
      )}
      <ul aria-label="GPUs and nodes by state">
        {states.map((state) => (
          <li key={state}>
            <Swatch face={{ cell: [state, null, null, [], null], group: example, promised: null, ...(measure === null ? {} : { level: 0 }) }} />
            {state} <span class="number soft">{state === "free" ? tally.usable : tally.states[state]}</span>
          </li>
        ))}
        {tally.states.free > tally.usable && (
          <li title="Nobody is on them, and nobody gets them: their node takes no work">
            <Swatch face={{ cell: ["free", null, null, [], null], group: null, promised: null, idle: true }} /> out of use{" "}
            <span class="number soft">{tally.states.free - tally.usable}</span>
          </li>
        )}
        {nodes.map((state) => (
          <li key={state}>
            <Swatch node={state} /> node {state} <span class="number soft">{tally.nodes[state]}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

const HELD: Cell = ["held", null, null, [], null];
