//! The table of settings. Each entry makes a field of `Settings` and a row of `SETTINGS`, so the two cannot differ.
//!
//! To add a setting: add an entry, read the field, run `cargo run -- config-doc > docs/configuration.md`.

use super::{
    parse::{self, LogFormat, SmtpSecurity, SmtpServer, StoreLocation, UnknownEventTypes, ValueFormat},
    secret::HiddenText,
    sources::GivenSettings,
};
use ipnet::IpNet;
use model::{contract::RetentionPeriod, email_address::Mailbox, proxy::Proxy};
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// The command that the defaults are for: safe for production (`serve`), or friendly on a developer's machine
/// (`dev`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultsMode {
    Serve,
    Dev,
}

/// The description of a setting: everything but its type.
#[derive(Debug)]
pub struct Setting {
    /// As in the file.
    pub name: &'static str,
    /// The default of `serve`, in the form that a file or variable would give it; empty: not set.
    pub default: &'static str,
    /// The default of `dev`.
    pub dev_default: &'static str,
    pub meaning: &'static str,
    /// The format of a value; completes "give …".
    pub allowed: &'static str,
    /// The module that uses the setting.
    pub reader: &'static str,
    /// Values are never repeated in messages.
    pub is_hidden: bool,
    /// The file may give an array of strings instead of a comma-separated one.
    pub is_list: bool,
}

impl Setting {
    pub fn variable(&self) -> String {
        format!("POSTHASTE_{}", self.name.to_uppercase())
    }

    /// Without the two dashes.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    pub fn default_in(&self, mode: DefaultsMode) -> &'static str {
        match mode {
            DefaultsMode::Serve => self.default,
            DefaultsMode::Dev => self.dev_default,
        }
    }
}

macro_rules! settings {
    ($($name:ident: $type:ty {
        meaning: $meaning:literal,
        form: $form:expr,
        default: $default:literal,
        $(dev: $dev:literal,)?
        reader: $reader:literal,
    })+) => {
        /// Every setting, resolved.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $(#[doc = $meaning] pub $name: $type,)+
        }

        /// Every setting, in the order of the documentation.
        pub const SETTINGS: &[Setting] = &[$({
            const FORM: ValueFormat<$type> = $form;
            const DEV: &[&str] = &[$($dev)?];
            Setting {
                name: stringify!($name),
                default: $default,
                dev_default: if DEV.is_empty() { $default } else { DEV[0] },
                meaning: $meaning,
                allowed: FORM.allowed,
                reader: $reader,
                is_hidden: FORM.is_hidden,
                is_list: FORM.is_list,
            }
        }),+];

        impl Settings {
            /// Reads all settings. None if a value is not allowed; `given` has then recorded which.
            pub(super) fn read(given: &mut GivenSettings) -> Option<Self> {
                $(let $name = given.read(stringify!($name), &$form);)+
                Some(Self { $($name: $name?),+ })
            }
        }
    };
}

