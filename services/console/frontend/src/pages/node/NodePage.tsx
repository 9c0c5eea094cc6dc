import { useSignal } from "@preact/signals";

import { NodeActions } from "../../actions/NodeActions";
import { archivePath, get, poolPath, useArchive, useFetch, usePolling, type AllocationItem, type Eviction, type Leftovers, type LiveNode, type NodeTelemetryHistory, type Page, type RecordItem } from "../../api";
import { bytes, duration, now, sanitizeLine, summary, typeTitle, usePageTitle, userText } from "../../lib";
import { PoolStatePending, useLive, type LivePool } from "../../live";
import { cellText, deviceName } from "../../shared/gpuCellStyle";
import { TelemetryChart } from "../../shared/TelemetryChart";
import { groupByEviction } from "../../shared/eventGroups";
import { EventTable } from "../../shared/EventTable";
import { loadNodeHistory } from "../../shared/telemetryHistory";
import { leftText } from "./leftText";
import { NodeAmounts } from "./NodeAmounts";
import { NodeLabels, NodeText } from "./NodeText";
import { Badge, Card, CopyButton, DataTable, EmptyState, JobLink, Loaded, Loading, Notice, pagePath, RelativeTime, SegmentedControl, Summary, Tabs } from "../../ui";

const EVENTS = 100;
const ALLOCATIONS = 50;

/** One node: its GPUs and their health, measurements, what ran there, its records, drain and undrain. */
export default function NodePage({ pool, node: name }: { pool: string; node: string }) {
  const live = useLive(pool, "telemetry");
  usePageTitle(name);
  void [live.nodesVersion.value, live.telemetryVersion.value];
  if (live.row.value === null) return <PoolStatePending title={name} what="the node" live={live} />;
  const node = live.nodes.get(name);
  const state = node ? [node.state, node.drain, node.devices.map((cell) => cell.slice(0, 3))].join() : "";
  return (
    <div class="stack page">
      <Summary>
        <div class="row page-head">
          <h1>
            {name} <CopyButton text={name} what="the node's name" />
          </h1>
          {node && <Badge tone={node.state === "ready" ? "good" : node.state === "lost" || node.state === "unreachable" ? "bad" : "warn"}>{node.state}</Badge>}
          <span class="spring" />
          {node && <NodeActions pool={pool} node={node} />}
        </div>
        {node && (
          <p class="lead">
            <NodeText node={node} />
          </p>
        )}
      </Summary>
      <Tabs
        label={`Views of ${name}`}
        tabs={[
          { key: "overview", name: "Overview", content: () => (node ? <NodeOverview pool={pool} live={live} node={node} /> : <NotRegistered pool={pool} name={name} />) },
          { key: "jobs", name: "What ran here", content: () => <Past pool={pool} name={name} state={state} show={Ran} /> },
          { key: "events", name: "Events", content: () => <Past pool={pool} name={name} state={state} show={NodeEvents} /> },
        ]}
      />
    </div>
  );
}

const NodeOverview = ({ pool, live, node }: { pool: string; live: LivePool; node: LiveNode }) => (
  <>
    <LeftBehind pool={pool} node={node} />
    <Devices pool={pool} live={live} node={node} />
    <Measurements pool={pool} node={node} />
    <Resources node={node} />
  </>
);

/** What ended tasks have left and the node's agent could not remove, and how a person does it. */
function LeftBehind({ pool, node }: { pool: string; node: LiveNode }) {
  const found = usePolling<Leftovers>(`${pool} ${node.node}`, (signal) => get(poolPath(pool, "nodes", node.node, "leftovers"), signal)).value;
  const text = found && leftText(node.node, found);
  if (!text) return null;
  return (
    <Card title="Left by ended tasks">
      <Notice>
        {text.what} <bdi>{sanitizeLine(found.left_example)}</bdi>
      </Notice>
      <p>{text.remedy}</p>
    </Card>
  );
}

const NotRegistered = ({ pool, name }: { pool: string; name: string }) => (
  <EmptyState title={`Node “${name}” is not registered in ${pool}`}>
    What it did while it was is in the other tabs, as far as the archive has it. <a href={pagePath(pool)}>All nodes</a>
  </EmptyState>
);

