// The pool's timeline: a lane for each GPU, the bars of the jobs on them, and the preemptions between them. Times in ms.
import type { AllocationItem, Eviction } from "../../api";
import { adjacent, numbers } from "../../lib";

/** A rectangle over adjacent lanes. slot of slots: its part of the lane, where jobs share a GPU. */
interface Area {
  lane: number;
  lanes: number;
  from: number;
  to: number;
  slot: number;
  slots: number;
}

/** What a job has on adjacent GPUs of a node. open: it has not ended. */
export interface Bar extends Area {
  key: string;
  allocation: AllocationItem;
  gpus: string;
  open: boolean;
}

/** The time of an eviction on the bar of its victim. */
export interface Shade extends Area {
  key: string;
  kind: "grace" | "checkpoint";
}

interface Point {
  at: number;
  lane: number;
}

/** A preemption of one victim. from: where the preemptor begins, null where that is not shown; to: the victim at the decision. */
export interface Arrow {
  key: string;
  eviction: Eviction;
  from: Point | null;
  to: Point;
}

/** The GPUs of a node: the lanes from `first`. */
export interface NodeLanes {
  node: string;
  first: number;
  gpus: number;
}

export interface PoolTimeline {
  nodes: NodeLanes[];
  lanes: number;
  bars: Bar[];
  shades: Shade[];
  arrows: Arrow[];
}

/** nodes: in this order, with the number of GPUs that each has now; others that were in use follow. now: where open bars end. */
export function poolTimeline(nodes: readonly { node: string; gpus: number }[], allocations: readonly AllocationItem[], evictions: readonly Eviction[], now: number): PoolTimeline {
  const lanes = nodeLanes(nodes, allocations);
  const first = new Map(lanes.map((each) => [each.node, each.first]));
  const bars = allocations.flatMap((each) => barsOf(each, first.get(each.node)!, now));
  share(bars.filter((bar) => bar.allocation.kind === "allocated" && bar.lanes === 1));
  const byJob = new Map<string, Bar[]>();
  for (const bar of bars) byJob.set(bar.allocation.job, [...(byJob.get(bar.allocation.job) ?? []), bar]);
  const shades: Shade[] = [];
  const arrows: Arrow[] = [];
  for (const eviction of evictions) {
    const at = Date.parse(eviction.decided_at);
    const victims = (byJob.get(eviction.job) ?? []).filter((bar) => isVictim(bar, eviction, at));
    for (const bar of victims) shades.push(...shadesOf(bar, eviction, at));
    if (victims.length && eviction.for_job && eviction.for_job !== eviction.job) arrows.push(arrowOf(eviction, at, victims, byJob.get(eviction.for_job) ?? []));
  }
  return { nodes: lanes, lanes: lanes.reduce((sum, each) => sum + each.gpus, 0), bars, shades, arrows };
}

function nodeLanes(nodes: readonly { node: string; gpus: number }[], allocations: readonly AllocationItem[]): NodeLanes[] {
  const many = new Map(nodes.map((each) => [each.node, each.gpus]));
  for (const { node, devices } of allocations) many.set(node, Math.max(many.get(node) ?? 0, ...devices.map((gpu) => gpu + 1)));
  const found: NodeLanes[] = [];
  let first = 0;
  for (const [node, gpus] of many) {
    found.push({ node, first, gpus });
    first += gpus;
  }
  return found;
}

function barsOf(allocation: AllocationItem, first: number, now: number): Bar[] {
  const from = Date.parse(allocation.from_at);
  const open = allocation.to_at === null;
  return adjacent(allocation.devices).map(([gpu, last]) => ({
    key: `${allocation.kind} ${allocation.from_seq} ${allocation.job} ${allocation.attempt} ${allocation.task} ${gpu}`,
    allocation,
    gpus: gpu === last ? `GPU ${gpu}` : `GPUs ${gpu}–${last}`,
    lane: first + gpu,
    lanes: last - gpu + 1,
    from,
    to: open ? Math.max(now, from) : Date.parse(allocation.to_at!),
    open,
    slot: 0,
    slots: 1,
  }));
}

