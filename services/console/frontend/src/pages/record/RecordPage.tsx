import { useLocation } from "preact-iso";

import { useArchive } from "../../api";
import { usePageTitle } from "../../lib";
import { useLive } from "../../live";
import { pagePath, replayPath } from "../../ui";
import { ChainStatus } from "./ChainStatus";
import { RecordDialog } from "./RecordDialog";
import { RecordList } from "./RecordList";
import { filterOf, queryOf, type Filter } from "./recordRows";
import "./record.css";

const whole = (text: string | undefined): number | null => (text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null);

/** The audit log: chain status and the records. The URL holds what is shown. */
export default function RecordPage({ pool }: { pool: string }) {
  const live = useLive(pool, "events");
  const archive = useArchive();
  usePageTitle(`${pool}: record`);
  const { query, path, route } = useLocation();
  const head = live.seq.value;
  const [seq, filter] = [whole(query.seq), filterOf(query)];

  const show = (next: { seq?: number | null; filter?: Filter }, replace = true): void => {
    const open = next.seq === undefined ? seq : next.seq;
    const parts = [open === null ? "" : `seq=${open}`, queryOf(next.filter ?? filter)].filter(Boolean);
    route(path + (parts.length ? `?${parts.join("&")}` : ""), replace);
  };
  return (
    <div class="stack page record-page">
      <div class="row page-head">
        <h1>Record</h1>
        <span class="soft">
          All facts and decisions of {pool}, in log order. <a href={pagePath(pool, ["timeline"])}>The timeline</a> shows the pool at any of them.
        </span>
      </div>
      <ChainStatus pool={pool} live={live} archive={archive} />
      <RecordList pool={pool} live={live} archive={archive} filter={filter} setFilter={(next) => show({ filter: next })} openRecord={(next) => show({ seq: next }, false)} />
      {seq !== null && (
        <RecordDialog key={seq} pool={pool} seq={seq} archive={archive} head={head} goTo={(next) => show({ seq: next })} showSnapshot={(next) => route(replayPath(pool, next))} onClose={() => show({ seq: null })} />
      )}
    </div>
  );
}
