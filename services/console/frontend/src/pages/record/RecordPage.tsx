import { useLive } from "../../live/live";

export default function RecordPage({ pool }: { pool: string }) {
  const live = useLive(pool);
  return <h1>Record of {pool}, record #{live.seq}</h1>;
}
