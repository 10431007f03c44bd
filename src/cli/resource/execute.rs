//! Executes an operation of the table: arguments to request, answer to output.

use super::{
    ALL_FLAG, CommandEntry, EVERY_APP_FLAG, JSON_FLAG, LIMIT_DEFAULT, LIMIT_FLAG, UNSET_FLAG, WATCH_FLAG,
    YES_FLAG,
    api_description::Parameter,
    listing,
    operations::AfterAnswer,
    wait::{self, WaitResult},
    wait_limit,
};
use crate::{
    cli::{
        api_client::{ApiAnswer, ApiCall, ServerClient, path},
        exit::CommandError,
        inspect, print, render,
        server_flags::ServerFlags,
        terminal,
    },
    config::{ClientSettings, load_client},
};
use anyhow::Context;
use clap::{ArgMatches, FromArgMatches};
use http::Method;
use serde_json::{Map, Value, json};
use std::process::ExitCode;

/// A replay of more deliveries than this needs a confirmation.
const CONFIRM_ABOVE: u64 = 1000;

pub(super) async fn execute(entry: &'static CommandEntry, given: ArgMatches) -> anyhow::Result<ExitCode> {
    let app = entry.has_app_flag().then(|| given.get_one::<String>("app").cloned()).flatten();
    let settings = load_client(ServerFlags::from_arg_matches(&given)?.client_flags(app))?;
    let requested =
        Execution { entry, given: &given, settings: &settings, client: ServerClient::new(&settings)? };
    requested.execute().await
}

struct Execution<'a> {
    entry: &'static CommandEntry,
    given: &'a ArgMatches,
    settings: &'a ClientSettings,
    client: ServerClient,
}

