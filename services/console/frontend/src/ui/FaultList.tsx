import type { Fault } from "../lib/api";

/** Validation errors with their positions. */
export function FaultList({ faults }: { faults: readonly Fault[] }) {
  return (
    <ul class="faults">
      {faults.map((fault, at) => (
        <li key={at}>
          {fault.line !== undefined && <span class="soft">line {fault.line} · </span>}
          {fault.field && <code>{fault.field}</code>} {fault.text}
        </li>
      ))}
    </ul>
  );
}
