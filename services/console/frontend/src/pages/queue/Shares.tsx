import { count } from "../../lib/words";
import type { LiveProject } from "../../live/shapes";
import { Badge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { projectPath } from "../projects/path";
import { ShareBar, ShareKey } from "../projects/ShareBar";
import { foremost, nameOf, scaleOf, verdict } from "../projects/shares";

const MOST = 16;

/** Each project's GPUs against its quota and its fair share. */
export function Shares({ pool, projects }: { pool: string; projects: ReadonlyMap<string, LiveProject> }) {
  const rows = [...projects.values()];
  const shown = foremost(rows, MOST);
  const whole = scaleOf(shown, "gpu_milli");
  return (
    <Card title="Shares" aside={<a href={`/${encodeURIComponent(pool)}/projects`}>All about projects</a>}>
      {rows.length === 0 ? (
        <p class="soft">No projects are defined: all jobs stand in one line, by the priority of their class.</p>
      ) : (
        <>
          <ul class="shares">
            {shown.map((row) => {
              const { tone, word, text } = verdict(row);
              return (
                <li key={row.project} style={{ "--depth": row.depth }}>
                  <div class="share-head">
                    <a class="cut" href={projectPath(pool, row.project)}>
                      {nameOf(row)}
                    </a>
                    <span class="number soft">{row.standing.replace(" over quota", "")}</span>
                    <Badge tone={tone} title={text}>
                      {word}
                    </Badge>
                  </div>
                  <ShareBar row={row} resource="gpu_milli" scale={whole} />
                </li>
              );
            })}
          </ul>
          {shown.length < rows.length && <p class="soft note">And {count(rows.length - shown.length, "other project")}; who is short of its share, borrows or waits is shown first.</p>}
          <ShareKey limited={shown.some((row) => row.limit.gpu_milli !== null)} />
        </>
      )}
    </Card>
  );
}
