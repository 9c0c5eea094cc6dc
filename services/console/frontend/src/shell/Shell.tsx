import type { ComponentChildren } from "preact";
import { useLocation } from "preact-iso";

import { post } from "../lib/api";
import { moment } from "../lib/words";
import { liveOf } from "../live/live";
import { Ago } from "../ui/Ago";
import { Button } from "../ui/Button";
import { Empty } from "../ui/Empty";
import { Find } from "./Find";
import { PoolIcon, ProjectsIcon, QueueIcon, RecordIcon, SubmitIcon, WhatIfIcon } from "./icons";
import { me } from "./me";
import type { Pools } from "./pools";
import { choice, choose } from "./theme";

const PAGES = [
  { at: "", name: "Pool", Icon: PoolIcon },
  { at: "/queue", name: "Queue", Icon: QueueIcon },
  { at: "/projects", name: "Projects", Icon: ProjectsIcon },
  { at: "/record", name: "Record", Icon: RecordIcon },
  { at: "/what-if", name: "What if", Icon: WhatIfIcon },
  { at: "/submit", name: "Submit", Icon: SubmitIcon },
];

/** The frame around every page. */
export function Shell({ pools, children }: { pools: Pools; children: ComponentChildren }) {
  const { path, route } = useLocation();
  const pool = path === "/" ? null : decodeURIComponent(path.split("/")[1] ?? "");
  const known = pool !== null && pools.pools.some((row) => row.pool === pool);
  const root = pool === null ? "" : `/${encodeURIComponent(pool)}`;
  return (
    <div class="shell">
      <a class="skip" href="#main">
        To the content
      </a>
      <nav class="side" aria-label="Pages">
        <a class="brand" href="/">
          <img src="/assets/bailiff.svg" alt="" /> Bailiff
        </a>
        {known && (
          <div class="pages">
            {PAGES.map(({ at, name, Icon }) => (
              <a key={at} href={root + (at || "/").replace(/\/$/, "")} aria-current={isAt(path, root, at) ? "page" : undefined}>
                <Icon /> {name}
              </a>
            ))}
          </div>
        )}
      </nav>
      <header class="top">
        {pools.pools.length > 0 && (
          <label>
            <span class="visually-hidden">Pool</span>
            <select class="input" value={pool ?? ""} onChange={(event) => route(event.currentTarget.value ? `/${encodeURIComponent(event.currentTarget.value)}` : "/")}>
              <option value="">All pools</option>
              {pools.pools.map((row) => (
                <option key={row.pool} value={row.pool}>
                  {row.pool}
                </option>
              ))}
            </select>
          </label>
        )}
        {known && <Connected pool={pool} />}
        <span class="spring" />
        {known && <Find key={pool} pool={pool} />}
        <Colours />
        <Who />
      </header>
      <main class="main" id="main" tabIndex={-1}>
        {pool !== null && !known ? (
          <Empty title={`There is no pool “${pool}”`}>
            {pools.pools.length ? "Choose one above." : "No pool has a log yet."} <a href="/">To the pools</a>
          </Empty>
        ) : (
          <>
            {known && <Notices pool={pool} configured={pools.archive.configured} />}
            {children}
          </>
        )}
      </main>
    </div>
  );
}

const isAt = (path: string, root: string, at: string): boolean =>
  at === "" ? path === root || path === `${root}/` : path === root + at || path.startsWith(`${root + at}/`);

const NEXT = { system: "light", light: "dark", dark: "system" } as const;
const SIGN = { system: "◐", light: "☀", dark: "☾" };

function Colours() {
  const is = choice.value;
  const words = `Colours: ${is === "system" ? "as the system has them" : is}. Change to ${NEXT[is]}.`;
  return (
    <Button quiet onClick={() => choose(NEXT[is])} title={words}>
      <span aria-hidden="true">{SIGN[is]}</span>
      <span class="visually-hidden">{words}</span>
    </Button>
  );
}

function Who() {
  const who = me.value!;
  const role = who.operator ? ", operator" : who.projects?.length === 0 ? ", viewer" : "";
  return (
    <>
      <span class="soft who" title={`${who.name}${role}`}>
        {who.name}
        <span class="wide-only">{role}</span>
      </span>
      {who.sign_out && (
        <Button quiet onClick={() => void post<{ to: string }>("/auth/sign-out", {}).then(({ to }) => location.assign(to))}>
          Sign out
        </Button>
      )}
    </>
  );
}

function Connected({ pool }: { pool: string }) {
  const live = liveOf(pool);
  const state = live.connection.value;
  return (
    <span class="connection" data-state={state} role="status">
      <span class="dot" />
      {state === "opening" && "connecting…"}
      {state === "live" && (
        <span title={live.time.value ? moment(live.time.value) : ""}>
          live<span class="wide-only">, record</span> <span class="number">#{live.seq}</span>
        </span>
      )}
      {state === "lost" && live.seq.value < 0 && "no connection yet; trying again"}
      {state === "lost" && live.seq.value >= 0 && (
        <span>
          connection lost<span class="wide-only">; shown is record #{live.seq}</span>
          {live.time.value && (
            <>
              , <span class="wide-only">of </span>
              <Ago at={live.time.value} />
            </>
          )}
        </span>
      )}
    </span>
  );
}

function Notices({ pool, configured }: { pool: string; configured: boolean }) {
  const live = liveOf(pool);
  const told = live.told.value;
  return (
    <>
      {!told.kafka && (
        <p class="notice" role="alert">
          Kafka does not answer. What runs goes on running; what is shown is of the last record that was read, and requests must wait.
        </p>
      )}
      {configured && !told.archive && (
        <p class="notice" role="alert">
          The archive does not answer: the past (timelines, evictions, usage over time) cannot be shown now. What is live is complete.
        </p>
      )}
    </>
  );
}
