//! Shutdown in two stages. Soft: take nothing new, finish what is in flight. Hard: let go of everything now.
//!
//! Stages only ever go forward. Listeners are cheap to clone; one that starts listening late still sees the stage reached.

use std::io;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ShutdownStage {
    Running,
    Graceful,
    Forced,
}

/// The listening side.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<ShutdownStage>);

/// The requesting side. Dropping it requests nothing.
#[derive(Clone, Debug)]
pub struct ShutdownHandle(watch::Sender<ShutdownStage>);

impl Shutdown {
    /// Returns a shutdown and the handle that triggers it.
    pub fn new() -> (ShutdownHandle, Self) {
        let (sender, receiver) = watch::channel(ShutdownStage::Running);
        (ShutdownHandle(sender), Self(receiver))
    }

    /// The first SIGTERM or SIGINT is soft, the second is hard. Must be called inside a runtime.
    pub fn from_signals() -> io::Result<Self> {
        let (handle, shutdown) = Self::new();
        handle.follow_signals()?;
        Ok(shutdown)
    }

    /// Returns once it is time to stop taking new work; at once if it already is.
    pub async fn graceful(&self) {
        self.reached(ShutdownStage::Graceful).await;
    }

    /// Returns once it is time to let go of everything; at once if it already is.
    pub async fn forced(&self) {
        self.reached(ShutdownStage::Forced).await;
    }

    pub fn is_graceful(&self) -> bool {
        *self.0.borrow() >= ShutdownStage::Graceful
    }

    pub fn is_forced(&self) -> bool {
        *self.0.borrow() >= ShutdownStage::Forced
    }

    async fn reached(&self, phase: ShutdownStage) {
        let mut stages = self.0.clone();
        if stages.wait_for(|now| *now >= phase).await.is_err() {
            // Every handle is gone, so no stop can be requested any more.
            std::future::pending::<()>().await;
        }
    }
}

impl ShutdownHandle {
    pub fn stop_gracefully(&self) {
        self.advance_to(ShutdownStage::Graceful);
    }

    pub fn force_stop(&self) {
        self.advance_to(ShutdownStage::Forced);
    }

    /// Lets SIGTERM and SIGINT request a stop as well: the first a soft one, the second a hard one. Must be called inside a
    /// runtime.
    pub fn follow_signals(&self) -> io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let handle = self.clone();
        tokio::spawn(async move {
            for phase in [ShutdownStage::Graceful, ShutdownStage::Forced] {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                };
                tracing::info!(signal = name, ?phase, "asked to stop");
                handle.advance_to(phase);
            }
        });
        Ok(())
    }

    fn advance_to(&self, phase: ShutdownStage) {
        self.0.send_if_modified(|now| {
            let forward = phase > *now;
            *now = phase.max(*now);
            forward
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, getpid, kill_process};
    use std::time::Duration;

    #[tokio::test]
    async fn soft_comes_before_hard_and_late_listeners_see_both() {
        let (handle, shutdown) = Shutdown::new();
        assert!(!shutdown.is_graceful());
        handle.stop_gracefully();
        shutdown.graceful().await;
        assert!(shutdown.is_graceful() && !shutdown.is_forced());
        handle.force_stop();
        let late = shutdown.clone();
        late.graceful().await;
        late.forced().await;
    }

    #[tokio::test]
    async fn a_soft_stop_after_a_hard_one_changes_nothing() {
        let (handle, shutdown) = Shutdown::new();
        handle.force_stop();
        handle.stop_gracefully();
        assert!(shutdown.is_forced());
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_handle_does_not_request_a_stop() {
        let (handle, shutdown) = Shutdown::new();
        drop(handle);
        let stopped = tokio::time::timeout(Duration::from_hours(1), shutdown.graceful()).await;
        assert!(stopped.is_err());
    }

    #[tokio::test]
    async fn the_first_signal_is_soft_and_the_second_hard() {
        let shutdown = Shutdown::from_signals().unwrap();
        kill_process(getpid(), Signal::TERM).unwrap();
        shutdown.graceful().await;
        assert!(!shutdown.is_forced());
        kill_process(getpid(), Signal::INT).unwrap();
        shutdown.forced().await;
    }
}
