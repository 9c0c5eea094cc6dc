import { Empty } from "../ui/Empty";

export function Missing() {
  return (
    <Empty title="There is no such page">
      <a href="/">To the pools</a>
    </Empty>
  );
}
