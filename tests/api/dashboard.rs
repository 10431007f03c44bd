//! The dashboard as the binary serves it: types, caching, compression, and the restrictions of its pages.

use crate::harness::{NodeFolder, TestAnswer, TestNode};
use http::Method;

const HTML: (&str, &str) = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");

async fn get(node: &TestNode, path: &str, headers: &[(&str, &str)]) -> TestAnswer {
    node.client.with_key("").send(Method::GET, path, headers, "").await.unwrap()
}

#[cfg(feature = "dashboard")]
mod built_in {
    use super::*;
    use crate::{fixture::WAIT_MAX, harness::wait_for};
    use serde_json::json;

    const STRICT: &str = "default-src 'self'; img-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; \
                          frame-ancestors 'none'";

    /// The files that the page names.
    fn named(page: &str) -> Vec<String> {
        let places = page.split(['"', '\'']).filter(|text| text.starts_with('/') && text.contains('.'));
        places.map(str::to_owned).collect()
    }

    fn is_script(file: &str) -> bool {
        file.rsplit('.').next() == Some("js")
    }

    fn is_safe(answer: &TestAnswer, about: &str) {
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{about}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{about}");
        assert_eq!(answer.header("cross-origin-opener-policy"), "same-origin", "{about}");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin", "{about}");
    }

    #[tokio::test]
    async fn the_page_is_never_kept_and_says_what_it_may_do() {
        let home = NodeFolder::new();
        let node = home.start().await;
        for path in ["/", "/index.html", "/apps/bakery/deliveries?status=dead", "/portal", "/portal/key_1"] {
            let page = get(&node, path, &[HTML]).await;
            assert_eq!(
                (page.status, page.header("content-type")),
                (200, "text/html; charset=utf-8"),
                "{path}"
            );
            assert_eq!(page.header("cache-control"), "no-store", "{path}");
            assert_eq!(page.header("content-security-policy"), STRICT, "{path}");
            assert_eq!((page.header("etag"), page.header("content-encoding")), ("", ""), "{path}");
            is_safe(&page, path);
        }
        let page = get(&node, "/", &[]).await.text();
        for inline in ["<style", " style=", " onload=", " onerror=", " onclick=", "javascript:"] {
            assert!(!page.contains(inline), "{inline} in {page}");
        }
        assert_eq!(page.matches("<script").count(), page.matches(" src=").count(), "{page}");
        assert!(node.log().contains("the dashboard is served"), "{}", node.log());
    }

