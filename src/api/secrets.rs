//! `/v1/apps/{app}/endpoints/{endpoint}/secret`

use super::{
    ApiState,
    auth::AppRequest,
    fields::{JsonBody, fields},
    response::{self, ApiResult},
};
use crate::{
    domain::{endpoint::Endpoint, signing_keys::public_key, time::Timestamp},
    service::{Service, secrets::RotateSecret},
};
use axum::extract::State;
use serde::Serialize;
use std::{sync::Arc, time::Duration};

fields! {
    /// How to replace the secret. Everything may be left out.
    #[schema(as = Rotation, example = json!({ "overlap": "24h" }))]
    struct RotationFields {
        /// The new secret; made up if absent.
        secret: Option<String>,
        /// How long the old one still signs beside the new one, where the contract has both sign; `24h` if absent.
        #[schema(value_type = Option<String>)]
        overlap: Option<Duration>,
        /// When the new one takes over, where the contract has one signature; now if absent.
        #[schema(value_type = Option<String>, format = DateTime)]
        effective_at: Option<Timestamp>,
    }
}

/// The secrets of an endpoint.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Secrets, example = json!({
    "secret": "whsec_bmV3IG5ldyBuZXcgbmV3IG5ldyBuZXcg",
    "secrets": [
        { "secret": "whsec_b2xkIG9sZCBvbGQgb2xkIG9sZCBvbGQg", "public_key": null, "valid_from": "2026-11-01T09:30:00.000Z",
          "valid_until": "2026-11-16T09:30:00.000Z" },
        { "secret": "whsec_bmV3IG5ldyBuZXcgbmV3IG5ldyBuZXcg", "public_key": null, "valid_from": "2026-11-15T09:30:00.000Z",
          "valid_until": null },
    ],
}))]
pub(super) struct SecretsView {
    /// The newest.
    secret: String,
    /// All that are kept, the newest last.
    secrets: Vec<SecretView>,
}

/// A secret and when it signs.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Secret)]
pub(super) struct SecretView {
    secret: String,
    /// What receivers verify with, if the secret is an ed25519 key.
    public_key: Option<String>,
    #[schema(format = DateTime)]
    valid_from: String,
    #[schema(format = DateTime)]
    valid_until: Option<String>,
}

impl SecretsView {
    fn of(endpoint: &Endpoint) -> Self {
        let secrets = endpoint.secrets.iter().map(|secret| SecretView {
            secret: secret.text.clone(),
            public_key: public_key(&endpoint.contract, secret),
            valid_from: secret.valid_from.rfc3339_millis(),
            valid_until: secret.valid_until.map(Timestamp::rfc3339_millis),
        });
        let newest = endpoint.secrets.last().map(|secret| secret.text.clone());
        Self { secret: newest.unwrap_or_default(), secrets: secrets.collect() }
    }
}

/// Show the secrets
#[utoipa::path(
    get, path = "/v1/apps/{app}/endpoints/{endpoint}/secret", tag = "Endpoints",
    responses((status = 200, description = "The secrets", body = SecretsView)),
)]
pub(super) async fn get_secret(AppRequest { entry, path_id, .. }: AppRequest) -> ApiResult {
    response::ok(&SecretsView::of(&*Service::endpoint(&entry, &path_id)?))
}

/// Replace the secret
///
/// Under `standard` both sign during the overlap, so that receivers can change over without losing anything.
#[utoipa::path(
    post, path = "/v1/apps/{app}/endpoints/{endpoint}/secret/rotate", tag = "Endpoints",
    request_body = RotationFields,
    responses(
        (status = 200, description = "The secrets", body = SecretsView),
        (status = 409, description = "It was changed by somebody else at the same time; try again"),
    ),
)]
pub(super) async fn rotate_secret(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
    JsonBody(rotation): JsonBody<RotationFields>,
) -> ApiResult {
    let RotationFields { secret, overlap, effective_at } = rotation;
    let rotate = RotateSecret { secret, overlap, effective_at };
    response::ok(&SecretsView::of(&*api.service.rotate_secret(caller, &entry, &path_id, rotate).await?))
}
