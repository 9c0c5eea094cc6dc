import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";

import { archivePath, toApiError, get, poolPath, type ApiError } from "../../lib/api";
import { parseMoment } from "../../lib/timeZone";
import type { Archive } from "../../lib/useArchive";
import { useFetch } from "../../lib/useFetch";
import { sanitizeLine } from "../../lib/sanitizeLine";
import { brief, typeTitle } from "../../lib/recordText";
import { count, gpusText, moment } from "../../lib/format";
import type { PoolSnapshot, LiveJob, NodeCells } from "../../live/types";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { JobLink, SeqLink } from "../../ui/Links";
import { MiniMapLegend, GpuMiniMap } from "../../ui/GpuMiniMap";
import { gpuChanges } from "../decision/gpuChanges";
import type { RecordItem } from "../job/types";
import { moveTo, type Span, stepTo } from "./logSlider";
import { fromRecord } from "./recordRows";

const PLAY_EVERY_MS = 700;
const SETTLE_MS = 120;
const MOST_QUEUED = 12;

interface HistoricSnapshot extends PoolSnapshot {
  first_seq: number;
  head_seq: number;
  first_time: string | null;
  head_time: string | null;
}

/** The pool just after any record, by replay: GPU map and queue. */
export function PointInTime({ pool, at, head, archive, goTo, onClose }: { pool: string; at: number; head: number; archive: Archive; goTo: (seq: number) => void; onClose: () => void }) {
  const shown = useSignal<HistoricSnapshot | null>(null);
  const before = useSignal<HistoricSnapshot | null>(null);
  const failure = useSignal<ApiError | null>(null);
  const playing = useSignal<0 | 1 | -1>(0);
  const jumpText = useSignal("");
  const mounted = useRef(true);
  useEffect(() => () => void (mounted.current = false), []);
  const span: Span = { first: shown.value?.first_seq ?? 0, head: Math.max(head, shown.value?.head_seq ?? 0) };

  useEffect(() => {
    if (at > head) return;
    const aborted = new AbortController();
    const load = async (): Promise<void> => {
      try {
        const found = await get<HistoricSnapshot>(`${poolPath(pool, "snapshot")}?seq=${at}`, aborted.signal);
        before.value = shown.peek() && Math.abs(shown.peek()!.seq - found.seq) === 1 ? shown.peek() : null;
        shown.value = found;
        failure.value = null;
        const next = stepTo(span, at, playing.peek());
        if (playing.peek() && next !== at) setTimeout(() => mounted.current && !aborted.signal.aborted && playing.peek() && goTo(next), PLAY_EVERY_MS);
        else playing.value = 0;
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
  }, [pool, at, at > head]);

  const togglePlay = (direction: 1 | -1): void => {
    playing.value = playing.value === direction ? 0 : direction;
    if (playing.value) goTo(stepTo(span, at, direction));
  };
  const jump = async (): Promise<void> => {
    const text = jumpText.value.trim();
    if (!text) return;
    if (/^#?\d+$/.test(text)) return goTo(moveTo(span, Number(text.replace("#", ""))));
    try {
      const found = await get<HistoricSnapshot>(`${poolPath(pool, "snapshot")}?time=${encodeURIComponent(parseMoment(text) ?? text)}`);
      goTo(found.seq);
    } catch (error) {
      failure.value = toApiError(error);
    }
  };
  const snapshot = shown.value;
  const isStale = snapshot !== null && snapshot.seq !== at;
  return (
    <Card title="Pool state at a point in time" aside={<Button quiet onClick={onClose}>Back to live</Button>}>
      <div class="player">
        <input type="range" min={span.first} max={span.head} value={at} aria-label="Record of the log" aria-valuetext={`record ${at}${snapshot?.time ? `, ${moment(snapshot.time)}` : ""}`} onInput={(event) => { playing.value = 0; goTo(Number(event.currentTarget.value)); }} />
        <div class="player-buttons">
          <Button onClick={() => goTo(span.first)} title="First record">|◀<span class="visually-hidden">First record</span></Button>
          <Button onClick={() => togglePlay(-1)} title="Play backward">{playing.value === -1 ? "❚❚" : "◀"}<span class="visually-hidden">{playing.value === -1 ? "Stop" : "Play backward"}</span></Button>
          <Button onClick={() => goTo(stepTo(span, at, -1))} title="Previous record">−1</Button>
          <Button onClick={() => goTo(stepTo(span, at, 1))} title="Next record">+1</Button>
          <Button onClick={() => togglePlay(1)} title="Play forward">{playing.value === 1 ? "❚❚" : "▶"}<span class="visually-hidden">{playing.value === 1 ? "Stop" : "Play forward"}</span></Button>
          <Button onClick={() => goTo(span.head)} title="Newest record">▶|<span class="visually-hidden">Newest record</span></Button>
          <form class="jump" onSubmit={(event) => { event.preventDefault(); void jump(); }}>
            <input class="input" aria-label="Go to a record or a time" placeholder="#118, -10m, 2026-01-31 12:00" value={jumpText.value} onInput={(event) => (jumpText.value = event.currentTarget.value)} />
            <Button submit>Go</Button>
          </form>
        </div>
      </div>
      {failure.value && <p class="bad" role="alert">{failure.value.detail || failure.value.title}</p>}
      <RecordSummary pool={pool} seq={at} archive={archive} time={snapshot && !isStale ? snapshot.time : null} />
      {snapshot && <SnapshotView pool={pool} snapshot={snapshot} before={isStale ? null : before.value} isStale={isStale} />}
    </Card>
  );
}

function RecordSummary({ pool, seq, archive, time }: { pool: string; seq: number; archive: Archive; time: string | null }) {
  const record = useFetch<RecordItem>(archive.state === "there" ? archivePath(pool, `records/${seq}`) : null, seq).value.value;
  const line = record && fromRecord(record);
  return (
    <p class="lead record-summary" role="status">
      Just after <SeqLink pool={pool} seq={seq} />
      {time && <span class="soft"> {moment(time)}</span>}
      {line?.seq === seq && (
        <>
          : <strong>{typeTitle(line.event)}</strong> {line.job && <JobLink pool={pool} job={line.job} />} <span class="soft">{sanitizeLine(line.message)}</span>
        </>
      )}
    </p>
  );
}

function SnapshotView({ pool, snapshot, before, isStale }: { pool: string; snapshot: HistoricSnapshot; before: HistoricSnapshot | null; isStale: boolean }) {
  const nodes = useMemo<NodeCells[]>(() => Object.values(snapshot.nodes ?? {}), [snapshot]);
  const marked = useMemo(() => (before ? new Set(gpuChanges(before, snapshot).map((each) => `${each.node}/${each.gpu}`)) : new Set<string>()), [snapshot, before]);
  const jobs = snapshot.jobs ?? {};
  const queue = (snapshot.queue ?? []).flatMap((name): LiveJob[] => (jobs[name] ? [jobs[name]] : []));
  const row = snapshot.pool;
  return (
    <div class="snapshot" data-stale={isStale} aria-busy={isStale}>
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
        <ol class="queue-snapshot">
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
