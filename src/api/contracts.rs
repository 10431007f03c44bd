//! `/v1/contracts`: whole contracts with the times of their attempts. Any valid key may read them.

use super::{
    ApiState,
    auth::{AppRequest, Authenticated, segment},
    query::{PageParameters, PageView, Query},
    response::{self, ApiResult},
};
use crate::{
    domain::contract::{Contract, TimeWindow, Timeline, TimelineEnd},
    service::Service,
};
use axum::extract::State;
use http::Uri;
use serde::Serialize;
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// Everything that a sender promises its receivers.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Contract, example = json!(example()))]
pub(super) struct ContractView {
    name: String,
    description: String,
    /// Of the document; attempts are kept with the hash of the contract they were made under.
    hash: String,
    /// Whether it is exactly as it came with the product.
    built_in: bool,
    /// Every field, defaults included, as `overrides` name them.
    #[schema(value_type = Object)]
    document: Value,
    timeline: TimelineView,
}

/// When the attempts happen if the receiver always fails at once.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Timeline)]
struct TimelineView {
    attempts: Vec<AttemptTimeView>,
    /// How it ends: one way, or two where chance decides.
    ends: Vec<EndView>,
}

/// One attempt after the first.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AttemptTime)]
struct AttemptTimeView {
    number: usize,
    /// `T+6m`, or `T+4s…6s` where there is jitter.
    at: String,
    earliest_ms: u64,
    latest_ms: u64,
    /// Whether it happens whatever the dice say.
    certain: bool,
}

/// One way in which it ends.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = TimelineEnd)]
struct EndView {
    /// `dead` or `expired`.
    status: &'static str,
    /// The same in the names of the contract.
    contract_status: String,
    at: String,
    earliest_ms: u64,
    latest_ms: u64,
}

impl ContractView {
    fn of(contract: &Contract) -> Self {
        Self {
            name: contract.name.clone(),
            description: contract.description.clone(),
            hash: contract.hash().to_string(),
            built_in: contract.is_built_in(),
            document: serde_json::to_value(contract).unwrap_or_default(),
            timeline: TimelineView::of(contract),
        }
    }
}

impl TimelineView {
    fn of(contract: &Contract) -> Self {
        let Timeline { attempts, certain_attempts: certain, ends: timeline_ends } = contract.timeline();
        let attempt = |(index, at): (usize, &TimeWindow)| AttemptTimeView {
            number: index + 1,
            at: at.to_string(),
            earliest_ms: ms(at.earliest),
            latest_ms: ms(at.latest),
            certain: index < certain,
        };
        let end = |TimelineEnd { state, at }: &TimelineEnd| EndView {
            status: state.name(),
            contract_status: contract.states.of(*state, None).to_owned(),
            at: at.to_string(),
            earliest_ms: ms(at.earliest),
            latest_ms: ms(at.latest),
        };
        Self {
            attempts: attempts.iter().enumerate().map(attempt).collect(),
            ends: timeline_ends.iter().map(end).collect(),
        }
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a contract as the API answers it, for other modules that print it.
pub fn contract_json(contract: &Contract) -> Value {
    serde_json::to_value(ContractView::of(contract)).unwrap_or_default()
}

fn example() -> Value {
    Contract::builtin().ok().and_then(|all| all.first().map(contract_json)).unwrap_or_default()
}

/// List contracts
///
/// Those that came with the product and those of its operator, by name.
#[utoipa::path(
    get, path = "/v1/contracts", tag = "Contracts", params(PageParameters),
    responses((status = 200, description = "A page of contracts", body = PageView<ContractView>)),
)]
pub(super) async fn list_contracts(
    State(api): State<Arc<ApiState>>,
    _known: Authenticated,
    uri: Uri,
) -> ApiResult {
    let query = Query::read(&uri, &[])?;
    let page = api.service.contracts(query.cursor(&api.service)?, query.limit()?);
    response::ok(&query.page_view(&api.service, page, |contract| ContractView::of(&contract)))
}

/// Get a contract
#[utoipa::path(
    get, path = "/v1/contracts/{contract}", tag = "Contracts",
    responses((status = 200, description = "The contract", body = ContractView)),
)]
pub(super) async fn get_contract(
    State(api): State<Arc<ApiState>>,
    _known: Authenticated,
    uri: Uri,
) -> ApiResult {
    response::ok(&ContractView::of(&*api.service.contract(&segment(uri.path(), 3)?)?))
}

/// Get the contract that holds for an endpoint
///
/// Its own, else that of the app, else `standard`, with what the app and the endpoint override.
#[utoipa::path(
    get, path = "/v1/apps/{app}/endpoints/{endpoint}/contract", tag = "Endpoints",
    responses((status = 200, description = "The contract, as it holds", body = ContractView)),
)]
pub(super) async fn get_endpoint_contract(AppRequest { entry, path_id, .. }: AppRequest) -> ApiResult {
    response::ok(&ContractView::of(&Service::endpoint(&entry, &path_id)?.contract))
}
