//! Precedence, refusals and secrecy of the settings, from every source.

use super::*;

const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

fn key(name: &str) -> &'static Setting {
    SETTINGS.iter().find(|key| key.name == name).unwrap()
}

fn variable(name: &str, value: &str) -> (String, Option<String>) {
    (name.to_owned(), Some(value.to_owned()))
}

fn from_file(text: &str) -> Result<Settings, ConfigError> {
    resolve_settings(DefaultsMode::Serve, Some(("ph.toml", text)), vec![], vec![])
}

fn refusals(result: Result<Settings, ConfigError>) -> Vec<String> {
    match result {
        Err(ConfigError::Refused(problems)) => problems,
        other => panic!("should have been refused: {other:?}"),
    }
}

/// Returns an allowed value that is not the default.
fn another_value(key: &Setting) -> &'static str {
    match key.name {
        "listen" => "127.0.0.1:9",
        "store" => "sqlite:elsewhere.db",
        "admin_key" => "a-key",
        "encryption_key" => "k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "allow_addresses" => "10.0.0.0/8",
        "https_only" => "false",
        "proxy" => "socks5://user:password@proxy:1080",
        "proxy_resolves" => "true",
        "source_headers" => "x-source: eu-1",
        "extra_ca" | "contracts_dir" => "some/path",
        "unknown_event_types" => "refused",
        "body_bytes_max" => "2MiB",
        "queued_bytes_max" => "128MiB",
        "store_bytes_max" | "disk_free_min" => "1GiB",
        "audit_retention" => "forever",
        "smtp_server" => "mail.example.com:587",
        "smtp_security" => "tls",
        "smtp_user" | "smtp_password" => "someone",
        "mail_from" | "operator_email" => "ops@example.com",
        "operator_app" => "operations",
        "public_url" => "https://hooks.example.com",
        "commit_window" => "2ms",
        "shutdown_grace" | "smtp_timeout" => "5s",
        "portal_origins" => "https://shop.example.com",
        "log_format" => "json",
        "log_level" => "debug",
        "hands"
        | "in_flight_per_endpoint"
        | "in_flight_per_app"
        | "in_flight_max"
        | "rate_max"
        | "accept_queue_max"
        | "mails_per_minute"
        | "workers" => "77",
        unknown => panic!("say here what {unknown} may be"),
    }
}

#[test]
fn defaults_are_allowed_in_both_modes_and_safe_in_serve() {
    let serve = resolve_settings(DefaultsMode::Serve, None, vec![], vec![]).unwrap();
    assert!(serve.https_only && serve.allow_addresses.is_empty());
    assert!(serve.listen.ip().is_loopback());
    assert_eq!(serve.body_bytes_max, 1_048_576);
    let dev = resolve_settings(DefaultsMode::Dev, None, vec![], vec![]).unwrap();
    assert!(!dev.https_only && dev.allow_addresses.len() == 2);
}

#[test]
fn each_source_beats_the_one_before_for_every_setting() {
    for key in SETTINGS {
        let shown = |file: Option<&str>, variables, flags| {
            let file = file.map(|value| format!("{} = '{value}'", key.name));
            let settings = resolve_settings(
                DefaultsMode::Serve,
                file.as_deref().map(|text| ("f", text)),
                variables,
                flags,
            )
            .unwrap();
            format!("{settings:?}")
        };
        let (plain, other) = (key.default, another_value(key));
        let in_variable = |value| vec![variable(&key.variable(), value)];
        let default = shown(None, vec![], vec![]);
        let changed = shown(Some(other), vec![], vec![]);
        assert_ne!(default, changed, "{}: the file beats the default", key.name);
        assert_eq!(
            shown(Some(plain), in_variable(other), vec![]),
            changed,
            "{}: the variable beats the file",
            key.name
        );
        assert_eq!(
            shown(Some(other), in_variable(other), vec![(key, plain.to_owned())]),
            default,
            "{}: the flag beats both",
            key.name
        );
    }
}

#[test]
fn the_file_may_use_its_own_types() {
    let settings =
        from_file("https_only = false\nhands = 1_000\nallow_addresses = ['10.0.0.0/8', '::1']\nsource_headers = ['a: 1', 'b: 2']").unwrap();
    assert!(!settings.https_only);
    assert_eq!((settings.hands, settings.allow_addresses.len()), (1_000, 2));
    assert_eq!(settings.source_headers.len(), 2);
}

#[test]
fn an_array_where_one_value_belongs_is_refused() {
    let refused = refusals(from_file("listen = ['127.0.0.1:1']\n[hands]\nmany = 1"));
    assert_eq!(
        refused,
        [
            "listen (ph.toml:1): give an address with a port, for example 127.0.0.1:8080 or [::]:8080",
            "hands (ph.toml:2): give a whole number from 1 to 65536",
        ]
    );
}

