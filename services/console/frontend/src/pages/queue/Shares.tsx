import type { LiveProject } from "../../live/shapes";
import { Badge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { projectPath } from "../projects/path";
import { ShareBar, ShareKey } from "../projects/ShareBar";
import { nameOf, scaleOf, verdict } from "../projects/shares";

/** Each project's GPUs against its quota and its fair share. */
export function Shares({ pool, projects }: { pool: string; projects: ReadonlyMap<string, LiveProject> }) {
  const rows = [...projects.values()];
  const whole = scaleOf(rows, "gpu_milli");
  return (
    <Card title="Shares" aside={<a href={`/${encodeURIComponent(pool)}/projects`}>All about projects</a>}>
      {rows.length === 0 ? (
        <p class="soft">No projects are defined: all jobs stand in one line, by the priority of their class.</p>
      ) : (
        <>
          <ul class="shares">
            {rows.map((row) => {
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
          <ShareKey />
        </>
      )}
    </Card>
  );
}