    #[tokio::test]
    async fn every_file_that_the_page_names_has_its_type_and_is_kept_for_ever_if_its_name_says_what_is_in_it()
    {
        let home = NodeFolder::new();
        let node = home.start().await;
        let files = named(&get(&node, "/", &[]).await.text());
        assert!(files.iter().any(|file| is_script(file)), "{files:?}");
        for file in files {
            let answer = get(&node, &file, &[]).await;
            let kind = match file.rsplit('.').next().unwrap() {
                "js" => "text/javascript; charset=utf-8",
                "css" => "text/css; charset=utf-8",
                "svg" => "image/svg+xml",
                other => panic!("say here what .{other} is"),
            };
            assert_eq!((answer.status, answer.header("content-type")), (200, kind), "{file}");
            let kept =
                if file.starts_with("/assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
            assert_eq!(answer.header("cache-control"), kept, "{file}");
            assert_eq!(answer.header("content-security-policy"), STRICT, "{file}");
            is_safe(&answer, &file);
            let etag = answer.header("etag").to_owned();
            let known = get(&node, &file, &[("if-none-match", &etag)]).await;
            assert_eq!((known.status, known.body.len(), known.header("etag")), (304, 0, &*etag), "{file}");
            let other = get(&node, &file, &[("if-none-match", "W/\"other\"")]).await;
            assert_eq!((other.status, &other.body), (200, &answer.body), "{file}");
            let head = node.client.send(Method::HEAD, &file, &[], "").await.unwrap();
            assert_eq!((head.status, head.body.len()), (200, 0), "{file}");
            assert_eq!(head.header("content-length"), answer.body.len().to_string(), "{file}");
        }
    }

    #[tokio::test]
    async fn script_is_sent_compressed_to_those_who_take_that_and_is_the_same() {
        let home = NodeFolder::new();
        let node = home.start().await;
        let files = named(&get(&node, "/", &[]).await.text());
        let script = files.iter().find(|file| is_script(file)).unwrap();
        let plain = get(&node, script, &[]).await;
        for (request_headers, sent, first) in
            [("gzip, deflate", "gzip", &[0x1f, 0x8b][..]), ("gzip, br", "br", &[][..])]
        {
            let answer = get(&node, script, &[("accept-encoding", request_headers)]).await;
            assert_eq!(
                (answer.header("content-encoding"), answer.header("vary")),
                (sent, "accept, accept-encoding")
            );
            assert!(answer.body.len() < plain.body.len() && answer.body.starts_with(first), "{sent}");
            assert_eq!(answer.header("content-length"), answer.body.len().to_string());
        }
        for refused in ["identity", "gzip;q=0, br;q=0", "*;q=0"] {
            let answer = get(&node, script, &[("accept-encoding", refused)]).await;
            assert_eq!((answer.header("content-encoding"), &answer.body), ("", &plain.body), "{refused}");
        }
    }

    #[tokio::test]
    async fn no_path_leads_to_anything_but_the_files_of_the_list() {
        let home = NodeFolder::new();
        let node = home.start().await;
        let page = get(&node, "/", &[]).await;
        for path in [
            "/../Cargo.toml",
            "/../../../../../../etc/passwd",
            "/assets/../../../../etc/passwd",
            "/assets/..%2f..%2f..%2fetc%2fpasswd",
            "/%2e%2e/%2e%2e/etc/passwd",
            "/..%5c..%5cetc%5cpasswd",
            "//etc/passwd",
            "/./index.html",
            "/index.html/",
            "/index.html%00.js",
            "/assets/",
            "/assets",
            "/.env",
            "/dashboard.rs",
        ] {
            let request_headers = get(&node, path, &[("accept", "*/*")]).await;
            assert_eq!(
                (request_headers.status, request_headers.header("content-type")),
                (404, "application/problem+json"),
                "{path}"
            );
            let gone_to = get(&node, path, &[HTML]).await;
            let is_page = gone_to.status == 200 && gone_to.body == page.body;
            assert!(is_page || gone_to.status == 404, "{path}: {}", gone_to.text());
            assert!(!gone_to.text().contains("root:"), "{path}");
        }
        for machine in
            ["/v1/nothing", "/v1", "/livez/x", "/readyz/", "/openapi.json/x", "/metrics/x", "/assets/x.js"]
        {
            assert_eq!(get(&node, machine, &[HTML]).await.status, 404, "{machine} is no page");
        }
        for path in ["/", "/index.html", "/apps/x"] {
            let post = node.client.send(Method::POST, path, &[HTML], "{}").await.unwrap();
            assert_eq!((post.status, post.json()["code"].as_str()), (404, Some("not_found")), "{path}");
        }
    }

    #[tokio::test]
    async fn only_the_portal_is_shown_in_frames_and_only_in_those_that_the_operator_named() {
        let mut home = NodeFolder::new();
        home.set("PORTAL_ORIGINS", "https://shop.example.com, http://localhost:3000");
        let node = home.start().await;
        node.client.make_app("a").await;
        let theme = json!({ "logo_url": "https://cdn.example.com/a;b,c.svg?v=1" });
        let link = node.client.post("/v1/apps/a/portal-links", &json!({ "theme": theme })).await.expect(201);
        let id = link["id"].as_str().unwrap();
        let policy =
            async |path: &str| get(&node, path, &[HTML]).await.header("content-security-policy").to_owned();
        let framed =
            STRICT.replace("ancestors 'none'", "ancestors https://shop.example.com http://localhost:3000");
        assert_eq!(policy("/portal").await, framed);
        assert_eq!(policy("/portal/key_0000000000001").await, framed);
        let shown = framed.replace("img-src 'self'", "img-src 'self' https://cdn.example.com/a%3Bb%2Cc.svg");
        assert_eq!(policy(&format!("/portal/{id}")).await, shown);
        assert_eq!(policy(&format!("/portal/{id}/endpoints")).await, shown);
        for strict in ["/".to_owned(), "/portals".to_owned(), format!("/apps/portal/{id}")] {
            assert_eq!(policy(&strict).await, STRICT, "{strict}");
        }
        node.client.delete(&format!("/v1/apps/a/portal-links/{id}")).await.expect(204);
        assert_eq!(policy(&format!("/portal/{id}")).await, framed, "the logo goes with the link");
    }

    #[tokio::test]
    async fn dev_prints_a_link_that_signs_in() {
        let mut home = NodeFolder::new();
        home.unset_all();
        let mut dev = home.spawn(&[], &["dev", "--listen", "127.0.0.1:0"]);
        let link = wait_for("it says where the dashboard is", WAIT_MAX, async || {
            let said = dev.log();
            let line =
                said.lines().find_map(|line| line.trim().strip_prefix("dashboard ").map(str::to_owned));
            line.map(|link| link.trim().to_owned())
        })
        .await;
        let (address, key) = link.strip_prefix("http://").unwrap().split_once("/#key=").unwrap();
        let client = crate::harness::TestClient::new(address.parse().unwrap(), key);
        assert_eq!(client.get("/v1/session").await.expect(200)["scope"], "admin");
        assert_eq!(client.get("/").await.header("content-type"), "text/html; charset=utf-8");
        assert_eq!(dev.stop().await, Some(0));
    }
}

#[cfg(not(feature = "dashboard"))]
#[tokio::test]
async fn a_build_without_the_dashboard_reports_that() {
    let home = NodeFolder::new();
    let node = home.start().await;
    let answer = get(&node, "/", &[HTML]).await;
    assert_eq!((answer.status, answer.header("content-type")), (404, "text/plain; charset=utf-8"));
    assert!(answer.text().contains("--no-default-features"), "{}", answer.text());
    assert_eq!(get(&node, "/apps", &[HTML]).await.header("content-type"), "application/problem+json");
    assert!(!node.log().contains("the dashboard is served"));
}
