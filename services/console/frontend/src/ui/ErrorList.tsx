import type { ErrorDetail } from "../lib/api";

/** Validation errors with their positions. */
export function ErrorList({ errors }: { errors: readonly ErrorDetail[] }) {
  return (
    <ul class="errors">
      {errors.map((error, at) => (
        <li key={at}>
          {error.line !== undefined && <span class="soft">line {error.line} · </span>}
          {error.location && <code>{error.location}</code>} {error.detail}
        </li>
      ))}
    </ul>
  );
}
