//! The sender process: sends the events of a plan at its pace and notes when each was sent and accepted.

use crate::{
    clock,
    http::{self, Client, Failure},
    messages::{Pace, RequestTemplate, SenderCounts, SenderOrder, SenderPlan, SenderTimes},
    orders, payload,
};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Uri,
    header::{HOST, HeaderName, HeaderValue},
};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};
use tokio::{sync::Semaphore, task::JoinSet};

/// So many events of an open loop may wait for their answers at once. Further ones are sent late, which their latency shows,
/// as it counts from the due time.
const OPEN_LOOP_SENDERS: usize = 512;
const REJECTION_CHARACTERS_MAX: usize = 300;

/// Serves orders until the input ends.
pub fn serve(threads: usize) -> Result<()> {
    orders::runtime(threads)?.block_on(async {
        let mut orders = orders::read();
        let mut times = SenderTimes::default();
        while let Some(order) = orders.recv().await {
            match order? {
                SenderOrder::Send(plan) => {
                    let counts;
                    (counts, times) = send_all(plan).await?;
                    orders::answer(&counts)?;
                }
                SenderOrder::Times => orders::answer(&times)?,
                SenderOrder::Cpu => orders::answer(&clock::own_cpu_seconds())?,
            }
        }
        Ok(())
    })
}

/// Request of one app, complete but for the payload.
struct Template {
    method: Method,
    path: Uri,
    headers: HeaderMap,
    body: [String; 2],
}

struct Transfer {
    client: Client,
    templates: Vec<Template>,
    idempotency_header: Option<HeaderName>,
    payload_bytes: usize,
    next: AtomicUsize,
    end_ns: u64,
    sent_ns: Vec<AtomicU64>,
    accepted_ns: Vec<AtomicU64>,
    counts: Mutex<SenderCounts>,
}

