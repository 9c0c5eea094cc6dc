import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { useRef } from "preact/hooks";

import { capital, duration, momentAt, shortened, ticks, useElementWidth, zoneOffset } from "../../lib";
import { decisionPath, jobPath } from "../../ui";
import { moved, zoomed, type Arrow, type Bar, type NodeLanes, type PoolTimeline, type Span } from "./poolTimeline";

const GUTTER = 92;
const AXIS = 24;
const BETWEEN_NODES = 7;
const HEIGHT = 560;
const LANE = { least: 4, most: 17 };
const LETTER = 6.6;
const SHORTEST_DRAG = 6;
const HALF = 0.5;

interface Props {
  pool: string;
  timeline: PoolTimeline;
  span: Span;
  /** No time is shown that is later. */
  end: number;
  /** The record that the player shows. */
  playhead: { seq: number; at: number } | null;
  colourOf: (project: string) => number;
  words: string;
  onZoom: (span: Span) => void;
  /** To the next or the previous decision. */
  onStep: (by: 1 | -1) => void;
}

type Tip = { x: number; y: number; title: string; lines: string[] };

/** GPUs down, time across. By pointer: click opens a job or decision, dragging zooms in; by key: arrows, +, −, n, p, Enter. */
export function TimelinePicture({ pool, timeline, span, end, playhead, colourOf, words, onZoom, onStep }: Props) {
  const { route } = useLocation();
  const box = useRef<HTMLDivElement>(null);
  const width = useElementWidth(box);
  const drag = useSignal<{ from: number; to: number } | null>(null);
  const tip = useSignal<Tip | null>(null);
  const named = useSignal<string | null>(null);

  const lane = Math.min(LANE.most, Math.max(LANE.least, Math.floor(HEIGHT / Math.max(1, timeline.lanes))));
  const place = placing(timeline.nodes, lane);
  const bottom = AXIS + timeline.lanes * lane + timeline.nodes.length * BETWEEN_NODES;
  const plot = Math.max(1, width.value - GUTTER);
  const x = (at: number): number => GUTTER + ((Math.min(Math.max(at, span.from), span.to) - span.from) / (span.to - span.from)) * plot;
  const timeAt = (pixel: number): number => span.from + (Math.min(Math.max(pixel - GUTTER, 0), plot) / plot) * (span.to - span.from);
  const shown = (from: number, to: number): boolean => to >= span.from && from <= span.to;
  const rect = (of: Bar | PoolTimeline["shades"][number]) => {
    const height = (of.lanes * lane - 1) / of.slots;
    return { x: x(of.from), width: Math.max(1.5, x(of.to) - x(of.from)), y: place(of.lane) + of.slot * height, height: Math.max(2, height) };
  };
  const pixel = (event: MouseEvent): number => event.clientX - box.current!.getBoundingClientRect().left;
  const show = (event: MouseEvent, title: string, lines: string[]): void => {
    const frame = box.current!.getBoundingClientRect();
    tip.value = { x: event.clientX - frame.left, y: event.clientY - frame.top, title, lines };
  };

  const onKey = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const around = playhead && playhead.at >= span.from && playhead.at <= span.to ? playhead.at : (span.from + span.to) / 2;
    if (event.key === "ArrowLeft") onZoom(moved(span, -0.2, end));
    else if (event.key === "ArrowRight") onZoom(moved(span, 0.2, end));
    else if (event.key === "+" || event.key === "=") onZoom(zoomed(span, HALF, around, end));
    else if (event.key === "-") onZoom(zoomed(span, 1 / HALF, around, end));
    else if (event.key === "n" || event.key === "p") onStep(event.key === "n" ? 1 : -1);
    else if (event.key === "Enter" && playhead) route(decisionPath(pool, playhead.seq));
    else return;
    event.preventDefault();
  };
  const endDrag = (): void => {
    const found = drag.value;
    drag.value = null;
    if (!found || Math.abs(found.to - found.from) < SHORTEST_DRAG) return;
    const [from, to] = [Math.min(found.from, found.to), Math.max(found.from, found.to)].map(timeAt);
    onZoom(zoomed({ from: from!, to: to! }, 1, from!, end));
  };

  return (
    <div
      ref={box}
      class="pool-timeline"
      tabIndex={0}
      role="group"
      aria-label={words}
      aria-describedby="timeline-keys"
      onKeyDown={onKey}
      onPointerDown={(event) => {
        if (event.button === 0 && event.pointerType === "mouse" && pixel(event) > GUTTER) drag.value = { from: pixel(event), to: pixel(event) };
      }}
      onPointerMove={(event) => {
        if (drag.value) drag.value = { ...drag.value, to: pixel(event) };
      }}
      onPointerUp={endDrag}
      onPointerLeave={() => {
        drag.value = null;
        tip.value = null;
        named.value = null;
      }}
      onDblClick={(event) => onZoom(zoomed(span, 1 / HALF, timeAt(pixel(event)), end))}
      onWheel={(event) => {
        if (!event.ctrlKey && !event.metaKey) return; // else the page scrolls
        event.preventDefault();
        onZoom(zoomed(span, event.deltaY > 0 ? 1.25 : 0.8, timeAt(pixel(event)), end));
      }}
    >
      {width.value > 0 && (
        <svg width={width.value} height={bottom} aria-hidden="true">
          <defs>
            <pattern id="shade-checkpoint" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="2" height="5" class="shade-stripe" />
            </pattern>
            <marker id="arrow-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">
              <path class="arrow-head" d="M0 0 8 4 0 8z" />
            </marker>
          </defs>
          {ticks(span.from, span.to, Math.max(2, Math.floor(plot / 100)), zoneOffset(new Date(span.to))).map((tick) => (
            <g key={tick.at} class="timeline-tick">
              <line x1={x(tick.at)} x2={x(tick.at)} y1={AXIS - 5} y2={bottom} />
              <text x={x(tick.at)} y={AXIS - 9} text-anchor={x(tick.at) > width.value - 34 ? "end" : x(tick.at) < GUTTER + 34 ? "start" : "middle"}>
                {tick.text}
              </text>
            </g>
          ))}
          {timeline.nodes.map((node) => (
            <g key={node.node} class="timeline-node">
              <rect x={GUTTER} y={place(node.first)} width={plot} height={Math.max(1, node.gpus * lane - 1)} />
              <text y={place(node.first) + Math.min(12, Math.max(9, node.gpus * lane))}>{cut(node.node, GUTTER - 8)}</text>
            </g>
          ))}
          {timeline.bars.filter((bar) => shown(bar.from, bar.to)).map((bar) => {
            const at = rect(bar);
            const { job, kind, project } = bar.allocation;
            return (
              <g
                key={bar.key}
                class="timeline-bar"
                data-kind={kind}
                style={{ "--own": `var(--cat-${colourOf(project ?? "")})` }}
                data-named={named.value === job}
                onPointerMove={(event) => {
                  named.value = job;
                  show(event, job, barLines(bar));
                }}
                onPointerLeave={() => {
                  named.value = null;
                  tip.value = null;
                }}
                onClick={() => (drag.value === null || Math.abs(drag.value.to - drag.value.from) < SHORTEST_DRAG) && route(jobPath(pool, job))}
              >
                <rect {...at} rx={Math.min(3, at.height / 3)} />
                {kind === "allocated" && at.height >= 11 && at.width > 30 && (
                  <text x={at.x + 5} y={at.y + Math.min(12, at.height / 2 + 4)}>
                    {cut(job, at.width - 8)}
                  </text>
                )}
              </g>
            );
          })}
          {timeline.shades.filter((shade) => shown(shade.from, shade.to)).map((shade) => (
            <rect key={shade.key} class="timeline-shade" data-kind={shade.kind} {...rect(shade)} />
          ))}
          {timeline.arrows.filter((arrow) => shown(arrow.to.at, arrow.from?.at ?? arrow.to.at)).map((arrow) => (
            <g
              key={arrow.key}
              class="timeline-arrow"
              data-current={playhead?.seq === arrow.eviction.decided_seq}
              data-named={named.value === arrow.eviction.job || named.value === arrow.eviction.for_job}
              onPointerMove={(event) => show(event, `${arrow.eviction.for_job} preempts ${arrow.eviction.job}`, arrowLines(arrow))}
              onPointerLeave={() => (tip.value = null)}
              onClick={() => route(decisionPath(pool, arrow.eviction.decided_seq))}
            >
              <path class="arrow-hit" d={curve(arrow, x, (at) => place(at) + 1)} />
              <path class="arrow-line" d={curve(arrow, x, (at) => place(at) + 1)} marker-end="url(#arrow-head)" />
            </g>
          ))}
          {playhead && playhead.at >= span.from && playhead.at <= span.to && (
            <g class="timeline-playhead">
              <line x1={x(playhead.at)} x2={x(playhead.at)} y1={AXIS - 6} y2={bottom} />
              <path d={`M${x(playhead.at) - 5} ${AXIS - 8}h10l-5 7z`} />
            </g>
          )}
          {drag.value && <rect class="timeline-drag" x={Math.min(drag.value.from, drag.value.to)} width={Math.abs(drag.value.to - drag.value.from)} y={AXIS} height={bottom - AXIS} />}
        </svg>
      )}
      {tip.value && (
        <div class="tip timeline-tip" aria-hidden="true" style={{ "--x": `${Math.min(tip.value.x + 14, Math.max(0, width.value - 270))}px`, "--y": `${tip.value.y + 16}px` }}>
          <strong>{tip.value.title}</strong>
          {tip.value.lines.map((line) => (
            <p key={line}>{line}</p>
          ))}
        </div>
      )}
    </div>
  );
}

