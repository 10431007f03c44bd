//! Which routes a key of each scope may use, by method and described path. Everything else is refused, so a new route is closed
//! to narrow keys until it is listed. The service checks what inside a route needs an admin key.

use super::problem::{ErrorCode, Problem};
use crate::domain::api_key::Scope;
use http::Method;

const PUBLISH_PATHS: [&str; 2] = ["/v1/apps/{app}/events", "/v1/apps/{app}/events/batch"];
const APP_PATH: &str = "/v1/apps/{app}";
/// Describes the key of the request.
const SESSION_PATH: &str = "/v1/session";
/// Finds objects that the key may see.
const SEARCH_PATH: &str = "/v1/find/{id}";

/// Paths that a portal link may read: the customer's own events, and what they can subscribe to. Not the app itself, whose
/// limits and contract belong to the operator, and not its audit log.
const PORTAL_READ_PATHS: [&str; 20] = [
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

/// Routes by which a portal link changes things, and the secrets of the customer's own endpoints.
const PORTAL_MANAGE_ROUTES: [(&Method, &str); 20] = [
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

/// Refuses a request that the scope does not allow, naming the scope. `path` is the route's, with names in braces.
pub(super) fn require_allowed(scope: Scope, method: &Method, path: &str) -> Result<(), Problem> {
    if is_read(method) && path == SESSION_PATH {
        return Ok(());
    }
    let (is_allowed, may) = match scope {
        Scope::Admin | Scope::App(_) => return Ok(()),
        Scope::Publish(_) => (method == Method::POST && PUBLISH_PATHS.contains(&path), "publish events"),
        Scope::Read(_) => {
            let is_seen = path == SEARCH_PATH || is_in_an_app(path) && !is_secret(path);
            (is_read(method) && is_seen, "look, and not at secrets")
        }
        Scope::Portal(_) => (
            is_portal_read(method, path) || is_portal_manage(method, path),
            "manage endpoints and look after deliveries",
        ),
        Scope::PortalRead(_) => (is_portal_read(method, path), "look at endpoints and deliveries"),
    };
    if is_allowed {
        return Ok(());
    }
    let detail = format!("This key has the scope \"{}\": it may only {may}, in its own app.", scope.name());
    Err(Problem::new(ErrorCode::Forbidden, detail))
}

fn is_portal_read(method: &Method, path: &str) -> bool {
    is_read(method) && (path == SEARCH_PATH || PORTAL_READ_PATHS.contains(&path))
}

fn is_portal_manage(method: &Method, path: &str) -> bool {
    let real_method = if method == Method::HEAD { &Method::GET } else { method };
    PORTAL_MANAGE_ROUTES.contains(&(real_method, path))
}

/// Whether the method only reads; HEAD counts as GET.
fn is_read(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

fn is_in_an_app(path: &str) -> bool {
    path.strip_prefix(APP_PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether any part of the path contains "secret".
fn is_secret(path: &str) -> bool {
    path.split('/').any(|part| part.contains("secret"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::described_routes, domain::id::AppId};
    use std::collections::BTreeSet;

    /// Returns every described operation under `/v1` that a key of this scope may use.
    fn allowed(scope: Scope) -> BTreeSet<String> {
        let document = serde_json::to_value(described_routes().to_openapi()).unwrap();
        let paths = document["paths"].as_object().unwrap().clone();
        let mut allowed = BTreeSet::new();
        for (path, item) in paths.iter().filter(|(path, _)| path.starts_with("/v1/")) {
            for method in item.as_object().unwrap().keys().map(|method| method.to_uppercase()) {
                if require_allowed(scope, &method.parse().unwrap(), path).is_ok() {
                    allowed.insert(format!("{method} {path}"));
                }
            }
        }
        allowed
    }

    #[test]
    fn a_publish_key_may_only_publish() {
        let allowed = allowed(Scope::Publish(AppId::from_i64(1)));
        let expected = ["GET /v1/session", "POST /v1/apps/{app}/events", "POST /v1/apps/{app}/events/batch"];
        assert_eq!(allowed, expected.map(str::to_owned).into());
    }

    #[test]
    fn a_read_key_may_read_everything_in_its_app_but_secrets() {
        let everything = allowed(Scope::Admin);
        let expected = everything.iter().filter(|operation| {
            let in_an_app = operation.starts_with("GET /v1/apps/{app}");
            in_an_app && **operation != "GET /v1/apps/{app}/endpoints/{endpoint}/secret"
                || ["GET /v1/session", "GET /v1/find/{id}"].contains(&operation.as_str())
        });
        assert_eq!(allowed(Scope::Read(AppId::from_i64(1))), expected.cloned().collect());
        assert_eq!(allowed(Scope::App(AppId::from_i64(1))), everything, "the service checks the rest");
    }

    #[test]
    fn a_portal_link_may_use_the_listed_routes_and_each_of_them_exists() {
        let own = AppId::from_i64(1);
        let looks: BTreeSet<String> = PORTAL_READ_PATHS.iter().map(|path| format!("GET {path}")).collect();
        let deeds: BTreeSet<String> =
            PORTAL_MANAGE_ROUTES.iter().map(|(method, path)| format!("{method} {path}")).collect();
        let everybody = BTreeSet::from([SESSION_PATH, SEARCH_PATH].map(|path| format!("GET {path}")));
        assert_eq!(allowed(Scope::PortalRead(own)), &looks | &everybody);
        assert_eq!(allowed(Scope::Portal(own)), &(&looks | &deeds) | &everybody);
        assert!(deeds.is_disjoint(&looks));
        for closed in ["/v1/apps", "/v1/apps/{app}", "/v1/apps/{app}/audit", "/v1/apps/{app}/portal-links"] {
            for method in [Method::GET, Method::POST, Method::PATCH, Method::DELETE] {
                assert!(require_allowed(Scope::Portal(own), &method, closed).is_err(), "{method} {closed}");
            }
        }
    }

    #[test]
    fn a_path_that_only_resembles_an_app_path_is_refused() {
        let read = Scope::Read(AppId::from_i64(1));
        for path in ["/v1/apps", "/v1/apps/{app}s", "/v1/keys", "", "/v1/apps/{app}/secrets/{secret}"] {
            assert!(require_allowed(read, &Method::GET, path).is_err(), "{path}");
        }
        assert!(require_allowed(read, &Method::HEAD, "/v1/apps/{app}").is_ok());
    }

    #[test]
    fn a_refusal_names_the_scope() {
        let refused = require_allowed(Scope::Read(AppId::from_i64(1)), &Method::POST, PUBLISH_PATHS[0]);
        let view = refused.unwrap_err().view();
        assert_eq!((view.status, view.code), (403, "forbidden"));
        assert_eq!(
            view.detail,
            "This key has the scope \"read\": it may only look, and not at secrets, in its own app."
        );
    }
}
