"""Record types that change projects' entitlements or the divided resources, apart from scheduling decisions.

Until such a record occurs, `no-counter-reclaim` does not let a displaced job evict the job that displaced it.
"""

from bailiff_core.records import decisions, facts

ENTITLEMENT_CHANGES = frozenset(
    {
        facts.PolicyApplied,
        facts.TruncationReconciled,
        facts.JobSubmitted,
        facts.JobCancelled,
        facts.JobScaled,
        facts.JobPriorityClassChanged,
        facts.JobEvictionRequested,
        facts.JobPaused,
        facts.JobResumed,
        facts.JobMigrationRequested,
        facts.NodeDrained,
        facts.NodeUndrained,
        facts.NodeJoined,
        facts.NodeUnreachable,
        facts.NodeReachable,
        facts.NodeLost,
        facts.NodesSilent,
        facts.DeviceQuarantined,
        facts.DeviceCleared,
        facts.DeviceUnhealthy,
        facts.DeviceHealthy,
        decisions.JobEnded,
        decisions.JobShrunk,
        decisions.ShareTurnBegan,
        decisions.BudgetLevelChanged,
        decisions.MaintenanceBegan,
        decisions.MaintenanceEnded,
    }
)
