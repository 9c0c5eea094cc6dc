import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import { now } from "../../../lib/clock";
import { count } from "../../../lib/words";
import type { LiveJob, NodeCells, NodeTelemetry } from "../../../live/shapes";
import { themeAt } from "../../../shell/theme";
import type { Group } from "./groups";
import { cellAt, DENSITIES, fitting, hit, layoutOf, moved, tileAt, type Focus, type Layout, type Spot } from "./layout";
import { paintMap, type View } from "./paint";
import { paletteOf } from "./palette";
import { cellSays, cellTitle, NODE_WORDS } from "./sentences";
import { jobAt, type Wanted } from "./selecting";
import { Tip } from "./Tip";

interface Props {
  nodes: readonly NodeCells[];
  jobs: ReadonlyMap<string, LiveJob>;
  telemetry: ReadonlyMap<string, NodeTelemetry>;
  groupOf: (job: string | null) => Group | null;
  wanted: Wanted | null;
  level: ((node: NodeCells, gpu: number) => number | null) | null;
  litGroup: string | null;
  /** null: as large as fits. */
  zoom: number | null;
  onZoom: (shown: number) => void;
  onJob: (job: string) => void;
  onNode: (node: string) => void;
}

const ROOM = 0.56;
const AT_LEAST = 320;

/** All GPUs on a canvas: only what is seen is drawn, and only when something has changed. */
export function GpuMap(props: Props) {
  const { nodes, jobs, telemetry } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useSignal(0);
  const spot = useSignal<(Spot & { by: "mouse" | "touch" | "keys" }) | null>(null);
  const focus = useSignal<Focus>({ node: 0, gpu: 0 });
  const focused = useSignal(false);
  const frame = useRef(0);
  const view = useRef<View | null>(null);

  const most = nodes.reduce((found, node) => Math.max(found, node.gpus.length), 0);
  const room = Math.max(AT_LEAST, Math.round(innerHeight * ROOM));
  const zoom = props.zoom ?? fitting(nodes.length, most, width.value, room);
  const layout = layoutOf(nodes.length, most, Math.max(1, width.value), DENSITIES[zoom]!);
  const gpusOf = (node: number): number => nodes[node]?.gpus.length ?? 0;
  const at: Focus = { node: Math.min(focus.value.node, Math.max(0, nodes.length - 1)), gpu: focus.value.gpu };
  if (at.gpu >= gpusOf(at.node)) at.gpu = Math.max(0, gpusOf(at.node) - 1);
  const shown = spot.value && spot.value.node < nodes.length ? spot.value : null;
  const shownCell = shown && shown.gpu !== null ? nodes[shown.node]!.gpus[shown.gpu] : undefined;
  const litJob = shownCell?.[1] ?? shownCell?.[2] ?? null;

  useEffect(() => props.onZoom(zoom), [zoom]);
  useLayoutEffect(() => {
    const box = scroller.current!;
    width.value = box.clientWidth;
    const watch = new ResizeObserver(() => (width.value = box.clientWidth));
    watch.observe(box);
    return () => {
      watch.disconnect();
      cancelAnimationFrame(frame.current);
    };
  }, []);

  const draw = (): void => {
    frame.current ||= requestAnimationFrame(() => {
      frame.current = 0;
      if (canvas.current && scroller.current && view.current) paint(canvas.current, scroller.current, view.current);
    });
  };
  const theme = themeAt.value;
  const palette = useRef<{ theme: number; found: View["palette"] } | null>(null);
  useLayoutEffect(() => {
    if (palette.current?.theme !== theme) palette.current = { theme, found: paletteOf(scroller.current!) };
    view.current = {
      nodes,
      layout,
      groupOf: props.groupOf,
      wanted: props.wanted,
      level: props.level,
      lit: props.litGroup !== null ? { group: props.litGroup } : litJob !== null ? { job: litJob } : null,
      focus: focused.value ? at : null,
      palette: palette.current.found,
    };
    draw();
  });

  const spotAt = (event: PointerEvent | MouseEvent): Spot | null => {
    const box = scroller.current!.getBoundingClientRect();
    return hit(layout, gpusOf, event.clientX - box.left, event.clientY - box.top + scroller.current!.scrollTop);
  };
  const open = (where: Spot): void => {
    const node = nodes[where.node]!;
    const job = where.gpu === null ? null : jobAt(node.gpus[where.gpu]!);
    if (job) props.onJob(job);
    else props.onNode(node.node);
  };
  const onKey = (event: KeyboardEvent): void => {
    const next = moved(layout, gpusOf, at, event.key, event.ctrlKey || event.metaKey);
    if (next) {
      focus.value = next;
      spot.value = { ...next, by: "keys" };
      reveal(scroller.current!, layout, next);
    } else if (event.key === "Enter") open(at);
    else if (event.key === "n" && !event.ctrlKey && !event.metaKey) props.onNode(nodes[at.node]!.node);
    else if (event.key === "Escape") spot.value = null;
    else return;
    event.preventDefault();
  };

  const current = nodes[at.node];
  return (
    <div class="map-frame">
      <div
        class="map-scroll"
        ref={scroller}
        style={{ height: `${Math.min(layout.height, room)}px` }}
        tabIndex={0}
        role="listbox"
        aria-label={`GPUs: ${count(nodes.length, "node")}`}
        aria-describedby="map-keys"
        aria-activedescendant={current ? `gpu-${at.node}-${at.gpu}` : undefined}
        onScroll={draw}
        onKeyDown={onKey}
        onFocus={() => {
          focused.value = true;
          if (scroller.current!.matches(":focus-visible")) spot.value = { ...at, by: "keys" };
        }}
        onBlur={() => {
          focused.value = false;
          if (spot.value?.by === "keys") spot.value = null;
        }}
        onPointerMove={(event) => {
          if (event.pointerType !== "mouse") return;
          const found = spotAt(event);
          if (found?.node !== spot.value?.node || found?.gpu !== spot.value?.gpu) spot.value = found && { ...found, by: "mouse" };
        }}
        onPointerLeave={(event) => {
          if (event.pointerType === "mouse" && spot.value?.by === "mouse") spot.value = null;
        }}
        onClick={(event) => {
          const found = spotAt(event);
          if (!found) return void (spot.value = null);
          if (found.gpu !== null) focus.value = { node: found.node, gpu: found.gpu };
          const touched = "pointerType" in event && event.pointerType === "touch";
          if (touched && found.gpu !== null) spot.value = { ...found, by: "touch" };
          else open(found);
        }}
      >
        <div class="map-whole" style={{ height: `${layout.height}px` }}>
          <canvas class="map-canvas" ref={canvas} aria-hidden="true" />
        </div>
        {current && (
          <div id={`gpu-${at.node}-${at.gpu}`} key={`${at.node}-${at.gpu}`} role="option" aria-selected={true} class="visually-hidden">
            {cellTitle(current, at.gpu)}: {cellSays(current, at.gpu, jobs, telemetry.get(current.node), now.peek()).join(" ")}
          </div>
        )}
      </div>
      {shown && scroller.current && (
        <Tip
          key="tip"
          {...anchor(scroller.current, layout, shown)}
          title={shown.gpu === null ? nodes[shown.node]!.node : cellTitle(nodes[shown.node]!, shown.gpu)}
          says={() => said(nodes[shown.node]!, shown.gpu, jobs, telemetry)}
          hint={shown.by === "touch" ? null : hintOf(nodes[shown.node]!, shown.gpu, shown.by)}
          actions={
            shown.by !== "touch"
              ? null
              : {
                  job: shownCell ? jobAt(shownCell) : null,
                  onJob: props.onJob,
                  onNode: () => props.onNode(nodes[shown.node]!.node),
                  onClose: () => (spot.value = null),
                }
          }
        />
      )}
      <p id="map-keys" class="map-keys">
        <span>Arrow keys go from GPU to GPU, Enter opens the job, N the node.</span>
      </p>
    </div>
  );
}

