import type { ComponentType } from "preact";
import { ErrorBoundary, lazy, LocationProvider, Route, Router, useLocation } from "preact-iso";
import { useEffect } from "preact/hooks";

import { ApiError, get, usePolling, type PoolList } from "../api";
import { currentUser, currentUserError, loadCurrentUser } from "../live";
import { ErrorMessage, Loading } from "../ui";
import { NotFound } from "./NotFound";
import { PoolsPage } from "./PoolsPage";
import { Shell } from "./Shell";
import { Shown, shown } from "./Shown";

const POOLS_REFRESH_MS = 2_000;

/** The code of a page, loaded when it is first shown. It can fail: an updated console no longer has the files of the one before. */
const page = (load: () => Promise<{ default: ComponentType<any> }>) =>
  lazy(async () => {
    const { default: Page } = await load().catch(() => ({ default: NotLoaded }));
    return { default: (props: object) => <Shown><Page {...props} /></Shown> };
  });

function NotLoaded() {
  return <ErrorMessage error={new ApiError(0, "This page could not be loaded", "The console may have been updated, or the connection was lost.")} retry={() => location.reload()} />;
}

/** The pages of a pool, by their path below it. */
const PAGES = {
  "": page(() => import("../pages/pool/PoolPage")),
  "/timeline": page(() => import("../pages/timeline/TimelinePage")),
  "/overview": page(() => import("../pages/overview/OverviewPage")),
  "/jobs": page(() => import("../pages/jobs/JobsPage")),
  "/jobs/:job": page(() => import("../pages/job/JobPage")),
  "/nodes/:node": page(() => import("../pages/node/NodePage")),
  "/queue": page(() => import("../pages/queue/QueuePage")),
  "/projects": page(() => import("../pages/projects/ProjectsPage")),
  "/accounting": page(() => import("../pages/accounting/AccountingPage")),
  "/decisions/:seq": page(() => import("../pages/decision/DecisionPage")),
  "/record": page(() => import("../pages/record/RecordPage")),
  "/policy": page(() => import("../pages/policy/PolicyPage")),
  "/what-if": page(() => import("../pages/policy/WhatIfPage")),
  "/submit": page(() => import("../pages/submit/SubmitPage")),
};

/** Loads the code of the page at this address already while the user and the pools are asked for. */
function preload(): void {
  const parts = location.pathname.split("/").slice(2).filter(Boolean);
  const [, first] = Object.entries(PAGES).find(([path]) => path.split("/").length === parts.length + 1 && path.startsWith(parts.length ? `/${parts[0]}` : "")) ?? [];
  void first?.preload();
}

export function App() {
  useEffect(() => {
    if (location.pathname !== "/") preload();
    void loadCurrentUser();
  }, []);
  return (
    <LocationProvider>
      <ErrorBoundary>
        <AppRoutes />
      </ErrorBoundary>
    </LocationProvider>
  );
}

function AppRoutes() {
  const { path } = useLocation();
  const pool = path === "/" ? null : decodeURIComponent(path.split("/")[1] ?? "");
  // The list is shown at "/"; elsewhere it is asked for again until it has the page's pool, which may be created while one waits.
  const asksAgain = (list: PoolList | null) => (list?.pools.some((row) => row.pool === pool) ? null : POOLS_REFRESH_MS);
  const { value, failure, refresh } = usePolling("/api/pools", (signal) => get<PoolList>("/api/pools", signal), asksAgain);
  if (currentUserError.value) return <ErrorMessage error={currentUserError.value} retry={loadCurrentUser} />;
  if (!currentUser.value) return <Loading what="the console" />;
  if (!value) return failure ? <ErrorMessage error={failure} retry={refresh} /> : <Loading what="the pools" />;
  return (
    <Shell pools={value}>
      {!shown.value && <Loading what="the page" />}
      <Router>
        <Route path="/" component={PoolsPage} pools={value} />
        {Object.entries(PAGES).map(([path, component]) => (
          <Route key={path} path={`/:pool${path}`} component={component} />
        ))}
        <Route default component={NotFound} />
      </Router>
    </Shell>
  );
}
