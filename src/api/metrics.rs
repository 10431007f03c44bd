//! `/metrics`: the metrics in the text format of OpenMetrics, which Prometheus reads.

use super::{
    ApiState,
    problem::{ErrorCode, Problem},
    response::{self, ApiResult},
};
use crate::{
    domain::{
        histogram::{self, HistogramSnapshot},
        outcome::OutcomeClass,
    },
    runtime::{MailResult, Metrics, RemovedKind},
    service::storage_limits::StoreUsage,
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
pub(super) async fn metrics(State(api): State<Arc<ApiState>>) -> ApiResult {
    let text = render(api.service.metrics().clone(), api.service.store_usage()).map_err(|error| {
        Problem::new(ErrorCode::Internal, format!("The metrics could not be written: {error}"))
    })?;
    Ok(response::bytes(StatusCode::OK, OPENMETRICS, text.into()))
}

fn render(metrics: Arc<Metrics>, store: StoreUsage) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("posthaste");
    registry.register_collector(Box::new(MetricsCollector { metrics, store }));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

#[derive(Debug)]
struct MetricsCollector {
    metrics: Arc<Metrics>,
    store: StoreUsage,
}

impl Collector for MetricsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let metrics = &self.metrics;
        let accepted = ConstCounter::new(metrics.accepted_total());
        let help = "Events accepted and durable";
        accepted.encode(encoder.encode_descriptor("events_accepted", help, None, MetricType::Counter)?)?;

        let help = "HTTP requests to receivers, by how they ended";
        let mut attempts = encoder.encode_descriptor("attempts", help, None, MetricType::Counter)?;
        for class in OutcomeClass::ALL {
            let count = ConstCounter::new(metrics.attempts_total(class));
            count.encode(attempts.encode_family(&[("class", class.name())])?)?;
        }

        gauge(
            &mut encoder,
            "deliveries_in_flight",
            "Deliveries being carried",
            None,
            metrics.in_flight() as f64,
        )?;
        gauge(
            &mut encoder,
            "deliveries_waiting",
            "Deliveries due now or later",
            None,
            metrics.waiting() as f64,
        )?;
        let overdue_s = metrics.oldest_overdue_ms() as f64 / 1e3;
        let help = "How long the delivery that is overdue longest has been due";
        gauge(&mut encoder, "oldest_overdue", help, Some(&Unit::Seconds), overdue_s)?;

        let (paused, open) = metrics.throttled_endpoints();
        gauge(&mut encoder, "endpoints_paused", "Endpoints that asked for a pause", None, paused as f64)?;
        let help = "Endpoints that failed so often that they are only probed";
        gauge(&mut encoder, "circuits_open", help, None, open as f64)?;

        self.encode_notices(&mut encoder)?;
        self.encode_retention(&mut encoder)?;
        self.encode_storage(&mut encoder)?;

        let seconds = Some(&Unit::Seconds);
        let help = "From the parsed request to the durable event";
        histogram(&mut encoder, ("accept", help, seconds), &metrics.accept_us.snapshot(), 1e-6)?;
        let help = "From accepted, or due, to delivered";
        histogram(&mut encoder, ("delivery", help, seconds), &metrics.delivered_ms.snapshot(), 1e-3)?;
        let help = "Commands in one commit of the store";
        histogram(&mut encoder, ("commit_commands", help, None), &metrics.commit_commands.snapshot(), 1.0)?;
        let help = "How long one commit of the store took";
        histogram(&mut encoder, ("commit", help, seconds), &metrics.commit_us.snapshot(), 1e-6)
    }
}

impl MetricsCollector {
    fn encode_notices(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (mails, webhooks) = self.metrics.notices_waiting();
        let help = "Notices that wait to go out";
        let mut waiting = encoder.encode_descriptor("notices_waiting", help, None, MetricType::Gauge)?;
        for (by, count) in [("email", mails), ("webhook", webhooks)] {
            ConstGauge::new(count as f64).encode(waiting.encode_family(&[("by", by)])?)?;
        }
        let help =
            "Mails with notices: sent, refused for good, and tries that failed because the server was down";
        let mut mails = encoder.encode_descriptor("mails", help, None, MetricType::Counter)?;
        for what in MailResult::ALL {
            let count = ConstCounter::new(self.metrics.mails_total(what));
            count.encode(mails.encode_family(&[("outcome", what.name())])?)?;
        }
        Ok(())
    }