/** The top of each lane. */
function placing(nodes: readonly NodeLanes[], height: number): (lane: number) => number {
  const tops: number[] = [];
  nodes.forEach((node, at) => {
    for (let gpu = 0; gpu < node.gpus; gpu += 1) tops.push(AXIS + at * BETWEEN_NODES + (node.first + gpu) * height);
  });
  return (lane) => tops[lane] ?? AXIS;
}

/** From the preemptor, above the lanes between, down to the victim. */
function curve({ from, to }: Arrow, x: (at: number) => number, y: (lane: number) => number): string {
  const [toX, toY] = [x(to.at), y(to.lane)];
  if (!from) return `M${toX} ${toY - 13}V${toY}`;
  const [fromX, fromY] = [Math.max(x(from.at), toX + 3), y(from.lane)];
  const bend = Math.min(46, 12 + Math.abs(fromX - toX) / 3);
  return `M${fromX} ${fromY}C${fromX} ${fromY - bend} ${toX} ${toY - bend} ${toX} ${toY}`;
}

const cut = (text: string, width: number): string => shortened(text, Math.max(1, Math.floor(width / LETTER)));

function barLines({ allocation, gpus, from, to, open }: Bar): string[] {
  const { kind, node, task, attempt, project, priority_class, user } = allocation;
  return [
    `${capital(kind)}: ${gpus} of ${node}, task ${task}, attempt ${attempt}`,
    [project && `project ${project}`, priority_class && `class ${priority_class}`, user].filter(Boolean).join(", "),
    open ? `since ${momentAt(from)}` : `${momentAt(from)}, for ${duration((to - from) / 1000)}`,
  ];
}

function arrowLines({ eviction }: Arrow): string[] {
  const released = eviction.until_released_s === null ? "not released yet" : `released after ${duration(eviction.until_released_s)}`;
  return [`Decision #${eviction.decided_seq}${eviction.action ? ` (${eviction.action})` : ""}, ${momentAt(Date.parse(eviction.decided_at))}`, `${released}${eviction.until_resumed_s === null ? "" : `, resumed after ${duration(eviction.until_resumed_s)}`}`];
}
