import { archivePath, useFetch, usePolling, type AllocationItem, type AttemptItem, type NodeTelemetryHistory, type Page } from "../../api";
import { momentAt, now } from "../../lib";
import { TelemetryChart } from "../../shared/TelemetryChart";
import { loadNodeHistory, partOf } from "../../shared/telemetryHistory";
import { Card, Loading, NodeLink } from "../../ui";
import { devicesByNode, KEPT_MS } from "./measuredDevices";

const MOST_NODES = 8;
const MOST_ALLOCATIONS = 200;

interface Measured {
  pool: string;
  devices: ReadonlyMap<string, readonly number[]>;
  attempt: number;
  /** ms; to null: until now. */
  from: number;
  to: number | null;
}

/** Utilisation and memory of the GPUs of one attempt, by node, as far as the console has telemetry of it. */
export function JobMeasurements({ pool, devices, attempt, from, to }: Measured) {
  const nodes = [...devices.keys()].slice(0, MOST_NODES);
  const key = nodes.length ? `${pool} ${nodes.join()} ${attempt} ${from} ${to}` : null;
  const { value, failure } = usePolling<NodeTelemetryHistory[]>(key, (signal) => Promise.all(nodes.map((node) => loadNodeHistory(pool, node, from, signal))));
  if (!nodes.length) return null;
  const late = value?.some((each) => each.times.length > 0 && each.times[0]! * 1000 - from > each.step_s * 1000) ?? false;
  return (
    <Card title={`Utilisation and memory of its GPUs, attempt ${attempt}`}>
      {failure ? (
        <p class="fault">{failure.message}</p>
      ) : !value ? (
        <Loading what="the measurements" />
      ) : (
        <div class="cards">
          {nodes.map((node, at) => (
            <section key={node}>
              <h3>
                <NodeLink pool={pool} node={node} />, GPU {devices.get(node)!.join(", ")}
              </h3>
              {value[at] && <TelemetryChart history={partOf(value[at], from, to ?? Infinity)} devices={devices.get(node)!} />}
            </section>
          ))}
        </div>
      )}
      {late && <p class="soft note">The attempt started at {momentAt(from)}. Telemetry is kept for a day and since the console’s start; the charts begin with the first that is known.</p>}
      {devices.size > MOST_NODES && <p class="soft note">{MOST_NODES} of {devices.size} nodes are shown.</p>}
    </Card>
  );
}

/** The same of an attempt that has ended: which GPUs it had is in the archive. */
export function PastMeasurements({ pool, job, submittedSeq, attempt }: { pool: string; job: string; submittedSeq: number; attempt: AttemptItem }) {
  const ended = Date.parse(attempt.ended_at ?? "");
  const recent = attempt.started_at !== null && ended > now.peek() - KEPT_MS;
  const { value } = useFetch<Page<AllocationItem>>(recent ? archivePath(pool, `allocations?job=${encodeURIComponent(job)}&limit=${MOST_ALLOCATIONS}`) : null, `${submittedSeq} ${attempt.attempt}`).value;
  if (!recent || !value) return null;
  return <JobMeasurements pool={pool} devices={devicesByNode(value.items, submittedSeq, attempt.attempt)} attempt={attempt.attempt} from={Date.parse(attempt.started_at!)} to={ended} />;
}
