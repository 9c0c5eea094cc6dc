import type { LiveProject } from "../../live/shapes";
import "./sharebar.css";
import { barText, type Resource } from "./shares";

/** Use against quota (the box), fair share (the mark) and limit (the bracket). scale: the longest among those compared. */
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

/** What the parts of the bar mean. */
export function ShareKey({ limited = true }: { limited?: boolean }) {
  return (
    <ul class="share-key">
      <li>
        <span class="share-bar" aria-hidden="true">
          <span class="share-own" style={{ "--to": 1 }} />
        </span>
        used of its quota
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
        fair share now
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
