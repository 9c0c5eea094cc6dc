import { useComputed, useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";

import { now } from "../../lib/clock";
import { few } from "../../lib/terms";
import { useWidth } from "../../lib/width";
import { duration, moment } from "../../lib/words";
import type { LiveJob } from "../../live/shapes";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { DataTable } from "../../ui/DataTable";
import type { JobWhole } from "./shapes";
import { type Kind, type Lane, ticks, type Timeline as Model, timelineOf } from "./timeline";

const WORDS: Record<Kind, string> = { waiting: "waits", reserved: "has a place, not started", running: "runs", leaving: "leaves" };
const LANE = 54;
const MOST_LANES = 12;

/** A job's life: the queue and each attempt, as a picture and as a table. */
export function Timeline({ whole, live }: { whole: JobWhole | null; live: LiveJob | null }) {
  const asTable = useSignal(false);
  const second = useComputed(() => (live ? now.value : 0)); // what is over needs no clock
  const model = timelineOf(whole, live, live ? second.value : now.peek());
  if (!model) return null;
  const aside = <Button quiet onClick={() => (asTable.value = !asTable.value)}>{asTable.value ? "As a picture" : "As a table"}</Button>;
  return (
    <Card title="Timeline" aside={aside}>
      {asTable.value ? <AsTable model={model} /> : <Picture model={model} />}
      {!model.whole && <p class="soft note">Only what is live is shown: the archive, which holds earlier attempts, cannot be asked.</p>}
    </Card>
  );
}

function Picture({ model }: { model: Model }) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const lanes = [model.lanes[0]!, ...model.lanes.slice(1).slice(-MOST_LANES)];
  const hidden = model.lanes.length - lanes.length;
  const bottom = lanes.length * LANE;
  const x = (at: number): number => Math.round((Math.min(Math.max(at, model.from), model.to) - model.from) / (model.to - model.from) * (width.value - 2)) + 1;
  return (
    <div ref={box} class="timeline">
      {width.value > 0 && (
        <svg width={width.value} height={bottom + 24} role="group" aria-label={inWords(model)}>
          <defs>
            <pattern id="tl-leaving" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="6" height="6" class="tl-leaving-ground" />
              <rect width="3" height="6" class="tl-leaving-stripe" />
            </pattern>
          </defs>
          {ticks(model.from, model.to, Math.max(2, Math.floor(width.value / 110))).map((tick) => (
            <g key={tick.at} class="tl-tick">
              <line x1={x(tick.at)} x2={x(tick.at)} y1={0} y2={bottom + 4} />
              <text x={x(tick.at)} y={bottom + 18} text-anchor={x(tick.at) < 24 ? "start" : x(tick.at) > width.value - 40 ? "end" : "middle"}>
                {tick.text}
              </text>
            </g>
          ))}
          {lanes.map((lane, row) => (
            <g key={lane.key} transform={`translate(0 ${row * LANE})`}>
              <text class="tl-name" y={15}>
                {lane.name}
                <tspan class="tl-more" dx="8">
                  {fitted(laneWords(lane), width.value - 130)}
                </tspan>
              </text>
              <line class="tl-base" x1={0} x2={width.value} y1={32} y2={32} />
              {lane.segments.map((part) => (
                <rect key={part.from} class={`tl-${part.kind}`} x={x(part.from)} y={23} height={18} rx={3} width={Math.max(4, x(part.to) - x(part.from))}>
                  <title>{`${lane.name} ${WORDS[part.kind]}, ${stretch(part.from, part.to, part.open)}`}</title>
                </rect>
              ))}
              {lane.marks.map((mark) => (
                <a key={`${mark.seq}-${mark.at}`} href={`#eviction-${mark.seq}`} aria-label={`Told to leave ${mark.text}`}>
                  <title>{`Told to leave ${mark.text}`}</title>
                  <path class="tl-mark" d={`M${x(mark.at) - 6} 52h12l-6 -9z`} />
                </a>
              ))}
            </g>
          ))}
        </svg>
      )}
      <ul class="legend">
        {(Object.keys(WORDS) as Kind[]).map((kind) => (
          <li key={kind}>
            <span class={`tl-swatch tl-${kind}`} aria-hidden="true" /> {WORDS[kind]}
          </li>
        ))}
        <li>
          <span class="tl-swatch-mark" aria-hidden="true">▲</span> told to leave
        </li>
        <li class="soft">times are UTC</li>
      </ul>
      {hidden > 0 && <p class="soft note">The newest {MOST_LANES} attempts; the table has all {model.lanes.length - 1}.</p>}
    </div>
  );
}

interface Row {
  key: string;
  name: string;
  nodes: string;
  kind: Kind;
  from: number;
  to: number;
  open: boolean;
}

function AsTable({ model }: { model: Model }) {
  const rows: Row[] = model.lanes.flatMap((lane) =>
    lane.segments.map((part) => ({ key: `${lane.key}-${part.from}`, name: lane.name, nodes: lane.nodes.join(", "), ...part })),
  );
  return (
    <DataTable
      caption="What the job did when"
      rows={rows.sort((left, right) => left.from - right.from)}
      rowKey={(row) => row.key}
      columns={[
        { head: "What", cell: (row) => `${row.name}: ${WORDS[row.kind]}` },
        { head: "From", cell: (row) => moment(new Date(row.from).toISOString()) },
        { head: "To", cell: (row) => (row.open ? "now" : moment(new Date(row.to).toISOString())) },
        { head: "Lasted", right: true, cell: (row) => duration((row.to - row.from) / 1000) },
        { head: "On", cell: (row) => row.nodes },
      ]}
    />
  );
}

const stretch = (from: number, to: number, open: boolean): string => `since ${moment(new Date(from).toISOString())}${open ? "" : `, for ${duration((to - from) / 1000)}`}`;

function laneWords(lane: Lane): string {
  const parts = [few(lane.nodes), lane.end];
  return parts.filter(Boolean).join(" · ");
}

/** Cut to what fits; characters are about 7 px wide. */
const fitted = (text: string, width: number): string => {
  const most = Math.max(8, Math.floor(width / 7));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};

function inWords(model: Model): string {
  const runs = model.lanes.flatMap((lane) => lane.segments.filter((part) => part.kind === "running"));
  const told = model.lanes.reduce((sum, lane) => sum + lane.marks.length, 0);
  return `${model.lanes.length - 1} attempts over ${duration((model.to - model.from) / 1000)}; it ran for ${duration(runs.reduce((sum, part) => sum + part.to - part.from, 0) / 1000)} and was told to leave ${told} times. The table says it step by step.`;
}
