//! What a key of each scope may ask for at all, by method and described path. What is not allowed here is refused, so a new
//! route is closed to narrow keys until it is opened. What only an admin key may do inside a route, the service decides.

use super::problem::{Code, Problem};
use crate::domain::key::Scope;
use http::Method;

const PUBLISHING: [&str; 2] = ["/v1/apps/{app}/events", "/v1/apps/{app}/events/batch"];
const IN_AN_APP: &str = "/v1/apps/{app}";
/// Says who a key is, to whoever shows it.
const SESSION: &str = "/v1/session";
/// Finds what a key may look at.
const FIND: &str = "/v1/find/{id}";

/// What a customer looks at by a portal link: what happens to their own events, and what they can subscribe to. Not the app
/// itself, whose limits and contract are the operator's, and not who else changed something in it.
const PORTAL_LOOKS: [&str; 20] = [
    "/v1/apps/{app}/endpoints",
    "/v1/apps/{app}/endpoints/{endpoint}",
    "/v1/apps/{app}/endpoints/{endpoint}/attempts",
    "/v1/apps/{app}/endpoints/{endpoint}/contract",
    "/v1/apps/{app}/endpoints/{endpoint}/health",
    "/v1/apps/{app}/endpoints/{endpoint}/inspections",
    "/v1/apps/{app}/inspections/{inspection}",
    "/v1/apps/{app}/events",
    "/v1/apps/{app}/events/{event}",
    "/v1/apps/{app}/events/{event}/status",
    "/v1/apps/{app}/deliveries",
    "/v1/apps/{app}/deliveries/{delivery}",
    "/v1/apps/{app}/dead-letters",
    "/v1/apps/{app}/replays",
    "/v1/apps/{app}/replays/{replay}",
    "/v1/apps/{app}/notices",
    "/v1/apps/{app}/notices/{notice}",
    "/v1/apps/{app}/stats",
    "/v1/apps/{app}/stream",
    "/v1/event-types",
];

/// What a customer does by a portal link, and the secrets of their own endpoints.
const PORTAL_DOES: [(&Method, &str); 20] = [
    (&Method::POST, "/v1/apps/{app}/endpoints"),
    (&Method::PATCH, "/v1/apps/{app}/endpoints/{endpoint}"),
    (&Method::DELETE, "/v1/apps/{app}/endpoints/{endpoint}"),
    (&Method::POST, "/v1/apps/{app}/endpoints/{endpoint}/test"),
    (&Method::POST, "/v1/apps/{app}/endpoints/{endpoint}/enable"),
    (&Method::POST, "/v1/apps/{app}/endpoints/{endpoint}/disable"),
    (&Method::POST, "/v1/apps/{app}/endpoints/{endpoint}/inspect"),
    (&Method::POST, "/v1/apps/{app}/endpoints/{endpoint}/ping"),
    (&Method::POST, "/v1/apps/{app}/endpoints/{endpoint}/backfill"),
    (&Method::GET, "/v1/apps/{app}/endpoints/{endpoint}/secret"),
    (&Method::POST, "/v1/apps/{app}/endpoints/{endpoint}/secret/rotate"),
    (&Method::POST, "/v1/apps/{app}/deliveries/{delivery}/retry"),
    (&Method::POST, "/v1/apps/{app}/deliveries/{delivery}/replay"),
    (&Method::POST, "/v1/apps/{app}/deliveries/{delivery}/cancel"),
    (&Method::POST, "/v1/apps/{app}/dead-letters/{delivery}/replay"),
    (&Method::POST, "/v1/apps/{app}/dead-letters/{delivery}/close"),
    (&Method::POST, "/v1/apps/{app}/replays"),
    (&Method::DELETE, "/v1/apps/{app}/replays/{replay}"),
    (&Method::POST, "/v1/apps/{app}/replays/{replay}/pause"),
    (&Method::POST, "/v1/apps/{app}/replays/{replay}/resume"),
];

/// Refuses, naming the scope, what a key may not ask for; `path` is the route's, with its names in braces.
pub(super) fn must_be_allowed(scope: Scope, method: &Method, path: &str) -> Result<(), Problem> {
    if is_look(method) && path == SESSION {
        return Ok(());
    }
    let (is_allowed, may) = match scope {
        Scope::Admin | Scope::App(_) => return Ok(()),
        Scope::Publish(_) => (method == Method::POST && PUBLISHING.contains(&path), "publish events"),
        Scope::Read(_) => {
            let is_seen = path == FIND || is_in_an_app(path) && !is_secret(path);
            (is_look(method) && is_seen, "look, and not at secrets")
        }
        Scope::Portal(_) => (
            is_portal_look(method, path) || is_portal_deed(method, path),
            "manage endpoints and look after deliveries",
        ),
        Scope::PortalRead(_) => (is_portal_look(method, path), "look at endpoints and deliveries"),
    };
    if is_allowed {
        return Ok(());
    }
    let detail = format!("This key has the scope \"{}\": it may only {may}, in its own app.", scope.name());
    Err(Problem::new(Code::Forbidden, detail))
}

