//! The input of a sender or receiver process: orders arrive as JSON lines on standard input, answers leave on standard output.

use anyhow::{Context, Result};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    io::{BufRead, Write},
    thread,
};
use tokio::sync::mpsc;

/// The orders, in turn. When the command closes the input, also because it died, the process ends in the middle of whatever it does.
pub fn read<T: DeserializeOwned + Send + 'static>() -> mpsc::UnboundedReceiver<Result<T>> {
    let (into, orders) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let order = line.context("reading an order").and_then(|line| Ok(serde_json::from_str(&line)?));
            if into.send(order).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
    orders
}

pub fn answer<T: Serialize>(answer: &T) -> Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    let mut output = std::io::stdout().lock();
    output.write_all(&line)?;
    output.flush()?;
    Ok(())
}

/// A runtime of so many threads; with one there is no hand-over between threads, which costs least.
pub fn runtime(threads: usize) -> Result<tokio::runtime::Runtime> {
    let mut builder = if threads > 1 {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(threads);
        builder
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    Ok(builder.enable_all().build()?)
}
