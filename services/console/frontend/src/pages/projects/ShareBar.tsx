import type { LiveProject } from "../../live/types";
import "./sharebar.css";
import { barText, type Resource } from "./shareText";

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

/** Legend of the bar. */
export function ShareBarLegend({ limited = true }: { limited?: boolean }) {
  return (
    <ul class="share-legend">
      <li>
        <span class="share-bar" aria-hidden="true">
          <span class="share-own" style={{ "--to": 1 }} />
        </span>
        used within quota
      </li>
      <li>
        <span class="share-bar" aria-hidden="true">
          <span class="share-over" style={{ "--from": 0, "--to": 1 }} />
        </span>
        borrowed
      </li>
      <li>
        <span class="share-bar" aria-hidden="true">
          <span class="share-quota" style={{ "--to": 1 }} />
        </span>
        quota
      </li>
      <li>
        <span class="share-bar" aria-hidden="true">
          <span class="share-fair" style={{ "--at": 0.5 }} />
        </span>
        current fair share
      </li>
      {limited && (
        <li>
          <span class="share-bar" aria-hidden="true">
            <span class="share-limit" style={{ "--at": 0.6 }} />
          </span>
          limit
        </li>
      )}
    </ul>
  );
}