fn is_portal_look(method: &Method, path: &str) -> bool {
    is_look(method) && (path == FIND || PORTAL_LOOKS.contains(&path))
}

fn is_portal_deed(method: &Method, path: &str) -> bool {
    let asked = if method == Method::HEAD { &Method::GET } else { method };
    PORTAL_DOES.contains(&(asked, path))
}

/// HEAD is answered as GET is.
fn is_look(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

fn is_in_an_app(path: &str) -> bool {
    path.strip_prefix(IN_AN_APP).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whatever has a part with this word in it.
fn is_secret(path: &str) -> bool {
    path.split('/').any(|part| part.contains("secret"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::described_routes, domain::id::AppId};
    use std::collections::BTreeSet;

    /// Every described operation under `/v1` that a key of this scope is let into.
    fn allowed(scope: Scope) -> BTreeSet<String> {
        let document = serde_json::to_value(described_routes().to_openapi()).unwrap();
        let paths = document["paths"].as_object().unwrap().clone();
        let mut allowed = BTreeSet::new();
        for (path, item) in paths.iter().filter(|(path, _)| path.starts_with("/v1/")) {
            for method in item.as_object().unwrap().keys().map(|method| method.to_uppercase()) {
                if must_be_allowed(scope, &method.parse().unwrap(), path).is_ok() {
                    allowed.insert(format!("{method} {path}"));
                }
            }
        }
        allowed
    }

    #[test]
    fn a_publish_key_is_let_into_publishing_and_nothing_else() {
        let allowed = allowed(Scope::Publish(AppId::from_i64(1)));
        let expected = ["GET /v1/session", "POST /v1/apps/{app}/events", "POST /v1/apps/{app}/events/batch"];
        assert_eq!(allowed, expected.map(str::to_owned).into());
    }

    #[test]
    fn a_read_key_is_let_into_looking_at_everything_in_an_app_but_secrets() {
        let everything = allowed(Scope::Admin);
        let expected = everything.iter().filter(|operation| {
            let in_an_app = operation.starts_with("GET /v1/apps/{app}");
            in_an_app && **operation != "GET /v1/apps/{app}/endpoints/{endpoint}/secret"
                || ["GET /v1/session", "GET /v1/find/{id}"].contains(&operation.as_str())
        });
        assert_eq!(allowed(Scope::Read(AppId::from_i64(1))), expected.cloned().collect());
        assert_eq!(allowed(Scope::App(AppId::from_i64(1))), everything, "the service says the rest");
    }

    #[test]
    fn a_portal_link_is_let_into_what_is_listed_and_each_of_that_exists() {
        let own = AppId::from_i64(1);
        let looks: BTreeSet<String> = PORTAL_LOOKS.iter().map(|path| format!("GET {path}")).collect();
        let deeds: BTreeSet<String> =
            PORTAL_DOES.iter().map(|(method, path)| format!("{method} {path}")).collect();
        let everybody = BTreeSet::from([SESSION, FIND].map(|path| format!("GET {path}")));
        assert_eq!(allowed(Scope::PortalRead(own)), &looks | &everybody);
        assert_eq!(allowed(Scope::Portal(own)), &(&looks | &deeds) | &everybody);
        assert!(deeds.is_disjoint(&looks));
        for closed in ["/v1/apps", "/v1/apps/{app}", "/v1/apps/{app}/audit", "/v1/apps/{app}/portal-links"] {
            for method in [Method::GET, Method::POST, Method::PATCH, Method::DELETE] {
                assert!(must_be_allowed(Scope::Portal(own), &method, closed).is_err(), "{method} {closed}");
            }
        }
    }

    #[test]
    fn a_path_that_only_looks_like_one_in_an_app_is_none() {
        let read = Scope::Read(AppId::from_i64(1));
        for path in ["/v1/apps", "/v1/apps/{app}s", "/v1/keys", "", "/v1/apps/{app}/secrets/{secret}"] {
            assert!(must_be_allowed(read, &Method::GET, path).is_err(), "{path}");
        }
        assert!(must_be_allowed(read, &Method::HEAD, "/v1/apps/{app}").is_ok());
    }

    #[test]
    fn a_refusal_names_the_scope() {
        let refused = must_be_allowed(Scope::Read(AppId::from_i64(1)), &Method::POST, PUBLISHING[0]);
        let view = refused.unwrap_err().view();
        assert_eq!((view.status, view.code), (403, "forbidden"));
        assert_eq!(
            view.detail,
            "This key has the scope \"read\": it may only look, and not at secrets, in its own app."
        );
    }
}
