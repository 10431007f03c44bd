import { api, dataOf } from "../api/client";
import { usePagedList } from "../api/paged-list";
import type { Notice } from "../api/schema";
import { Empty, Skeleton, ErrorMessage } from "../components/query-view";
import { LoadMore } from "../components/load-more";
import { Card, PageHead } from "../components/page";
import { paths } from "../route/paths";
import type { Tone } from "../text/states";
import { LongTime, Time } from "../components/time";

const NOTICE_KINDS: Record<string, { label: string; tone: Tone }> = {
  "endpoint.degraded": { label: "Endpoint degraded", tone: "warn" },
  "endpoint.warning": { label: "About to be switched off", tone: "warn" },
  "endpoint.disabled": { label: "Endpoint switched off", tone: "bad" },
  "endpoint.recovered": { label: "Endpoint recovered", tone: "good" },
  "delivery.dead": { label: "Dead letter", tone: "bad" },
  "replay.finished": { label: "Replay finished", tone: "good" },
};

const MAIL_STATES: Record<string, string> = {
  waiting: "e-mail waiting",
  sent: "e-mail sent",
  refused: "e-mail refused by its server",
};

/** The notices of all apps, or of one. */
export function Notices({ app }: { app: string | null }) {
  const list = usePagedList(
    `notices ${app ?? ""}`,
    (cursor) => {
      const query = cursor ? { cursor } : {};
      if (app === null) return dataOf(api.GET("/v1/notices", { params: { query } }));
      return dataOf(api.GET("/v1/apps/{app}/notices", { params: { path: { app }, query } }));
    },
    (row) => row.id,
    ["notices"],
  );
  const rows = list.rows;
  return (
    <>
      <PageHead title="Notices" />
      {rows === undefined ? (
        list.error ? (
          <ErrorMessage error={list.error} onRetry={list.refetch} />
        ) : (
          <Skeleton />
        )
      ) : rows.length === 0 ? (
        <Empty title="No notices">
          You are told here when an endpoint gets into trouble or recovers, a delivery dies, or a replay ends.
        </Empty>
      ) : (
        <Card>
          <ul class="feed">
            {rows.map((row) => (
              <NoticeItem key={row.id} notice={row} isAllApps={app === null} />
            ))}
          </ul>
        </Card>
      )}
      <LoadMore list={list} />
    </>
  );
}

function NoticeItem({ notice, isAllApps }: { notice: Notice; isAllApps: boolean }) {
  const kind = NOTICE_KINDS[notice.kind] ?? { label: notice.kind, tone: "quiet" };
  const { app_id: app, mail } = notice;
  return (
    <li>
      <div class="line">
        <span class={`badge ${kind.tone}`}>{kind.label}</span>
        {notice.count > 1 && <span class="muted">×{notice.count}</span>}
        {isAllApps && <a href={paths.app(app)}>{app}</a>}
        <span class="when">
          {mail && MAIL_STATES[mail.state] && <span title={mail.error ?? undefined}>{MAIL_STATES[mail.state]}, </span>}
          <Time at={notice.at} />
        </span>
      </div>
      <div>{notice.text}</div>
      <div class="about">
        {notice.since && (
          <>
            Since <LongTime at={notice.since} />.{" "}
          </>
        )}
        {notice.last_error && <>Last error: {notice.last_error}. </>}
        {notice.url}
      </div>
      <div class="about buttons">
        {notice.endpoint_id && <a href={paths.endpoint(app, notice.endpoint_id)}>Endpoint</a>}
        {notice.delivery_id && <a href={paths.delivery(app, notice.delivery_id)}>Delivery</a>}
        {notice.replay_id && <a href={paths.replay(app, notice.replay_id)}>Replay</a>}
      </div>
    </li>
  );
}
