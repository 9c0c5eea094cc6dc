import type { Refusal } from "../lib/api";
import { Button } from "./Button";

/** What went wrong, in the server's words, and a way to try again. */
export function Failure({ refusal, again }: { refusal: Refusal; again?: () => void }) {
  return (
    <div class="state" data-kind="failure" role="alert">
      <strong>{refusal.title}</strong>
      {refusal.detail && <div>{refusal.detail}</div>}
      {refusal.faults.length > 0 && (
        <ul>
          {refusal.faults.map((fault) => (
            <li key={fault.text}>{fault.text}</li>
          ))}
        </ul>
      )}
      {again && <Button onClick={again}>Try again</Button>}
    </div>
  );
}
