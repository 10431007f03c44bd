//! `/metrics`: the tally in the text format of OpenMetrics, which Prometheus reads.

use super::{
    Api,
    answer::{self, Answer},
    problem::{Code, Problem},
};
use crate::domain::{
    outcome::Class,
    tally::{Histogram, Reading, Tally},
};
use axum::extract::State;
use http::{HeaderValue, StatusCode};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};
use std::{fmt, sync::Arc};

const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Metrics for Prometheus
#[utoipa::path(
    get, path = "/metrics", tag = "Operation", security(()),
    responses((status = 200, description = "OpenMetrics text", body = String,
        content_type = "application/openmetrics-text", example = "posthaste_events_accepted_total 17\n# EOF\n")),
)]
pub(super) async fn metrics(State(api): State<Arc<Api>>) -> Answer {
    let text = render(api.service.tally().clone()).map_err(|error| {
        Problem::new(Code::Internal, format!("The metrics could not be written: {error}"))
    })?;
    Ok(answer::bytes(StatusCode::OK, OPENMETRICS, text.into()))
}

fn render(tally: Arc<Tally>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("posthaste");
    registry.register_collector(Box::new(Collected(tally)));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

#[derive(Debug)]
struct Collected(Arc<Tally>);

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let tally = &self.0;
        let accepted = ConstCounter::new(tally.accepted_total());
        let help = "Events accepted and durable";
        accepted.encode(encoder.encode_descriptor("events_accepted", help, None, MetricType::Counter)?)?;

        let help = "HTTP requests to receivers, by how they ended";
        let mut attempts = encoder.encode_descriptor("attempts", help, None, MetricType::Counter)?;
        for class in Class::ALL {
            let count = ConstCounter::new(tally.attempts_total(class));
            count.encode(attempts.encode_family(&[("class", class.name())])?)?;
        }

        gauge(
            &mut encoder,
            "deliveries_in_flight",
            "Deliveries being carried",
            None,
            tally.in_flight() as f64,
        )?;
        gauge(
            &mut encoder,
            "deliveries_waiting",
            "Deliveries due now or later",
            None,
            tally.waiting() as f64,
        )?;
        let overdue_s = tally.oldest_overdue_ms() as f64 / 1e3;
        let help = "How long the delivery that is overdue longest has been due";
        gauge(&mut encoder, "oldest_overdue", help, Some(&Unit::Seconds), overdue_s)?;

        let seconds = Some(&Unit::Seconds);
        let help = "From the parsed request to the durable event";
        histogram(&mut encoder, ("accept", help, seconds), &tally.accept_us.read(), 1e-6)?;
        let help = "From accepted, or due, to delivered";
        histogram(&mut encoder, ("delivery", help, seconds), &tally.delivered_ms.read(), 1e-3)?;
        let help = "Commands in one commit of the store";
        histogram(&mut encoder, ("commit_commands", help, None), &tally.commit_commands.read(), 1.0)?;
        let help = "How long one commit of the store took";
        histogram(&mut encoder, ("commit", help, seconds), &tally.commit_us.read(), 1e-6)
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    value: f64,
) -> Result<(), fmt::Error> {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?)
}

fn histogram(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit): (&str, &str, Option<&Unit>),
    reading: &Reading,
    scale: f64,
) -> Result<(), fmt::Error> {
    let bounded =
        reading.counts.iter().enumerate().map(|(i, count)| (Histogram::bound(i) as f64 * scale, *count));
    let buckets: Vec<(f64, u64)> = bounded.chain([(f64::INFINITY, reading.larger)]).collect();
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
    metric.encode_histogram::<NoLabelSet>(reading.sum as f64 * scale, reading.count(), &buckets, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_can_be_scraped() {
        let tally = Tally::default();
        tally.accepted(3);
        tally.attempt(Class::Timeout);
        tally.set_waiting(7);
        tally.set_oldest_overdue(1_500);
        tally.accept_took(1_000);
        tally.accept_took(3);
        tally.commit(100, 4_000);
        let text = render(Arc::new(tally)).unwrap();
        for line in [
            "posthaste_events_accepted_total 3",
            "posthaste_attempts_total{class=\"timeout\"} 1",
            "posthaste_attempts_total{class=\"ok\"} 0",
            "posthaste_deliveries_waiting 7.0",
            "posthaste_oldest_overdue_seconds 1.5",
            "posthaste_accept_seconds_count 2",
            "posthaste_accept_seconds_bucket{le=\"+Inf\"} 2",
            "posthaste_commit_commands_bucket{le=\"64.0\"} 0",
            "posthaste_commit_commands_bucket{le=\"128.0\"} 1",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is missing in\n{text}");
        }
    }
}
