import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";

import { archivePath, get, poolPath, toApiError, type ApiError, type LiveJob, type LiveNode, type Page, type PastSnapshot, type RecordDetails, type RecordItem } from "../../api";
import { brief, count, DECISION_TYPES, gpusText, inOrder, isDecision, moment, parseMoment, sanitizeLine, summary, typeTitle } from "../../lib";
import { gpuChanges } from "../../shared/gpuChanges";
import { GpuMiniMap, MiniMapLegend } from "../../shared/GpuMiniMap";
import { Button, Card, DecisionLink, JobLink, SegmentedControl, Select, SeqLink, SignButton } from "../../ui";
import { moveTo, stepTo, type Span } from "./logSlider";
import { VerifierState } from "./VerifierState";

const SETTLE_MS = 120;
const MOST_QUEUED = 6;

/** What one step passes: a record, a decision, or a decision to evict. */
export type Step = "record" | "decision" | "eviction";
const STEPS: [Step, string][] = [["eviction", "Evictions"], ["decision", "Decisions"], ["record", "Records"]];
/** Pauses between the steps of playing, in ms, with their names. */
const SPEEDS = [["2000", "1 step in 2 s"], ["1000", "1 step/s"], ["500", "2 steps/s"], ["0", "fastest"]] as const;
const EVICTIONS = ["PreemptionDecided", "EvictionDecided", "MigrationDecided", "JobShrunk"];

/** The record that a step leads to; `at` itself where there is none. */
export async function stepFrom(pool: string, span: Span, at: number, step: Step, by: 1 | -1): Promise<number> {
  if (step === "record") return stepTo(span, at, by);
  const types = step === "eviction" ? EVICTIONS : DECISION_TYPES;
  const asked = new URLSearchParams([...types.map((type) => ["type", type]), ...(by > 0 ? [["from_seq", `${at + 1}`], ["order", "asc"]] : [["to_seq", `${at}`], ["order", "desc"]]), ["limit", "1"]]);
  const { items } = await get<Page<RecordItem>>(archivePath(pool, `records?${asked}`));
  return items[0]?.seq ?? at;
}

interface Props {
  pool: string;
  /** The record that is shown; null: none, the pool is live. */
  at: number | null;
  head: number;
  /** The record at `at`, once the archive has answered. */
  record: RecordDetails | null;
  /** Why it has not. */
  missing: ApiError | null;
  step: Signal<Step>;
  goTo: (seq: number | null) => void;
}

