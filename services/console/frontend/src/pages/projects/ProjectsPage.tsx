import { useLocation } from "preact-iso";

import { useArchive } from "../../api";
import { count, usePageTitle } from "../../lib";
import { PoolStatePending, useLive, type LivePool } from "../../live";
import { useChartWindow } from "../../shared/chartWindow";
import { NearLimits } from "../../shared/NearLimits";
import { borrowings, borrowingText, nameOf, shareStatus } from "../../shared/shareText";
import { Card, EmptyState, pagePath, projectPath } from "../../ui";
import { BorrowingHistory } from "./BorrowingHistory";
import { GpuReservations } from "./GpuReservations";
import { ProjectDetails } from "./ProjectDetails";
import { ProjectTree } from "./ProjectTree";
import { PoolUsageHistory } from "./UsageHistory";
import { RANGES } from "./usageSeries";
import "./projects.css";

const BORROWERS_SHOWN = 8;

/** Quotas, fair shares and borrowing of all projects. */
export default function ProjectsPage({ pool }: { pool: string }) {
  const live = useLive(pool);
  const { query } = useLocation();
  usePageTitle(`${pool}: ${query.project || "projects"}`);
  void [live.projectsVersion.value, live.jobsVersion.value];
  if (live.row.value === null) return <PoolStatePending title="Projects" what="the projects" live={live} />;
  if (query.project !== undefined) {
    const row = live.projects.get(query.project);
    if (row) return <ProjectDetails pool={pool} live={live} row={row} />;
    return (
      <EmptyState title={`Project “${query.project}” does not exist`}>
        <a href={pagePath(pool, ["projects"])}>All projects</a>
      </EmptyState>
    );
  }
  return <AllProjects pool={pool} live={live} />;
}

/** Borrowing and pool usage over time. */
function History({ pool, to }: { pool: string; to: string | null }) {
  const { state } = useArchive();
  const { over, picker } = useChartWindow(to, RANGES, "6h");
  if (state === "none") return <EmptyState title="Usage over time is unavailable">It needs the archive, and none is configured.</EmptyState>;
  return (
    <>
      <div class="row page-head">
        <h2>Over time</h2>
        <span class="spring" />
        {picker}
      </div>
      <BorrowingHistory pool={pool} over={over} />
      <PoolUsageHistory pool={pool} to={to} over={over} />
    </>
  );
}

function AllProjects({ pool, live }: { pool: string; live: LivePool }) {
  const { over, picker } = useChartWindow(live.time.value, RANGES, "6h");
  const { projects } = live;
  const rows = [...projects.values()];
  if (!rows.length) {
    return (
      <div class="stack page">
        <h1>Projects</h1>
        <EmptyState title="No projects are defined">
          All jobs share one queue, ordered by priority. Projects give teams quotas and let them borrow unused resources: <code>bailiff project create NAME --gpus 4</code>
        </EmptyState>
        <NearLimits pool={pool} project={null} />
        <PoolUsageHistory pool={pool} to={live.time.value} over={over} aside={picker} />
      </div>
    );
  }
  const borrows = borrowings(projects, live.row.value!.gpus);
  const short = rows.filter((row) => shareStatus(row).tone === "bad");
  return (
    <div class="stack page">
      <div class="row page-head">
        <h1>Projects</h1>
        <p class="soft">
          {short.length
            ? `${count(short.length, "project")} ${short.length === 1 ? "is" : "are"} below the fair share with pending jobs: ${short.slice(0, 3).map(nameOf).join(", ")}${short.length > 3 ? " and others" : ""}.`
            : "Every project with pending jobs has its fair share."}
        </p>
      </div>
      <NearLimits pool={pool} project={null} />
      <Card title="Borrowing">
        {borrows.length === 0 ? (
          <p class="soft">Every project is within its quota.</p>
        ) : (
          <ul class="stack cut">
            {borrows.slice(0, BORROWERS_SHOWN).map((each) => (
              <li key={each.borrower.project}>
                <a href={projectPath(pool, each.borrower.project)}>{nameOf(each.borrower)}</a> {borrowingText(each)}
              </li>
            ))}
            {borrows.length > BORROWERS_SHOWN && <li class="soft">And {borrows.length - BORROWERS_SHOWN} more below.</li>}
          </ul>
        )}
      </Card>
      <ProjectTree pool={pool} projects={projects} title="Quotas and shares" />
      <GpuReservations pool={pool} />
      <History pool={pool} to={live.time.value} />
    </div>
  );
}
