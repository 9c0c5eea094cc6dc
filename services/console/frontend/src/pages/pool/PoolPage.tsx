import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";

import { usePageTitle } from "../../lib";
import { PoolStatePending, useLive, type LivePool } from "../../live";
import { ActivePreemptions } from "../../shared/ActivePreemptions";
import { preemptionGroups } from "../../shared/preemptionGroups";
import { projectSubtree } from "../../shared/shareText";
import { Button, Card, EmptyState, jobPath, nodePath } from "../../ui";
import { classNames, groupsOf, keyOf, projectNames, type Group } from "../../shared/colourGroups";
import { filterPredicate, isFiltering, NO_FILTER, nodesShown, tally, type Filter } from "./map/gpuFilter";
import { GpuMap } from "./map/GpuMap";
import { level, meanUtilisation } from "./map/telemetry";
import { MapLegend } from "./MapLegend";
import { MapToolbar, type Colouring, type Showing } from "./MapToolbar";
import { NodeTable } from "./NodeTable";
import { PoolStats } from "./PoolStats";
import { RejectionsCard } from "./RejectionsCard";
import "./pool.css";

const MAX_PREEMPTIONS = 4;

/** The pool: key figures, GPU map and nodes. */
export default function PoolPage({ pool }: { pool: string }) {
  const live = useLive(pool, "telemetry");
  usePageTitle(`${pool}: GPU allocation`);
  return live.row.value === null ? <PoolStatePending title="GPU allocation" what="the state" live={live} /> : <PoolOverview pool={pool} live={live} />;
}

function PoolOverview({ pool, live }: { pool: string; live: LivePool }) {
  const { route } = useLocation();
  const colouring = useSignal<Colouring>("project");
  const showing = useSignal<Showing>("map");
  const filter = useSignal<Filter>(NO_FILTER);
  const highlighted = useSignal<string | null>(null);
  const zoom = useSignal<number | null>(null);
  const zoomShown = useSignal(0);
  void [live.nodesVersion.value, live.jobsVersion.value, live.projectsVersion.value, live.telemetryVersion.value];
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
  const wanted = filterPredicate(filter.value, jobs, filter.value.project === null ? null : projectSubtree(projects, filter.value.project));
  const counts = tally(nodes.values(), jobs, by);
  const shown = nodesShown(nodes.values(), filter.value, wanted);
  const preemptions = preemptionGroups(jobs);

  return (
    <div class="stack page pool-page">
      <h1>GPU allocation</h1>
      <PoolStats row={row} tally={counts} utilisation={meanUtilisation(nodes.values(), telemetry)} />
      {nodes.size === 0 ? (
        <EmptyState title="No nodes registered">
          A node registers when its node agent starts and connects: <code>python -m bailiff_node_agent</code>. Run <code>bailiff doctor</code> to see what is missing.
        </EmptyState>
      ) : (
        <section class="stack map-part" aria-label="GPUs">
          <MapToolbar
            colouring={colouring.value}
            onColouring={(next) => {
              colouring.value = next;
              highlighted.value = null;
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
            <p class="soft">No telemetry received. Node agents send it every few seconds.</p>
          )}
          {showing.value === "map" && <MapLegend groups={[...groups.values()]} tally={counts} measure={measure} highlighted={highlighted.value} onHighlight={(key) => (highlighted.value = key)} />}
          {isFiltering(filter.value) && shown.length > 0 && (
            <p class="soft" role="status">
              {shown.length} of {nodes.size} nodes match the filter.
            </p>
          )}
          {shown.length === 0 ? (
            <EmptyState title="No GPUs match the filter">
              <Button onClick={() => (filter.value = NO_FILTER)}>Clear filter</Button>
            </EmptyState>
          ) : showing.value === "map" ? (
            <GpuMap
              nodes={shown}
              jobs={jobs}
              telemetry={telemetry}
              groupOf={groupOf}
              wanted={isFiltering(filter.value) ? wanted : null}
              level={measure === null ? null : (node, gpu) => level(gpu, telemetry.get(node.node), measure)}
              highlightedGroup={highlighted.value}
              zoom={zoom.value}
              onZoom={(next) => (zoomShown.value = next)}
              onJob={(job) => route(jobPath(pool, job))}
              onNode={(node) => route(nodePath(pool, node))}
            />
          ) : (
            <div class="card table-card">
              <NodeTable pool={pool} nodes={shown} jobs={jobs} />
            </div>
          )}
        </section>
      )}
      {preemptions.length > 0 && (
        <Card title="Preemptions in progress">
          <ActivePreemptions pool={pool} preemptionGroups={preemptions} most={MAX_PREEMPTIONS} />
        </Card>
      )}
      <RejectionsCard pool={pool} />
    </div>
  );
}
