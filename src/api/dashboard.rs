//! The dashboard built into this binary, served at `/`. Files are looked up in a list by their whole path, so no path leads
//! elsewhere; other pages get the application's index.
//!
//! Every file has a strict content security policy: only our own scripts, no framing except the portal's by origins that the
//! operator named, and no foreign image except a portal link's logo.

use super::{
    ApiState,
    problem::{ErrorCode, Problem},
    response,
};
use axum::{extract::State, response::Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use std::sync::Arc;

/// Whether this binary contains the dashboard.
pub const IS_BUILT_IN: bool = cfg!(feature = "dashboard");

#[cfg(feature = "dashboard")]
mod built {
    include!(concat!(env!("OUT_DIR"), "/dashboard.rs"));
}

#[cfg(not(feature = "dashboard"))]
mod built {
    pub(super) static FILES: &[super::File] = &[];
}

/// A file of the dashboard, in each encoding.
struct File {
    path: &'static str,
    content_type: &'static str,
    /// Weak: equal for all encodings.
    etag: &'static str,
    plain: &'static [u8],
    gzip: Option<&'static [u8]>,
    brotli: Option<&'static [u8]>,
}

const INDEX_PATH: &str = "/index.html";
/// Files whose names change with their content.
const HASHED_ASSETS: &str = "/assets/";
/// Paths for machines: below them, an unknown path is no page.
const NOT_PAGES: [&str; 6] = ["/v1", "/livez", "/readyz", "/metrics", "/openapi.json", "/assets"];
const PORTAL_PATH: &str = "/portal";

const CACHE_IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const CACHE_REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");
const PLAIN_TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NO_DASHBOARD_TEXT: &str = "This build of Posthaste has no dashboard (it was built with --no-default-features). \
                      The API is described by /openapi.json.\n";

const SECURITY_HEADERS: [(HeaderName, HeaderValue); 3] = [
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Serves the dashboard on paths without an API route.
pub(super) async fn serve(
    State(api): State<Arc<ApiState>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let path = uri.path();
    let is_look = method == Method::GET || method == Method::HEAD;
    let found = if is_look { find_file(built::FILES, path, wants_page(&headers)) } else { None };
    let Some(file) = found else {
        if !IS_BUILT_IN && path == "/" && is_look {
            return Ok(response::bytes(
                StatusCode::NOT_FOUND,
                PLAIN_TEXT,
                Bytes::from_static(NO_DASHBOARD_TEXT.as_bytes()),
            ));
        }
        return Err(Problem::new(ErrorCode::NotFound, "There is no such path; see /openapi.json."));
    };
    let logo = portal_link_id(path).and_then(|link| api.service.logo_of(link));
    let origins = if is_at_or_below(path, PORTAL_PATH) { api.service.portal_origins() } else { &[] };
    let mut response = file_response(file, &headers);
    response.headers_mut().extend(SECURITY_HEADERS);
    if let Ok(policy) = HeaderValue::from_str(&policy(logo.as_deref(), origins)) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
        return Ok(response);
    }
    Err(Problem::new(ErrorCode::Internal, "The page's policy could not be written."))
}

/// Finds the file of this path, or the index for a page of the application.
fn find_file<'a>(files: &'a [File], path: &str, wants_page: bool) -> Option<&'a File> {
    let file = |wanted: &str| files.iter().find(|file| file.path == wanted);
    match path {
        "/" => file(INDEX_PATH),
        path => file(path).or_else(|| {
            let is_page = wants_page && !NOT_PAGES.iter().any(|root| is_at_or_below(path, root));
            file(INDEX_PATH).filter(|_| is_page)
        }),
    }
}

/// Whether the request is a page visit: browsers then accept HTML, scripts do not ask for it.
fn wants_page(headers: &HeaderMap) -> bool {
    header_list(headers, &header::ACCEPT).any(|(kind, _)| kind.eq_ignore_ascii_case("text/html"))
}

/// Iterates over the parts of a list header, each with its parameters.
fn header_list<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = (&'a str, &'a str)> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    let parts = values.flat_map(|value| value.split(','));
    parts.map(|part| part.split_once(';').unwrap_or((part, ""))).map(|(value, rest)| (value.trim(), rest))
}

fn accepts_encoding(headers: &HeaderMap, encoding: &str) -> bool {
    let is_refused = |rest: &str| {
        let quality = rest.trim().strip_prefix("q=").and_then(|quality| quality.parse::<f32>().ok());
        quality.is_some_and(|quality| quality <= 0.0)
    };
    header_list(headers, &header::ACCEPT_ENCODING)
        .any(|(name, rest)| name.eq_ignore_ascii_case(encoding) && !is_refused(rest))
}

