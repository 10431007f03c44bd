//! Apps are separate: every operation of the description, tried with another app's key and another app's ids.
//!
//! The operations come from `/openapi.json`. An operation that is neither inside `/v1/apps/{app}` nor named here fails the test.

use crate::{
    fixture::{ApiSession, HOOK, TestApp, TestServer, receiver, text},
    raw_http::ApiResponse,
};
use serde_json::{Value, json};

/// Values for the names in a path.
struct Ids {
    app: String,
    endpoint: String,
    event: String,
    delivery: String,
    inspection: String,
    replay: String,
    notice: String,
    key: String,
    link: String,
}

impl Ids {
    fn fill(&self, template: &str) -> String {
        let path = template
            .replace("{app}", &self.app)
            .replace("{endpoint}", &self.endpoint)
            .replace("{event}", &self.event)
            .replace("{delivery}", &self.delivery)
            .replace("{contract}", "standard")
            .replace("{inspection}", &self.inspection)
            .replace("{replay}", &self.replay)
            .replace("{notice}", &self.notice)
            .replace("{key}", &self.key)
            .replace("{link}", &self.link)
            .replace("{id}", &self.delivery)
            .replace("{type}", "x");
        assert!(!path.contains('{'), "{template} has a name that this test does not know");
        path
    }
}

async fn furnished(server: &TestServer, url: &str) -> (TestApp, Ids) {
    let app = server.app().await;
    let key = server.admin.post("/v1/keys", &json!({ "scope": "app", "app_id": app.id })).await.is(201);
    let endpoint = app.endpoint(url, json!({})).await;
    let published = app.publish("x").await;
    let delivery = text(&published["deliveries"][0]["id"]);
    app.until_is(&delivery, "dead").await;
    let event = text(&published["id"]);
    let inspection = text(&app.act(&format!("/endpoints/{endpoint}/inspect")).await.is(202)["id"]);
    crate::inspect::until_ended(&app, &inspection).await;
    let replay = json!({ "event_type": "another.type" });
    let replay = text(&app.post("/replays", &replay).await.is(201)["id"]);
    crate::replays::until_state(&app, &replay, "finished").await;
    let link = text(&app.post("/portal-links", &json!({})).await.is(201)["id"]);
    let notice = text(&app.all("/notices").await[0]["id"]);
    let own = TestApp { id: app.id.clone(), api: server.with_key(text(&key["key"])) };
    let key = text(&key["id"]);
    (own, Ids { app: app.id, endpoint, event, delivery, inspection, replay, notice, key, link })
}

fn unknown_ids() -> Ids {
    Ids {
        app: "nobody".into(),
        endpoint: "ep_0000000000001".into(),
        event: "evt_0000000000001".into(),
        delivery: "dlv_0000000000001".into(),
        inspection: "ins_0000000000001".into(),
        replay: "rpl_0000000000001".into(),
        notice: "ntc_0zzzzzzzzzzzz".into(),
        key: "key_0000000000001".into(),
        link: "key_0000000000002".into(),
    }
}

/// Sends the operation with the example of its description as the body.
async fn attempt(api: &ApiSession, method: &str, path: &str, operation: &Value) -> ApiResponse {
    let example = &operation["requestBody"]["content"]["application/json"]["example"];
    let body = example.is_object().then(|| example.to_string());
    api.send(&method.to_uppercase(), path, &[], body.as_deref().map(str::as_bytes)).await
}

async fn snapshot(app: &TestApp, ids: &Ids) -> Vec<Value> {
    let mut shown = Vec::new();
    for path in [
        String::new(),
        "/endpoints".into(),
        format!("/endpoints/{}/secret", ids.endpoint),
        "/events".into(),
        format!("/events/{}", ids.event),
        format!("/deliveries/{}", ids.delivery),
        format!("/endpoints/{}/inspections", ids.endpoint),
        "/dead-letters".into(),
        "/replays".into(),
        "/portal-links".into(),
        "/audit".into(),
        "/notices".into(),
    ] {
        shown.push(app.get(&path).await.is(200));
    }
    shown
}

/// Operations outside of any app, and the status that an app key gets from them.
fn outside_of_apps(method: &str, path: &str) -> Option<u16> {
    match (method, path) {
        (
            "get",
            "/livez"
            | "/readyz"
            | "/metrics"
            | "/openapi.json"
            | "/v1/apps"
            | "/v1/event-types"
            | "/v1/contracts"
            | "/v1/contracts/{contract}"
            | "/v1/session"
            | "/v1/find/{id}",
        ) => Some(200),
        (
            "post",
            "/v1/apps"
            | "/v1/event-types"
            | "/v1/event-types/import"
            | "/v1/event-types/{type}/archive"
            | "/v1/event-types/{type}/unarchive",
        )
        | ("post" | "get", "/v1/keys")
        | (
            "get",
            "/v1/audit" | "/v1/notices" | "/v1/keys/{key}" | "/v1/stats" | "/v1/stream" | "/v1/system",
        )
        | ("delete", "/v1/keys/{key}" | "/v1/event-types/{type}")
        | ("put", "/v1/event-types/{type}") => Some(403),
        ("get", "/v1/event-types/{type}") | ("post", "/v1/event-types/{type}/try") => Some(404),
        _ => None,
    }
}

