import { useLive } from "../../live/live";

export default function WhatIfPage({ pool }: { pool: string }) {
  const live = useLive(pool);
  return <h1>WhatIf of {pool}, record #{live.seq}</h1>;
}