/** Puts the bars of jobs that share a GPU beside each other. */
function share(bars: Bar[]): void {
  const byLane = new Map<number, Bar[]>();
  for (const bar of bars) byLane.set(bar.lane, [...(byLane.get(bar.lane) ?? []), bar]);
  for (const lane of byLane.values()) {
    const ends: number[] = [];
    for (const bar of lane.sort((one, other) => one.from - other.from)) {
      const free = ends.findIndex((end) => end <= bar.from);
      bar.slot = free < 0 ? ends.length : free;
      ends[bar.slot] = bar.to;
    }
    for (const bar of lane) bar.slots = ends.length;
  }
}

function isVictim(bar: Bar, eviction: Eviction, at: number): boolean {
  const { kind, attempt, task } = bar.allocation;
  if (kind !== "allocated" || (eviction.attempt !== null && attempt !== eviction.attempt)) return false;
  if (eviction.tasks && !numbers(eviction.tasks).includes(task)) return false;
  return bar.from <= at && at <= bar.to;
}

function shadesOf(bar: Bar, eviction: Eviction, at: number): Shade[] {
  const time = (name: string): number | null => (eviction.stages[name] ? Date.parse(eviction.stages[name]) : null);
  const end = Math.min(bar.to, time("released") ?? time("cancelled") ?? bar.to);
  const { lane, lanes, slot, slots } = bar;
  const shade = (kind: Shade["kind"], from: number, to: number): Shade[] => (to > from ? [{ key: `${kind} ${eviction.decided_seq} ${bar.key}`, kind, lane, lanes, slot, slots, from, to }] : []);
  const saving = time("checkpoint_started") ?? time("saving_in_flight");
  return [...shade("grace", at, end), ...(saving === null ? [] : shade("checkpoint", saving, Math.min(end, time("checkpoint_committed") ?? end)))];
}

/** From the first place of the preemptor after the decision, the nearest to the victim where it has several. */
function arrowOf(eviction: Eviction, at: number, victims: readonly Bar[], preemptor: readonly Bar[]): Arrow {
  const victim = victims.reduce((top, bar) => (bar.lane < top.lane ? bar : top));
  const later = preemptor.filter((bar) => bar.to >= at && (bar.from >= at || bar.allocation.kind === "reserved"));
  const started = later.filter((bar) => bar.allocation.kind === "allocated");
  const begins = started.length ? started : later;
  const earliest = Math.min(...begins.map((bar) => bar.from));
  const nearest = begins.filter((bar) => bar.from === earliest).sort((one, other) => Math.abs(one.lane - victim.lane) - Math.abs(other.lane - victim.lane))[0];
  return { key: `${eviction.decided_seq} ${eviction.job}`, eviction, from: nearest ? { at: nearest.from, lane: nearest.lane } : null, to: { at, lane: victim.lane } };
}

export interface Span {
  from: number;
  to: number;
}

const SHORTEST_MS = 1_000;

/** The span without what lies before the first record, in ms; null: it is not known. */
export const recorded = ({ from, to }: Span, first: number | null): Span => ({ from: first === null ? from : Math.max(from, Math.min(first, to - SHORTEST_MS)), to });

/** The span made longer (factor above 1) or shorter around a time, never beyond `end`. */
export function zoomed({ from, to }: Span, factor: number, around: number, end: number): Span {
  const length = Math.max(SHORTEST_MS, (to - from) * factor);
  const part = Math.min(1, Math.max(0, (around - from) / Math.max(1, to - from)));
  return within({ from: around - part * length, to: around + (1 - part) * length }, end);
}

/** The span moved by a part of its length, never beyond `end`. */
export const moved = ({ from, to }: Span, part: number, end: number): Span => within({ from: from + part * (to - from), to: to + part * (to - from) }, end);

const within = ({ from, to }: Span, end: number): Span => (to > end ? { from: from - (to - end), to: end } : { from, to });
