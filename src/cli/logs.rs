//! Log lines on standard error: human on a terminal, JSON elsewhere. Each module chooses its own texts; no secret at any
//! level.

use crate::config::LogFormat;
use std::io::{self, IsTerminal};
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// Starts logging for the rest of the process. `level` has been checked by `config`.
pub(super) fn start(format: LogFormat, level: &str) {
    let is_terminal = io::stderr().is_terminal();
    let layer = match format {
        LogFormat::Auto if is_terminal => human(true),
        LogFormat::Human => human(is_terminal),
        LogFormat::Auto | LogFormat::Json => json(),
    };
    // Only a second start in one process can fail, and then lines are already being written.
    let _ = tracing_subscriber::registry().with(EnvFilter::new(level)).with(layer).try_init();
}

type BoxedLayer<S> = Box<dyn Layer<S> + Send + Sync>;

fn human(is_terminal: bool) -> BoxedLayer<tracing_subscriber::layer::Layered<EnvFilter, Registry>> {
    let layer = fmt::layer().with_writer(io::stderr);
    // On a terminal the layer's own default stands, which respects NO_COLOR.
    if is_terminal { layer.boxed() } else { layer.with_ansi(false).boxed() }
}

fn json() -> BoxedLayer<tracing_subscriber::layer::Layered<EnvFilter, Registry>> {
    fmt::layer().json().flatten_event(true).with_current_span(false).with_writer(io::stderr).boxed()
}
