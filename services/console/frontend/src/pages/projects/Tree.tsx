import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

import type { LiveProject } from "../../live/shapes";
import { Badge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { Segmented } from "../../ui/Segmented";
import { projectPath } from "./path";
import { ShareBar, ShareKey } from "./ShareBar";
import { amount, lost, nameOf, RESOURCES, scaleOf, verdict, WORDS, type Resource } from "./shares";
import { ALL, branches, FOLDED_ABOVE, seeks } from "./tree";

const SEARCH_ABOVE = 12;
const RESOURCE_NAMES: readonly [Resource, string][] = RESOURCES;

/** Projects under their parents, each with its figures. root: only what lies below it. */
export function Tree({ pool, projects, root = null, title }: { pool: string; projects: ReadonlyMap<string, LiveProject>; root?: string | null; title: string }) {
  const resource = useSignal<Resource>("gpu_milli");
  const sought = useSignal(ALL);
  const turned = useSignal<ReadonlySet<string>>(new Set());
  const atFirst = projects.size <= FOLDED_ABOVE;
  const rows = branches(projects, (name) => turned.value.has(name) !== atFirst, root, sought.value);
  const scale = scaleOf(rows.map(({ row }) => row), resource.value);
  const limited = rows.some(({ row }) => row.limit[resource.value] !== null);
  const turn = (name: string): void => {
    const next = new Set(turned.peek());
    if (!next.delete(name)) next.add(name);
    turned.value = next;
  };
  const depth = root === null ? 0 : (projects.get(root)?.depth ?? 0) + 1;
  return (
    <Card title={title} aside={<Segmented legend={`${title}: resource`} options={RESOURCE_NAMES} value={resource.value} onChange={(next) => (resource.value = next)} />}>
      {projects.size > SEARCH_ABOVE && (
        <div class="tree-search">
          <label>
            <span class="visually-hidden">Project</span>
            <input class="input" type="search" placeholder="Project" value={sought.value.text} onInput={(event) => (sought.value = { ...sought.value, text: event.currentTarget.value })} />
          </label>
          <label>
            <span class="visually-hidden">Standing</span>
            <select class="input" value={sought.value.standing} onChange={(event) => (sought.value = { ...sought.value, standing: event.currentTarget.value })}>
              <option value="">Any standing</option>
              {WORDS.map((word) => (
                <option key={word}>{word}</option>
              ))}
            </select>
          </label>
        </div>
      )}
      <div class="table-scroll" tabIndex={0} role="region" aria-label={title}>
        <table class="table tree">
          <caption class="visually-hidden">{title}</caption>
          <thead>
            <tr>
              <th scope="col">Project</th>
              <th scope="col">Use</th>
              {["Used", "Quota", "Fair share", ...(limited ? ["Limit"] : []), "Jobs"].map((head) => (
                <th key={head} scope="col" class="right">
                  {head}
                </th>
              ))}
              <th scope="col" class="right" title="How often its jobs had to leave for others">
                Preempted
              </th>
              <th scope="col" class="right" title="How often others had to leave for its jobs">
                Preempts
              </th>
              <th scope="col" class="right" title="Work that evictions of its jobs cost">
                Lost
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ row, children, folded }) => (
              <tr key={row.project}>
                <td class="tree-name">
                  <div style={{ "--depth": seeks(sought.value) ? 0 : row.depth - depth }}>
                    {children > 0 ? (
                      <button type="button" class="tree-fold" aria-expanded={!folded} onClick={() => turn(row.project)}>
                        <span class="visually-hidden">{nameOf(row)}: what lies below it</span>
                      </button>
                    ) : (
                      <span class="tree-fold-none" />
                    )}
                    <span class="tree-text">
                      <a href={projectPath(pool, row.project)} title={row.description || undefined}>
                        {nameOf(row)}
                      </a>
                      <Standing row={row} />
                    </span>
                  </div>
                </td>
                <td class="tree-bar">
                  <ShareBar row={row} resource={resource.value} scale={scale} />
                </td>
                <Figure head="Used">{amount(row.used[resource.value] ?? 0, resource.value)}</Figure>
                <Figure head="Quota">{amount(row.quota[resource.value], resource.value)}</Figure>
                <Figure head="Fair share">{amount(row.fair_share[resource.value], resource.value)}</Figure>
                {limited && <Figure head="Limit">{amount(row.limit[resource.value], resource.value)}</Figure>}
                <Figure head="Jobs">
                  {row.jobs_running} run, {row.jobs_pending} wait
                </Figure>
                <Figure head="Preempted">{row.evictions_suffered.toLocaleString("en")}</Figure>
                <Figure head="Preempts">{row.evictions_caused.toLocaleString("en")}</Figure>
                <Figure head="Lost">{lost(row.gpu_hours_lost)}</Figure>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length === 0 && <p class="soft">No project is like that.</p>}
      <ShareKey limited={limited} />
    </Card>
  );
}

function Standing({ row }: { row: LiveProject }) {
  const { tone, word, text } = verdict(row);
  return (
    <Badge tone={tone} title={text}>
      {word}
    </Badge>
  );
}

/** A cell that says by itself what it is, where a narrow page has no heads. */
function Figure({ head, children }: { head: string; children: ComponentChildren }) {
  return (
    <td class="right nowrap tree-figure">
      <span class="tree-head">{head} </span>
      {children}
    </td>
  );
}
