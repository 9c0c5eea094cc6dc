import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLocation } from "preact-iso";
import { useEffect } from "preact/hooks";

import { post, type PoolList } from "../api";
import { capital, chooseTheme, chooseTimeZone, moment, themeChoice, timeZone, useFocusInView } from "../lib";
import { currentUser, livePoolOf } from "../live";
import { Button, EmptyState, Notice, pagePath, RelativeTime, Select, SignButton } from "../ui";
import { Bell } from "./Bell";
import { CommandPalette } from "./CommandPalette";
import { AccountingIcon, JobsIcon, OverviewIcon, PolicyIcon, PoolIcon, ProjectsIcon, QueueIcon, RecordIcon, SubmitIcon, TimelineIcon, WhatIfIcon } from "./icons";
import { JobSearch } from "./JobSearch";

const PAGES = [
  { at: "/overview", name: "Overview", Icon: OverviewIcon },
  { at: "", name: "Pool", Icon: PoolIcon },
  { at: "/timeline", name: "Timeline", Icon: TimelineIcon },
  { at: "/jobs", name: "Jobs", Icon: JobsIcon },
  { at: "/queue", name: "Queue", Icon: QueueIcon },
  { at: "/projects", name: "Projects", Icon: ProjectsIcon },
  { at: "/accounting", name: "Accounting", Icon: AccountingIcon },
  { at: "/record", name: "Record", Icon: RecordIcon },
  { at: "/policy", name: "Policy", Icon: PolicyIcon },
  { at: "/what-if", name: "What if", Icon: WhatIfIcon },
  { at: "/submit", name: "Submit", Icon: SubmitIcon },
];

/** The layout of every page: navigation, header, content. */
export function Shell({ pools, children }: { pools: PoolList; children: ComponentChildren }) {
  useFocusInView();
  const { path, route } = useLocation();
  const pool = path === "/" ? null : decodeURIComponent(path.split("/")[1] ?? "");
  const known = pool !== null && pools.pools.some((row) => row.pool === pool);
  const open = useSignal(false); // on a narrow screen
  useEffect(() => void (open.value = false), [path]);
  const root = pool === null ? "" : pagePath(pool);
  const here = PAGES.find(({ at }) => isCurrent(path, root, at))?.name ?? capital(path.split("/")[2] ?? "").replace(/s$/, "");
  return (
    <div class="shell">
      <a class="skip" href="#main">
        Skip to content
      </a>
      <nav class="stack side" aria-label="Pages" data-open={open.value}>
        <a class="brand" href="/">
          <img src="/assets/bailiff.svg" alt="" /> Bailiff
        </a>
        {known && (
          <button type="button" class="menu" aria-expanded={open.value} aria-controls="pages" onClick={() => (open.value = !open.value)}>
            <span aria-hidden="true">☰</span> <span class="visually-hidden">Pages: </span>
            {here}
          </button>
        )}
        {known && (
          <div class="stack pages" id="pages">
            {PAGES.map(({ at, name, Icon }) => (
              <a key={at} href={root + (at || "/").replace(/\/$/, "")} aria-current={isCurrent(path, root, at) ? "page" : undefined}>
                <Icon /> {name}
              </a>
            ))}
          </div>
        )}
      </nav>
      <header class="row top">
        {pools.pools.length > 0 && (
          <Select label="Pool" value={pool ?? ""} options={[["", "All pools"], ...pools.pools.map((row) => row.pool)]} onChange={(next) => route(next ? pagePath(next, ["overview"]) : "/")} />
        )}
        {known && <ConnectionStatus pool={pool} />}
        <span class="spring" />
        {known && <JobSearch key={pool} pool={pool} />}
        <span class="top-second">
          {known && <CommandPalette pool={pool} pages={PAGES} />}
          <TimeZoneButton />
        </span>
        {known && <Bell key={`bell ${pool}`} pool={pool} />}
        <ThemeButton />
        <UserBadge />
      </header>
      <main class="main" id="main" tabIndex={-1}>
        {pool !== null && !known ? (
          <EmptyState title={`Pool “${pool}” does not exist`}>
            {pools.pools.length ? "Select one above." : "No pool exists yet."} <a href="/">All pools</a>
          </EmptyState>
        ) : (
          <>
            {known && <OutageNotices pool={pool} configured={pools.archive.configured} />}
            {children}
          </>
        )}
      </main>
    </div>
  );
}

const isCurrent = (path: string, root: string, at: string): boolean =>
  at === "" ? path === root || path === `${root}/` : path === root + at || path.startsWith(`${root + at}/`);

const NEXT_THEME = { system: "light", light: "dark", dark: "system" } as const;
const THEME_ICON = { system: "◐", light: "☀", dark: "☾" };

function TimeZoneButton() {
  const utc = timeZone.value === "utc";
  const label = utc ? "Times are in UTC. Change to local time." : "Times are local. Change to UTC.";
  return <SignButton quiet sign={utc ? "UTC" : "Local"} label={label} onClick={() => chooseTimeZone(utc ? "local" : "utc")} />;
}

function ThemeButton() {
  const theme = themeChoice.value;
  const label = `Theme: ${theme}. Change to ${NEXT_THEME[theme]}.`;
  return <SignButton quiet sign={THEME_ICON[theme]} label={label} onClick={() => chooseTheme(NEXT_THEME[theme])} />;
}

function UserBadge() {
  const who = currentUser.value!;
  const role = who.operator ? ", operator" : who.projects?.length === 0 ? ", viewer" : "";
  return (
    <>
      <span class="soft ellipsis user" title={`${who.name}${role}`}>
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

function ConnectionStatus({ pool }: { pool: string }) {
  const live = livePoolOf(pool);
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
      {state === "lost" && live.seq.value < 0 && "not connected; retrying"}
      {state === "lost" && live.seq.value >= 0 && (
        <span>
          connection lost<span class="wide-only">; shown as of record #{live.seq}</span>
          {live.time.value && (
            <>
              , <span class="wide-only">of </span>
              <RelativeTime at={live.time.value} />
            </>
          )}
        </span>
      )}
    </span>
  );
}

function OutageNotices({ pool, configured }: { pool: string; configured: boolean }) {
  const live = livePoolOf(pool);
  const consoleState = live.consoleState.value;
  return (
    <>
      {!consoleState.kafka && <Notice>Kafka is unavailable. Running jobs continue. The data shown is as of the last record read, and requests cannot be sent.</Notice>}
      {configured && !consoleState.archive && <Notice>The archive is unavailable. History (timelines, evictions, usage over time) cannot be shown. Live data is complete.</Notice>}
      {consoleState.archive && consoleState.auditor_since && <Notice>The auditor does not report since <RelativeTime at={consoleState.auditor_since} />: history, seals and what it verifies end there, and continue when it is back. Live data is complete.</Notice>}
    </>
  );
}
