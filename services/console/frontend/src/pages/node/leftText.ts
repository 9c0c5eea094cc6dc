import type { Leftovers } from "../../api";

/** What the agent of a node could not remove, and what a person does about it; null: nothing is left, or nobody may know. */
export function leftText(node: string, { left_folders: count }: Leftovers): { what: string; remedy: string } | null {
  if (!count) return null;
  return {
    what: `${node} cannot remove what ${count === 1 ? "1 task" : `${count} tasks`} left.${count > 1 ? " The first:" : ""}`,
    remedy: `Nothing waits for it. On ${node}: chattr -i, umount or rm it, then restart the node agent, which tries again when it starts. Its log names every path.`,
  };
}
