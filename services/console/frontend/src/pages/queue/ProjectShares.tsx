import type { LiveProject } from "../../api";
import { count } from "../../lib";
import { ShareBar, ShareBarLegend } from "../../shared/ShareBar";
import { mostRelevant, nameOf, scaleOf, shareStatus } from "../../shared/shareText";
import { Badge, Card, pagePath, projectPath } from "../../ui";

const MOST = 16;

/** GPU usage of each project with its quota and fair share. */
export function ProjectShares({ pool, projects }: { pool: string; projects: ReadonlyMap<string, LiveProject> }) {
  const rows = [...projects.values()];
  const shown = mostRelevant(rows, MOST);
  const whole = scaleOf(shown, "gpus");
  return (
    <Card title="Shares" aside={<a href={pagePath(pool, ["projects"])}>All projects</a>}>
      {rows.length === 0 ? (
        <p class="soft">No projects are defined: all jobs share one queue, ordered by priority.</p>
      ) : (
        <>
          <ul class="stack shares">
            {shown.map((row) => {
              const { tone, word, text } = shareStatus(row);
              return (
                <li key={row.project} style={{ "--depth": row.depth }}>
                  <div class="share-head">
                    <a class="cut" href={projectPath(pool, row.project)}>
                      {nameOf(row)}
                    </a>
                    <span class="number soft">{row.usage_text.replace(" over quota", "")}</span>
                    <Badge tone={tone} title={text}>
                      {word}
                    </Badge>
                  </div>
                  <ShareBar row={row} resource="gpus" scale={whole} />
                </li>
              );
            })}
          </ul>
          {shown.length < rows.length && <p class="soft note">And {count(rows.length - shown.length, "other project")}. Projects below their fair share, borrowing or with pending jobs come first.</p>}
          <ShareBarLegend limited={shown.some((row) => row.limit.gpus !== null)} />
        </>
      )}
    </Card>
  );
}
