//! Runs one measured transfer: makes apps and endpoints, lets the sender send and the receiver receive, and waits for the rest.

use crate::{
    children::Worker,
    clock,
    figures::Figures,
    messages::{
        Arrivals, Behaviour, Listening, Pace, ReceiverCounts, ReceiverOrder, ReceiverPlan, RequestTemplate,
        SenderCounts, SenderOrder, SenderPlan, SenderTimes, TargetEndpoint,
    },
    procs::{self, MachineCpu, Memory, Tree},
    target::{self, Target},
};
use anyhow::{Context, Result, ensure};
use std::{collections::BTreeMap, time::Duration};

/// The server finishes its bookkeeping in this time, which belongs to what a delivery costs.
const BOOKKEEPING: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Longest time for sending all events of a measured transfer.
const SEND_WITHIN: Duration = Duration::from_mins(15);
const BARE_SENDERS: usize = 32;

/// Events to send, and the endpoints that they go to.
#[derive(Clone, Debug)]
pub struct Load {
    pub events: usize,
    pub endpoints: Vec<TargetEndpoint>,
    pub pace: Pace,
    /// With a random idempotency key for each event.
    pub is_keyed: bool,
}

impl Load {
    /// Events for one endpoint that accepts.
    pub fn plain(events: usize, pace: Pace) -> Self {
        Self { events, endpoints: vec![TargetEndpoint::of(0, Behaviour::Accept)], pace, is_keyed: false }
    }

    #[must_use]
    pub fn with_apps(mut self, apps: usize) -> Self {
        self.endpoints = (0..apps).map(|app| TargetEndpoint::of(app, Behaviour::Accept)).collect();
        self
    }

    #[must_use]
    pub fn with_endpoints(mut self, endpoints: usize) -> Self {
        self.endpoints = vec![TargetEndpoint::of(0, Behaviour::Accept); endpoints];
        self
    }

    #[must_use]
    pub fn keyed(mut self) -> Self {
        self.is_keyed = true;
        self
    }
}

/// Options that all transfers of a command share.
#[derive(Clone, Debug)]
pub struct Options {
    pub payload_bytes: usize,
    /// Missing deliveries count as lost when nothing has arrived for so long.
    pub settle: Duration,
    /// Bare requests before the transfer, and as many again behind it.
    pub bare_requests: usize,
    /// Threads of the sender and of the receiver.
    pub threads: usize,
}

/// CPU seconds so far, of all processes.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    pub at_ns: u64,
    pub trees: BTreeMap<String, f64>,
    pub sender: f64,
    pub receiver: f64,
    /// This command.
    pub command: f64,
    pub machine: MachineCpu,
}

/// Everything that was seen of a transfer.
#[derive(Debug, Default)]
pub struct Observed {
    pub endpoints: Vec<TargetEndpoint>,
    pub sent: SenderCounts,
    pub times: SenderTimes,
    pub received: ReceiverCounts,
    pub arrivals: Arrivals,
    pub before: Usage,
    pub after: Usage,
    pub memory: BTreeMap<String, Memory>,
    pub are_signatures_verified: bool,
}

pub struct Bench {
    pub target: Target,
    pub options: Options,
    pub sender: Worker,
    pub receiver: Worker,
    /// Where endpoints lead.
    pub receiver_url: String,
}

impl Bench {
    pub async fn start(target: Target, options: Options) -> Result<Self> {
        let receiver = Worker::start("receiver", options.threads)?;
        let sender = Worker::start("sender", options.threads)?;
        let Listening { port } = receiver.first_line().await?;
        Ok(Self { target, options, sender, receiver, receiver_url: format!("http://127.0.0.1:{port}") })
    }

    /// A transfer between two halves of bare requests, which the same machine served at nearly the same time.
    pub async fn measure(&self, load: &Load, accounted: &[Tree]) -> Result<Figures> {
        let (cpu_before, _) = self.bare().await?;
        let (observed, ()) = self.transfer(load, accounted, async { Ok(()) }).await?;
        let (cpu_after, strays) = self.bare().await?;
        let mut figures = Figures::of(&observed);
        figures.set_bare(cpu_before + cpu_after, self.options.bare_requests * 2);
        // An endpoint that hangs is rightly tried again after its transfer.
        if !load.endpoints.iter().any(|endpoint| endpoint.behaviour == Behaviour::Hang) {
            figures.strays += strays;
        }
        Ok(figures)
    }

    /// Sends and receives a load while something else happens, and waits until everything accepted has arrived or nothing
    /// comes any more.
    pub async fn transfer<T>(
        &self,
        load: &Load,
        accounted: &[Tree],
        meanwhile: impl Future<Output = Result<T>>,
    ) -> Result<(Observed, T)> {
        let mut endpoints = load.endpoints.clone();
        let name = format!("t{:x}", clock::now_ns());
        let requests = self.target.make(&name, &self.receiver_url, &mut endpoints).await?;
        let signature = self.target.signature.clone();
        let are_signatures_verified = signature.is_some();
        self.begin(&name, load.events, endpoints.clone(), signature).await?;
        let mut plan = self.sender_plan(&name, load.events, load.pace, requests);
        if load.is_keyed {
            plan.idempotency_header.clone_from(&self.target.idempotency_header);
            ensure!(plan.idempotency_header.is_some(), "this target names no idempotency_header");
        }

        let before = self.usage(accounted).await?;
        let (sent, happened) = tokio::try_join!(self.send(plan), meanwhile)?;
        let times: SenderTimes = self.sender.ask(&SenderOrder::Times).await?;
        self.wait_for_arrivals(&endpoints, &times).await?;
        tokio::time::sleep(BOOKKEEPING).await;
        let after = self.usage(accounted).await?;
        let memory = procs::memory_of_trees(accounted)?;

        let received = self.counts().await?;
        let arrivals = self.receiver.ask(&ReceiverOrder::Arrivals).await?;
        let observed = Observed {
            endpoints,
            sent,
            times,
            received,
            arrivals,
            before,
            after,
            memory,
            are_signatures_verified,
        };
        Ok((observed, happened))
    }

