//! Limits of a story: rates of endpoints, and limits of the app and of the node. Drawn apart, so that the rest of the story
//! stays as it is.

use crate::plan::pick;
use fastrand::Rng;
use posthaste::{
    domain::rate_limit::{AppLimits, RateLimit},
    engine::SharedLimits,
};
use serde_json::{Map, Value, json};

#[derive(Debug)]
pub(crate) struct LimitsPlan {
    /// Rate of each endpoint.
    pub(crate) rates: Vec<Option<RateLimit>>,
    pub(crate) app: AppLimits,
    pub(crate) node: SharedLimits,
}

const RATES: [Option<RateLimit>; 6] = [
    None,
    None,
    Some(RateLimit { per_second: 1, burst: 1 }),
    Some(RateLimit { per_second: 1, burst: 4 }),
    Some(RateLimit { per_second: 3, burst: 1 }),
    Some(RateLimit { per_second: 40, burst: 2 }),
];

impl LimitsPlan {
    /// Draws limits for every third story or so.
    pub(crate) fn of(seed: u64, endpoints: usize) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x7061_6365);
        let is_limited = rng.u8(0..3) == 0;
        let rates = (0..endpoints).map(|_| pick(&mut rng, &RATES).filter(|_| is_limited)).collect();
        let mut of_app = |shares: u8| is_limited && rng.u8(0..shares) == 0;
        let (has_places, has_rate, node_has_places, node_has_rate) =
            (of_app(3), of_app(4), of_app(4), of_app(6));
        let app = AppLimits {
            max_in_flight: pick(&mut rng, &[Some(1), Some(2), Some(5)]).filter(|_| has_places),
            rate_limit: pick(&mut rng, &RATES[2..]).filter(|_| has_rate),
        };
        let node = SharedLimits {
            in_flight_per_app: None,
            in_flight: Some(rng.usize(1..4)).filter(|_| node_has_places),
            rate: Some(RateLimit::per_second(2)).filter(|_| node_has_rate),
        };
        Self { rates, app, node }
    }

    /// Whether one queue may have to wait for another.
    pub(crate) fn is_shared(&self) -> bool {
        self.app != AppLimits::default() || self.node.in_flight.is_some() || self.node.rate.is_some()
    }

    /// The longest that a request of this endpoint may wait for a token, in milliseconds.
    pub(crate) fn token_wait(&self, endpoint: usize) -> i64 {
        let all = [self.rates[endpoint], self.app.rate_limit, self.node.rate];
        all.into_iter().flatten().map(|limit| 1000 / i64::from(limit.per_second) + 1).max().unwrap_or(0)
    }

    pub(crate) fn app_field(&self) -> Option<Map<String, Value>> {
        let limits = json!(self.app);
        limits.as_object().filter(|fields| !fields.is_empty()).cloned()
    }

    pub(crate) fn rate_field(&self, endpoint: usize) -> Option<Map<String, Value>> {
        self.rates[endpoint].and_then(|limit| json!(limit).as_object().cloned())
    }
}