/** Moves through the log: by slider, number or time, or from decision to decision; with the pool as it was, and the verifier. */
export function ReplayPlayer({ pool, at, head, record, missing, step, goTo }: Props) {
  const shown = useSignal<PastSnapshot | null>(null);
  const before = useSignal<PastSnapshot | null>(null);
  const failure = useSignal<ApiError | null>(null);
  const playing = useSignal<0 | 1 | -1>(0);
  const pause = useSignal<(typeof SPEEDS)[number][0]>("1000");
  const jumpText = useSignal("");
  const mounted = useRef(true);
  useEffect(() => () => void (mounted.current = false), []);
  const span: Span = { first: shown.value?.first_seq ?? 0, head: Math.max(head, shown.value?.head_seq ?? 0) };

  const move = async (by: 1 | -1, from = at ?? span.head): Promise<void> => {
    try {
      const next = await stepFrom(pool, span, from, step.peek(), by);
      if (!mounted.current) return;
      if (next === from) playing.value = 0;
      else goTo(next);
    } catch (error) {
      failure.value = toApiError(error);
      playing.value = 0;
    }
  };
  useEffect(() => {
    if (at === null || at > head) return;
    const aborted = new AbortController();
    const load = async (): Promise<void> => {
      try {
        const found = await get<PastSnapshot>(`${poolPath(pool, "snapshot")}?seq=${at}`, aborted.signal);
        before.value = shown.peek()?.seq === found.seq ? before.peek() : shown.peek();
        shown.value = found;
        failure.value = null;
        if (playing.peek()) setTimeout(() => !aborted.signal.aborted && playing.peek() && void move(playing.peek() as 1 | -1, at), Number(pause.peek()));
      } catch (error) {
        if (aborted.signal.aborted) return;
        failure.value = toApiError(error);
        playing.value = 0;
      }
    };
    const later = setTimeout(() => void load(), playing.peek() ? 0 : SETTLE_MS); // load only when the slider rests
    return () => {
      clearTimeout(later);
      aborted.abort();
    };
  }, [pool, at, at !== null && at > head]);

  const togglePlay = (direction: 1 | -1): void => {
    playing.value = playing.value === direction ? 0 : direction;
    if (playing.value) void move(direction);
  };
  const stepOnce = (by: 1 | -1): void => {
    playing.value = 0;
    void move(by);
  };
  const jump = async (): Promise<void> => {
    const text = jumpText.value.trim();
    if (!text) return;
    playing.value = 0;
    if (/^#?\d+$/.test(text)) return goTo(moveTo(span, Number(text.replace("#", ""))));
    try {
      goTo((await get<PastSnapshot>(`${poolPath(pool, "snapshot")}?time=${encodeURIComponent(parseMoment(text) ?? text)}`)).seq);
    } catch (error) {
      failure.value = toApiError(error);
    }
  };
  const onKey = (event: KeyboardEvent): void => {
    const target = event.target as HTMLInputElement;
    if (event.ctrlKey || event.metaKey || event.altKey || (target.tagName === "INPUT" && target.type === "text")) return;
    if (event.key === "n" || event.key === "p") stepOnce(event.key === "n" ? 1 : -1);
    else if (event.key === " " && target.type === "range") togglePlay(1);
    else return;
    event.preventDefault();
  };
  const snapshot = at === null ? null : shown.value;
  const isStale = snapshot !== null && snapshot.seq !== at;
  const play = (direction: 1 | -1, sign: string, label: string) => <SignButton sign={playing.value === direction ? "❚❚" : sign} label={playing.value === direction ? "Stop" : label} onClick={() => togglePlay(direction)} />;
  return (
    <Card title="Replay" aside={at !== null && <Button quiet onClick={() => goTo(null)}>Back to live</Button>}>
      <div class="stack player" onKeyDown={onKey}>
        <input type="range" min={span.first} max={Math.max(span.first, span.head)} value={at ?? span.head} disabled={head < 0} aria-label="Record of the log" aria-keyshortcuts="n p Space" aria-valuetext={`record ${at ?? span.head}${record ? `, ${moment(record.time)}` : ""}`} onInput={(event) => { playing.value = 0; goTo(Number(event.currentTarget.value)); }} />
        <div class="row player-buttons">
          <SignButton sign="|◀" label="First record" onClick={() => goTo(span.first)} />
          {play(-1, "◀", "Play backward")}
          <Button onClick={() => stepOnce(-1)} title={`Previous ${step.value}`}>Previous</Button>
          <Button onClick={() => stepOnce(1)} title={`Next ${step.value}`}>Next</Button>
          {play(1, "▶", "Play forward")}
          <SignButton sign="▶|" label="Newest record" onClick={() => goTo(span.head)} />
          <SegmentedControl legend="Step through" options={STEPS} value={step.value} onChange={(next) => (step.value = next)} />
          <Select label="Speed" value={pause.value} options={SPEEDS} onChange={(next) => (pause.value = next)} />
          <form class="jump" onSubmit={(event) => { event.preventDefault(); void jump(); }}>
            <input class="input" aria-label="Go to a record or a time" placeholder="#118 or -10m" value={jumpText.value} onInput={(event) => (jumpText.value = event.currentTarget.value)} />
            <Button submit>Go</Button>
          </form>
        </div>
      </div>
      {failure.value && <p class="bad" role="alert">{failure.value.message}</p>}
      {at === null ? (
        <p class="soft record-summary">Shows the pool just after any record of the log, and which decision made it so.</p>
      ) : (
        <>
          <RecordLine pool={pool} seq={at} record={record} />
          <div class="with-side replay">
            {snapshot ? <SnapshotView pool={pool} snapshot={snapshot} before={isStale ? null : before.value} isStale={isStale} /> : <span />}
            {record ? <VerifierState key={pool} pool={pool} record={record} /> : missing && <p class="soft well verifier">{missing.status === 404 ? `#${at} is not archived yet: until it is, it cannot be verified here.` : missing.message}</p>}
          </div>
        </>
      )}
    </Card>
  );
}

function RecordLine({ pool, seq, record }: { pool: string; seq: number; record: RecordDetails | null }) {
  return (
    <p class="lead record-summary" role="status">
      Just after {record && isDecision(record.type) ? <DecisionLink pool={pool} seq={seq} /> : <SeqLink pool={pool} seq={seq} />}
      {record && (
        <>
          {" "}
          <span class="soft">{moment(record.time)}</span>: <strong>{typeTitle(record.type)}</strong> {record.job && <JobLink pool={pool} job={record.job} />} <span class="soft">{summary(record.data as Record<string, unknown>)}</span>
        </>
      )}
    </p>
  );
}

function SnapshotView({ pool, snapshot, before, isStale }: { pool: string; snapshot: PastSnapshot; before: PastSnapshot | null; isStale: boolean }) {
  const nodes = useMemo<LiveNode[]>(() => inOrder(snapshot.nodes).map(([, node]) => node), [snapshot]);
  const marked = useMemo(() => (before ? new Set(gpuChanges(before, snapshot).map((each) => `${each.node}/${each.gpu}`)) : new Set<string>()), [snapshot, before]);
  const jobs = snapshot.jobs ?? {};
  const queue = (snapshot.queue ?? []).flatMap((name): LiveJob[] => (jobs[name] ? [jobs[name]] : []));
  const row = snapshot.pool;
  return (
    <div class="stack snapshot" data-stale={isStale} aria-busy={isStale}>
      {row && (
        <p class="soft">
          {count(row.nodes, "node")}, {row.gpus} GPUs: {row.gpus_allocated} allocated, {row.gpus_free} free; {count(row.jobs_running, "job")} running, {row.jobs_pending} pending
        </p>
      )}
      {nodes.length ? (
        <>
          <GpuMiniMap nodes={nodes} changed={marked} label={`GPUs just after record ${snapshot.seq}`} />
          <MiniMapLegend changes={marked.size > 0} />
        </>
      ) : (
        <p class="soft">No nodes were registered.</p>
      )}
      <h3 class="gap">Queue</h3>
      {queue.length ? (
        <ol class="stack cut queue-snapshot">
          {queue.slice(0, MOST_QUEUED).map((job) => (
            <li key={job.job}>
              <JobLink pool={pool} job={job.job} /> <span class="soft">{job.priority_class}, {gpusText(job)}{job.pending_reason && <>. <bdi title={sanitizeLine(job.pending_reason)}>{brief(job.pending_reason)}</bdi></>}</span>
            </li>
          ))}
        </ol>
      ) : (
        <p class="soft">No jobs were pending.</p>
      )}
      {queue.length > MOST_QUEUED && <p class="soft note">and {queue.length - MOST_QUEUED} more</p>}
    </div>
  );
}
