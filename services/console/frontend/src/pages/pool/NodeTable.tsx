import type { LiveJob, LiveNode } from "../../api";
import { bytes } from "../../lib";
import { Badge, DataTable, JobLink, NodeLink, type Column } from "../../ui";
import { runsOf } from "./map/gpuFilter";
import { runSummary } from "./map/gpuText";
import { allocationsOn } from "./nodeAllocations";

interface Props {
  pool: string;
  nodes: readonly LiveNode[];
  jobs: ReadonlyMap<string, LiveJob>;
}

/** The nodes and their GPUs as a table. */
export function NodeTable({ pool, nodes, jobs }: Props) {
  const columns: Column<LiveNode>[] = [
    { head: "Node", cell: (node) => <NodeLink pool={pool} node={node.node} /> },
    { head: "State", cell: (node) => <Badge tone={node.state === "ready" ? "good" : node.state === "lost" ? "bad" : "warn"}>{node.state}</Badge> },
    {
      head: "Jobs",
      cell: (node) => (
        <ul class="cut">
          {allocationsOn(node).map((allocation) => (
            <li key={allocation.job}>
              <span class="number soft">GPU {allocation.gpus}</span> <JobLink pool={pool} job={allocation.job} />
              <span class="soft">
                {jobs.get(allocation.job)?.project ? `, ${jobs.get(allocation.job)!.project}` : ""}
                {allocation.reservedFor !== null && `; reserved for ${allocation.reservedFor}`}
              </span>
            </li>
          ))}
        </ul>
      ),
    },
    { head: "Other GPUs", cell: (node) => runsOf(node).filter(({ cell }) => cell[1] === null && cell[0] !== "shared").map(runSummary).join("; ") || "–" },
    { head: "CPU free", right: true, cell: (node) => `${Math.round(node.cpu_milli_free / 100) / 10} of ${Math.round(node.cpu_milli / 100) / 10}` },
    { head: "Memory free", right: true, cell: (node) => `${bytes(node.memory_bytes_free)} of ${bytes(node.memory_bytes)}` },
  ];
  return <DataTable caption="Nodes and the jobs on their GPUs" columns={columns} rows={[...nodes]} rowKey={(node) => node.node} />;
}
