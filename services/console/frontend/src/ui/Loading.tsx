export function Loading({ what }: { what: string }) {
  return (
    <div class="loading" role="status">
      Loading {what}…
    </div>
  );
}
