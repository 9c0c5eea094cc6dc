import { ErrorBoundary, lazy, LocationProvider, Route, Router, useLocation } from "preact-iso";
import { useEffect, useState } from "preact/hooks";

import { useLoad } from "../lib/load";
import { Failure } from "../ui/Failure";
import { Loading } from "../ui/Loading";
import { learnMe, me, meFailure } from "./me";
import { Missing } from "./Missing";
import { PoolChoice } from "./PoolChoice";
import type { Pools } from "./pools";
import { Shell } from "./Shell";

const PoolPage = lazy(() => import("../pages/pool/PoolPage"));
const QueuePage = lazy(() => import("../pages/queue/QueuePage"));
const ProjectsPage = lazy(() => import("../pages/projects/ProjectsPage"));
const JobPage = lazy(() => import("../pages/job/JobPage"));
const DecisionPage = lazy(() => import("../pages/decision/DecisionPage"));
const RecordPage = lazy(() => import("../pages/record/RecordPage"));
const WhatIfPage = lazy(() => import("../pages/whatif/WhatIfPage"));
const SubmitPage = lazy(() => import("../pages/submit/SubmitPage"));

export function App() {
  useEffect(() => void learnMe(), []);
  return (
    <LocationProvider>
      <ErrorBoundary>
        <Known />
      </ErrorBoundary>
    </LocationProvider>
  );
}

function Known() {
  const { path } = useLocation();
  const [shown, show] = useState(false); // the first page's code is on its way
  const pools = useLoad<Pools>(me.value ? "/api/pools" : null, path === "/");
  if (meFailure.value) return <Failure refusal={meFailure.value} again={learnMe} />;
  if (!me.value) return <Loading what="the console" />;
  const { value, failure } = pools.value;
  if (!value) return failure ? <Failure refusal={failure} again={learnMe} /> : <Loading what="the pools" />;
  return (
    <Shell pools={value}>
      {!shown && <Loading what="the page" />}
      <Router onRouteChange={() => show(true)} onLoadEnd={() => show(true)}>
        <Route path="/" component={() => <PoolChoice pools={value} />} />
        <Route path="/:pool" component={PoolPage} />
        <Route path="/:pool/queue" component={QueuePage} />
        <Route path="/:pool/projects" component={ProjectsPage} />
        <Route path="/:pool/jobs/:job" component={JobPage} />
        <Route path="/:pool/decisions/:seq" component={DecisionPage} />
        <Route path="/:pool/record" component={RecordPage} />
        <Route path="/:pool/what-if" component={WhatIfPage} />
        <Route path="/:pool/submit" component={SubmitPage} />
        <Route default component={Missing} />
      </Router>
    </Shell>
  );
}