function Devices({ pool, live, node }: { pool: string; live: LivePool; node: LiveNode }) {
  const measured = live.telemetry.get(node.node);
  return (
    <Card title="GPUs" aside={measured && <span class="soft">measured {measured.at && <RelativeTime at={measured.at} />}</span>}>
      <DataTable
        caption={`GPUs of ${node.node}`}
        rows={node.devices.map((cell, gpu) => ({ cell, gpu }))}
        rowKey={({ gpu }) => gpu}
        columns={[
          { head: "Device", cell: ({ gpu }) => deviceName(node, gpu) },
          { head: "Health", cell: ({ cell }) => (cell[0] === "quarantined" || cell[0] === "unhealthy" ? <Badge tone="bad">{cell[0]}</Badge> : <Badge tone="good">healthy</Badge>) },
          { head: "Job", cell: ({ cell }) => (cell[1] ?? cell[2] ? <JobLink pool={pool} job={(cell[1] ?? cell[2])!} /> : "") },
          { head: "Utilisation", right: true, cell: ({ gpu }) => { const busy = measured?.devices[gpu]?.[0]; return busy == null ? "–" : `${Math.round(busy)} %`; } },
          { head: "Memory", right: true, cell: ({ gpu }) => { const [, used, total] = measured?.devices[gpu] ?? [null, null, null]; return used == null || !total ? "–" : `${bytes(used)} of ${bytes(total)}`; } },
          { head: "State", line: true, cell: ({ cell }) => <bdi>{sanitizeLine(cellText(cell))}</bdi> },
        ]}
      />
    </Card>
  );
}

function Measurements({ pool, node }: { pool: string; node: LiveNode }) {
  const range = useSignal<"1h" | "24h">("1h");
  const loaded = usePolling<NodeTelemetryHistory>(`${pool} ${node.node} ${range.value}`, (signal) => loadNodeHistory(pool, node.node, range.value === "1h" ? null : now.peek() - 24 * 3_600_000, signal));
  const all = node.devices.map((_, gpu) => gpu);
  return (
    <Card title="Utilisation and memory" aside={<SegmentedControl legend="Time range" options={[["1h", "1 hour"], ["24h", "24 hours"]]} value={range.value} onChange={(next) => (range.value = next)} />}>
      <Loaded of={loaded} what="the measurements">
        {(value) => <TelemetryChart history={value} devices={all} />}
      </Loaded>
    </Card>
  );
}

function Resources({ node }: { node: LiveNode }) {
  return (
    <Card title="Resources">
      <div class="cards">
        <NodeAmounts node={node} />
      </div>
      <NodeLabels node={node} />
    </Card>
  );
}

interface OfPast {
  pool: string;
  name: string;
  state: string;
}

/** What the archive has of the node, or why it is not shown. */
function Past({ show: Show, ...of }: OfPast & { show: (of: OfPast) => preact.JSX.Element }) {
  const archive = useArchive();
  if (archive.state === "none") return <EmptyState title="No history">What ran here comes from the archive, and none is configured.</EmptyState>;
  return archive.state === "there" ? <Show {...of} /> : <Loading what="what ran here" />;
}

function Ran({ pool, name, state }: OfPast) {
  const ran = useFetch<Page<AllocationItem>>(archivePath(pool, `allocations?node=${encodeURIComponent(name)}&limit=${ALLOCATIONS}`), state).value;
  return (
    <Card title="What ran here">
      <Loaded of={ran} what="what ran here">
        {({ items }) => (
          <DataTable
            caption={`Allocations on ${name}, newest first`}
            empty="Nothing, as far as the archive has it."
            rows={items}
            rowKey={(row) => `${row.from_seq} ${row.job} ${row.task} ${row.kind}`}
            columns={[
              { head: "Job", cell: (row) => <JobLink pool={pool} job={row.job} /> },
              { head: "Attempt", right: true, cell: (row) => row.attempt },
              { head: "GPUs", cell: (row) => row.devices.join(", ") || "none" },
              { head: "Kind", cell: (row) => row.kind },
              { head: "Project", cell: (row) => row.project || "none" },
              { head: "User", cell: (row) => userText(row.user, row.user_verified) },
              { head: "From", cell: (row) => <RelativeTime at={row.from_at} /> },
              { head: "For", right: true, cell: (row) => (row.to_at ? duration((Date.parse(row.to_at) - Date.parse(row.from_at)) / 1000) : "until now") },
            ]}
          />
        )}
      </Loaded>
    </Card>
  );
}

function NodeEvents({ pool, name, state }: OfPast) {
  const where = encodeURIComponent(name);
  const events = useFetch<Page<RecordItem>>(archivePath(pool, `nodes/${where}/timeline?limit=${EVENTS}`), state).value;
  const evictions = useFetch<Page<Eviction>>(archivePath(pool, `evictions?node=${where}&limit=${EVENTS}`), state).value.value?.items ?? [];
  return (
    <Card title="Events">
      <Loaded of={events} what="the records">
        {({ items }) => (
          <EventTable
            pool={pool}
            empty="None."
            caption={`Records about ${name}, newest first`}
            items={groupByEviction(items.map((row) => ({ key: String(row.seq), seq: row.seq, time: row.time, job: row.job, event: typeTitle(row.event ?? row.type), text: row.message ? sanitizeLine(row.message) : summary(row.data) })), evictions)}
            jobs
          />
        )}
      </Loaded>
    </Card>
  );
}
