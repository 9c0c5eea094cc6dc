// A job's life as lanes of time: the queue, then one lane for each attempt. Pure; milliseconds.
import type { LiveJob } from "../../live/shapes";
import type { Attempt, JobWhole } from "./shapes";

export type Kind = "waiting" | "reserved" | "running" | "leaving";

export interface Segment {
  kind: Kind;
  from: number;
  to: number;
  open: boolean;
}

export interface Mark {
  at: number;
  seq: number | null;
  text: string;
}

export interface Lane {
  key: string;
  name: string;
  nodes: string[];
  segments: Segment[];
  marks: Mark[];
  end: string;
}

export interface Timeline {
  from: number;
  to: number;
  lanes: Lane[];
  whole: boolean;
}

const ms = (text: string | null | undefined): number | null => (text ? Date.parse(text) : null);
const ENDED = new Set(["succeeded", "failed", "cancelled", "evicted", "timed-out"]);

/** What the archive holds, and what the live row knows beyond it; whole: false where only the live row is there. */
export function timelineOf(whole: JobWhole | null, live: LiveJob | null, now: number): Timeline | null {
  const submitted = ms(whole?.submitted_at ?? live?.submitted_at);
  if (submitted === null) return null;
  const attempts = attemptsOf(whole, live);
  const over = live === null && whole !== null && (whole.ended_at !== null || ENDED.has(whole.state));
  const to = Math.max(over ? (ms(whole.ended_at) ?? now) : now, submitted + 1000, ...(whole?.evictions ?? []).flatMap((each) => Object.values(each.stages).map(Date.parse)));
  const queue: Lane = { key: "queue", name: "In the queue", nodes: [], segments: [], marks: [], end: "" };
  const lanes = [queue];
  let free: number | null = submitted;
  for (const attempt of attempts) {
    const lane = laneOf(attempt, whole, live, to);
    const first = lane.segments[0];
    if (first && free !== null && first.from > free) queue.segments.push({ kind: "waiting", from: free, to: first.from, open: false });
    if (first) free = lane.segments.at(-1)!.open ? null : lane.segments.at(-1)!.to;
    lanes.push(lane);
  }
  if (!whole && live?.waiting_since) free = Math.max(free ?? 0, Date.parse(live.waiting_since));
  if (!whole && live && attempts.length && live.attempt > 1 && !live.waiting_since) queue.segments.length = 0;
  if (free !== null && !over && to > free && (live === null || !live.started_at || live.waiting_since)) queue.segments.push({ kind: "waiting", from: free, to, open: true });
  return { from: submitted, to, lanes, whole: whole !== null };
}

/** The archive's attempts; the present one as the live row has it, which may be a second ahead. */
function attemptsOf(whole: JobWhole | null, live: LiveJob | null): Attempt[] {
  const found = [...(whole?.attempts ?? [])];
  if (!live || live.attempt < 1 || live.waiting_since !== null) return found;
  const last = found.at(-1);
  const nodes = live.nodes.length ? live.nodes : live.reserved_nodes;
  if (last?.attempt === live.attempt) {
    if (!last.ended_at) found[found.length - 1] = { ...last, started_at: last.started_at ?? live.started_at, nodes: nodes.length ? nodes : last.nodes };
  } else if (!whole && live.started_at) {
    found.push({
      job: live.job, submitted_seq: 0, attempt: live.attempt, verb: null, nodes, placed_seq: null, placed_at: null, started_at: live.started_at,
      ended_at: null, ended_seq: null, ran_s: null, outcome: null, cause: null, lost_gpu_hours: null,
    });
  }
  return found;
}

function laneOf(attempt: Attempt, whole: JobWhole | null, live: LiveJob | null, to: number): Lane {
  const evictions = (whole?.evictions ?? []).filter((each) => each.attempt === attempt.attempt);
  const leaves = evictions.find((each) => !each.tasks && each.outcome !== "spared" && each.outcome !== "withdrawn");
  const now = live?.attempt === attempt.attempt ? live : null;
  const [placed, started, ended] = [ms(attempt.placed_at), ms(attempt.started_at), ms(attempt.ended_at)];
  const told = ms(leaves?.decided_at) ?? (now?.eviction ? (ms(now.eviction.began_at) ?? to) : null);
  const gone = ms(leaves?.stages.released) ?? ended;
  const segments: Segment[] = [];
  const add = (kind: Kind, from: number | null, until: number | null): void => {
    if (from === null || (until !== null && until < from)) return;
    segments.push({ kind, from, to: until ?? to, open: until === null });
  };
  add("reserved", placed ?? (started === null ? told : null), started ?? told ?? ended);
  if (started !== null) add("running", started, told !== null && told >= started ? told : ended);
  if (told !== null && (started === null || told >= started)) add("leaving", told, gone !== null && ended !== null ? Math.max(gone, told) : ended);
  const marks = evictions.map((each) => ({ at: Date.parse(each.decided_at), seq: each.decided_seq, text: each.for_job ? `for ${each.for_job}` : (each.cause ?? "") }));
  return { key: `attempt-${attempt.attempt}`, name: `Attempt ${attempt.attempt}`, nodes: attempt.nodes, segments, marks, end: attempt.outcome ?? "" };
}

const STEPS = [1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000].map((seconds) => seconds * 1000);

export interface Tick {
  at: number;
  text: string;
}

/** Round moments between both, at most `most`; UTC. */
export function ticks(from: number, to: number, most: number): Tick[] {
  const step = STEPS.find((each) => (to - from) / each <= most) ?? STEPS.at(-1)! * Math.ceil((to - from) / STEPS.at(-1)! / most);
  const found: Tick[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push({ at, text: tickText(at, step) });
  return found;
}

function tickText(at: number, step: number): string {
  const text = new Date(at).toISOString();
  if (step >= 86_400_000) return step < 2_592_000_000 ? text.slice(5, 10) : text.slice(0, 10);
  if (at % 86_400_000 === 0) return text.slice(5, 10);
  if (step >= 21_600_000) return `${text.slice(5, 10)} ${text.slice(11, 16)}`;
  return step < 60_000 ? text.slice(11, 19) : text.slice(11, 16);
}