    fn encode_retention(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let ended = ConstCounter::new(self.metrics.ended_by_retention_total());
        let help = "Deliveries that still waited when the retention of their event ended";
        let name = "deliveries_expired_by_retention";
        ended.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        let help = "What was removed because it is kept no longer";
        let mut removed = encoder.encode_descriptor("retention_removed", help, None, MetricType::Counter)?;
        for what in RemovedKind::ALL {
            let count = ConstCounter::new(self.metrics.removed_total(what));
            count.encode(removed.encode_family(&[("what", what.name())])?)?;
        }
        Ok(())
    }

    fn encode_storage(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let StoreUsage { usage, limits, full } = self.store;
        let bytes = Some(&Unit::Bytes);
        for (name, help, value) in [
            ("store", "Taken up by what is stored", Some(usage.used_bytes)),
            ("store_reusable", "Free inside the store's file", Some(usage.reusable_bytes)),
            ("store_log", "The write-ahead log beside the store's file", Some(usage.log_bytes)),
            ("store_limit", "What the store may hold: store_bytes_max", limits.store_bytes_max),
            ("disk_free", "Free on the store's disk", usage.disk_free_bytes),
            ("disk_free_limit", "What must be free on it: disk_free_min", Some(limits.disk_free_min)),
        ] {
            if let Some(value) = value {
                gauge(encoder, name, help, bytes, value as f64)?;
            }
        }
        let help = "1 while new events are refused because there is no room";
        gauge(encoder, "storage_full", help, None, f64::from(u8::from(full.is_some())))
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
    reading: &HistogramSnapshot,
    scale: f64,
) -> Result<(), fmt::Error> {
    let bounded =
        reading.counts.iter().enumerate().map(|(i, count)| (histogram::bound(i) as f64 * scale, *count));
    let buckets: Vec<(f64, u64)> = bounded.chain([(f64::INFINITY, reading.larger)]).collect();
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
    metric.encode_histogram::<NoLabelSet>(reading.sum as f64 * scale, reading.count(), &buckets, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::storage::{StorageFull, StorageLimits, StorageUsage};

    #[test]
    fn every_metric_is_rendered_as_openmetrics_text() {
        let metrics = Metrics::default();
        metrics.count_accepted(3);
        metrics.count_attempt(OutcomeClass::Timeout);
        metrics.set_waiting(7);
        metrics.set_oldest_overdue(1_500);
        metrics.observe_accept(1_000);
        metrics.observe_accept(3);
        metrics.observe_commit(100, 4_000);
        metrics.count_removed(RemovedKind::Attempts, 5);
        metrics.count_ended_by_retention(2);
        metrics.count_mail(MailResult::Refused);
        metrics.set_notices_waiting(4, 6);
        let store = StoreUsage {
            usage: StorageUsage { used_bytes: 4096, disk_free_bytes: Some(9), ..StorageUsage::default() },
            limits: StorageLimits { store_bytes_max: None, disk_free_min: 10 },
            full: Some(StorageFull::Disk { disk_free_bytes: 9, disk_free_min: 10 }),
        };
        let text = render(Arc::new(metrics), store).unwrap();
        for line in [
            "posthaste_events_accepted_total 3",
            "posthaste_attempts_total{class=\"timeout\"} 1",
            "posthaste_attempts_total{class=\"ok\"} 0",
            "posthaste_deliveries_waiting 7.0",
            "posthaste_oldest_overdue_seconds 1.5",
            "posthaste_accept_seconds_count 2",
            "posthaste_retention_removed_total{what=\"attempts\"} 5",
            "posthaste_deliveries_expired_by_retention_total 2",
            "posthaste_mails_total{outcome=\"refused\"} 1",
            "posthaste_mails_total{outcome=\"sent\"} 0",
            "posthaste_notices_waiting{by=\"email\"} 4.0",
            "posthaste_notices_waiting{by=\"webhook\"} 6.0",
            "posthaste_store_bytes 4096.0",
            "posthaste_disk_free_bytes 9.0",
            "posthaste_disk_free_limit_bytes 10.0",
            "posthaste_storage_full 1.0",
            "posthaste_accept_seconds_bucket{le=\"+Inf\"} 2",
            "posthaste_commit_commands_bucket{le=\"64.0\"} 0",
            "posthaste_commit_commands_bucket{le=\"128.0\"} 1",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("posthaste_store_limit_bytes"), "a limit that is not set is left out");
    }
}
