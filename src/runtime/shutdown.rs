//! Shutdown in two stages. Soft: take nothing new, finish what is in flight. Hard: let go of everything now.
//!
//! Stages only ever go forward. Listeners are cheap to clone; one that starts listening late still sees the stage reached.

use std::io;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Running,
    Soft,
    Hard,
}

/// The listening side.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<Stage>);

/// The requesting side. Dropping it requests nothing.
#[derive(Clone, Debug)]
pub struct ShutdownHandle(watch::Sender<Stage>);

impl Shutdown {
    /// Returns a shutdown and the handle that triggers it.
    pub fn by_hand() -> (ShutdownHandle, Self) {
        let (sender, receiver) = watch::channel(Stage::Running);
        (ShutdownHandle(sender), Self(receiver))
    }

    /// The first SIGTERM or SIGINT is soft, the second is hard. Must be called inside a runtime.
    pub fn from_signals() -> io::Result<Self> {
        let (handle, shutdown) = Self::by_hand();
        handle.follow_signals()?;
        Ok(shutdown)
    }

    /// Returns once it is time to stop taking new work; at once if it already is.
    pub async fn soft(&self) {
        self.reached(Stage::Soft).await;
    }

    /// Returns once it is time to let go of everything; at once if it already is.
    pub async fn hard(&self) {
        self.reached(Stage::Hard).await;
    }

    pub fn is_soft(&self) -> bool {
        *self.0.borrow() >= Stage::Soft
    }

    pub fn is_hard(&self) -> bool {
        *self.0.borrow() >= Stage::Hard
    }

    async fn reached(&self, stage: Stage) {
        let mut stages = self.0.clone();
        if stages.wait_for(|now| *now >= stage).await.is_err() {
            // Every handle is gone, so no stop can be requested any more.
            std::future::pending::<()>().await;
        }
    }
}

impl ShutdownHandle {
    pub fn stop_softly(&self) {
        self.advance_to(Stage::Soft);
    }

    pub fn stop_hard(&self) {
        self.advance_to(Stage::Hard);
    }

    /// Lets SIGTERM and SIGINT request a stop as well: the first a soft one, the second a hard one. Must be called inside a
    /// runtime.
    pub fn follow_signals(&self) -> io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let handle = self.clone();
        tokio::spawn(async move {
            for stage in [Stage::Soft, Stage::Hard] {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                };
                tracing::info!(signal = name, ?stage, "asked to stop");
                handle.advance_to(stage);
            }
        });
        Ok(())
    }

    fn advance_to(&self, stage: Stage) {
        self.0.send_if_modified(|now| {
            let forward = stage > *now;
            *now = stage.max(*now);
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
        let (handle, shutdown) = Shutdown::by_hand();
        assert!(!shutdown.is_soft());
        handle.stop_softly();
        shutdown.soft().await;
        assert!(shutdown.is_soft() && !shutdown.is_hard());
        handle.stop_hard();
        let late = shutdown.clone();
        late.soft().await;
        late.hard().await;
    }

    #[tokio::test]
    async fn a_soft_stop_after_a_hard_one_changes_nothing() {
        let (handle, shutdown) = Shutdown::by_hand();
        handle.stop_hard();
        handle.stop_softly();
        assert!(shutdown.is_hard());
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_handle_does_not_request_a_stop() {
        let (handle, shutdown) = Shutdown::by_hand();
        drop(handle);
        let stopped = tokio::time::timeout(Duration::from_hours(1), shutdown.soft()).await;
        assert!(stopped.is_err());
    }

    #[tokio::test]
    async fn the_first_signal_is_soft_and_the_second_hard() {
        let shutdown = Shutdown::from_signals().unwrap();
        kill_process(getpid(), Signal::TERM).unwrap();
        shutdown.soft().await;
        assert!(!shutdown.is_hard());
        kill_process(getpid(), Signal::INT).unwrap();
        shutdown.hard().await;
    }
}
