"""What changes the claims of projects, or the room that they divide, from outside of what the engine decides by itself.

As long as nothing of this happens, `no-counter-reclaim` lets nobody take room back from who displaced it.
"""

from bailiff_core.records import decisions, facts

ENTITLEMENT_CHANGES = frozenset({
    facts.PolicyApplied, facts.TruncationReconciled, facts.JobSubmitted, facts.JobCancelled, facts.JobScaled,
    facts.JobPriorityClassChanged,
    facts.JobEvictionRequested, facts.JobPaused, facts.JobResumed, facts.JobMigrationRequested, facts.NodeDrained,
    facts.NodeUndrained,
    facts.NodeJoined, facts.NodeUnreachable, facts.NodeReachable, facts.NodeLost, facts.NodesSilent, facts.DeviceQuarantined,
    facts.DeviceCleared, facts.DeviceUnhealthy, facts.DeviceHealthy, decisions.JobEnded, decisions.JobShrunk,
})  # fmt: skip