fn file_response(file: &'static File, request_headers: &HeaderMap) -> Response {
    let is_page = file.path == INDEX_PATH;
    let is_known = !is_page
        && header_list(request_headers, &header::IF_NONE_MATCH)
            .any(|(tag, _)| tag == file.etag || tag == "*");
    let ways = [("br", file.brotli), ("gzip", file.gzip)];
    let way = ways
        .into_iter()
        .find_map(|(name, bytes)| Some((name, bytes.filter(|_| accepts_encoding(request_headers, name))?)));
    let (encoding, bytes) = way.map_or((None, file.plain), |(name, bytes)| (Some(name), bytes));
    let (status, body) = if is_known { (StatusCode::NOT_MODIFIED, &[][..]) } else { (StatusCode::OK, bytes) };
    let kind = HeaderValue::from_static(file.content_type);
    let mut response = response::bytes(status, kind, Bytes::from_static(body));
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
    if let Some(encoding) = encoding.filter(|_| !is_known) {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    // The index is never cached (the default of every answer): it names the files of this version.
    if !is_page {
        let kept = if file.path.starts_with(HASHED_ASSETS) { CACHE_IMMUTABLE } else { CACHE_REVALIDATE };
        headers.insert(header::CACHE_CONTROL, kept);
        headers.insert(header::ETAG, HeaderValue::from_static(file.etag));
    }
    response
}

fn is_at_or_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the id of the portal link in a page's path.
fn portal_link_id(path: &str) -> Option<&str> {
    path.strip_prefix(PORTAL_PATH)?.strip_prefix('/')?.split('/').next()
}

/// Builds the policy: `frame-ancestors` lists the origins that may embed the page, `img-src` the one foreign image.
fn policy(logo: Option<&str>, origins: &[String]) -> String {
    let images = logo.map_or_else(|| "'self'".to_owned(), |logo| format!("'self' {logo}"));
    let ancestors = if origins.is_empty() { "'none'".to_owned() } else { origins.join(" ") };
    format!(
        "default-src 'self'; img-src {images}; object-src 'none'; base-uri 'none'; form-action 'none'; \
         frame-ancestors {ancestors}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    static FILES: [File; 3] = [
        file("/index.html", b"<!doctype html>"),
        file("/icon.svg", b"<svg/>"),
        file("/assets/index-abc.js", b"1"),
    ];

    const fn file(path: &'static str, plain: &'static [u8]) -> File {
        let gzip: Option<&[u8]> = Some(b"smaller");
        File { path, content_type: "text/plain", etag: "W/\"e\"", plain, gzip, brotli: None }
    }

    fn asking(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_whole_paths_are_files_and_only_pages_fall_back_to_the_application() {
        let found = |path: &str, wants_page| find_file(&FILES, path, wants_page).map(|file| file.path);
        assert_eq!(found("/", false), Some(INDEX_PATH));
        assert_eq!(found("/icon.svg", true), Some("/icon.svg"));
        for page in ["/apps/a/deliveries", "/portal/key_1", "/v1beta", "/../etc/passwd", "/%2e%2e/x"] {
            assert_eq!(found(page, true), Some(INDEX_PATH), "{page}");
            assert_eq!(found(page, false), None, "{page}");
        }
        for machine in
            ["/v1", "/v1/nothing", "/assets/old.js", "/assets/../icon.svg", "/livez/x", "/metrics/"]
        {
            assert_eq!(found(machine, true), None, "{machine}");
        }
    }

    #[test]
    fn a_page_visit_is_distinguished_from_a_script_request() {
        let is_page = |accept: &str| wants_page(&asking(&[(header::ACCEPT, accept)]));
        assert!(is_page("text/html,application/xhtml+xml,*/*;q=0.8") && is_page("Text/HTML;q=0.9"));
        assert!(!is_page("*/*") && !is_page("application/json") && !is_page("text/htmlx"));
    }

    #[test]
    fn a_file_is_compressed_if_accepted_and_not_sent_if_cached() {
        let answer = |file: usize, pairs: &[(HeaderName, &str)]| {
            let response = file_response(&FILES[file], &asking(pairs));
            let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            (response.status().as_u16(), header(header::CONTENT_ENCODING), header(header::CACHE_CONTROL))
        };
        let gzip = Some("gzip".to_owned());
        let (ever, request_headers, never) =
            ("public, max-age=31536000, immutable".to_owned(), "no-cache".to_owned(), "no-store".to_owned());
        let (none, br) =
            ((header::ACCEPT_ENCODING, "gzip;q=0, br"), (header::ACCEPT_ENCODING, "br, GZIP;q=0.5"));
        assert_eq!(answer(2, std::slice::from_ref(&br)), (200, gzip.clone(), Some(ever.clone())));
        assert_eq!(answer(1, &[none]), (200, None, Some(request_headers)));
        assert_eq!(answer(0, &[br.clone(), (header::IF_NONE_MATCH, "*")]), (200, gzip, Some(never)));
        assert_eq!(answer(2, &[br, (header::IF_NONE_MATCH, "\"x\", W/\"e\"")]), (304, None, Some(ever)));
    }

    #[test]
    fn the_policy_allows_one_foreign_image_and_the_named_origins() {
        let strict = "default-src 'self'; img-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";
        assert_eq!(policy(None, &[]), strict);
        let open =
            policy(Some("https://cdn.example.com/logo.svg"), &["https://a.b".into(), "https://c.d".into()]);
        assert!(open.contains("img-src 'self' https://cdn.example.com/logo.svg;"), "{open}");
        assert!(open.ends_with("frame-ancestors https://a.b https://c.d"), "{open}");
        let is_portal = |path: &str| is_at_or_below(path, PORTAL_PATH);
        assert!(
            is_portal("/portal") && is_portal("/portal/x/y") && !is_portal("/portals") && !is_portal("/")
        );
        assert_eq!(portal_link_id("/portal/key_1/endpoints"), Some("key_1"));
        assert_eq!((portal_link_id("/portal"), portal_link_id("/x/portal/key_1")), (None, None));
    }
}
