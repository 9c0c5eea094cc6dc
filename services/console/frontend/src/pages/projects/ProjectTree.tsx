import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

import type { LiveProject } from "../../api";
import { lostText } from "../../lib";
import { ShareBar, ShareBarLegend } from "../../shared/ShareBar";
import { amount, nameOf, quotaText, RESOURCES, scaleOf, shareStatus, STATUSES, type Resource } from "../../shared/shareText";
import { Badge, Card, projectPath, SearchInput, SegmentedControl, Select } from "../../ui";
import { ALL, COLLAPSED_ABOVE, isSearching, treeRows } from "./treeRows";

const SEARCH_ABOVE = 12;
const RESOURCE_NAMES: readonly [Resource, string][] = RESOURCES;

/** The project tree with the figures of each project. root: only its descendants. */
export function ProjectTree({ pool, projects, root = null, title }: { pool: string; projects: ReadonlyMap<string, LiveProject>; root?: string | null; title: string }) {
  const resource = useSignal<Resource>("gpus");
  const treeFilter = useSignal(ALL);
  const toggled = useSignal<ReadonlySet<string>>(new Set());
  const expandedByDefault = projects.size <= COLLAPSED_ABOVE;
  const rows = treeRows(projects, (name) => toggled.value.has(name) !== expandedByDefault, root, treeFilter.value);
  const scale = scaleOf(rows.map(({ row }) => row), resource.value);
  const limited = rows.some(({ row }) => row.limit[resource.value] !== null);
  const toggle = (name: string): void => {
    const next = new Set(toggled.peek());
    if (!next.delete(name)) next.add(name);
    toggled.value = next;
  };
  const depth = root === null ? 0 : (projects.get(root)?.depth ?? 0) + 1;
  return (
    <Card title={title} aside={<SegmentedControl legend={`${title}: resource`} options={RESOURCE_NAMES} value={resource.value} onChange={(next) => (resource.value = next)} />}>
      {projects.size > SEARCH_ABOVE && (
        <div class="tree-search">
          <SearchInput label="Project" value={treeFilter.value.text} onInput={(text) => (treeFilter.value = { ...treeFilter.value, text })} />
          <Select label="Status" value={treeFilter.value.status} options={[["", "Any status"], ...STATUSES]} onChange={(status) => (treeFilter.value = { ...treeFilter.value, status })} />
        </div>
      )}
      <div class="table-scroll" tabIndex={0} role="region" aria-label={title}>
        <table class="table tree">
          <caption class="visually-hidden">{title}</caption>
          <thead>
            <tr>
              <th scope="col">Project</th>
              <th scope="col">Usage</th>
              {["Used", "Quota", "Fair share", ...(limited ? ["Limit"] : []), "Jobs"].map((head) => (
                <th key={head} scope="col" class="right">
                  {head}
                </th>
              ))}
              <th scope="col" class="right" title="Preemptions of its jobs, since the log began">
                Preempted
              </th>
              <th scope="col" class="right" title="Victims chosen for its jobs, since the log began">
                Preempts
              </th>
              <th scope="col" class="right" title="Work that its jobs lost to preemption, since the log began: since their last checkpoint, without the cost of the restart">
                Lost
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ row, children, collapsed }) => (
              <tr key={row.project}>
                <td class="tree-name">
                  <div style={{ "--depth": isSearching(treeFilter.value) ? 0 : row.depth - depth }}>
                    {children > 0 ? (
                      <button type="button" class="tree-fold" aria-expanded={!collapsed} onClick={() => toggle(row.project)}>
                        <span class="visually-hidden">{nameOf(row)}: child projects</span>
                      </button>
                    ) : (
                      <span class="tree-fold-none" />
                    )}
                    <span class="stack tree-text">
                      <a href={projectPath(pool, row.project)} title={row.description || undefined}>
                        {nameOf(row)}
                      </a>
                      <ShareStatus row={row} />
                    </span>
                  </div>
                </td>
                <td class="tree-bar">
                  <ShareBar row={row} resource={resource.value} scale={scale} />
                </td>
                <TreeStat head="Used">{amount(row.used[resource.value] ?? 0, resource.value)}</TreeStat>
                <TreeStat head="Quota">{quotaText(row, resource.value)}</TreeStat>
                <TreeStat head="Fair share">{amount(row.fair_share[resource.value], resource.value)}</TreeStat>
                {limited && <TreeStat head="Limit">{amount(row.limit[resource.value], resource.value)}</TreeStat>}
                <TreeStat head="Jobs">
                  {row.jobs_running} running, {row.jobs_pending} pending
                </TreeStat>
                <TreeStat head="Preempted">{row.evictions_suffered.toLocaleString("en")}</TreeStat>
                <TreeStat head="Preempts">{row.evictions_caused.toLocaleString("en")}</TreeStat>
                <TreeStat head="Lost">{lostText(row.gpu_hours_lost)}</TreeStat>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length === 0 && <p class="soft">No projects match the filter.</p>}
      <p class="soft note">Preemptions and lost work since the log began; Overview and Accounting show them for a time range.</p>
      <ShareBarLegend limited={limited} />
    </Card>
  );
}

function ShareStatus({ row }: { row: LiveProject }) {
  const { tone, word, text } = shareStatus(row);
  return (
    <Badge tone={tone} title={text}>
      {word}
    </Badge>
  );
}

/** A cell with its own label, for narrow pages without column headers. */
function TreeStat({ head, children }: { head: string; children: ComponentChildren }) {
  return (
    <td class="right nowrap tree-figure">
      <span class="tree-head">{head} </span>
      {children}
    </td>
  );
}