async fn send_all(plan: SenderPlan) -> Result<(SenderCounts, SenderTimes)> {
    let transfer = Arc::new(Transfer::new(&plan)?);
    let began_ns = clock::now_ns();
    let (senders, pacer) = match plan.pace {
        Pace::Senders(senders) => (senders, None),
        Pace::PerSecond(rate) => {
            let due = Arc::new(Semaphore::new(0));
            start_pacer(due.clone(), plan.events, rate, began_ns);
            (OPEN_LOOP_SENDERS.min(plan.events), Some((due, rate)))
        }
    };
    let mut tasks = JoinSet::new();
    for _ in 0..senders {
        let (transfer, pacer) = (transfer.clone(), pacer.clone());
        tasks.spawn(async move {
            loop {
                if let Some((due, _)) = &pacer {
                    let Ok(permit) = due.acquire().await else { break };
                    permit.forget();
                }
                let event = transfer.next.fetch_add(1, Relaxed);
                if event >= transfer.sent_ns.len() || clock::now_ns() > transfer.end_ns {
                    break;
                }
                let at =
                    pacer.as_ref().map_or_else(clock::now_ns, |(_, rate)| due_ns(began_ns, event, *rate));
                transfer.sent_ns[event].store(at, Relaxed);
                transfer.send(event).await;
            }
            // Wakes the senders that would wait for an event which never comes.
            if let Some((due, _)) = &pacer {
                due.close();
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a sender failed")?;
    }
    let mut counts = transfer.lock_counts().clone();
    counts.began_ns = began_ns;
    counts.connections = transfer.client.connections();
    counts.unsent = plan.events as u64 - counts.accepted - counts.rejected - counts.unanswered;
    let load = |times: &[AtomicU64]| times.iter().map(|time| time.load(Relaxed)).collect();
    let times = SenderTimes { sent_ns: load(&transfer.sent_ns), accepted_ns: load(&transfer.accepted_ns) };
    Ok((counts, times))
}

fn due_ns(began_ns: u64, event: usize, rate: f64) -> u64 {
    began_ns + (event as f64 / rate * 1e9) as u64
}

/// Releases each event when it is due. A thread of its own, because it wakes within tens of microseconds where a timer of
/// the runtime takes up to a millisecond. One more release than events ends the senders.
fn start_pacer(due: Arc<Semaphore>, events: usize, rate: f64, began_ns: u64) {
    thread::spawn(move || {
        for event in 0..=events {
            let wait = due_ns(began_ns, event, rate).saturating_sub(clock::now_ns());
            thread::sleep(Duration::from_nanos(wait));
            if due.is_closed() {
                break;
            }
            due.add_permits(1);
        }
    });
}

impl Transfer {
    fn new(plan: &SenderPlan) -> Result<Self> {
        let first = plan.requests.first().context("there is nothing to send to")?;
        let (authority, _) = http::authority(&first.url)?;
        let zeros = || (0..plan.events).map(|_| AtomicU64::new(0)).collect();
        Ok(Self {
            client: Client::to(&authority),
            templates: plan
                .requests
                .iter()
                .map(|request| Template::new(request, &authority))
                .collect::<Result<_>>()?,
            idempotency_header: plan.idempotency_header.as_deref().map(HeaderName::try_from).transpose()?,
            payload_bytes: plan.payload_bytes,
            next: AtomicUsize::new(0),
            end_ns: clock::now_ns() + Duration::from_secs(plan.seconds_max).as_nanos() as u64,
            sent_ns: zeros(),
            accepted_ns: zeros(),
            counts: Mutex::default(),
        })
    }

    async fn send(&self, event: usize) {
        let answer = self.client.request(self.request(event)).await;
        let now = clock::now_ns();
        let mut counts = self.lock_counts();
        match answer {
            Ok(response) if response.status().is_success() => {
                self.accepted_ns[event].store(now, Relaxed);
                counts.accepted += 1;
                counts.last_accept_ns = counts.last_accept_ns.max(now);
            }
            Ok(response) => {
                counts.rejected += 1;
                counts.first_rejection.get_or_insert_with(|| {
                    let body = String::from_utf8_lossy(response.body());
                    let body: String = body.chars().take(REJECTION_CHARACTERS_MAX).collect();
                    format!("{} {body}", response.status())
                });
            }
            Err(Failure::NoAnswer(_)) => counts.unanswered += 1,
            // Counted as unsent, which is whatever else is left.
            Err(Failure::NotSent(why)) => {
                counts.first_rejection.get_or_insert(why);
            }
        }
    }

    fn request(&self, event: usize) -> Request<Full<Bytes>> {
        let template = &self.templates[event % self.templates.len()];
        let payload = payload::render(event, self.payload_bytes);
        let body = [&*template.body[0], &payload, &*template.body[1]].concat();
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = template.method.clone();
        *request.uri_mut() = template.path.clone();
        *request.headers_mut() = template.headers.clone();
        if let Some(header) = &self.idempotency_header {
            let key = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
            if let Ok(key) = HeaderValue::try_from(key) {
                request.headers_mut().insert(header, key);
            }
        }
        request
    }

    fn lock_counts(&self) -> std::sync::MutexGuard<'_, SenderCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Template {
    fn new(request: &RequestTemplate, authority: &str) -> Result<Self> {
        let (own, path) = http::authority(&request.url)?;
        ensure!(own == authority, "all apps must be on one host: {own} is not {authority}");
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::try_from(authority)?);
        for (name, value) in &request.headers {
            headers.insert(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        }
        Ok(Self { method: request.method.parse()?, path, headers, body: request.body.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead, BufReader, Write},
        net::TcpListener,
    };

    const STALL: Duration = Duration::from_millis(300);
    const EVENTS: usize = 20;

    /// A server whose disk stalls as soon as it is connected to: it answers no request meanwhile, and each one after that.
    fn stalling_server() -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/", listener.local_addr()?);
        thread::spawn(move || {
            let first = listener.accept()?.0;
            thread::sleep(STALL);
            for stream in std::iter::once(Ok(first)).chain(listener.incoming()) {
                let stream = stream?;
                thread::spawn(|| answer_all(stream));
            }
            std::io::Result::Ok(())
        });
        Ok(url)
    }

    fn answer_all(stream: std::net::TcpStream) -> std::io::Result<()> {
        let mut writer = stream.try_clone()?;
        for line in BufReader::new(stream).lines() {
            // The body has no end of line, so that an empty line ends every head and stands nowhere else.
            if line?.is_empty() {
                writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
            }
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_stall_counts_for_every_event_that_was_due_meanwhile() {
        let request = RequestTemplate {
            method: "POST".into(),
            url: stalling_server().unwrap(),
            headers: vec![],
            body: [String::new(), String::new()],
        };
        let plan = SenderPlan {
            transfer: "t".into(),
            events: EVENTS,
            requests: vec![request],
            pace: Pace::PerSecond(100.0),
            payload_bytes: 100,
            idempotency_header: None,
            seconds_max: 60,
        };
        let (counts, times) = send_all(plan).await.unwrap();
        assert_eq!(counts.accepted, EVENTS as u64);
        for event in 0..EVENTS {
            let due = Duration::from_millis(10) * event as u32;
            let sent = u128::from(times.sent_ns[event] - counts.began_ns);
            assert!(sent.abs_diff(due.as_nanos()) <= 1, "event {event} was sent {sent} ns after the start");
            assert!(times.accepted_ns[event] - counts.began_ns >= STALL.as_nanos() as u64, "event {event}");
        }
    }
}
