import { useComputed, useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";

import type { JobHistory, LiveJob } from "../../api";
import { duration, few, momentAt, now, offsetText, shortened, ticks, times, timeZone, useElementWidth, zoneOffset } from "../../lib";
import { Button, Card, DataTable } from "../../ui";
import { jobTimeline, type JobTimeline as Model, type Kind, type Lane } from "./timelineModel";

const KIND_TEXTS: Record<Kind, string> = { pending: "pending", reserved: "reserved", running: "running", evicting: "evicting" };
const LANE = 54;
const LETTER = 7; // about, in pixels
const MOST_LANES = 12;

/** The job's queue times and attempts, as a chart or a table. */
export function JobTimeline({ whole, live, onEviction }: { whole: JobHistory | null; live: LiveJob | null; onEviction: (seq: number) => void }) {
  const asTable = useSignal(false);
  const second = useComputed(() => (live ? now.value : 0)); // an ended job needs no clock
  const model = jobTimeline(whole, live, live ? second.value : now.peek());
  if (!model) return null;
  const aside = <Button quiet onClick={() => (asTable.value = !asTable.value)}>{asTable.value ? "Chart" : "Table"}</Button>;
  return (
    <Card title="Timeline" aside={aside}>
      {asTable.value ? <AsTable model={model} /> : <Picture model={model} onEviction={onEviction} />}
      {!model.complete && <p class="soft note">Only the current attempt is shown: earlier attempts are in the archive, which is unavailable.</p>}
    </Card>
  );
}

function Picture({ model, onEviction }: { model: Model; onEviction: (seq: number) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const width = useElementWidth(box);
  const lanes = [model.lanes[0]!, ...model.lanes.slice(1).slice(-MOST_LANES)];
  const offset = zoneOffset(new Date(model.to));
  const hidden = model.lanes.length - lanes.length;
  const bottom = lanes.length * LANE;
  const x = (at: number): number => Math.round((Math.min(Math.max(at, model.from), model.to) - model.from) / (model.to - model.from) * (width.value - 2)) + 1;
  return (
    <div ref={box} class="timeline">
      {width.value > 0 && (
        <svg width={width.value} height={bottom + 24} role="group" aria-label={timelineSummary(model)}>
          <defs>
            <pattern id="tl-evicting" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="6" height="6" class="tl-evicting-ground" />
              <rect width="3" height="6" class="tl-evicting-stripe" />
            </pattern>
          </defs>
          {ticks(model.from, model.to, Math.max(2, Math.floor(width.value / 110)), offset).map((tick) => (
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
                  {shortened(laneText(lane), Math.max(8, Math.floor((width.value - 130) / LETTER)))}
                </tspan>
              </text>
              <line class="tl-base" x1={0} x2={width.value} y1={32} y2={32} />
              {lane.segments.map((part) => (
                <rect key={part.from} class={`tl-${part.kind}`} x={x(part.from)} y={23} height={18} rx={3} width={Math.max(4, x(part.to) - x(part.from))}>
                  <title>{`${lane.name} ${KIND_TEXTS[part.kind]}, ${periodText(part.from, part.to, part.open)}`}</title>
                </rect>
              ))}
              {lane.marks.map((mark) => (
                <a
                  key={`${mark.seq}-${mark.at}`}
                  href={`?tab=evictions#eviction-${mark.seq}`}
                  aria-label={mark.text}
                  onClick={(event) => {
                    event.preventDefault();
                    if (mark.seq !== null) onEviction(mark.seq);
                  }}
                >
                  <title>{mark.text}</title>
                  <path class="tl-mark" d={`M${x(mark.at) - 6} 52h12l-6 -9z`} />
                </a>
              ))}
            </g>
          ))}
        </svg>
      )}
      <ul class="row legend">
        {(Object.keys(KIND_TEXTS) as Kind[]).map((kind) => (
          <li key={kind}>
            <span class={`tl-swatch tl-${kind}`} aria-hidden="true" /> {KIND_TEXTS[kind]}
          </li>
        ))}
        <li>
          <span class="tl-swatch-mark" aria-hidden="true">▲</span> stop decided
        </li>
        <li class="soft">times in {offset === 0 && timeZone.value === "utc" ? "UTC" : offsetText(offset)}</li>
      </ul>
      {hidden > 0 && <p class="soft note">The newest {MOST_LANES} attempts; the table lists all {model.lanes.length - 1}.</p>}
    </div>
  );
}

function AsTable({ model }: { model: Model }) {
  const rows = model.lanes.flatMap((lane) =>
    lane.segments.map((part) => ({ key: `${lane.key}-${part.from}`, name: lane.name, nodes: lane.nodes.join(", "), ...part })),
  );
  return (
    <DataTable
      caption="Timeline of the job"
      rows={rows.sort((left, right) => left.from - right.from)}
      rowKey={(row) => row.key}
      columns={[
        { head: "State", cell: (row) => `${row.name}: ${KIND_TEXTS[row.kind]}` },
        { head: "From", cell: (row) => momentAt(row.from) },
        { head: "To", cell: (row) => (row.open ? "now" : momentAt(row.to)) },
        { head: "Duration", right: true, cell: (row) => duration((row.to - row.from) / 1000) },
        { head: "Nodes", cell: (row) => row.nodes },
      ]}
    />
  );
}

const periodText = (from: number, to: number, open: boolean): string => `since ${momentAt(from)}${open ? "" : `, for ${duration((to - from) / 1000)}`}`;

const laneText = (lane: Lane): string => [few(lane.nodes), lane.end].filter(Boolean).join(" · ");

function timelineSummary(model: Model): string {
  const runs = model.lanes.flatMap((lane) => lane.segments.filter((part) => part.kind === "running"));
  const evictionCount = model.lanes.reduce((sum, lane) => sum + lane.marks.length, 0);
  return `${model.lanes.length - 1} attempts over ${duration((model.to - model.from) / 1000)}; running for ${duration(runs.reduce((sum, part) => sum + part.to - part.from, 0) / 1000)} in total; stopped ${times(evictionCount)}. The table has the details.`;
}
