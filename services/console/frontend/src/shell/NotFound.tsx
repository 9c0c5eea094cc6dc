import { EmptyState } from "../ui/EmptyState";

export function NotFound() {
  return (
    <EmptyState title="Page not found">
      <a href="/">All pools</a>
    </EmptyState>
  );
}
