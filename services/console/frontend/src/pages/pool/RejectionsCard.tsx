import { poolPath, useFetch, type RejectionRow, type Rejections } from "../../api";
import { count, now } from "../../lib";
import { Badge, DataTable, RelativeTime, SeqLink, type Column } from "../../ui";

const REFRESH_SECONDS = 15;

/** What was rejected and refused, by code and source; nothing is shown where nothing was. */
export function RejectionsCard({ pool }: { pool: string }) {
  const fetched = useFetch<Rejections>(poolPath(pool, "rejections"), Math.floor(now.value / 1000 / REFRESH_SECONDS)).value;
  const found = fetched.value;
  if (!found || (found.rows.length === 0 && found.alarms)) return null;
  const columns: Column<RejectionRow>[] = [
    { head: "Code", cell: (row) => <Badge tone={row.kind === "rejected" ? "plain" : "warn"}>{row.code}</Badge> },
    { head: "Source", cell: (row) => row.source },
    { head: "Count", right: true, cell: (row) => <span class="number">{row.count.toLocaleString("en")}</span> },
    { head: "Last", cell: (row) => (row.last ? <RelativeTime at={row.last} /> : "") },
    { head: "Record", cell: (row) => (row.seq === null ? "" : <SeqLink pool={pool} seq={row.seq} />) },
    { head: "Newest", line: true, cell: (row) => row.text },
  ];
  return (
    <details class="card fold-card">
      <summary>
        <strong>Rejected and refused</strong> <span class="soft">{count(found.rows.reduce((sum, row) => sum + row.count, 0), "message")}, by {count(found.rows.length, "code and source", "codes and sources")}</span>
      </summary>
      <div class="body">
        <DataTable caption="Rejected and refused messages, by code and source" columns={columns} rows={found.rows} rowKey={(row) => `${row.kind} ${row.code} ${row.source}`} />
        {!found.alarms && <p class="soft">The console may not read bailiff.alarms: what agents and the auditor refused is missing.</p>}
      </div>
    </details>
  );
}
