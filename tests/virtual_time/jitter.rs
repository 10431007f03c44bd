//! Waits with jitter: as a distribution, over many deliveries.

use crate::fixture::{ADMIN, Behaviour, Fixture, TAKES};
use bytes::Bytes;
use posthaste::{
    domain::time::Timestamp,
    service::{Patch, endpoints::EndpointPatch},
};
use serde_json::json;
use std::{collections::HashMap, time::Duration};

const DELIVERIES: usize = 400;

/// The waits of each delivery, each from the end of an attempt to the start of the next, in seconds.
async fn all_waits(contract: &str, attempts: usize) -> Vec<Vec<f64>> {
    let fixture = Fixture::new(contract, Behaviour::Answer(500)).await;
    // So many that fail would open a circuit; here it is about the waits alone.
    let overrides = Patch::Value(json!({ "pacing": "strict" }));
    let strict = EndpointPatch { overrides, ..EndpointPatch::default() };
    fixture.service.change_endpoint(ADMIN, &fixture.entry, "ep", strict).await.unwrap();
    for _ in 0..DELIVERIES {
        fixture.publish().await;
    }
    fixture.pass(Duration::from_hours(24 * 30)).await;
    // A body is the same on every attempt of a delivery, and no two deliveries have the same.
    let mut by_body: HashMap<Bytes, Vec<Timestamp>> = HashMap::new();
    for seen in fixture.requests() {
        by_body.entry(seen.body).or_default().push(seen.at);
    }
    assert_eq!(by_body.len(), DELIVERIES);
    let waits = |seen: Vec<Timestamp>| {
        assert_eq!(seen.len(), attempts);
        seen.windows(2).map(|pair| pair[1].since(pair[0].plus(TAKES)).as_secs_f64()).collect()
    };
    by_body.into_values().map(waits).collect()
}

/// How far the sample is from uniform on the range: the largest distance between the two distribution functions
/// (Kolmogorov and Smirnov).
fn distance_from_uniform(sample: &[f64], from: f64, to: f64) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let share = |x: f64| (x - from) / (to - from);
    sorted
        .iter()
        .enumerate()
        .map(|(i, x)| (share(*x) - i as f64 / count).abs().max((share(*x) - (i + 1) as f64 / count).abs()))
        .fold(0.0, f64::max)
}

/// Bound on that distance. Of honest samples of this size about one in ten thousand exceeds it; the randomness is seeded, so
/// none does here.
fn distance_max() -> f64 {
    2.2 / (DELIVERIES as f64).sqrt()
}

#[tokio::test(start_paused = true)]
async fn bastionary_waits_anything_between_nothing_and_the_doubling_wait_and_sends_eight() {
    let all = all_waits("bastionary", 8).await;
    for n in 0..7 {
        let most = f64::min(10.0 * f64::from(1 << n), 3600.0);
        let sample: Vec<f64> = all.iter().map(|waits| waits[n as usize]).collect();
        assert!(sample.iter().all(|wait| (0.0..=most).contains(wait)), "after attempt {}", n + 1);
        let distance = distance_from_uniform(&sample, 0.0, most);
        assert!(distance < distance_max(), "after attempt {}: {distance}", n + 1);
    }
    let longest = all.iter().map(|waits| waits.iter().sum::<f64>()).fold(0.0, f64::max);
    assert!(longest <= 1270.0, "{longest}");
}

#[tokio::test(start_paused = true)]
async fn standard_spreads_each_wait_by_a_fifth_to_either_side_and_sends_ten() {
    const WAITS: [f64; 9] = [5.0, 300.0, 1800.0, 7200.0, 18000.0, 36000.0, 50400.0, 72000.0, 86400.0];
    let all = all_waits("standard", 10).await;
    for (n, wait) in WAITS.into_iter().enumerate() {
        let (from, to) = (wait * 0.8, wait * 1.2);
        let sample: Vec<f64> = all.iter().map(|waits| waits[n]).collect();
        // Instants are whole milliseconds.
        assert!(sample.iter().all(|wait| (from - 0.001..=to + 0.001).contains(wait)), "wait {n}");
        let distance = distance_from_uniform(&sample, from, to);
        assert!(distance < distance_max(), "wait {n}: {distance}");
    }
}
