import { useSignal } from "@preact/signals";

import { NodeActions } from "../../actions/NodeActions";
import { archivePath, type Page } from "../../lib/api";
import { bytes, duration } from "../../lib/format";
import { now } from "../../lib/serverClock";
import { sanitizeLine } from "../../lib/sanitizeLine";
import { summary, typeTitle } from "../../lib/recordText";
import { useArchive } from "../../lib/useArchive";
import { useFetch } from "../../lib/useFetch";
import { usePageTitle } from "../../lib/usePageTitle";
import { userText } from "../../lib/userText";
import { usePolling } from "../../lib/usePolling";
import { useLive, type LivePool } from "../../live/livePool";
import type { NodeCells } from "../../live/types";
import { Badge } from "../../ui/Badge";
import { Bar } from "../../ui/Bar";
import { Card } from "../../ui/Card";
import { CopyButton } from "../../ui/CopyButton";
import { DataTable } from "../../ui/DataTable";
import { EmptyState } from "../../ui/EmptyState";
import { cellText, deviceName } from "../../ui/gpuCellStyle";
import { JobLink, SeqLink } from "../../ui/Links";
import { Loading } from "../../ui/Loading";
import { PoolStatePending } from "../../ui/PoolStatePending";
import { RelativeTime } from "../../ui/RelativeTime";
import { SegmentedControl } from "../../ui/SegmentedControl";
import { TelemetryChart } from "../../ui/TelemetryChart";
import { loadNodeHistory, type NodeHistory } from "../../ui/telemetryHistory";
import type { RecordItem } from "../job/types";
import { devicesText, NODE_STATE_TEXTS } from "../pool/map/gpuText";

const EVENTS = 50;
const ALLOCATIONS = 50;

interface Allocation {
  job: string;
  submitted_seq: number;
  attempt: number;
  task: number;
  kind: string;
  gpus: number[];
  project: string | null;
  user: string | null;
  user_verified: boolean | null;
  from_seq: number;
  from_at: string;
  to_at: string | null;
}

/** One node: its GPUs and their health, measurements, what ran there, its records, drain and undrain. */
export default function NodePage({ pool, node: name }: { pool: string; node: string }) {
  const live = useLive(pool, "telemetry");
  usePageTitle(name);
  void [live.nodesVersion.value, live.telemetryVersion.value];
  if (live.row.value === null) return <PoolStatePending title={name} what="the node" live={live} />;
  const node = live.nodes.get(name);
  return (
    <div class="page">
      <div class="page-head">
        <h1>
          {name} <CopyButton text={name} what="the node's name" />
        </h1>
        {node && <Badge tone={node.state === "ready" ? "good" : node.state === "lost" || node.state === "unreachable" ? "bad" : "warn"}>{node.state}</Badge>}
        <span class="spring" />
        {node && <NodeActions pool={pool} node={node} />}
      </div>
      {node ? (
        <>
          <p class="lead">
            {devicesText(node)}
            {node.model && `, ${node.model}`}. The node {NODE_STATE_TEXTS[node.state] ?? `is ${node.state}`}.
          </p>
          <Devices pool={pool} live={live} node={node} />
          <Measurements pool={pool} node={node} />
          <Resources node={node} />
        </>
      ) : (
        <EmptyState title={`Node “${name}” is not registered in ${pool}`}>
          What it did while it was is below, as far as the archive has it. <a href={`/${encodeURIComponent(pool)}`}>All nodes</a>
        </EmptyState>
      )}
      <Past pool={pool} name={name} state={node ? [node.state, node.drain, node.gpus.map((cell) => cell.slice(0, 3))].join() : ""} />
    </div>
  );
}

function Devices({ pool, live, node }: { pool: string; live: LivePool; node: NodeCells }) {
  const measured = live.telemetry.get(node.node);
  return (
    <Card title="GPUs" aside={measured && <span class="soft">measured <RelativeTime at={measured.at} /></span>}>
      <DataTable
        caption={`GPUs of ${node.node}`}
        rows={node.gpus.map((cell, gpu) => ({ cell, gpu }))}
        rowKey={({ gpu }) => gpu}
        columns={[
          { head: "Device", cell: ({ gpu }) => deviceName(node, gpu) },
          { head: "Health", cell: ({ cell }) => (cell[0] === "quarantined" || cell[0] === "unhealthy" ? <Badge tone="bad">{cell[0]}</Badge> : <Badge tone="good">healthy</Badge>) },
          { head: "Job", cell: ({ cell }) => (cell[1] ?? cell[2] ? <JobLink pool={pool} job={(cell[1] ?? cell[2])!} /> : "") },
          { head: "Utilisation", right: true, cell: ({ gpu }) => { const busy = measured?.devices[gpu]?.[0]; return busy == null ? "–" : `${Math.round(busy)} %`; } },
          { head: "Memory", right: true, cell: ({ gpu }) => { const [, used, total] = measured?.devices[gpu] ?? [null, null, null]; return used == null || !total ? "–" : `${bytes(used)} of ${bytes(total)}`; } },
          { head: "State", cell: ({ cell }) => <bdi>{sanitizeLine(cellText(cell))}</bdi> },
        ]}
      />
    </Card>
  );
}

