import { ErrorBoundary, lazy, LocationProvider, Route, Router, useLocation } from "preact-iso";
import { useEffect, useState } from "preact/hooks";

import { useFetch } from "../lib/useFetch";
import { ErrorMessage } from "../ui/ErrorMessage";
import { Loading } from "../ui/Loading";
import { loadCurrentUser, currentUser, currentUserError } from "./currentUser";
import { NotFound } from "./NotFound";
import { PoolList } from "./PoolList";
import type { Pools } from "./poolsResponse";
import { Shell } from "./Shell";

const PoolPage = lazy(() => import("../pages/pool/PoolPage"));
const OverviewPage = lazy(() => import("../pages/overview/OverviewPage"));
const JobsPage = lazy(() => import("../pages/jobs/JobsPage"));
const NodePage = lazy(() => import("../pages/node/NodePage"));
const QueuePage = lazy(() => import("../pages/queue/QueuePage"));
const ProjectsPage = lazy(() => import("../pages/projects/ProjectsPage"));
const AccountingPage = lazy(() => import("../pages/accounting/AccountingPage"));
const JobPage = lazy(() => import("../pages/job/JobPage"));
const DecisionPage = lazy(() => import("../pages/decision/DecisionPage"));
const RecordPage = lazy(() => import("../pages/record/RecordPage"));
const PolicyPage = lazy(() => import("../pages/policy/PolicyPage"));
const WhatIfPage = lazy(() => import("../pages/whatif/WhatIfPage"));
const SubmitPage = lazy(() => import("../pages/submit/SubmitPage"));

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
  const pools = useFetch<Pools>(currentUser.value ? "/api/pools" : null, path === "/");
  if (currentUserError.value) return <ErrorMessage error={currentUserError.value} retry={loadCurrentUser} />;
  if (!currentUser.value) return <Loading what="the console" />;
  const { value, failure } = pools.value;
  if (!value) return failure ? <ErrorMessage error={failure} retry={loadCurrentUser} /> : <Loading what="the pools" />;
  return (
    <Shell pools={value}>
      {!shown && <Loading what="the page" />}
      <Router onRouteChange={() => show(true)} onLoadEnd={() => show(true)}>
        <Route path="/" component={() => <PoolList pools={value} onShown={() => show(true)} />} />
        <Route path="/:pool" component={PoolPage} />
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
