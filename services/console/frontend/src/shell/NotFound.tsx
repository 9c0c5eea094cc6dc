import { EmptyState } from "../ui";
import { Shown } from "./Shown";

export function NotFound() {
  return (
    <Shown>
      <EmptyState title="Page not found">
        <a href="/">All pools</a>
      </EmptyState>
    </Shown>
  );
}
