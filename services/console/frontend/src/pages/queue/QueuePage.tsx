import { useLive } from "../../live/live";

export default function QueuePage({ pool }: { pool: string }) {
  const live = useLive(pool);
  return <h1>Queue of {pool}, record #{live.seq}</h1>;
}
