import type { Fault } from "../lib/api";

/** What is wrong with a text, and where in it. */
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
