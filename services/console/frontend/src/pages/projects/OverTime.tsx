import { useSignal } from "@preact/signals";

import { useRefreshed } from "../../lib/refreshed";
import { moment } from "../../lib/words";
import { Card } from "../../ui/Card";
import { DataTable } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { Failure } from "../../ui/Failure";
import { Loading } from "../../ui/Loading";
import { Segmented } from "../../ui/Segmented";
import { RANGES, since, usage, usageText, type Range, type UsageItem } from "./usage";
import { UsageChart } from "./UsageChart";

/** Use against quota and fair share over time. project "": the whole pool. to: the newest moment of the log. */
export function OverTime({ pool, project, to }: { pool: string; project: string; to: string | null }) {
  const range = useSignal<Range>("6h");
  const showing = useSignal<"chart" | "table">("chart");
  const over = useSignal<UsageItem | null>(null);
  const { value: items, failure, again } = useRefreshed(to === null ? null : `${pool} ${project} ${range.value}`, (signal) => usage(pool, project, since(to!, range.value), signal));
  return (
    <Card title={project === "" ? "The whole pool over time" : "Over time"} aside={<Segmented legend="How far back" options={RANGES} value={range.value} onChange={(next) => (range.value = next)} />}>
      {failure && !items ? (
        <Failure refusal={failure} again={again} />
      ) : to !== null && !items ? (
        <Loading what="its use over time" />
      ) : !items?.length ? (
        <Empty title="Nothing is noted of that time">The archive notes each project's use about once a minute, from the moment it follows the log.</Empty>
      ) : (
        <div class="over-time">
          <div class="over-time-head">
            <p>{usageText(items)}</p>
            <Segmented legend="Show use as" options={[["chart", "Chart"], ["table", "Table"]]} value={showing.value} onChange={(next) => (showing.value = next)} />
          </div>
          {showing.value === "chart" ? (
            <>
              <UsageChart items={items} words={`GPUs used, over time. ${usageText(items)} The table has the figures.`} onAt={(item) => (over.value = item)} />
              <ul class="chart-key">
                <li data-line="used">used</li>
                {project !== "" && (
                  <>
                    <li data-line="quota">quota</li>
                    <li data-line="fair">fair share</li>
                    <li data-line="borrowed">borrowed</li>
                  </>
                )}
                <li class="chart-at soft number">{over.value ? atText(over.value) : "GPUs; times are UTC"}</li>
              </ul>
            </>
          ) : (
            <Figures items={items} />
          )}
        </div>
      )}
    </Card>
  );
}

function atText(item: UsageItem): string {
  const used = `${moment(item.time)}: ${item.gpus} used`;
  if (item.project === "") return used;
  return `${used}, quota ${item.quota ?? "none"}, fair share ${Math.round(item.fair_share * 10) / 10}${item.borrowed ? `, ${item.borrowed} borrowed` : ""}`;
}

function Figures({ items }: { items: readonly UsageItem[] }) {
  return (
    <DataTable
      caption="GPUs used over time"
      rows={[...items].reverse()}
      rowKey={(item) => item.seq}
      columns={[
        { head: "Time", cell: (item) => <span class="number">{moment(item.time)}</span> },
        { head: "GPUs used", right: true, cell: (item) => item.gpus },
        { head: "Quota", right: true, cell: (item) => item.quota ?? "no bound" },
        { head: "Fair share", right: true, cell: (item) => Math.round(item.fair_share * 10) / 10 },
        { head: "Borrowed", right: true, cell: (item) => item.borrowed ?? 0 },
      ]}
    />
  );
}
