import { count } from "../../lib/format";
import { now } from "../../lib/serverClock";
import { useFetch } from "../../lib/useFetch";
import { Badge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { DataTable, type Column } from "../../ui/DataTable";
import { SeqLink } from "../../ui/Links";
import { RelativeTime } from "../../ui/RelativeTime";

const REFRESH_SECONDS = 15;

interface Rejection {
  kind: "rejected" | "alarm" | "orphan";
  code: string;
  source: string;
  count: number;
  last: string | null;
  seq: number | null;
  text: string;
}

/** What was rejected and refused, by code and source; nothing is shown where nothing was. */
export function Rejections({ pool }: { pool: string }) {
  const fetched = useFetch<{ rows: Rejection[]; alarms: boolean }>(`/api/pools/${encodeURIComponent(pool)}/rejections`, Math.floor(now.value / 1000 / REFRESH_SECONDS)).value;
  const found = fetched.value;
  if (!found || (found.rows.length === 0 && found.alarms)) return null;
  const columns: Column<Rejection>[] = [
    { head: "Code", cell: (row) => <Badge tone={row.kind === "rejected" ? "plain" : "warn"}>{row.code}</Badge> },
    { head: "Source", cell: (row) => row.source },
    { head: "Count", right: true, cell: (row) => <span class="number">{row.count.toLocaleString("en")}</span> },
    { head: "Last", cell: (row) => (row.last ? <RelativeTime at={row.last} /> : "") },
    { head: "Record", cell: (row) => (row.seq === null ? "" : <SeqLink pool={pool} seq={row.seq} />) },
    { head: "Newest", cell: (row) => row.text },
  ];
  return (
    <Card title="Rejected and refused" aside={<span class="soft">{count(found.rows.reduce((sum, row) => sum + row.count, 0), "message")}</span>}>
      <DataTable caption="Rejected and refused messages, by code and source" columns={columns} rows={found.rows} rowKey={(row) => `${row.kind} ${row.code} ${row.source}`} />
      {!found.alarms && <p class="soft">The console may not read bailiff.alarms: what agents and the auditor refused is missing.</p>}
    </Card>
  );
}
