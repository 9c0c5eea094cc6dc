// A job's timeline as lanes: the queue, then one lane per attempt. Times in ms.
import type { AttemptItem, JobHistory, LiveJob } from "../../api";
import { capital, endText, stopWord } from "../../lib";

export type Kind = "pending" | "reserved" | "running" | "evicting";

export interface Segment {
  kind: Kind;
  from: number;
  to: number;
  open: boolean;
}

interface Mark {
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

export interface JobTimeline {
  from: number;
  to: number;
  lanes: Lane[];
  complete: boolean;
}

const ms = (text: string | null | undefined): number | null => (text ? Date.parse(text) : null);
const ENDED = new Set(["succeeded", "failed", "cancelled", "evicted", "timed-out"]);

/** The timeline from the archive and the live row; complete: false if only the live row is available. */
export function jobTimeline(history: JobHistory | null, live: LiveJob | null, now: number): JobTimeline | null {
  const submitted = ms(history?.submitted_at ?? live?.submitted_at);
  if (submitted === null) return null;
  const attempts = attemptsOf(history, live);
  const hasEnded = live === null && history !== null && (history.ended_at !== null || ENDED.has(history.state));
  const to = Math.max(hasEnded ? (ms(history.ended_at) ?? now) : now, submitted + 1000, ...(history?.evictions ?? []).flatMap((each) => Object.values(each.stages).map(Date.parse)));
  const queue: Lane = { key: "queue", name: "In the queue", nodes: [], segments: [], marks: [], end: "" };
  const lanes = [queue];
  let pendingFrom: number | null = submitted;
  for (const attempt of attempts) {
    const lane = laneOf(attempt, history, live, to);
    const first = lane.segments[0];
    if (first && pendingFrom !== null && first.from > pendingFrom) queue.segments.push({ kind: "pending", from: pendingFrom, to: first.from, open: false });
    if (first) pendingFrom = lane.segments.at(-1)!.open ? null : lane.segments.at(-1)!.to;
    lanes.push(lane);
  }
  if (!history && live?.pending_since) pendingFrom = Math.max(pendingFrom ?? 0, Date.parse(live.pending_since));
  if (!history && live && attempts.length && live.attempt > 1 && !live.pending_since) queue.segments.length = 0;
  if (pendingFrom !== null && !hasEnded && to > pendingFrom && (live === null || !live.started_at || live.pending_since)) queue.segments.push({ kind: "pending", from: pendingFrom, to, open: true });
  return { from: submitted, to, lanes, complete: history !== null };
}

/** The archive's attempts; the current one from the live row, which may be newer. */
function attemptsOf(history: JobHistory | null, live: LiveJob | null): AttemptItem[] {
  const found = [...(history?.attempts ?? [])];
  if (!live || live.attempt < 1 || live.pending_since !== null) return found;
  const last = found.at(-1);
  const nodes = live.nodes.length ? live.nodes : live.reserved_nodes;
  if (last?.attempt === live.attempt) {
    if (!last.ended_at) found[found.length - 1] = { ...last, started_at: last.started_at ?? live.started_at, nodes: nodes.length ? nodes : last.nodes };
  } else if (!history && live.started_at) {
    found.push({
      job: live.job, submitted_seq: 0, attempt: live.attempt, action: null, nodes, placed_seq: null, placed_at: null, started_at: live.started_at,
      ended_at: null, ended_seq: null, ran_s: null, outcome: null, cause: null, work_lost_gpu_ms: null, restart_gpu_ms: null,
    });
  }
  return found;
}

function laneOf(attempt: AttemptItem, history: JobHistory | null, live: LiveJob | null, to: number): Lane {
  const evictions = (history?.evictions ?? []).filter((each) => each.attempt === attempt.attempt);
  const eviction = evictions.find((each) => !each.tasks && each.outcome !== "eviction-cancelled");
  const now = live?.attempt === attempt.attempt ? live : null;
  const [placed, started, ended] = [ms(attempt.placed_at), ms(attempt.started_at), ms(attempt.ended_at)];
  const evictedAt = ms(eviction?.decided_at) ?? (now?.eviction ? (ms(now.eviction.started_at) ?? to) : null);
  const releasedAt = ms(eviction?.stages.released) ?? ended;
  const segments: Segment[] = [];
  const add = (kind: Kind, from: number | null, until: number | null): void => {
    if (from === null || (until !== null && until < from)) return;
    segments.push({ kind, from, to: until ?? to, open: until === null });
  };
  add("reserved", placed ?? (started === null ? evictedAt : null), started ?? evictedAt ?? ended);
  if (started !== null) add("running", started, evictedAt !== null && evictedAt >= started ? evictedAt : ended);
  if (evictedAt !== null && (started === null || evictedAt >= started)) add("evicting", evictedAt, releasedAt !== null && ended !== null ? Math.max(releasedAt, evictedAt) : ended);
  const marks = evictions.map((each) => ({ at: Date.parse(each.decided_at), seq: each.decided_seq, text: capital(stopWord(each.cause)) + (each.for_job ? ` for ${each.for_job}` : "") }));
  return { key: `attempt-${attempt.attempt}`, name: `Attempt ${attempt.attempt}`, nodes: [...new Set(attempt.nodes)], segments, marks, end: endText(attempt.outcome ?? "") };
}
