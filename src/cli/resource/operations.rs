//! The table of commands that are one operation of the API each. To add one: add a row; its arguments, its help and its
//! page in docs/command-line.md follow from the API's description.

/// The groups, in the order of the help.
pub(super) const GROUPS: &[(&str, &str)] = &[
    ("apps", "Tenants: merchants, organisations, customers"),
    ("endpoints", "Where an app's events go"),
    ("events", "What was published, and how it stands"),
    ("deliveries", "One event to one endpoint, with every attempt"),
    ("deadletters", "Deliveries that ended undelivered and wait for someone to look"),
    ("replay", "Many deliveries, or past events, sent again as one piece of work"),
    ("notices", "What people were told: endpoints in trouble, dead letters, replays that ended"),
    ("stats", "What was counted: rates, latencies, failures, over time"),
    ("keys", "Who may do what"),
    ("portal-links", "A customer's own way into one app, for a while"),
    ("audit", "Who changed what, when"),
    ("system", "What the server itself runs with, and what has an id"),
];

/// How a command continues after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterAnswer {
    Nothing,
    /// With `--wait`: until the delivery of the answer has ended.
    Delivery,
    /// Asks before sending many; with `--watch`: until the replay of the answer is over.
    NewReplay,
    /// Until the replay of the answer is over.
    Replay,
    /// Until the inspection of the answer is finished.
    Inspection,
}

#[derive(Debug)]
pub(super) struct ApiOperation {
    pub group: &'static str,
    pub name: &'static str,
    pub about: &'static str,
    pub method: &'static str,
    pub path: &'static str,
    /// The question before an operation that cannot be undone; `{}` is the id.
    pub question: Option<&'static str>,
    pub follow: AfterAnswer,
    /// The arguments of an example, after `posthaste GROUP NAME`.
    pub example: &'static str,
}

const fn op(
    group: &'static str,
    name: &'static str,
    method: &'static str,
    path: &'static str,
    about: &'static str,
    example: &'static str,
) -> ApiOperation {
    ApiOperation { group, name, about, method, path, question: None, follow: AfterAnswer::Nothing, example }
}

impl ApiOperation {
    /// The path of the list over all apps, if there is one.
    pub(super) fn all_apps_path(&self) -> Option<&'static str> {
        ALL_APPS_PATHS.iter().find(|(of_app, _)| *of_app == self.path).map(|(_, everywhere)| *everywhere)
    }

    const fn with_question(mut self, question: &'static str) -> Self {
        self.question = Some(question);
        self
    }

    const fn with_follow(mut self, follow: AfterAnswer) -> Self {
        self.follow = follow;
        self
    }
}

const APP_PATH: &str = "/v1/apps/{app}";
const ENDPOINTS_PATH: &str = "/v1/apps/{app}/endpoints";
const ENDPOINT_PATH: &str = "/v1/apps/{app}/endpoints/{endpoint}";
const DELIVERY_PATH: &str = "/v1/apps/{app}/deliveries/{delivery}";
const PORTAL_LINKS_PATH: &str = "/v1/apps/{app}/portal-links";
const REPLAYS_PATH: &str = "/v1/apps/{app}/replays";
const REPLAY_PATH: &str = "/v1/apps/{app}/replays/{replay}";

/// Lists that also exist for all apps, used when no app is given.
const ALL_APPS_PATHS: &[(&str, &str)] = &[
    ("/v1/apps/{app}/audit", "/v1/audit"),
    ("/v1/apps/{app}/notices", "/v1/notices"),
    ("/v1/apps/{app}/stats", "/v1/stats"),
];

