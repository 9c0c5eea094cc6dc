import type { ComponentType } from "preact";
import { ErrorBoundary, lazy, LocationProvider, Route, Router, useLocation } from "preact-iso";
import { useEffect, useState } from "preact/hooks";

import { ApiError, get, usePolling, type PoolList } from "../api";
import { currentUser, currentUserError, loadCurrentUser } from "../live";
import { ErrorMessage, Loading } from "../ui";
import { NotFound } from "./NotFound";
import { PoolsPage } from "./PoolsPage";
import { Shell } from "./Shell";

const POOLS_REFRESH_MS = 2_000;

/** The code of a page, loaded when it is first shown. It can fail: an updated console no longer has the files of the one before. */
const page = (load: () => Promise<{ default: ComponentType<any> }>) => lazy(() => load().catch(() => ({ default: NotLoaded })));

function NotLoaded() {
  return <ErrorMessage error={new ApiError(0, "This page could not be loaded", "The console may have been updated, or the connection was lost.")} retry={() => location.reload()} />;
}

const PoolPage = page(() => import("../pages/pool/PoolPage"));
const TimelinePage = page(() => import("../pages/timeline/TimelinePage"));
const OverviewPage = page(() => import("../pages/overview/OverviewPage"));
const JobsPage = page(() => import("../pages/jobs/JobsPage"));
const NodePage = page(() => import("../pages/node/NodePage"));
const QueuePage = page(() => import("../pages/queue/QueuePage"));
const ProjectsPage = page(() => import("../pages/projects/ProjectsPage"));
const AccountingPage = page(() => import("../pages/accounting/AccountingPage"));
const JobPage = page(() => import("../pages/job/JobPage"));
const DecisionPage = page(() => import("../pages/decision/DecisionPage"));
const RecordPage = page(() => import("../pages/record/RecordPage"));
const PolicyPage = page(() => import("../pages/policy/PolicyPage"));
const WhatIfPage = page(() => import("../pages/policy/WhatIfPage"));
const SubmitPage = page(() => import("../pages/submit/SubmitPage"));

export function App() {
  useEffect(() => void loadCurrentUser(), []);
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
  const [shown, show] = useState(false); // false until the code of the first page has loaded
  const pool = path === "/" ? null : decodeURIComponent(path.split("/")[1] ?? "");
  // The list is shown at "/"; elsewhere it is asked for again until it has the page's pool, which may be created while one waits.
  const asksAgain = (list: PoolList | null) => (list?.pools.some((row) => row.pool === pool) ? null : POOLS_REFRESH_MS);
  const { value, failure, refresh } = usePolling(currentUser.value ? "/api/pools" : null, (signal) => get<PoolList>("/api/pools", signal), asksAgain);
  if (currentUserError.value) return <ErrorMessage error={currentUserError.value} retry={loadCurrentUser} />;
  if (!currentUser.value) return <Loading what="the console" />;
  if (!value) return failure ? <ErrorMessage error={failure} retry={refresh} /> : <Loading what="the pools" />;
  return (
    <Shell pools={value}>
      {!shown && <Loading what="the page" />}
      <Router onRouteChange={() => show(true)} onLoadEnd={() => show(true)}>
        <Route path="/" component={PoolsPage} pools={value} onShown={() => show(true)} />
        <Route path="/:pool" component={PoolPage} />
        <Route path="/:pool/timeline" component={TimelinePage} />
        <Route path="/:pool/overview" component={OverviewPage} />
        <Route path="/:pool/jobs" component={JobsPage} />
        <Route path="/:pool/nodes/:node" component={NodePage} />
        <Route path="/:pool/queue" component={QueuePage} />
        <Route path="/:pool/projects" component={ProjectsPage} />
        <Route path="/:pool/accounting" component={AccountingPage} />
        <Route path="/:pool/jobs/:job" component={JobPage} />
        <Route path="/:pool/decisions/:seq" component={DecisionPage} />
        <Route path="/:pool/record" component={RecordPage} />
        <Route path="/:pool/policy" component={PolicyPage} />
        <Route path="/:pool/what-if" component={WhatIfPage} />
        <Route path="/:pool/submit" component={SubmitPage} />
        <Route default component={() => <NotFound onShown={() => show(true)} />} />
      </Router>
    </Shell>
  );
}
