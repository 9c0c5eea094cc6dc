import type { ApiError } from "../lib/api";
import { Button } from "./Button";

/** An error response, with a retry button. */
export function ErrorMessage({ error, retry }: { error: ApiError; retry?: () => void }) {
  return (
    <div class="state" data-kind="failure" role="alert">
      <strong>{error.title}</strong>
      {error.detail && <div>{error.detail}</div>}
      {error.faults.length > 0 && (
        <ul>
          {error.faults.map((fault) => (
            <li key={fault.text}>{fault.text}</li>
          ))}
        </ul>
      )}
      {retry && <Button onClick={retry}>Retry</Button>}
    </div>
  );
}