#[tokio::test]
async fn no_operation_reaches_another_app_or_reveals_that_it_exists() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let (intruder, own) = furnished(&server, &receiver.url(HOOK)).await;
    let (victim, theirs) = furnished(&server, &receiver.url(HOOK)).await;
    let before = snapshot(&victim, &theirs).await;
    let unknown = unknown_ids();
    let mut tried = 0;
    for operation in server.admin.description.operations() {
        let (method, template) = (operation.method, operation.path);
        let about = format!("{method} {template}");
        if !template.starts_with("/v1/apps/{app}") {
            let expected = outside_of_apps(method, template);
            let expected = expected
                .unwrap_or_else(|| panic!("{about} is not covered: say what an app key may do there"));
            let answer = attempt(&intruder.api, method, &theirs.fill(template), operation.value).await;
            assert_eq!(answer.status, expected, "{about}: {}", answer.text());
            assert!(!answer.text().contains(&victim.id), "{about}: {}", answer.text());
            continue;
        }
        let foreign = attempt(&intruder.api, method, &theirs.fill(template), operation.value).await;
        let nowhere = attempt(&intruder.api, method, &unknown.fill(template), operation.value).await;
        foreign.refused(404, "not_found");
        assert_eq!(foreign.text(), nowhere.text(), "{about} in a foreign app");
        tried += 1;
        if template.matches('{').count() > 1 {
            let inside = |ids: &Ids| ids.fill(&template.replace("{app}", &own.app));
            let foreign = attempt(&intruder.api, method, &inside(&theirs), operation.value).await;
            let nowhere = attempt(&intruder.api, method, &inside(&unknown), operation.value).await;
            foreign.refused(404, "not_found");
            assert_eq!(foreign.text(), nowhere.text(), "{about} with a foreign id");
            tried += 1;
        }
    }
    assert!(tried > 40, "only {tried} were tried");
    assert_eq!(snapshot(&victim, &theirs).await, before, "and nothing was changed");
}

#[tokio::test]
async fn a_portal_link_reaches_no_other_app_either() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let (owner, own) = furnished(&server, &receiver.url(HOOK)).await;
    let (victim, theirs) = furnished(&server, &receiver.url(HOOK)).await;
    let made = owner.post("/portal-links", &json!({})).await.is(201);
    let customer = server.with_key(text(&made["token"]));
    let (before, unknown) = (snapshot(&victim, &theirs).await, unknown_ids());
    for operation in server.admin.description.operations() {
        let (method, template) = (operation.method, operation.path);
        let about = format!("{method} {template}");
        let foreign = attempt(&customer, method, &theirs.fill(template), operation.value).await;
        assert!(!foreign.text().contains(&victim.id), "{about}: {}", foreign.text());
        if template.starts_with("/v1/apps/{app}") {
            foreign.refused(404, "not_found");
            let inside = |ids: &Ids| ids.fill(&template.replace("{app}", &own.app));
            if template.matches('{').count() > 1 {
                let foreign = attempt(&customer, method, &inside(&theirs), operation.value).await;
                let nowhere = attempt(&customer, method, &inside(&unknown), operation.value).await;
                assert!([403, 404].contains(&foreign.status), "{about}: {}", foreign.text());
                assert_eq!(foreign.text(), nowhere.text(), "{about} with a foreign id");
            }
        }
    }
    assert_eq!(snapshot(&victim, &theirs).await, before, "and nothing was changed");
}

#[tokio::test]
async fn filters_and_ids_of_another_app_find_nothing() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let (intruder, _) = furnished(&server, &receiver.url(HOOK)).await;
    let (victim, theirs) = furnished(&server, &receiver.url(HOOK)).await;
    for filter in [
        format!("/deliveries?endpoint_id={}", theirs.endpoint),
        format!("/deliveries?event_id={}", theirs.event),
        format!("/deliveries?endpoint_id={}&status=dead", theirs.endpoint),
        format!("/deliveries?order=next_attempt_at&endpoint_id={}", theirs.endpoint),
        format!("/dead-letters?endpoint_id={}&closed=true", theirs.endpoint),
    ] {
        assert_eq!(intruder.all(&filter).await, Vec::<Value>::new(), "{filter}");
    }
    for path in ["/events", "/deliveries", "/dead-letters", "/endpoints"] {
        let cursor = text(&page_with_cursor(&victim, path).await["next_cursor"]);
        intruder.get(&format!("{path}?limit=1&cursor={cursor}")).await.refused(400, "invalid_cursor");
    }
}

/// The first page of a list that has more than one.
async fn page_with_cursor(app: &TestApp, path: &str) -> Value {
    if path == "/endpoints" {
        app.endpoint("http://127.0.0.1:9/", json!({ "event_types": ["never"] })).await;
    } else {
        let id = text(&app.publish("x").await["deliveries"][0]["id"]);
        app.until_is(&id, "dead").await;
    }
    app.get(&format!("{path}?limit=1")).await.is(200)
}
