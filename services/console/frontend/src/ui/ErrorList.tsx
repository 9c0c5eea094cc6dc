import type { ErrorDetail } from "../api";

/** Validation errors with their positions. */
export function ErrorList({ errors }: { errors: readonly ErrorDetail[] }) {
  return (
    <ul class="stack errors">
      {errors.map((error, at) => (
        <li key={at}>
          {error.line !== undefined && <span class="soft">line {error.line} · </span>}
          {error.location && <code>{error.location}</code>} {error.detail}
        </li>
      ))}
    </ul>
  );
}
