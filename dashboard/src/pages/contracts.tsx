import { useQuery } from "../api/query";
import { api, dataOf } from "../api/client";
import type { Contract } from "../api/schema";
import { QueryView } from "../components/query-view";
import { Card, PageHead } from "../components/page";
import { ScheduleChart } from "../components/schedule-chart";
import { paths } from "../route/paths";
import type { Schedule } from "../text/timeline";

export function Contracts() {
  const query = useQuery("contracts", () => dataOf(api.GET("/v1/contracts", { params: { query: { limit: 250 } } })));
  return (
    <>
      <PageHead title="Contracts" />
      <p class="lead">
        A contract is everything a sender promises its receivers: bytes, headers, signatures, times, the meaning of answers. Each
        line shows when attempts come if a receiver always fails: the first at T, a bar for how far each may be off.
      </p>
      <QueryView query={query}>
        {({ data }) => (
          <div class="stack">
            {data.map((contract) => (
              <Card key={contract.name}>
                <div class="contract-row">
                  <div class="contract-head">
                    <h2>
                      <a href={paths.contract(contract.name)}>{contract.name}</a>
                    </h2>
                    <span class="muted">{contract.description}</span>
                    <span class="muted">
                      {contract.timeline.attempts.length} attempts, then {endText(contract)}
                    </span>
                  </div>
                  <ContractSchedule contract={contract} />
                </div>
              </Card>
            ))}
          </div>
        )}
      </QueryView>
    </>
  );
}

export function ContractSchedule({ contract }: { contract: Contract }) {
  return <ScheduleChart schedule={apiSchedule(contract)} endLabel={contract.timeline.ends[0]?.contract_status ?? "dead"} />;
}

/** Returns the schedule that the API computed, instead of computing it here. */
function apiSchedule({ timeline }: Contract): Schedule {
  const end = timeline.ends[0];
  return {
    attempts: timeline.attempts.map((each) => ({ number: each.number, earliestMs: each.earliest_ms, latestMs: each.latest_ms })),
    end: { earliestMs: end?.earliest_ms ?? 0, latestMs: end?.latest_ms ?? 0 },
  };
}

export function endText(contract: Contract): string {
  return contract.timeline.ends.map((end) => `${end.contract_status} at ${end.at}`).join(", or ");
}
