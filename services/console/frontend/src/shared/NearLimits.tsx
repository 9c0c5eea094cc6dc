import { get, poolPath, usePolling } from "../api";
import { sanitizeLine } from "../lib";
import { Card } from "../ui";

/** The limits that are near, and who was above one; nothing where none is. project: for a job of the user in it; null: for all. */
export function NearLimits({ pool, project }: { pool: string; project: string | null }) {
  const query = project === null ? "" : `?${new URLSearchParams({ project })}`;
  const found = usePolling<string[]>(`${pool} ${query}`, (signal) => get(`${poolPath(pool, "limits")}${query}`, signal)).value;
  if (!found?.length) return null;
  return (
    <Card title="Limits that are near">
      <ul>
        {found.map((text) => (
          <li key={text}>{sanitizeLine(text)}</li>
        ))}
      </ul>
    </Card>
  );
}