settings! {
    listen: SocketAddr {
        meaning: "Where the HTTP API listens. Port 0 takes any free port.",
        form: parse::ADDRESS,
        default: "127.0.0.1:8080",
        reader: "api",
    }
    store: StoreLocation {
        meaning: "Where everything is kept: a file, or a PostgreSQL database, which keeps it in the schema posthaste. The file and its folder are made if they are missing; one process at a time may use it. Use the variable rather than the flag if the address of a database has a password. docs/operating.md says more of databases.",
        form: parse::STORE,
        default: "sqlite:./posthaste-data/posthaste.db",
        reader: "store",
    }
    admin_key: Option<HiddenText> {
        meaning: "The key that may do everything. Use at least 32 random characters, and the variable rather than the flag: other users of the machine can see flags. Not set: one is made at the first start and kept in a file beside the store that only its owner may read. Must be set where the store is a database.",
        form: parse::ADMIN_KEY,
        default: "",
        reader: "service",
    }
    encryption_key: Option<HiddenText> {
        meaning: "Encrypts endpoint secrets at rest: 32 bytes in base64, with an id before a colon if you like. Several, separated by commas, for a rotation: the first encrypts, all decrypt. Not set: one is made beside the store, which protects copies of the store alone and not of the whole folder. Must be set where the store is a database.",
        form: parse::ENCRYPTION_KEY,
        default: "",
        reader: "service",
    }
    allow_addresses: Vec<IpNet> {
        meaning: "Networks that may be called although they are not public, separated by commas (in the file also an array). It never opens names without a dot.",
        form: parse::NETWORKS,
        default: "",
        dev: "127.0.0.0/8,::1/128",
        reader: "outbound",
    }
    https_only: bool {
        meaning: "Endpoints must have an https URL, unless their contract or an override by an admin key says otherwise.",
        form: parse::BOOLEAN,
        default: "true",
        dev: "false",
        reader: "service",
    }
    extra_ca: Option<PathBuf> {
        meaning: "A PEM file of certificate authorities to trust besides the public ones when calling endpoints.",
        form: parse::PATH,
        default: "",
        reader: "outbound",
    }
    proxy: Option<Proxy> {
        meaning: "The proxy that every request to endpoints goes through; without it none does. Nothing is ever called past it, and the usual variables of the environment (HTTPS_PROXY and so on) are ignored. Use the variable rather than the flag if it has a password. docs/operating.md says more.",
        form: parse::PROXY,
        default: "",
        reader: "outbound",
    }
    proxy_resolves: bool {
        meaning: "Gives the proxy host names instead of addresses that were looked up and checked here, for networks without DNS. The proxy must then refuse private addresses itself: allow_addresses holds only for addresses in URLs.",
        form: parse::BOOLEAN,
        default: "false",
        reader: "outbound",
    }
    source_headers: Vec<(String, String)> {
        meaning: "Headers that every request to endpoints has, so that receivers can tell which installation it came from; not for secrets. A header of the same name that the endpoint or its contract sets wins.",
        form: parse::HEADERS,
        default: "",
        reader: "outbound",
    }
    contracts_dir: Option<PathBuf> {
        meaning: "A folder of contracts (one TOML file each) besides the ones built in, which one of the same name replaces. docs/contracts.md says more.",
        form: parse::PATH,
        default: "",
        reader: "service",
    }
    unknown_event_types: UnknownEventTypes {
        meaning: "Whether events can be published whose type is not in the catalogue. Where they are refused (422), an endpoint cannot subscribe to such a type by its name either. docs/event-types.md says more.",
        form: parse::UNKNOWN_EVENT_TYPES,
        default: "allowed",
        reader: "service",
    }
    body_bytes_max: usize {
        meaning: "The largest request body that the API reads; larger ones are refused with 413.",
        form: parse::BODY_BYTES,
        default: "1MiB",
        reader: "api",
    }
    hands: usize {
        meaning: "How many deliveries may be in flight at once. What waits beyond that stays in the store.",
        form: parse::DELIVERIES_IN_FLIGHT,
        default: "2048",
        reader: "engine",
    }
    in_flight_per_endpoint: usize {
        meaning: "How many deliveries to one endpoint may be in flight at once, unless the endpoint says otherwise.",
        form: parse::IN_FLIGHT_PER_ENDPOINT,
        default: "64",
        reader: "engine",
    }
    in_flight_per_app: Option<usize> {
        meaning: "How many deliveries of one app may be in flight at once, unless the app has limits of its own; 0 for no limit. Its endpoints take turns.",
        form: parse::IN_FLIGHT_LIMIT,
        default: "0",
        reader: "engine",
    }
    in_flight_max: Option<usize> {
        meaning: "How many deliveries of all apps together may be in flight at once; 0 for no limit. Apps take turns, and within an app its endpoints.",
        form: parse::IN_FLIGHT_LIMIT,
        default: "0",
        reader: "engine",
    }
    rate_max: Option<u32> {
        meaning: "How many requests may go out in a second, of all apps together, with a second's worth at once; 0 for no limit.",
        form: parse::RATE_LIMIT,
        default: "0",
        reader: "engine",
    }
    queued_bytes_max: usize {
        meaning: "How much memory the bodies of deliveries in flight may take together, and as much again those of publishes that wait for a commit; beyond that publishing is answered 429.",
        form: parse::QUEUED_BYTES,
        default: "64MiB",
        reader: "engine",
    }
    accept_queue_max: usize {
        meaning: "How many publishes may wait for a commit; more are answered 429 with Retry-After.",
        form: parse::ACCEPT_QUEUE,
        default: "4096",
        reader: "store",
    }
    commit_window: Duration {
        meaning: "How long a commit under load waits for company. Longer means fewer, larger commits and slower answers.",
        form: parse::COMMIT_WINDOW,
        default: "1ms",
        reader: "store",
    }
    store_bytes_max: Option<usize> {
        meaning: "How much the store may hold, its log aside. Beyond it new events are answered 507 until retention or you have made room; deliveries go on. Not set: as much as the disk takes.",
        form: parse::STORE_BYTES,
        default: "",
        reader: "service",
    }
    disk_free_min: usize {
        meaning: "How much must be free on the store's disk. With less, new events are answered 507 while deliveries go on. What is free inside the store's file counts, but a quarter must be free on the disk itself, for the log. The disk of a database is not known.",
        form: parse::FREE_BYTES,
        default: "256MiB",
        reader: "service",
    }
    audit_retention: RetentionPeriod {
        meaning: "How long records of what people did are kept: entries of the audit log, and replays, inspections and keys since they ended, were revoked or expired. How long events are kept is for contracts to say.",
        form: parse::RETENTION,
        default: "365d",
        reader: "engine",
    }
    smtp_server: Option<SmtpServer> {
        meaning: "The mail server that notices are handed to. Not set: nobody is sent mail, and notices are on their list and in operational webhooks only. docs/operating.md says more.",
        form: parse::SMTP_SERVER,
        default: "",
        reader: "outbound",
    }
    smtp_security: SmtpSecurity {
        meaning: "How the connection to the mail server is protected: starttls begins in plain text (port 587), tls does not (port 465). With none a password is sent only to a server on this machine.",
        form: parse::SMTP_SECURITY,
        default: "starttls",
        reader: "outbound",
    }
    smtp_user: Option<String> {
        meaning: "The name to log in to the mail server with. Not set: nobody logs in.",
        form: parse::SMTP_USER,
        default: "",
        reader: "outbound",
    }
    smtp_password: Option<HiddenText> {
        meaning: "The password that belongs to smtp_user. Use the variable rather than the flag: other users of the machine can see flags.",
        form: parse::SMTP_PASSWORD,
        default: "",
        reader: "outbound",
    }
    smtp_timeout: Duration {
        meaning: "How long one mail may take, from the look-up of the server's name to its last word.",
        form: parse::SMTP_TIMEOUT,
        default: "30s",
        reader: "outbound",
    }
    mail_from: Option<Mailbox> {
        meaning: "Whoever mails come from. Must be set where smtp_server is.",
        form: parse::MAIL_FROM,
        default: "",
        reader: "outbound",
    }
    mails_per_minute: u32 {
        meaning: "How many mails may be sent in a minute, over all apps. What comes faster waits.",
        form: parse::MAILS_PER_MINUTE,
        default: "60",
        reader: "engine",
    }
    operator_email: Option<String> {
        meaning: "Who gets the mails of apps that have no contact_email.",
        form: parse::EMAIL_ADDRESS,
        default: "",
        reader: "engine",
    }
    operator_app: Option<String> {
        meaning: "The id of an app whose endpoints may subscribe to the notices of all apps, as posthaste.endpoint.disabled and the like.",
        form: parse::APP_ID,
        default: "",
        reader: "engine",
    }
    public_url: Option<String> {
        meaning: "Where people reach the dashboard, for links in mails and to the customer portal. Not set: mails say what to ask the API, and portal links lead to the address that it listens on.",
        form: parse::PUBLIC_URL,
        default: "",
        reader: "service",
    }
    portal_origins: Vec<String> {
        meaning: "Whose pages may show the customer portal in a frame, separated by commas (in the file also an array). Not set: nobody's. Other pages of the dashboard are never shown in a frame.",
        form: parse::ORIGINS,
        default: "",
        reader: "service",
    }
    shutdown_grace: Duration {
        meaning: "How long deliveries in flight may take to finish after the first SIGTERM or SIGINT. The rest is handed back and tried again at the next start.",
        form: parse::SHUTDOWN_GRACE,
        default: "25s",
        reader: "app",
    }
    workers: usize {
        meaning: "Threads that serve requests and carry deliveries.",
        form: parse::WORKERS,
        default: "cores",
        reader: "cli",
    }
    log_format: LogFormat {
        meaning: "How log lines on standard error look: auto is human on a terminal and json elsewhere.",
        form: parse::LOG_FORMAT,
        default: "auto",
        reader: "cli",
    }
    log_level: String {
        meaning: "Which log lines are written: a level, or levels for parts of the program.",
        form: parse::LOG_LEVEL,
        default: "info",
        reader: "cli",
    }
}
