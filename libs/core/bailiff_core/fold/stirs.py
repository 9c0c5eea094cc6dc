"""What changes the claims of projects, or the room that they divide, from outside of what the engine decides by itself.

As long as nothing of this happens, `displaced-asker` lets nobody take room back from who displaced it.
"""

from bailiff_core.records import decisions, facts

STIRS = frozenset({
    facts.PolicyApplied, facts.LogSettled, facts.JobSubmitted, facts.JobCancelled, facts.JobScaled, facts.JobReclassified,
    facts.JobEvictionAsked, facts.JobPaused, facts.JobUnpaused, facts.JobMigrationAsked, facts.NodeDrained, facts.NodeUndrained,
    facts.NodeJoined, facts.NodeUnreachable, facts.NodeReachable, facts.NodeLost, facts.ReportsStale, facts.DeviceQuarantined,
    facts.DeviceCleared, facts.DeviceUnhealthy, facts.DeviceHealthy, decisions.JobEnded, decisions.JobShrunk,
})  # fmt: skip