    pub async fn counts(&self) -> Result<ReceiverCounts> {
        self.receiver.ask(&ReceiverOrder::Count).await
    }

    pub async fn begin(
        &self,
        transfer: &str,
        events: usize,
        endpoints: Vec<TargetEndpoint>,
        signature: Option<crate::messages::SignatureHeaders>,
    ) -> Result<()> {
        let plan = ReceiverPlan { transfer: transfer.to_owned(), events, endpoints, signature };
        self.receiver.ask(&ReceiverOrder::Begin(plan)).await
    }

    fn sender_plan(
        &self,
        transfer: &str,
        events: usize,
        pace: Pace,
        requests: Vec<RequestTemplate>,
    ) -> SenderPlan {
        SenderPlan {
            transfer: transfer.to_owned(),
            events,
            requests,
            pace,
            payload_bytes: self.options.payload_bytes,
            idempotency_header: None,
            seconds_max: SEND_WITHIN.as_secs(),
        }
    }

    async fn send(&self, plan: SenderPlan) -> Result<SenderCounts> {
        let order = SenderOrder::Send(plan);
        tokio::time::timeout(SEND_WITHIN * 2, self.sender.ask(&order))
            .await
            .context("sending does not end")?
    }

    /// CPU seconds of sender and receiver for requests that go straight from one to the other, and how many requests of
    /// earlier transfers came meanwhile. Bare requests have the same payload, carry no signature, and the receiver notes
    /// their arrival as it does that of webhooks.
    async fn bare(&self) -> Result<(f64, u64)> {
        let events = self.options.bare_requests;
        if events == 0 {
            return Ok((0.0, 0));
        }
        let name = format!("b{:x}", clock::now_ns());
        self.begin(&name, events, vec![TargetEndpoint::of(0, Behaviour::Accept)], None).await?;
        let request = RequestTemplate {
            method: "POST".to_owned(),
            url: format!("{}/{name}/0", self.receiver_url),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: [String::new(), String::new()],
        };
        let before = self.workers_cpu().await?;
        let sent =
            self.send(self.sender_plan(&name, events, Pace::Senders(BARE_SENDERS), vec![request])).await?;
        let after = self.workers_cpu().await?;
        let ReceiverCounts { distinct: arrived, strays, .. } = self.counts().await?;
        ensure!(
            sent.accepted == events as u64 && arrived == sent.accepted,
            "bare requests were lost: {arrived} of {events}"
        );
        Ok((after.0 + after.1 - before.0 - before.1, strays))
    }

    /// CPU seconds so far of the sender and of the receiver.
    async fn workers_cpu(&self) -> Result<(f64, f64)> {
        Ok((self.sender.ask(&SenderOrder::Cpu).await?, self.receiver.ask(&ReceiverOrder::Cpu).await?))
    }

    async fn wait_for_arrivals(&self, endpoints: &[TargetEndpoint], times: &SenderTimes) -> Result<()> {
        let mut seen = self.counts().await?;
        let mut changed_ns = clock::now_ns();
        loop {
            // Events without an answer arrive as well, so the count alone says only when to look closer.
            if seen.distinct >= expected(endpoints, times).count() as u64 {
                let arrivals: Arrivals = self.receiver.ask(&ReceiverOrder::Arrivals).await?;
                if expected(endpoints, times).all(|(pair, _)| arrivals.first_ns[pair] > 0) {
                    return Ok(());
                }
            }
            if clock::seconds_between(changed_ns, clock::now_ns()) > self.options.settle.as_secs_f64() {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
            let now = self.counts().await?;
            if now.distinct != seen.distinct {
                changed_ns = clock::now_ns();
            }
            seen = now;
        }
    }

    async fn usage(&self, accounted: &[Tree]) -> Result<Usage> {
        let (sender, receiver) = self.workers_cpu().await?;
        Ok(Usage {
            at_ns: clock::now_ns(),
            trees: procs::cpu_of_trees(accounted)?,
            sender,
            receiver,
            command: clock::own_cpu_seconds(),
            machine: MachineCpu::now()?,
        })
    }
}

/// Pairs of an accepted event and an endpoint that accepts it, as the index of their arrival and the event.
pub fn expected<'a>(
    endpoints: &'a [TargetEndpoint],
    times: &'a SenderTimes,
) -> impl Iterator<Item = (usize, usize)> + 'a {
    let apps = target::apps(endpoints);
    let accepted = times.accepted_ns.iter().enumerate().filter(|(_, time)| **time > 0);
    accepted.flat_map(move |(event, _)| {
        let matching = endpoints.iter().enumerate().filter(move |(_, endpoint)| {
            endpoint.app == event % apps && endpoint.behaviour != Behaviour::Hang
        });
        matching.map(move |(number, _)| (event * endpoints.len() + number, event))
    })
}