#[test]
fn unknown_names_are_refused_with_the_nearest_valid_one() {
    assert_eq!(
        refusals(from_file("# comment\n\nlisten_on = 'x'")),
        ["listen_on (ph.toml:3): there is no such setting; the nearest is listen"]
    );
    let variables = vec![variable("POSTHASTE_ADMINKEY", "hunter2"), variable("POSTHASTE_CONFIG", "f")];
    assert_eq!(
        refusals(resolve_settings(DefaultsMode::Serve, None, variables, vec![])),
        ["POSTHASTE_ADMINKEY (environment): there is no such variable; the nearest is POSTHASTE_ADMIN_KEY"]
    );
}

#[test]
fn a_bad_value_names_the_key_the_source_and_what_is_allowed() {
    let refused = refusals(resolve_settings(
        DefaultsMode::Serve,
        Some(("ph.toml", "\nbody_bytes_max = '1MB'")),
        vec![variable("POSTHASTE_HTTPS_ONLY", "maybe")],
        vec![(key("hands"), "0".to_owned())],
    ));
    assert_eq!(
        refused,
        [
            "https_only (variable POSTHASTE_HTTPS_ONLY): \"maybe\" is not allowed; give true or false",
            "body_bytes_max (ph.toml:2): \"1MB\" is not allowed; give a size from 1KiB to 64MiB, for example 1MiB",
            "hands (flag --hands): \"0\" is not allowed; give a whole number from 1 to 65536",
        ]
    );
}

#[test]
fn the_password_of_a_database_is_never_repeated() {
    let variables = |address: &str| vec![variable("POSTHASTE_STORE", address)];
    for (bad, said) in [
        (
            "postgres://ph:hunter2@db/ph?sslmode=perhaps",
            ": sslmode must be disable, prefer, require or verify-full",
        ),
        ("postgre://ph:hunter2@db/ph", "; give sqlite: and the path of a file"),
    ] {
        let refused =
            refusals(resolve_settings(DefaultsMode::Serve, None, variables(bad), vec![])).join("\n");
        let expected = format!("store (variable POSTHASTE_STORE): the value is not allowed{said}");
        assert!(refused.starts_with(&expected) && !refused.contains("hunter2"), "{refused}");
    }
    let good = resolve_settings(DefaultsMode::Serve, None, variables("postgres://ph:hunter2@db/ph"), vec![])
        .unwrap();
    let shown = format!("{good:?}");
    assert!(shown.contains("db:5432/ph") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn secrets_are_never_repeated() {
    let long = "hunter2".repeat(50);
    let tries = [
        from_file(&format!("admin_key = '{long}'\nencryption_key = 'hunter2'")),
        from_file("admin_key = 'hunter2"),
        from_file("admin_key = hunter2"),
        from_file("admin_key = ['hunter2']"),
        from_file("admin_key.hunter2 = 'hunter2'"),
        from_file("admin_key = 'hunter2'\nadmin_key = 'hunter2'"),
        resolve_settings(
            DefaultsMode::Serve,
            None,
            vec![variable("POSTHASTE_ENCRYPTION_KEY", "hunter2")],
            vec![],
        ),
        resolve_settings(
            DefaultsMode::Serve,
            None,
            vec![],
            vec![(key("encryption_key"), "hunter2".to_owned())],
        ),
        resolve_settings(
            DefaultsMode::Serve,
            None,
            vec![variable("POSTHASTE_ADMIN_KEYS", "hunter2")],
            vec![],
        ),
    ];
    for result in tries {
        let said = refusals(result).join("\n");
        assert!(!said.contains("hunter2"), "{said}");
    }
    let settings = from_file(&format!("admin_key = 'hunter2'\nencryption_key = 'k:{KEY}'")).unwrap();
    let shown = format!("{settings:?}");
    assert!(shown.contains("redacted") && !shown.contains("hunter2") && !shown.contains(KEY), "{shown}");
}

#[test]
fn a_broken_file_is_refused_with_its_line() {
    let refused = refusals(from_file("listen = '127.0.0.1:1'\nhands = = 3"));
    assert!(refused[0].starts_with("ph.toml:2: not valid TOML: "), "{refused:?}");
}

#[test]
fn a_variable_that_is_not_text_is_refused() {
    let refused = refusals(resolve_settings(
        DefaultsMode::Serve,
        None,
        vec![("POSTHASTE_LISTEN".to_owned(), None)],
        vec![],
    ));
    assert_eq!(refused, ["listen (variable POSTHASTE_LISTEN): the value is not UTF-8"]);
}
