import type { LiveProject } from "../api";
import { barText, type Resource } from "./shareText";
import "./sharebar.css";

/** Usage bar with quota (box), fair share (mark) and limit (bracket). scale: the full width. */
export function ShareBar({ row, resource, scale }: { row: LiveProject; resource: Resource; scale: number }) {
  const used = row.used[resource] ?? 0;
  const quota = row.quota[resource];
  const fair = row.fair_share[resource];
  const limit = row.limit[resource];
  const own = Math.min(used, quota ?? used);
  const words = barText(row, resource);
  const part = (value: number): number => Math.min(1, value / scale);
  return (
    <div class="share-bar" role="img" aria-label={words} title={words}>
      {quota !== null && <span class="share-quota" style={{ "--to": part(quota) }} />}
      <span class="share-own" style={{ "--to": part(own) }} />
      {used > own && <span class="share-over" style={{ "--from": part(own), "--to": part(used) }} />}
      {limit !== null && limit <= scale && <span class="share-limit" style={{ "--at": part(limit) }} />}
      {fair !== null && <span class="share-fair" style={{ "--at": part(fair) }} />}
    </div>
  );
}

const LEGEND: [string, string, Record<string, number>][] = [
  ["share-own", "used within quota", { "--to": 1 }],
  ["share-over", "borrowed", { "--from": 0, "--to": 1 }],
  ["share-quota", "quota", { "--to": 1 }],
  ["share-fair", "current fair share", { "--at": 0.5 }],
  ["share-limit", "limit", { "--at": 0.6 }],
];

/** Legend of the bar. */
export function ShareBarLegend({ limited = true }: { limited?: boolean }) {
  return (
    <ul class="row legend share-legend">
      {LEGEND.slice(0, limited ? undefined : -1).map(([kind, text, style]) => (
        <li key={kind}>
          <span class="share-bar" aria-hidden="true">
            <span class={kind} style={style} />
          </span>
          {text}
        </li>
      ))}
    </ul>
  );
}
