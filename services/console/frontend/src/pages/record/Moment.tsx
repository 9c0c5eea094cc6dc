import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";

import { archivePath, asRefusal, get, poolPath, type Refusal } from "../../lib/api";
import type { Archive } from "../../lib/archive";
import { useLoad } from "../../lib/load";
import { plainLine } from "../../lib/plain";
import { brief } from "../../lib/records";
import { gpusText } from "../../lib/terms";
import { count, moment } from "../../lib/words";
import type { Board, LiveJob, NodeCells } from "../../live/shapes";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { JobLink, SeqLink } from "../../ui/Links";
import { MapLegend, MiniMap } from "../../ui/MiniMap";
import { changes } from "../decision/changes";
import type { RecordItem } from "../job/shapes";
import { moveTo, type Span, stepTo } from "./play";
import { fromRecord } from "./rows";

const PLAY_EVERY_MS = 700;
const SETTLE_MS = 120;
const MOST_QUEUED = 12;

interface Then extends Board {
  first_seq: number;
  head_seq: number;
  first_time: string | null;
  head_time: string | null;
}

/** The pool as it was just after any record, from replay: its map and its queue. */
export function Moment({ pool, at, head, archive, go, close }: { pool: string; at: number; head: number; archive: Archive; go: (seq: number) => void; close: () => void }) {
  const shown = useSignal<Then | null>(null);
  const before = useSignal<Then | null>(null);
  const failure = useSignal<Refusal | null>(null);
  const playing = useSignal<0 | 1 | -1>(0);
  const wish = useSignal("");
  const alive = useRef(true);
  useEffect(() => () => void (alive.current = false), []);
  const span: Span = { first: shown.value?.first_seq ?? 0, head: Math.max(head, shown.value?.head_seq ?? 0) };

  useEffect(() => {
    if (at > head) return;
    const stop = new AbortController();
    const load = async (): Promise<void> => {
      try {
        const found = await get<Then>(`${poolPath(pool, "at")}?seq=${at}`, stop.signal);
        before.value = shown.peek() && Math.abs(shown.peek()!.seq - found.seq) === 1 ? shown.peek() : null;
        shown.value = found;
        failure.value = null;
        const next = stepTo(span, at, playing.peek());
        if (playing.peek() && next !== at) setTimeout(() => alive.current && !stop.signal.aborted && playing.peek() && go(next), PLAY_EVERY_MS);
        else playing.value = 0;
      } catch (error) {
        if (stop.signal.aborted) return;
        failure.value = asRefusal(error);
        playing.value = 0;
      }
    };
    const later = setTimeout(() => void load(), playing.peek() ? 0 : SETTLE_MS); // a slider that is being dragged asks for where it stops
    return () => {
      clearTimeout(later);
      stop.abort();
    };
  }, [pool, at, at > head]);

  const play = (way: 1 | -1): void => {
    playing.value = playing.value === way ? 0 : way;
    if (playing.value) go(stepTo(span, at, way));
  };
  const jump = async (): Promise<void> => {
    const text = wish.value.trim();
    if (!text) return;
    if (/^#?\d+$/.test(text)) return go(moveTo(span, Number(text.replace("#", ""))));
    try {
      const found = await get<Then>(`${poolPath(pool, "at")}?time=${encodeURIComponent(/^\d{4}-\d\d-\d\d[ T]\d\d:\d\d/.test(text) && !/[Z+]/.test(text) ? `${text.replace(" ", "T")}${/:\d\d:\d\d/.test(text) ? "" : ":00"}Z` : text)}`);
      go(found.seq);
    } catch (error) {
      failure.value = asRefusal(error);
    }
  };
  const then = shown.value;
  const stale = then !== null && then.seq !== at;
  return (
    <Card title="The pool as it was" aside={<Button quiet onClick={close}>Back to now</Button>}>
      <div class="player">
        <input type="range" min={span.first} max={span.head} value={at} aria-label="Record of the log" aria-valuetext={`record ${at}${then?.time ? `, ${moment(then.time)}` : ""}`} onInput={(event) => { playing.value = 0; go(Number(event.currentTarget.value)); }} />
        <div class="player-buttons">
          <Button onClick={() => go(span.first)} title="To the first record">|◀<span class="visually-hidden">To the first record</span></Button>
          <Button onClick={() => play(-1)} title="Play back">{playing.value === -1 ? "❚❚" : "◀"}<span class="visually-hidden">{playing.value === -1 ? "Stop" : "Play back"}</span></Button>
          <Button onClick={() => go(stepTo(span, at, -1))} title="One record back">−1</Button>
          <Button onClick={() => go(stepTo(span, at, 1))} title="One record on">+1</Button>
          <Button onClick={() => play(1)} title="Play on">{playing.value === 1 ? "❚❚" : "▶"}<span class="visually-hidden">{playing.value === 1 ? "Stop" : "Play on"}</span></Button>
          <Button onClick={() => go(span.head)} title="To the newest record">▶|<span class="visually-hidden">To the newest record</span></Button>
          <form class="jump" onSubmit={(event) => { event.preventDefault(); void jump(); }}>
            <input class="input" aria-label="Go to a record or a time" placeholder="#118, -10m, 2026-01-31 12:00" value={wish.value} onInput={(event) => (wish.value = event.currentTarget.value)} />
            <Button submit>Go</Button>
          </form>
        </div>
      </div>
      {failure.value && <p class="bad" role="alert">{failure.value.detail || failure.value.title}</p>}
      <ThatRecord pool={pool} seq={at} archive={archive} time={then && !stale ? then.time : null} />
      {then && <Shown pool={pool} then={then} before={stale ? null : before.value} stale={stale} />}
    </Card>
  );
}

function ThatRecord({ pool, seq, archive, time }: { pool: string; seq: number; archive: Archive; time: string | null }) {
  const record = useLoad<RecordItem>(archive.state === "there" ? archivePath(pool, `records/${seq}`) : null, seq).value.value;
  const line = record && fromRecord(record);
  return (
    <p class="lead that-record" role="status">
      Just after <SeqLink pool={pool} seq={seq} />
      {time && <span class="soft"> {moment(time)}</span>}
      {line?.seq === seq && (
        <>
          : <strong>{line.word}</strong> {line.job && <JobLink pool={pool} job={line.job} />} <span class="soft">{plainLine(line.text)}</span>
        </>
      )}
    </p>
  );
}

function Shown({ pool, then, before, stale }: { pool: string; then: Then; before: Then | null; stale: boolean }) {
  const nodes = useMemo<NodeCells[]>(() => Object.values(then.nodes ?? {}), [then]);
  const marked = useMemo(() => (before ? new Set(changes(before, then).map((each) => `${each.node}/${each.gpu}`)) : new Set<string>()), [then, before]);
  const jobs = then.jobs ?? {};
  const queue = (then.queue ?? []).flatMap((name): LiveJob[] => (jobs[name] ? [jobs[name]] : []));
  const row = then.pool;
  return (
    <div class="then" data-stale={stale} aria-busy={stale}>
      {row && (
        <p class="soft">
          {count(row.nodes, "node")}, {row.gpus} GPUs: {row.gpus_held} held, {row.gpus_free} free; {count(row.jobs_running, "job")} running, {row.jobs_waiting} waiting
        </p>
      )}
      {nodes.length ? (
        <>
          <MiniMap nodes={nodes} changed={marked} label={`GPUs just after record ${then.seq}`} />
          <MapLegend changes={marked.size > 0} />
        </>
      ) : (
        <p class="soft">No node had joined by then.</p>
      )}
      <h3 class="gap">Queue then</h3>
      {queue.length ? (
        <ol class="queue-then">
          {queue.slice(0, MOST_QUEUED).map((job) => (
            <li key={job.job}>
              <JobLink pool={pool} job={job.job} /> <span class="soft">{job.class}, {gpusText(job)}{job.why && <>. <bdi title={plainLine(job.why)}>{brief(job.why)}</bdi></>}</span>
            </li>
          ))}
        </ol>
      ) : (
        <p class="soft">Nobody waited.</p>
      )}
      {queue.length > MOST_QUEUED && <p class="soft note">and {queue.length - MOST_QUEUED} more</p>}
    </div>
  );
}
