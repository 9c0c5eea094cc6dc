import { useLocation } from "preact-iso";

import { useArchive } from "../../lib/archive";
import { useTitle } from "../../lib/title";
import { useLive, type Live } from "../../live/live";
import { Card } from "../../ui/Card";
import { Empty } from "../../ui/Empty";
import { NoBoard } from "../../ui/NoBoard";
import { Borrowed } from "./Borrowed";
import { OneProject } from "./OneProject";
import { OverTime } from "./OverTime";
import { projectPath } from "./path";
import { borrowings, borrowingText, nameOf, verdict } from "./shares";
import { Tree } from "./Tree";
import { count } from "../../lib/words";
import "./projects.css";

const BORROWERS_SHOWN = 8;

/** Whether every team gets its share, and who borrows what. */
export default function ProjectsPage({ pool }: { pool: string }) {
  const live = useLive(pool);
  const { query } = useLocation();
  useTitle(`${pool}: ${query.project || "projects"}`);
  void [live.projectsAt.value, live.jobsAt.value];
  if (live.row.value === null) return <NoBoard title="Projects" what="the projects" live={live} />;
  if (query.project !== undefined) {
    const row = live.projects.get(query.project);
    if (row) return <OneProject pool={pool} live={live} row={row} />;
    return (
      <Empty title={`There is no project “${query.project}”`}>
        <a href={`/${encodeURIComponent(pool)}/projects`}>All projects</a>
      </Empty>
    );
  }
  return <AllProjects pool={pool} live={live} />;
}

/** Who borrowed, and what the pool used, over time. */
function Past({ pool, to }: { pool: string; to: string | null }) {
  const { state } = useArchive();
  if (state === "none") return <Empty title="Use over time cannot be shown">It is in the archive, and this console has none to ask.</Empty>;
  return (
    <>
      <Borrowed pool={pool} to={to} />
      <OverTime pool={pool} project="" to={to} />
    </>
  );
}

function AllProjects({ pool, live }: { pool: string; live: Live }) {
  const { projects } = live;
  const rows = [...projects.values()];
  if (!rows.length) {
    return (
      <div class="page">
        <h1>Projects</h1>
        <Empty title="No projects are defined">
          All jobs stand in one line, by the priority of their class. With projects, teams have quotas, and borrow what others leave: <code>bailiff project create NAME --gpus 4</code>
        </Empty>
        <OverTime pool={pool} project="" to={live.time.value} />
      </div>
    );
  }
  const borrows = borrowings(projects, live.row.value!.gpus * 1000);
  const short = rows.filter((row) => verdict(row).tone === "bad");
  return (
    <div class="page">
      <div class="page-head">
        <h1>Projects</h1>
        <p class="soft">
          {short.length
            ? `${count(short.length, "project")} ${short.length === 1 ? "is" : "are"} below the fair share while jobs wait: ${short.slice(0, 3).map(nameOf).join(", ")}${short.length > 3 ? " and others" : ""}.`
            : "Every project that has jobs waiting has its fair share."}
        </p>
      </div>
      <Card title="Who borrows what">
        {borrows.length === 0 ? (
          <p class="soft">Nobody: every project is within its quota.</p>
        ) : (
          <ul class="borrowings">
            {borrows.slice(0, BORROWERS_SHOWN).map((each) => (
              <li key={each.borrower.project}>
                <a href={projectPath(pool, each.borrower.project)}>{nameOf(each.borrower)}</a> {borrowingText(each)}
              </li>
            ))}
            {borrows.length > BORROWERS_SHOWN && <li class="soft">And {borrows.length - BORROWERS_SHOWN} more, below.</li>}
          </ul>
        )}
      </Card>
      <Tree pool={pool} projects={projects} title="Quotas and shares" />
      <Past pool={pool} to={live.time.value} />
    </div>
  );
}