function Measurements({ pool, node }: { pool: string; node: NodeCells }) {
  const range = useSignal<"1h" | "24h">("1h");
  const { value, failure } = usePolling<NodeHistory>(`${pool} ${node.node} ${range.value}`, (signal) => loadNodeHistory(pool, node.node, range.value === "1h" ? null : now.peek() - 24 * 3_600_000, signal));
  const all = node.gpus.map((_, gpu) => gpu);
  return (
    <Card title="Utilisation and memory" aside={<SegmentedControl legend="Time range" options={[["1h", "1 hour"], ["24h", "24 hours"]]} value={range.value} onChange={(next) => (range.value = next)} />}>
      {failure ? <p class="fault">{failure.detail || failure.title}</p> : value ? <TelemetryChart history={value} devices={all} /> : <Loading what="the measurements" />}
    </Card>
  );
}

function Resources({ node }: { node: NodeCells }) {
  const amount = (name: string, used: number, of: number, text: (value: number) => string) => (
    <div key={name}>
      <p class="soft">
        {name}: {text(used)} of {text(of)} allocated
      </p>
      <Bar used={used} quota={null} of={of} words={`${name}: ${text(used)} of ${text(of)} allocated`} />
    </div>
  );
  const labels = Object.entries(node.labels).sort(([a], [b]) => (a < b ? -1 : 1));
  return (
    <Card title="Resources">
      <div class="cards">
        {amount("CPU", (node.cpu_milli - node.cpu_milli_free) / 1000, node.cpu_milli / 1000, (value) => `${Math.round(value * 10) / 10}`)}
        {amount("Memory", node.memory_bytes - node.memory_bytes_free, node.memory_bytes, bytes)}
      </div>
      {labels.length > 0 && <dl class="facts">{labels.flatMap(([key, value]) => [<dt key={`${key} `}>{key}</dt>, <dd key={key}>{value}</dd>])}</dl>}
    </Card>
  );
}

function Past({ pool, name, state }: { pool: string; name: string; state: string }) {
  const archive = useArchive();
  const ask = archive.state === "there";
  const where = encodeURIComponent(name);
  const ran = useFetch<Page<Allocation>>(ask ? archivePath(pool, `allocations?node=${where}&limit=${ALLOCATIONS}`) : null, state).value;
  const events = useFetch<Page<RecordItem>>(ask ? archivePath(pool, `nodes/${where}/timeline?limit=${EVENTS}`) : null, state).value;
  if (archive.state === "none") return <EmptyState title="No history">What ran here comes from the archive, and none is configured.</EmptyState>;
  const failure = ran.failure ?? events.failure;
  if (failure && failure.status !== 404) return <p class="notice">The archive is unavailable ({failure.detail || failure.title}): what ran here is not shown.</p>;
  return (
    <>
      <Card title="What ran here">
        {ran.value?.items.length ? (
          <DataTable
            caption={`Allocations on ${name}, newest first`}
            rows={ran.value.items}
            rowKey={(row) => `${row.from_seq} ${row.job} ${row.task} ${row.kind}`}
            columns={[
              { head: "Job", cell: (row) => <JobLink pool={pool} job={row.job} /> },
              { head: "Attempt", right: true, cell: (row) => row.attempt },
              { head: "GPUs", cell: (row) => row.gpus.join(", ") || "none" },
              { head: "Kind", cell: (row) => row.kind },
              { head: "Project", cell: (row) => row.project || "none" },
              { head: "User", cell: (row) => userText(row.user, row.user_verified) },
              { head: "From", cell: (row) => <RelativeTime at={row.from_at} /> },
              { head: "For", right: true, cell: (row) => (row.to_at ? duration((Date.parse(row.to_at) - Date.parse(row.from_at)) / 1000) : "until now") },
            ]}
          />
        ) : ran.value ? (
          <p class="soft">Nothing, as far as the archive has it.</p>
        ) : (
          <Loading what="what ran here" />
        )}
      </Card>
      <Card title="Records about the node">
        {events.value?.items.length ? (
          <DataTable
            caption={`Records about ${name}, newest first`}
            rows={events.value.items}
            rowKey={(row) => row.seq}
            columns={[
              { head: "When", cell: (row) => <RelativeTime at={row.time} /> },
              { head: "Record", cell: (row) => <SeqLink pool={pool} seq={row.seq} /> },
              { head: "Event", cell: (row) => typeTitle(row.event ?? row.type) },
              { head: "Details", cell: (row) => <bdi>{row.message ? sanitizeLine(row.message) : summary(row.data)}</bdi> },
            ]}
          />
        ) : events.value ? (
          <p class="soft">None.</p>
        ) : (
          <Loading what="the records" />
        )}
      </Card>
    </>
  );
}