#[rustfmt::skip]
pub(super) const OPERATIONS: &[ApiOperation] = &[
    op("apps", "list", "GET", "/v1/apps", "List apps", ""),
    op("apps", "get", "GET", APP_PATH, "Show an app", "bakery"),
    op("apps", "create", "POST", "/v1/apps", "Make an app", "--id bakery --name 'Corner Bakery' --quota events_per_second=100"),
    op("apps", "update", "PATCH", APP_PATH, "Change an app", "bakery --name 'Corner Bakery & Café' --unset quota"),
    op("apps", "delete", "DELETE", APP_PATH, "Delete an app and everything in it", "bakery --yes")
        .with_question("Delete the app {} with its endpoints, events and history?"),

    op("endpoints", "list", "GET", ENDPOINTS_PATH, "List endpoints", "--app bakery"),
    op("endpoints", "get", "GET", ENDPOINT_PATH, "Show an endpoint", "shop"),
    op("endpoints", "create", "POST", ENDPOINTS_PATH, "Make an endpoint; shows its secret", "--id shop --url https://hooks.bakery.example/in --event-types 'order.paid,refund.*'"),
    op("endpoints", "update", "PATCH", ENDPOINT_PATH, "Change an endpoint", "shop --headers X-Shop=17 --unset description"),
    op("endpoints", "delete", "DELETE", ENDPOINT_PATH, "Delete an endpoint; what waits for it is cancelled", "shop --yes")
        .with_question("Delete the endpoint {} and cancel what waits for it?"),
    op("endpoints", "enable", "POST", "/v1/apps/{app}/endpoints/{endpoint}/enable", "Switch an endpoint on", "shop --replay true"),
    op("endpoints", "disable", "POST", "/v1/apps/{app}/endpoints/{endpoint}/disable", "Switch an endpoint off", "shop"),
    op("endpoints", "health", "GET", "/v1/apps/{app}/endpoints/{endpoint}/health", "Show how an endpoint is, and why", "shop"),
    op("endpoints", "attempts", "GET", "/v1/apps/{app}/endpoints/{endpoint}/attempts", "List the latest attempts at an endpoint", "shop"),
    op("endpoints", "contract", "GET", "/v1/apps/{app}/endpoints/{endpoint}/contract", "Show the contract that holds for an endpoint, overrides included", "shop --json"),
    op("endpoints", "test", "POST", "/v1/apps/{app}/endpoints/{endpoint}/test", "Send a test event to an endpoint, even if it is off", "shop --wait")
        .with_follow(AfterAnswer::Delivery),
    op("endpoints", "ping", "POST", "/v1/apps/{app}/endpoints/{endpoint}/ping", "Ask the endpoint's health address", "shop")
        .with_follow(AfterAnswer::Inspection),
    op("endpoints", "secret", "GET", "/v1/apps/{app}/endpoints/{endpoint}/secret", "Show an endpoint's secrets", "shop"),
    op("endpoints", "rotate-secret", "POST", "/v1/apps/{app}/endpoints/{endpoint}/secret/rotate", "Replace an endpoint's secret", "shop --overlap 48h"),
    op("endpoints", "backfill", "POST", "/v1/apps/{app}/endpoints/{endpoint}/backfill", "Send past events to an endpoint", "archive --from 30d --watch")
        .with_follow(AfterAnswer::NewReplay),
    op("endpoints", "inspections", "GET", "/v1/apps/{app}/endpoints/{endpoint}/inspections", "List what `posthaste inspect` found at an endpoint", "shop"),
    op("endpoints", "inspection", "GET", "/v1/apps/{app}/inspections/{inspection}", "Show what `posthaste inspect` found once", "ins_01jd2s3c8g001 --json"),

    op("events", "list", "GET", "/v1/apps/{app}/events", "List events, the newest first", "--event-type order.paid --from 2h"),
    op("events", "get", "GET", "/v1/apps/{app}/events/{event}", "Show an event with its data and its deliveries", "order-1001-paid"),
    op("events", "status", "GET", "/v1/apps/{app}/events/{event}/status", "Show how an event stands, in the names of its contract", "order-1001-paid"),
    op("events", "erase", "DELETE", "/v1/apps/{app}/events/{event}/data", "Erase an event's data and keep the record of it", "order-1001-paid --yes")
        .with_question("Erase the data of event {} for ever?"),

    op("deliveries", "list", "GET", "/v1/apps/{app}/deliveries", "List deliveries, the newest first", "--status retrying,dead --endpoint-id shop --from 1d"),
    op("deliveries", "get", "GET", DELIVERY_PATH, "Show a delivery with every attempt", "dlv_01jd2s3c8g001"),
    op("deliveries", "retry", "POST", "/v1/apps/{app}/deliveries/{delivery}/retry", "Try a delivery once more now; its schedule stays", "dlv_01jd2s3c8g001 --wait=30s")
        .with_follow(AfterAnswer::Delivery),
    op("deliveries", "replay", "POST", "/v1/apps/{app}/deliveries/{delivery}/replay", "Send a delivery again with a fresh schedule", "dlv_01jd2s3c8g001")
        .with_follow(AfterAnswer::Delivery),
    op("deliveries", "cancel", "POST", "/v1/apps/{app}/deliveries/{delivery}/cancel", "Cancel a delivery that waits", "dlv_01jd2s3c8g001"),
    op("deliveries", "delete", "DELETE", DELIVERY_PATH, "Delete a delivery that has ended, with its history", "dlv_01jd2s3c8g001 --yes")
        .with_question("Delete the delivery {} and its history?"),

    op("deadletters", "list", "GET", "/v1/apps/{app}/dead-letters", "List dead letters", "--endpoint-id shop --all"),
    op("deadletters", "replay", "POST", "/v1/apps/{app}/dead-letters/{delivery}/replay", "Send a dead letter again with a fresh schedule", "dlv_01jd2s3c8g001 --wait")
        .with_follow(AfterAnswer::Delivery),
    op("deadletters", "close", "POST", "/v1/apps/{app}/dead-letters/{delivery}/close", "Close a dead letter: somebody has looked", "dlv_01jd2s3c8g001"),

    op("replay", "start", "POST", REPLAYS_PATH, "Send many deliveries again", "--endpoint-id shop --status dead,expired --from 1d --per-second 50 --watch")
        .with_follow(AfterAnswer::NewReplay),
    op("replay", "list", "GET", REPLAYS_PATH, "List replays and backfills, the newest first", ""),
    op("replay", "get", "GET", REPLAY_PATH, "Show a replay", "rpl_01jd2s3c8g001"),
    op("replay", "watch", "GET", REPLAY_PATH, "Watch a replay until it is over", "rpl_01jd2s3c8g001")
        .with_follow(AfterAnswer::Replay),
    op("replay", "pause", "POST", "/v1/apps/{app}/replays/{replay}/pause", "Pause a replay", "rpl_01jd2s3c8g001"),
    op("replay", "resume", "POST", "/v1/apps/{app}/replays/{replay}/resume", "Resume a replay", "rpl_01jd2s3c8g001"),
    op("replay", "cancel", "DELETE", REPLAY_PATH, "Cancel a replay; what was sent again stays so", "rpl_01jd2s3c8g001"),

    op("notices", "list", "GET", "/v1/apps/{app}/notices", "List notices, the newest first: of the app, or of all if none is meant", "--kind endpoint.disabled --from 7d"),
    op("notices", "get", "GET", "/v1/apps/{app}/notices/{notice}", "Show a notice, and what became of its e-mail", "ntc_0000000000017"),

    op("stats", "show", "GET", "/v1/apps/{app}/stats", "Show the statistics of the app, or of all if none is meant", "--from 7d --endpoint-id shop"),

    op("keys", "list", "GET", "/v1/keys", "List keys", "--revoked"),
    op("keys", "get", "GET", "/v1/keys/{key}", "Show a key, but not the key itself", "key_01jd2s3c8g001"),
    op("keys", "create", "POST", "/v1/keys", "Make a key; it is shown this once", "--scope publish --app bakery --name checkout --expires-at +90d"),
    op("keys", "revoke", "DELETE", "/v1/keys/{key}", "Revoke a key, at once", "key_01jd2s3c8g001 --yes")
        .with_question("Revoke the key {}? Whoever uses it is refused from now on."),

    op("keys", "whoami", "GET", "/v1/session", "Show what the key in use is and may", ""),

    op("portal-links", "list", "GET", PORTAL_LINKS_PATH, "List portal links", "--app bakery"),
    op("portal-links", "create", "POST", PORTAL_LINKS_PATH, "Make a portal link; its address is shown this once", "--app bakery --expires-in 2h --theme name='Corner Bakery'"),
    op("portal-links", "revoke", "DELETE", "/v1/apps/{app}/portal-links/{link}", "Revoke a portal link, at once", "key_01jd2s3c8g001 --yes")
        .with_question("Revoke the portal link {}? Whoever uses it is refused from now on."),

    op("audit", "list", "GET", "/v1/apps/{app}/audit", "List who changed what, the newest first: in the app, or everywhere if none is meant", "--every-app --action app.changed --from 7d"),

    op("system", "show", "GET", "/v1/system", "Show the server's version, nodes, store, encryption keys and way out", ""),
    op("system", "find", "GET", "/v1/find/{id}", "Find out what an id is the id of", "dlv_01jd2s3c8g001"),
];
