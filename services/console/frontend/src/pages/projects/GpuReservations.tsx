import { get, poolPath, usePolling, type ReservationView } from "../../api";
import { duration, moment } from "../../lib";
import { Badge, Card, DataTable, projectPath, SeqLink } from "../../ui";
import { repeatText, reservationsOf } from "./reservationRows";

/** GPUs that are reserved: for a project or one above it, whose jobs may use them; without a project: all. */
export function GpuReservations({ pool, path }: { pool: string; path?: readonly string[] }) {
  const all = usePolling<ReservationView[]>(`${pool} reservations`, (signal) => get(poolPath(pool, "reservations"), signal)).value ?? [];
  const rows = path ? reservationsOf(all, path) : all;
  if (!rows.length) return null;
  return (
    <Card title="Reserved GPUs">
      <DataTable
        caption="Reservations, the soonest first"
        rows={rows}
        rowKey={(row) => row.reservation}
        columns={[
          { head: "Reservation", cell: (row) => row.reservation },
          { head: "Project", cell: (row) => <a href={projectPath(pool, row.project)}>{row.project}</a> },
          { head: "GPUs", right: true, cell: (row) => row.gpus },
          { head: "Begins", cell: (row) => (row.now ? <Badge tone="good">now</Badge> : <time dateTime={row.begin}>{moment(row.begin)}</time>) },
          { head: "For", right: true, cell: (row) => duration(row.duration_s) },
          { head: "Repeated", cell: (row) => repeatText(row) },
          { head: "By", cell: (row) => row.made_by },
          { head: "Reason", cell: (row) => row.reason || "–" },
          { head: "Record", cell: (row) => <SeqLink pool={pool} seq={row.made_at_seq} /> },
        ]}
      />
    </Card>
  );
}
