import { useLocation } from "preact-iso";

import { useArchive } from "../../lib/useArchive";
import { usePageTitle } from "../../lib/usePageTitle";
import { useLive } from "../../live/livePool";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { ChainStatus } from "./ChainStatus";
import { PointInTime } from "./PointInTime";
import { moveTo } from "./logSlider";
import { RecordDialog } from "./RecordDialog";
import "./record.css";
import { type Filter, filterOf, queryOf } from "./recordRows";
import { RecordList } from "./RecordList";

const whole = (text: string | undefined): number | null => (text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null);

/** The audit log: chain status, pool state at any record, and the records. The URL holds what is shown. */
export default function RecordPage({ pool }: { pool: string }) {
  const live = useLive(pool, "events");
  const archive = useArchive();
  usePageTitle(`${pool}: record`);
  const { query, path, route } = useLocation();
  const head = live.seq.value;
  const [at, seq, filter] = [whole(query.at), whole(query.seq), filterOf(query)];

  const show = (next: { at?: number | null; seq?: number | null; filter?: Filter }, replace = true): void => {
    const place = next.at === undefined ? at : next.at;
    const open = next.seq === undefined ? seq : next.seq;
    const parts = [place === null ? "" : `at=${place}`, open === null ? "" : `seq=${open}`, queryOf(next.filter ?? filter)].filter(Boolean);
    route(path + (parts.length ? `?${parts.join("&")}` : ""), replace);
  };
  return (
    <div class="page record-page">
      <div class="page-head">
        <h1>Record</h1>
        <span class="soft">All facts and decisions of {pool}, in log order.</span>
      </div>
      <ChainStatus pool={pool} live={live} archive={archive} />
      {at === null ? (
        <Card title="Pool state at a point in time">
          <div class="player closed">
            <input type="range" min={0} max={Math.max(0, head)} value={head} disabled={head < 0} aria-label="Position in the log" onInput={(event) => show({ at: Number(event.currentTarget.value) })} />
            <span class="soft">Drag or use the arrow keys to see the pool's state after any record. </span>
            <Button disabled={head < 1} onClick={() => show({ at: head - 1 })}>Previous record</Button>
          </div>
        </Card>
      ) : (
        <PointInTime pool={pool} at={head >= 0 ? moveTo({ first: 0, head }, at) : at} head={head} archive={archive} goTo={(next) => show({ at: next })} onClose={() => show({ at: null })} />
      )}
      <RecordList pool={pool} live={live} archive={archive} filter={filter} setFilter={(next) => show({ filter: next })} openRecord={(next) => show({ seq: next }, false)} />
      {seq !== null && (
        <RecordDialog key={seq} pool={pool} seq={seq} archive={archive} head={head} goTo={(next) => show({ seq: next })} showSnapshot={(next) => show({ at: next, seq: null })} onClose={() => show({ seq: null })} />
      )}
    </div>
  );
}
