import type { LiveProject } from "../../live/shapes";
import { Badge } from "../../ui/Badge";
import { Bar } from "../../ui/Bar";
import { Card } from "../../ui/Card";
import { BarKey } from "../projects/BarKey";
import { projectPath } from "../projects/path";
import { barText, nameOf, scaleOf, verdict } from "../projects/shares";

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
                  <Bar
                    used={row.used.gpu_milli ?? 0}
                    quota={row.quota.gpu_milli}
                    of={whole}
                    marks={row.fair_share.gpu_milli === null ? [] : [row.fair_share.gpu_milli]}
                    words={barText(row, "gpu_milli")}
                  />
                </li>
              );
            })}
          </ul>
          <BarKey />
        </>
      )}
    </Card>
  );
}
