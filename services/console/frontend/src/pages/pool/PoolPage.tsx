import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";

import { useTitle } from "../../lib/title";
import { useLive, type Live } from "../../live/live";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { Empty } from "../../ui/Empty";
import { jobPath } from "../../ui/Links";
import { NoBoard } from "../../ui/NoBoard";
import { makings } from "../queue/making";
import { Makings } from "../queue/Makings";
import { Figures } from "./Figures";
import { Legend } from "./Legend";
import { GpuMap } from "./map/GpuMap";
import { classNames, groupsOf, keyOf, projectNames, type Group } from "./map/groups";
import { filters, NO_FILTER, nodesShown, tally, wantedBy, within, type Filter } from "./map/selecting";
import { level, meanUtilisation } from "./map/telemetry";
import { NodePanel } from "./NodePanel";
import { NodeTable } from "./NodeTable";
import { Toolbar, type Colouring, type Showing } from "./Toolbar";
import "./pool.css";

const MAKINGS_SHOWN = 4;

/** What is running where. */
export default function PoolPage({ pool }: { pool: string }) {
  const live = useLive(pool, "telemetry");
  useTitle(`${pool}: what runs where`);
  return live.row.value === null ? <NoBoard title="What runs where" what="the state" live={live} /> : <Board pool={pool} live={live} />;
}

function Board({ pool, live }: { pool: string; live: Live }) {
  const { route, query, path } = useLocation();
  const colouring = useSignal<Colouring>("project");
  const showing = useSignal<Showing>("map");
  const filter = useSignal<Filter>(NO_FILTER);
  const lit = useSignal<string | null>(null);
  const zoom = useSignal<number | null>(null);
  const zoomShown = useSignal(0);
  void [live.nodesAt.value, live.jobsAt.value, live.projectsAt.value, live.telemetryAt.value];
  const row = live.row.value!;
  const { nodes, jobs, projects, telemetry } = live;

  const measure = colouring.value === "utilisation" || colouring.value === "memory" ? colouring.value : null;
  const by = colouring.value === "class" ? "class" : "project";
  const names = by === "project" ? projectNames(projects.values(), jobs.values()) : classNames(live.classes.value, jobs.values());
  const groups = groupsOf(names);
  const groupOf = (name: string | null): Group | null => {
    const job = name === null ? undefined : jobs.get(name);
    return job ? (groups.get(keyOf(job, by)) ?? null) : null;
  };
  const wanted = wantedBy(filter.value, jobs, filter.value.project === null ? null : within(projects, filter.value.project));
  const found = tally(nodes.values(), jobs, by);
  const shown = nodesShown(nodes.values(), filter.value, wanted);
  const making = makings(jobs);
  const chosen = query.node === undefined ? undefined : nodes.get(query.node);
  const choose = (node: string | null): void => route(node === null ? path : `${path}?node=${encodeURIComponent(node)}`, true);

  return (
    <div class="page pool-page">
      <h1>What runs where</h1>
      <Figures row={row} tally={found} utilisation={meanUtilisation(nodes.values(), telemetry)} />
      {making.length > 0 && (
        <Card title="Room is being made">
          <Makings pool={pool} makings={making} most={MAKINGS_SHOWN} />
        </Card>
      )}
      {nodes.size === 0 ? (
        <Empty title="No node has reported yet">
          A machine appears here as soon as its node agent runs and is connected: <code>python -m bailiff_node_agent</code>. <code>bailiff doctor</code> says what is missing.
        </Empty>
      ) : (
        <div class="with-side map-and-node" data-open={chosen || query.node !== undefined ? "" : undefined}>
          <section class="map-part" aria-label="GPUs">
            <Toolbar
              colouring={colouring.value}
              onColouring={(next) => {
                colouring.value = next;
                lit.value = null;
              }}
              showing={showing.value}
              onShowing={(next) => (showing.value = next)}
              filter={filter.value}
              onFilter={(next) => (filter.value = next)}
              projects={projectNames(projects.values(), jobs.values())}
              zoom={zoomShown.value}
              onZoom={(next) => (zoom.value = next)}
            />
            {measure !== null && telemetry.size === 0 && (
              <p class="soft">No telemetry of this pool has arrived: node agents send it every few seconds. What they say is shown here as soon as it comes.</p>
            )}
            {showing.value === "map" && <Legend groups={[...groups.values()]} tally={found} measure={measure} lit={lit.value} onLit={(key) => (lit.value = key)} />}
            {filters(filter.value) && shown.length > 0 && (
              <p class="soft" role="status">
                {shown.length} of {nodes.size} nodes have such GPUs; the others are left out.
              </p>
            )}
            {shown.length === 0 ? (
              <Empty title="No GPU is like that">
                <Button onClick={() => (filter.value = NO_FILTER)}>Show all</Button>
              </Empty>
            ) : showing.value === "map" ? (
              <GpuMap
                nodes={shown}
                jobs={jobs}
                telemetry={telemetry}
                groupOf={groupOf}
                wanted={filters(filter.value) ? wanted : null}
                level={measure === null ? null : (node, gpu) => level(gpu, telemetry.get(node.node), measure)}
                litGroup={lit.value}
                zoom={zoom.value}
                onZoom={(next) => (zoomShown.value = next)}
                onJob={(job) => route(jobPath(pool, job))}
                onNode={choose}
              />
            ) : (
              <div class="table-card">
                <NodeTable pool={pool} nodes={shown} jobs={jobs} onNode={choose} />
              </div>
            )}
          </section>
          {query.node !== undefined && (
            <aside class="node-part" aria-label="Node">
              {chosen ? (
                <NodePanel pool={pool} node={chosen} jobs={jobs} onClose={() => choose(null)} />
              ) : (
                <Empty title="There is no such node">
                  <Button onClick={() => choose(null)}>Close</Button>
                </Empty>
              )}
            </aside>
          )}
        </div>
      )}
    </div>
  );
}
