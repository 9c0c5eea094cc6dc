import type { LiveProject } from "../../api";
import { allocatedText, few } from "../../lib";
import { unlistedPending, type LivePool } from "../../live";
import { useChartWindow } from "../../shared/chartWindow";
import { ShareBar, ShareBarLegend } from "../../shared/ShareBar";
import { amount, borrowings, evictionsText, kindQuotaText, lendersText, nameOf, projectSubtree, quotaText, RESOURCES, scaleOf, shareStatus } from "../../shared/shareText";
import { Badge, Card, DataTable, DescriptionItem, Elapsed, JobLink, pagePath, projectPath, StateBadge } from "../../ui";
import { GpuReservations } from "./GpuReservations";
import { ProjectBudgets } from "./ProjectBudgets";
import { ProjectEvictions } from "./ProjectEvictions";
import { jobsOf } from "./projectJobs";
import { ProjectTree } from "./ProjectTree";
import { pathTo } from "./treeRows";
import { UsageHistory } from "./UsageHistory";
import { RANGES } from "./usageSeries";

const MAX_PROJECTS_QUERIED = 100;

/** One project: share of each resource, usage over time, jobs and evictions. */
export function ProjectDetails({ pool, live, row }: { pool: string; live: LivePool; row: LiveProject }) {
  const { projects, jobs } = live;
  const { over, picker } = useChartWindow(live.time.value, RANGES, "6h");
  const subtree = projectSubtree(projects, row.project);
  const ancestors = pathTo(projects, row.project).slice(0, -1);
  const { tone, word, text } = shareStatus(row);
  const borrowing = borrowings(projects, live.row.value?.gpus ?? 0).find((each) => each.borrower === row);
  const lending = borrowings(projects, 0).filter((each) => each.lenders.some((lender) => lender.project === row));
  const ownJobs = jobsOf(jobs.values(), row.project === "" ? (name) => !projects.has(name) || name === "" : (name) => subtree.has(name));
  return (
    <div class="stack page">
      <nav class="crumbs" aria-label="Parent projects">
        <a href={pagePath(pool, ["projects"])}>All projects</a>
        {ancestors.map((name) => (
          <span key={name}>
            {" / "}
            <a href={projectPath(pool, name)}>{name}</a>
          </span>
        ))}
      </nav>
      <div class="row page-head">
        <h1>{nameOf(row)}</h1>
        <Badge tone={tone}>{word}</Badge>
        {row.description && <span class="soft cut">{row.description}</span>}
      </div>
      <div class="stack project-summary">
        <p>{text}</p>
        {borrowing && <p>Resources to borrow: {lendersText(borrowing)}.</p>}
        {lending.length > 0 && <p>Part of its quota is unused and may be borrowed by {lending.map((each) => nameOf(each.borrower)).join(", ")}.</p>}
        <p>{evictionsText(row)}</p>
      </div>
      <div class="with-side project-grid">
        <Card title="Share of each resource">
          <ul class="stack resources">
            {RESOURCES.map(([resource, name]) => (
              <li key={resource}>
                <div class="amount-line">
                  <h3>{name}</h3>
                  <span class="number">
                    {amount(row.used[resource] ?? 0, resource)} <span class="soft">used</span>
                  </span>
                </div>
                <ShareBar row={row} resource={resource} scale={Math.max(scaleOf([row], resource), row.limit[resource] ?? 0)} />
                <dl class="resource-facts">
                  <DescriptionItem name="quota">{quotaText(row, resource)}</DescriptionItem>
                  <DescriptionItem name="fair share">{amount(row.fair_share[resource], resource)}</DescriptionItem>
                  <DescriptionItem name="borrowed">{amount(row.borrowed[resource] ?? 0, resource)}</DescriptionItem>
                  {row.past_use[resource] ? <DescriptionItem name="past use">{amount(row.past_use[resource], resource)}</DescriptionItem> : null}
                  <DescriptionItem name="limit">{amount(row.limit[resource], resource)}</DescriptionItem>
                </dl>
              </li>
            ))}
            {row.kinds.map((kind) => (
              <li key={kind.kind}>
                <div class="amount-line">
                  <h3>{kind.kind}</h3>
                  <span class="number">
                    {amount(kind.used ?? 0, "gpus")} <span class="soft">used</span>
                  </span>
                </div>
                <dl class="resource-facts">
                  <DescriptionItem name="quota">{kindQuotaText(kind)}</DescriptionItem>
                  <DescriptionItem name="fair share">{amount(kind.fair_share, "gpus")}</DescriptionItem>
                  <DescriptionItem name="limit">{amount(kind.limit, "gpus")}</DescriptionItem>
                </dl>
              </li>
            ))}
          </ul>
          <ShareBarLegend limited={RESOURCES.some(([resource]) => row.limit[resource] !== null)} />
        </Card>
        {row.project !== "" && <UsageHistory key={row.project} pool={pool} project={row.project} to={live.time.value} over={over} aside={picker} />}
      </div>
      <ProjectBudgets pool={pool} project={row.project} ancestors={ancestors} newest={row.evictions_suffered} />
      <GpuReservations pool={pool} path={[row.project, ...ancestors]} />
      {subtree.size > 1 && <ProjectTree pool={pool} projects={projects} root={row.project} title="Child projects" />}
      <Card title="Jobs" aside={<span class="soft number">{ownJobs.length}</span>}>
        <DataTable
          caption="Jobs of the project"
          empty="No running or pending jobs."
          rows={ownJobs}
          rowKey={(job) => job.job}
          columns={[
            { head: "Job", cell: (job) => <span class="table-job"><JobLink pool={pool} job={job.job} /></span> },
            { head: "State", cell: (job) => <StateBadge state={job.state} /> },
            { head: "Class", cell: (job) => job.priority_class },
            ...(subtree.size > 1 ? [{ head: "Project", cell: (job: (typeof ownJobs)[number]) => job.project }] : []),
            { head: "GPUs", right: true, cell: (job) => <span class="nowrap">{allocatedText(job)}</span> },
            { head: "Nodes", cell: (job) => few(job.nodes) || "–" },
            { head: "Duration", right: true, cell: (job) => (job.pending_since ?? job.started_at ? <Elapsed at={(job.pending_since ?? job.started_at)!} /> : "–") },
            { head: "Evictions", right: true, cell: (job) => (job.evictions ? `${job.evictions} ×` : "–") },
          ]}
        />
        {unlistedPending(live) > 0 && (
          <p class="soft note">
            Without pending jobs further back in the queue: <a href={pagePath(pool, ["jobs"], { project: row.project })}>all jobs of the project</a>
          </p>
        )}
      </Card>
      <ProjectEvictions pool={pool} projects={[...subtree].slice(0, MAX_PROJECTS_QUERIED)} newest={row.evictions_suffered} />
    </div>
  );
}
