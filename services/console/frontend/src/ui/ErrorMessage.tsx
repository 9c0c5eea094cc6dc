import type { ApiError } from "../api";
import { capital } from "../lib";
import { Button } from "./Button";
import { ErrorList } from "./ErrorList";

/** An error response, with a retry button. */
export function ErrorMessage({ error, retry }: { error: ApiError; retry?: () => void }) {
  return (
    <div class="stack state" data-kind="failure" role="alert">
      <strong>{capital(error.title)}</strong>
      {error.errors.length ? <ErrorList errors={error.errors} /> : error.detail && <div>{capital(error.detail)}</div>}
      {retry && <Button onClick={retry}>Retry</Button>}
    </div>
  );
}
