import { few, gpusText } from "../../lib/terms";
import type { Live } from "../../live/live";
import type { LiveProject } from "../../live/shapes";
import { Since } from "../../ui/Ago";
import { Answer } from "../../ui/Answer";
import { Badge, StateBadge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { DataTable } from "../../ui/DataTable";
import { JobLink } from "../../ui/Links";
import { within } from "../pool/map/selecting";
import { Losses } from "./Losses";
import { OverTime } from "./OverTime";
import { projectPath } from "./path";
import { ShareBar, ShareKey } from "./ShareBar";
import { amount, borrowings, evictionsText, nameOf, RESOURCES, roomText, scaleOf, verdict } from "./shares";
import { jobsOf } from "./jobs";
import { Tree } from "./Tree";
import { pathTo } from "./tree";

const MOST_ASKED = 100;

/** One project: its share of each resource, its use over time, its jobs and what it lost. */
export function OneProject({ pool, live, row }: { pool: string; live: Live; row: LiveProject }) {
  const { projects, jobs } = live;
  const below = within(projects, row.project);
  const above = pathTo(projects, row.project).slice(0, -1);
  const { tone, word, text } = verdict(row);
  const borrows = borrowings(projects, (live.row.value?.gpus ?? 0) * 1000).find((each) => each.borrower === row);
  const lends = borrowings(projects, 0).filter((each) => each.lenders.some((lender) => lender.project === row));
  const own = jobsOf(jobs.values(), row.project === "" ? (name) => !projects.has(name) || name === "" : (name) => below.has(name));
  return (
    <div class="page">
      <nav class="crumbs" aria-label="Projects above">
        <a href={`/${encodeURIComponent(pool)}/projects`}>All projects</a>
        {above.map((name) => (
          <span key={name}>
            {" / "}
            <a href={projectPath(pool, name)}>{name}</a>
          </span>
        ))}
      </nav>
      <div class="page-head">
        <h1 class="cut">{nameOf(row)}</h1>
        <Badge tone={tone}>{word}</Badge>
        {row.description && <span class="soft cut">{row.description}</span>}
      </div>
      <div class="project-says">
        <p>{text}</p>
        {borrows && <p>There is room to borrow: {roomText(borrows)}.</p>}
        {lends.length > 0 && <p>It leaves some of its quota unused, which {lends.map((each) => nameOf(each.borrower)).join(", ")} may be using.</p>}
        <p>{evictionsText(row)}</p>
      </div>
      <div class="with-side project-grid">
        <Card title="Share of each resource">
          <ul class="resources">
            {RESOURCES.map(([resource, name]) => (
              <li key={resource}>
                <div class="resource-head">
                  <h3>{name}</h3>
                  <span class="number">
                    {amount(row.used[resource] ?? 0, resource)} <span class="soft">used</span>
                  </span>
                </div>
                <ShareBar row={row} resource={resource} scale={Math.max(scaleOf([row], resource), row.limit[resource] ?? 0)} />
                <dl class="resource-facts">
                  <Answer name="quota">{amount(row.quota[resource], resource)}</Answer>
                  <Answer name="fair share">{amount(row.fair_share[resource], resource)}</Answer>
                  <Answer name="borrowed">{amount(row.borrowed[resource] ?? 0, resource)}</Answer>
                  <Answer name="limit">{amount(row.limit[resource], resource)}</Answer>
                </dl>
              </li>
            ))}
          </ul>
          <ShareKey limited={RESOURCES.some(([resource]) => row.limit[resource] !== null)} />
        </Card>
        {row.project !== "" && <OverTime key={row.project} pool={pool} project={row.project} to={live.time.value} />}
      </div>
      {below.size > 1 && <Tree pool={pool} projects={projects} root={row.project} title="Projects below it" />}
      <Card title="Its jobs" aside={<span class="soft number">{own.length}</span>}>
        {own.length === 0 ? (
          <p class="soft">None runs or waits.</p>
        ) : (
          <DataTable
            caption="Jobs of the project"
            rows={own}
            rowKey={(job) => job.job}
            columns={[
              { head: "Job", cell: (job) => <span class="table-job"><JobLink pool={pool} job={job.job} /></span> },
              { head: "State", cell: (job) => <StateBadge state={job.state} /> },
              { head: "Class", cell: (job) => job.class },
              ...(below.size > 1 ? [{ head: "Project", cell: (job: (typeof own)[number]) => job.project }] : []),
              { head: "GPUs", right: true, cell: (job) => <span class="nowrap">{gpusText(job)}</span> },
              { head: "Nodes", cell: (job) => few(job.nodes) || "–" },
              { head: "For", right: true, cell: (job) => (job.waiting_since ?? job.started_at ? <Since at={(job.waiting_since ?? job.started_at)!} /> : "–") },
              { head: "Had to leave", right: true, cell: (job) => (job.evictions ? `${job.evictions} ×` : "–") },
            ]}
          />
        )}
      </Card>
      <Losses pool={pool} projects={[...below].slice(0, MOST_ASKED)} newest={row.evictions_suffered} />
    </div>
  );
}