impl Execution<'_> {
    async fn execute(&self) -> anyhow::Result<ExitCode> {
        let call = self.call()?;
        if let Some(question) = self.entry.operation.question {
            terminal::confirm(&question.replace("{}", &self.target_id()), self.is_set(YES_FLAG))?;
        }
        if self.entry.described.is_list() {
            let what = self.entry.operation.path.rsplit('/').next().unwrap_or_default();
            return listing::print_list(&self.client, call, what, self.rows_max(), self.is_json()).await;
        }
        if self.entry.operation.follow == AfterAnswer::NewReplay {
            self.confirm_count(&call).await?;
        }
        let answer = self.client.call(&call).await?;
        self.follow(answer).await
    }

    async fn follow(&self, answer: ApiAnswer) -> anyhow::Result<ExitCode> {
        let follow = self.entry.operation.follow;
        match (follow, wait_limit_of(follow, self.given)) {
            (AfterAnswer::Delivery, Some(limit)) => {
                let delivery = self.path_of("/v1/apps/{app}/deliveries/{delivery}", &answer)?;
                let (answer, ended) =
                    super::poll_until(&self.client, &delivery, limit, delivery_ended).await?;
                self.show(&answer)?;
                ended.exit()
            }
            (AfterAnswer::NewReplay, _) if self.is_set(WATCH_FLAG) => self.watch(answer).await,
            (AfterAnswer::Replay, _) => self.watch(answer).await,
            (AfterAnswer::Inspection, _) => {
                let found = inspect::wait_until_finished(&self.client, self.app()?, &answer).await?;
                found.print(&self.target_id(), self.is_json(), self.settings.may_colour)
            }
            _ => self.show(&answer),
        }
    }

    async fn watch(&self, answer: ApiAnswer) -> anyhow::Result<ExitCode> {
        let replay = self.path_of("/v1/apps/{app}/replays/{replay}", &answer)?;
        wait::watch(&self.client, &replay, self.is_json()).await?.exit()
    }

    /// Returns the path of the object in the answer.
    fn path_of(&self, template: &str, answer: &ApiAnswer) -> anyhow::Result<String> {
        let thing: Value = answer.json()?;
        path(template, &[self.app()?, thing["id"].as_str().context("the server's answer has no id")?])
    }

    fn show(&self, answer: &ApiAnswer) -> anyhow::Result<ExitCode> {
        if answer.body.is_empty() {
            // Programs get no output for an empty answer.
            let (name, thing) = (self.entry.operation.name, self.target_id());
            return Ok(if self.is_json() {
                ExitCode::SUCCESS
            } else {
                print(&format!("{name}: {thing}: done\n"))
            });
        }
        Ok(print(&render::answer(answer, self.is_json())?))
    }

    /// Counts the deliveries first and asks for a confirmation, against a million deliveries by mistake.
    async fn confirm_count(&self, call: &ApiCall) -> anyhow::Result<()> {
        let mut body: Map<String, Value> = serde_json::from_slice(&call.body)?;
        if self.is_set(YES_FLAG) || body.get("dry_run") == Some(&json!(true)) {
            return Ok(());
        }
        body.insert("dry_run".into(), true.into());
        let count: Value =
            self.client.call(&ApiCall { body: to_json(body).into(), ..call.clone() }).await?.json()?;
        let total = count["total"].as_u64().context("the server's answer has no total")?;
        terminal::confirm(&format!("{total} deliveries will be sent. Go on?"), total <= CONFIRM_ABOVE)
    }

    fn call(&self) -> anyhow::Result<ApiCall> {
        let operation = self.entry.operation;
        let is_meant = |_: &&str| self.is_set(EVERY_APP_FLAG) || self.settings.app.is_none();
        let template = operation.all_apps_path().filter(is_meant).unwrap_or(operation.path);
        let mut names = Vec::new();
        if template.contains("{app}") && !self.entry.is_about_an_app() {
            names.push(self.app()?);
        }
        let things = self.entry.ids().filter_map(|field| self.given.get_one::<String>(&field.label));
        names.extend(things.map(String::as_str));
        let method = Method::from_bytes(operation.method.as_bytes())?;
        let mut call = ApiCall::new(method, path(template, &names)?);
        for field in self.entry.described.query.iter().filter(|field| field.name != LIMIT_FLAG) {
            if let Some(value) = self.value(field)? {
                call.query.push((field.name.clone(), render::cell(&value)));
            }
        }
        if !self.entry.described.body.is_empty() {
            call.body = to_json(self.body()?).into();
        }
        Ok(call)
    }

    fn body(&self) -> anyhow::Result<Map<String, Value>> {
        let mut body = Map::new();
        for field in self.entry.flags() {
            if let Some(value) = self.value(field)? {
                body.insert(field.name.clone(), value);
            }
        }
        if self.entry.operation.method == "PATCH" {
            for flag in self.given.get_many::<String>(UNSET_FLAG).into_iter().flatten() {
                body.insert(flag.replace('-', "_"), Value::Null);
            }
            if body.is_empty() {
                return Err(CommandError::usage("there is nothing to change: give a field, or --unset one"));
            }
        }
        if let Some(app) = self.app_of_body(&body) {
            body.insert("app_id".into(), app.into());
        }
        Ok(body)
    }

    /// Returns the app of the body. An admin key belongs to no app, so the default app is not used for it; one named
    /// by flag is sent, and the server refuses it.
    fn app_of_body(&self, body: &Map<String, Value>) -> Option<&str> {
        self.entry.described.body.iter().find(|field| field.name == "app_id")?;
        let named = self.given.get_one::<String>("app").map(String::as_str);
        let usual = self.settings.app.as_deref().filter(|_| body.get("scope") != Some(&json!("admin")));
        named.or(usual)
    }

    fn value(&self, field: &Parameter) -> anyhow::Result<Option<Value>> {
        let Some(typed) = self.given.get_many::<String>(&field.name) else { return Ok(None) };
        field.kind.read(&field.flag, &typed.collect::<Vec<_>>()).map(Some)
    }

    fn app(&self) -> anyhow::Result<&str> {
        Ok(self.settings.app()?)
    }

    /// The id of the command's object, as it was typed.
    fn target_id(&self) -> String {
        let last = self.entry.ids().last().and_then(|field| self.given.get_one::<String>(&field.label));
        last.cloned().unwrap_or_default()
    }

    fn rows_max(&self) -> Option<u64> {
        let limit = self.given.get_one::<u64>(LIMIT_FLAG).copied().unwrap_or(LIMIT_DEFAULT);
        (!self.is_set(ALL_FLAG)).then_some(limit)
    }

    fn is_json(&self) -> bool {
        self.is_set(JSON_FLAG)
    }

    fn is_set(&self, flag: &str) -> bool {
        self.given.try_get_one::<bool>(flag).ok().flatten().copied().unwrap_or_default()
    }
}

fn wait_limit_of(follow: AfterAnswer, given: &ArgMatches) -> Option<std::time::Duration> {
    if follow == AfterAnswer::Delivery { wait_limit(given) } else { None }
}

fn delivery_ended(delivery: &Value) -> Option<WaitResult> {
    let text = |name: &str| delivery[name].as_str().unwrap_or_default();
    match text("status") {
        "delivered" => Some(WaitResult::Succeeded),
        "dead" | "cancelled" | "expired" => {
            Some(WaitResult::Failed(format!("{} is {} ({})", text("id"), text("status"), text("reason"))))
        }
        _ => None,
    }
}

fn to_json(object: Map<String, Value>) -> String {
    Value::Object(object).to_string()
}
