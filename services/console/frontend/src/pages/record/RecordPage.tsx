import { useLocation } from "preact-iso";

import { useArchive } from "../../lib/archive";
import { useTitle } from "../../lib/title";
import { useLive } from "../../live/live";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { Chain } from "./Chain";
import { Moment } from "./Moment";
import { moveTo } from "./play";
import { RawRecord } from "./RawRecord";
import "./record.css";
import { type Filter, filterOf, queryOf } from "./rows";
import { Stream } from "./Stream";

const whole = (text: string | undefined): number | null => (text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null);

/** The log: what happens, each record as it is, and the pool at any moment. The address says what is shown. */
export default function RecordPage({ pool }: { pool: string }) {
  const live = useLive(pool, "events");
  const archive = useArchive();
  useTitle(`${pool}: record`);
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
        <span class="soft">Every fact and every decision of {pool}, in the order in which they were written.</span>
      </div>
      <Chain pool={pool} live={live} archive={archive} />
      {at === null ? (
        <Card title="The pool as it was">
          <div class="player closed">
            <input type="range" min={0} max={Math.max(0, head)} value={head} disabled={head < 0} aria-label="Go back in the log" onInput={(event) => show({ at: Number(event.currentTarget.value) })} />
            <span class="soft">Drag, or use the arrow keys, to see the pool just after any record. </span>
            <Button disabled={head < 1} onClick={() => show({ at: head - 1 })}>One record back</Button>
          </div>
        </Card>
      ) : (
        <Moment pool={pool} at={head >= 0 ? moveTo({ first: 0, head }, at) : at} head={head} archive={archive} go={(next) => show({ at: next })} close={() => show({ at: null })} />
      )}
      <Stream pool={pool} live={live} archive={archive} filter={filter} set={(next) => show({ filter: next })} open={(next) => show({ seq: next }, false)} />
      {seq !== null && (
        <RawRecord key={seq} pool={pool} seq={seq} archive={archive} head={head} go={(next) => show({ seq: next })} look={(next) => show({ at: next, seq: null })} close={() => show({ seq: null })} />
      )}
    </div>
  );
}
