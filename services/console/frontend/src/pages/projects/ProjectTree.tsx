import { useSignal } from "@preact/signals";

import type { LiveProject } from "../../api";
import { lostText } from "../../lib";
import { ShareBar, ShareBarLegend } from "../../shared/ShareBar";
import { amount, nameOf, quotaText, RESOURCES, scaleOf, shareStatus, STATUSES, type Resource } from "../../shared/shareText";
import { Badge, Card, DataTable, projectPath, SearchInput, SegmentedControl, Select } from "../../ui";
import { ALL, COLLAPSED_ABOVE, isSearching, treeRows, type TreeRow } from "./treeRows";

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
      <DataTable
        caption={title}
        rows={rows}
        rowKey={({ row }) => row.project}
        columns={[
          {
            head: "Project",
            line: true,
            cell: ({ row, children, collapsed }) => (
              <div class="tree-name" style={{ "--depth": isSearching(treeFilter.value) ? 0 : row.depth - depth }}>
                {children > 0 ? (
                  <button type="button" class="tree-fold" aria-expanded={!collapsed} onClick={() => toggle(row.project)}>
                    <span class="chevron" aria-hidden="true" />
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
            ),
          },
          { head: "Usage", line: true, cell: ({ row }) => <div class="tree-bar"><ShareBar row={row} resource={resource.value} scale={scale} /></div> },
          { head: "Used", right: true, cell: ({ row }) => amount(row.used[resource.value] ?? 0, resource.value) },
          { head: "Quota", right: true, cell: ({ row }) => <span class="tree-wraps">{quotaText(row, resource.value)}</span> },
          { head: "Fair share", right: true, cell: ({ row }) => amount(row.fair_share[resource.value], resource.value) },
          ...(limited ? [{ head: "Limit", right: true, cell: ({ row }: TreeRow) => amount(row.limit[resource.value], resource.value) }] : []),
          { head: "Jobs", right: true, cell: ({ row }) => <span class="tree-wraps">{row.jobs_running} running, {row.jobs_pending} pending</span> },
          { head: "Preempted", title: "Preemptions of its jobs, since the log began", right: true, cell: ({ row }) => row.evictions_suffered.toLocaleString("en") },
          { head: "Preempts", title: "Victims chosen for its jobs, since the log began", right: true, cell: ({ row }) => row.evictions_caused.toLocaleString("en") },
          { head: "Lost", title: "Work that its jobs lost to preemption, since the log began: since their last checkpoint, without the cost of the restart", right: true, cell: ({ row }) => lostText(row.gpu_hours_lost) },
        ]}
      />
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
