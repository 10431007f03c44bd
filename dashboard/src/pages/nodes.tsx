// The cluster's nodes: the work of each, and whether its lease is valid.
import type { System, SystemNode } from "../api/schema";
import { Card } from "../components/page";
import { Table } from "../components/table";
import { Time } from "../components/time";
import { leaseText } from "../text/leases";
import { formatCount, countOf } from "../text/numbers";
import { formatDuration } from "../text/times";

export function NodeName({ node }: { node: SystemNode }) {
  return (
    <>
      {node.name || "unnamed"}
      {node.this && <span class="muted"> (this one)</span>}
    </>
  );
}

export function NodesCard({ nodes, oldest_overdue: oldest }: Pick<System, "nodes" | "oldest_overdue">) {
  return (
    <Card title="Nodes">
      <Table
        caption="Nodes"
        rows={nodes}
        idOf={(row) => row.epoch}
        columns={[
          { name: "Node", isMain: true, cell: (row) => <NodeName node={row} /> },
          { name: "Version", cell: (row) => row.version },
          { name: "Since", cell: (row) => <Time at={row.joined_at} /> },
          { name: "Lease", cell: leaseText },
          { name: "Shards", isNumber: true, cell: (row) => `${formatCount(row.shards)} of 256` },
          { name: "Free hands", isNumber: true, cell: (row) => formatCount(row.free_hands) },
          { name: "Configuration", cell: (row) => (row.lag === 0 ? "seen" : `${countOf(row.lag, "change")} behind`) },
          { name: "Slot", isNumber: true, cell: (row) => row.slot ?? "–" },
          { name: "Epoch", cell: (row) => <code>{row.epoch}</code> },
        ]}
      />
      <p class="muted">
        {oldest
          ? `The oldest delivery that is due has waited for ${formatDuration(oldest.overdue_ms)}: ${oldest.delivery_id ?? "one"} to ${oldest.endpoint_id} of ${oldest.app_id}.`
          : "Nothing that is due waits."}
      </p>
    </Card>
  );
}