function said(node: NodeCells, gpu: number | null, jobs: ReadonlyMap<string, LiveJob>, telemetry: ReadonlyMap<string, NodeTelemetry>): string[] {
  if (gpu !== null) return cellSays(node, gpu, jobs, telemetry.get(node.node), now.value);
  return [`${count(node.gpus.length, "GPU")}${node.model ? `, ${node.model}` : ""}.`, `The node ${NODE_WORDS[node.state] ?? `is ${node.state}`}.`];
}

function hintOf(node: NodeCells, gpu: number | null, by: string): string {
  const job = gpu === null ? null : jobAt(node.gpus[gpu] ?? ["free", null, null, [], null]);
  return by === "keys" ? (job ? "Enter: the job. N: the node." : "Enter: the node.") : job ? "Click: the job." : "Click: the node.";
}

function paint(canvas: HTMLCanvasElement, scroller: HTMLElement, view: View): void {
  const width = scroller.clientWidth;
  const height = scroller.clientHeight;
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const ctx = canvas.getContext("2d")!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  paintMap(ctx, view, scroller.scrollTop, width, height);
}

function reveal(scroller: HTMLElement, layout: Layout, to: Focus): void {
  const { y } = tileAt(layout, to.node);
  if (y < scroller.scrollTop) scroller.scrollTop = y;
  else if (y + layout.tileHeight > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = y + layout.tileHeight - scroller.clientHeight;
}

/** Where the tooltip is tied to, in the frame around the map. */
function anchor(scroller: HTMLElement, layout: Layout, shown: Spot): { x: number; y: number; below: number; width: number } {
  const tile = tileAt(layout, shown.node);
  const cell = shown.gpu === null ? { x: 0, y: 0 } : cellAt(layout, shown.gpu);
  const y = tile.y + cell.y - scroller.scrollTop;
  return { x: tile.x + cell.x + layout.cell / 2, y, below: y + (shown.gpu === null ? layout.label || layout.cell : layout.cell), width: scroller.clientWidth };
}
