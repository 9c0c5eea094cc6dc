import { usePolling } from "../../lib/usePolling";
import { Card } from "../../ui/Card";
import { NodeLink } from "../../ui/Links";
import { Loading } from "../../ui/Loading";
import { loadNodeHistory, type NodeHistory } from "../../ui/telemetryHistory";
import { HistoryChart } from "../node/NodePage";
import type { TaskRow } from "./types";

const MOST_NODES = 8;

/** Utilisation and memory of the job's GPUs since this attempt started, by node, as far as the console keeps them. */
export function JobMeasurements({ pool, tasks, since }: { pool: string; tasks: readonly TaskRow[]; since: string | null }) {
  const devices = new Map<string, number[]>();
  for (const task of tasks) if (task.devices.length) devices.set(task.node, [...(devices.get(task.node) ?? []), ...task.devices]);
  const nodes = [...devices.keys()].slice(0, MOST_NODES);
  const { value, failure } = usePolling<NodeHistory[]>(nodes.length ? `${pool} ${nodes.join()}` : null, (signal) => Promise.all(nodes.map((node) => loadNodeHistory(pool, node, signal))));
  if (!nodes.length) return null;
  return (
    <Card title="Utilisation and memory of its GPUs">
      {failure ? (
        <p class="fault">{failure.detail || failure.title}</p>
      ) : !value ? (
        <Loading what="the measurements" />
      ) : (
        <div class="cards">
          {nodes.map((node, at) => (
            <section key={node}>
              <h3>
                <NodeLink pool={pool} node={node} />, GPU {devices.get(node)!.join(", ")}
              </h3>
              {value[at] && <HistoryChart history={value[at]} devices={devices.get(node)!} since={since ? Date.parse(since) : 0} />}
            </section>
          ))}
        </div>
      )}
      {devices.size > MOST_NODES && <p class="soft note">{MOST_NODES} of {devices.size} nodes are shown.</p>}
    </Card>
  );
}
