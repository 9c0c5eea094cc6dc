import { useLive } from "../../live/live";

export default function DecisionPage({ pool }: { pool: string }) {
  const live = useLive(pool);
  return <h1>Decision of {pool}, record #{live.seq}</h1>;
}
