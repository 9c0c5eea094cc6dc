import { bytes } from "../../lib/words";
import type { LiveJob, NodeCells } from "../../live/shapes";
import { Badge } from "../../ui/Badge";
import { DataTable, type Column } from "../../ui/DataTable";
import { JobLink } from "../../ui/Links";
import { holdsOn } from "./holds";
import { runsOf } from "./map/selecting";
import { runText } from "./map/sentences";

interface Props {
  pool: string;
  nodes: readonly NodeCells[];
  jobs: ReadonlyMap<string, LiveJob>;
  onNode: (node: string) => void;
}

/** The same as the map, in words. */
export function NodeTable({ pool, nodes, jobs, onNode }: Props) {
  const columns: Column<NodeCells>[] = [
    {
      head: "Node",
      cell: (node) => (
        <button type="button" class="link" onClick={() => onNode(node.node)}>
          {node.node}
        </button>
      ),
    },
    { head: "State", cell: (node) => <Badge tone={node.state === "ready" ? "good" : node.state === "lost" ? "bad" : "warn"}>{node.state}</Badge> },
    {
      head: "Jobs on its GPUs",
      cell: (node) => (
        <ul class="table-holds">
          {holdsOn(node).map((hold) => (
            <li key={hold.job}>
              <span class="number soft">GPU {hold.gpus}</span> <JobLink pool={pool} job={hold.job} />
              <span class="soft">
                {jobs.get(hold.job)?.project ? `, ${jobs.get(hold.job)!.project}` : ""}
                {hold.then !== null && `; then ${hold.then}`}
              </span>
            </li>
          ))}
        </ul>
      ),
    },
    { head: "Others", cell: (node) => runsOf(node).filter(({ cell }) => cell[1] === null && cell[0] !== "shared").map(runText).join("; ") || "–" },
    { head: "CPU free", right: true, cell: (node) => `${Math.round(node.cpu_milli_free / 100) / 10} of ${Math.round(node.cpu_milli / 100) / 10}` },
    { head: "Memory free", right: true, cell: (node) => `${bytes(node.memory_bytes_free)} of ${bytes(node.memory_bytes)}` },
  ];
  return <DataTable caption="Nodes and who is on their GPUs" columns={columns} rows={[...nodes]} rowKey={(node) => node.node} />;
}
