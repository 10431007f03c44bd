//! Composition: builds the modules from the settings, starts and stops them in order. No logic of its own.

mod backup;
mod contracts;
mod dev;
mod generated_keys;
mod host;
mod mail;
mod open_store;
mod sample_receiver;

pub use backup::{back_up, restore};
pub use contracts::contracts;
pub use dev::dev;
pub use host::file_handles_needed;
pub use mail::mail_server;

use crate::{
    api,
    config::{Settings, StoreLocation, UnknownEventTypes},
    domain::{
        address_policy::AddressPolicy, encryption::Keyring, rate_limit::RateLimit, storage::StorageLimits,
    },
    engine::{
        DeliveryWorker, EndpointQueues, Engine, EngineLimits, Intervals, NodeSendGate, Renderer, SharedLimits,
    },
    outbound::{ClientOptions, HttpClient, SystemResolver},
    runtime::{
        Clock, ConfigCache, Entropy, IdGenerator, Metrics, NodeLease, Shutdown, ShutdownHandle, StorageSpace,
        SystemClock, SystemEntropy,
    },
    server::{self, ServerLimits},
    service::{self, NodeInfo, Service, stream::Streams},
    store::{
        Store,
        live_updates::{LiveUpdateListener, LiveUpdateStore},
    },
};
use anyhow::{Context, bail};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, sync::Notify};

/// Time that running client requests have to finish when the node stops.
const REQUESTS_GRACE: Duration = Duration::from_secs(5);

/// Runs the server until it is stopped.
pub async fn serve(settings: Settings) -> anyhow::Result<()> {
    until_second_signal(async |handle, stop| run_server(&settings, handle, stop).await).await
}

/// Runs the work until it ends. A second signal stops it at once.
async fn until_second_signal(
    work: impl AsyncFnOnce(ShutdownHandle, Shutdown) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (handle, stop) = Shutdown::new();
    handle.follow_signals().context("cannot listen for signals")?;
    tokio::select! {
        biased;
        () = stop.forced() => bail!("stopped at once; what was in flight is taken over at the next start"),
        done = work(handle, stop.clone()) => done,
    }
}

async fn run_server(settings: &Settings, handle: ShutdownHandle, stop: Shutdown) -> anyhow::Result<()> {
    let node = tokio::select! {
        biased;
        // Starting may wait for an unreachable database, so a stop must be noticed here.
        () = stop.graceful() => return Ok(()),
        node = StartedNode::start(settings, false) => node?,
    };
    if let Some(path) = &node.admin_key_file {
        tracing::info!(path = %path.display(), "made an admin key; it is in this file and nowhere else");
    }
    if api::HAS_DASHBOARD {
        tracing::info!(url = dashboard_at(node.address), "the dashboard is served");
    }
    tracing::info!(address = %node.address, "posthaste is ready");
    node.run(handle, stop, settings.shutdown_grace).await
}

/// A started node: everything that `run` needs.
struct StartedNode {
    address: SocketAddr,
    admin_key_file: Option<std::path::PathBuf>,
    admin_key: Option<String>,
    listener: TcpListener,
    service: Arc<Service>,
    store: Arc<dyn Store>,
    engine: Engine,
    /// Notified when another node changed the configuration; None for a single node.
    config_notify: Option<Arc<Notify>>,
}

impl StartedNode {
    async fn start(settings: &Settings, is_dev: bool) -> anyhow::Result<Self> {
        host::raise_file_limit(settings.hands);
        let listener = TcpListener::bind(settings.listen)
            .await
            .with_context(|| format!("cannot listen on {}", settings.listen))?;
        let address = listener.local_addr()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        let (config_cache, metrics) = (Arc::new(ConfigCache::default()), Arc::new(Metrics::default()));
        let node_state = Arc::new(initial_node_state(&settings.store));
        let (queues, events) =
            EndpointQueues::new(engine_limits(settings), config_cache.clone(), node_state.clone());
        let streams = Arc::new(Streams::default());
        let commit_listener = LiveUpdateListener::new(queues.clone(), streams.clone(), config_cache.clone());
        let store = open_store::open(settings, Arc::new(commit_listener), &metrics).await?;
        let delivery_store = Arc::new(LiveUpdateStore::new(store.clone(), streams.clone()));
        let joined = open_store::join(settings, &*store, &*clock).await?;
        if !joined.is_alone {
            node_state.join(joined.epoch);
        }
        let storage = Arc::new(StorageSpace::new(StorageLimits {
            store_bytes_max: settings.store_bytes_max.map(|bytes| bytes as u64),
            disk_free_min: settings.disk_free_min as u64,
        }));
        storage.set_usage(open_store::usage(settings, &*store).await?);
        let ids = IdGenerator::new(joined.slot, joined.newest_id);
        let addresses = address_policy(settings, is_dev);
        let gate = send_gate(&node_state, &clock, &delivery_store);
        let client = http_client(settings, &addresses, gate)?;
        let service = Arc::new(Service::new(service::ServiceDeps {
            config_cache: config_cache.clone(),
            delivery_store: delivery_store.clone(),
            config_store: store.clone(),
            query_store: store.clone(),
            cluster_store: store.clone(),
            node_state: node_state.clone(),
            permits: queues.clone(),
            clock: clock.clone(),
            entropy: entropy.clone(),
            ids: ids.clone(),
            contracts: contracts(settings)?,
            keyring: keyring(settings, &*entropy)?,
            addresses,
            limits: service::ServiceLimits {
                body_bytes_max: settings.body_bytes_max,
                https_only: settings.https_only,
                refuses_unknown_types: settings.unknown_event_types == UnknownEventTypes::Refused,
                ..service::ServiceLimits::default()
            },
            node_info: node_info(settings, address),
            metrics: metrics.clone(),
            storage: storage.clone(),
            streams,
        }));
        let admin = generated_keys::admin_key(settings, &*entropy)?;
        let is_away = |error: &service::Error| matches!(error, service::Error::Unavailable(_));
        let loaded = open_store::retry_while_unavailable(settings, is_away, async || {
            service.load_config(Some(&admin.key)).await
        })
        .await;
        let loaded =
            loaded.map_err(|error| generated_keys::with_hint(anyhow::Error::new(error), settings))?;
        tracing::info!(?loaded, "loaded");
        // A single node has no others whose changes it must follow.
        let config_notify = (!joined.is_alone).then(|| queues.configuration_notify());
        let engine = Engine {
            queues,
            queue_events: events,
            delivery_worker: DeliveryWorker {
                config_cache,
                delivery_store,
                http_sender: client,
                clock,
                entropy,
                metrics,
                outage_detector: Arc::default(),
                renderer: Renderer::default(),
            },
            cluster_store: store.clone(),
            query_store: store.clone(),
            ids,
            storage,
            audit_retention: settings.audit_retention,
            mail_settings: mail::mail_settings(settings)?,
            operator_app: settings.operator_app.clone(),
            grace_period: settings.shutdown_grace,
            intervals: Intervals::default(),
        };
        let admin_key_file = admin.generated_in;
        Ok(Self {
            address,
            admin_key_file,
            admin_key: is_dev.then_some(admin.key),
            listener,
            service,
            store,
            engine,
            config_notify,
        })
    }

    /// Serves and delivers until it is stopped. Then it takes no new work, finishes deliveries in flight within the grace
    /// period, releases the rest, and closes the store.
    async fn run(self, handle: ShutdownHandle, stop: Shutdown, grace: Duration) -> anyhow::Result<()> {
        let Self { listener, service, store, engine, config_notify, .. } = self;
        service.readiness().start_accepting();
        let router = api::router(service.clone());
        // Clients are served until the engine has stopped, so that their requests are answered meanwhile, not cut
        // off.
        let (stop_listening, listening) = Shutdown::new();
        let serving = tokio::spawn(async move {
            let (soft, hard) = (listening.graceful(), listening.forced());
            server::serve(vec![listener], router, ServerLimits::default(), soft, hard).await;
        });
        let (sealing, rotation_stop) = (service.clone(), stop.clone());
        let resealing = tokio::spawn(async move { sealing.run_key_rotation(rotation_stop).await });
        let following = config_notify.map(|notify| {
            let service = service.clone();
            tokio::spawn(
                async move { tokio::join!(service.sync_config(&notify), service.watch_other_nodes()) },
            )
        });
        let (taking_in, rotation_stop) = (service.clone(), stop.clone());
        let taking_in = tokio::spawn(async move { taking_in.run_inbox(rotation_stop).await });
        let mut working = tokio::spawn(engine.run(stop.clone()));
        let worked = tokio::select! {
            () = stop.graceful() => {
                service.readiness().stop();
                tracing::info!(?grace, "stopping: finishing what is in flight");
                (&mut working).await
            }
            worked = &mut working => worked,
        };
        if let Some(following) = following {
            following.abort();
        }
        handle.stop_gracefully();
        service.end_streams();
        stop_listening.stop_gracefully();
        // Both tasks use the store, which must not be closed under them.
        let _ = tokio::join!(resealing, taking_in);
        let _ = tokio::time::timeout(REQUESTS_GRACE, serving).await;
        tokio::task::spawn_blocking(move || store.close()).await?;
        worked
            .context("the engine ended with a panic")?
            .context("the engine could not let go of everything")?;
        tracing::info!("stopped");
        Ok(())
    }
}

/// Returns the initial node state. A file has a single node; on a database, joining decides it.
fn initial_node_state(store: &StoreLocation) -> NodeLease {
    match store {
        StoreLocation::Sqlite(_) => NodeLease::single_node(),
        StoreLocation::Postgres(_) => NodeLease::default(),
    }
}

/// The gate of outbound requests: this node's lease, and whether the store takes results.
fn send_gate(
    node_state: &Arc<NodeLease>,
    clock: &Arc<dyn Clock>,
    delivery_store: &Arc<LiveUpdateStore>,
) -> NodeSendGate {
    NodeSendGate {
        node_state: node_state.clone(),
        clock: clock.clone(),
        delivery_store: delivery_store.clone(),
    }
}

/// Returns which addresses may be called: public ones, and those that the operator allows.
fn address_policy(settings: &Settings, is_dev: bool) -> AddressPolicy {
    AddressPolicy {
        allow: settings.allow_addresses.clone(),
        own_addresses: host::own_addresses(),
        dev: is_dev,
    }
}

fn http_client(
    settings: &Settings,
    addresses: &AddressPolicy,
    gate: NodeSendGate,
) -> anyhow::Result<Arc<HttpClient>> {
    let options = outbound_options(settings, addresses)?;
    let client = HttpClient::new(options, Arc::new(SystemResolver::default()))?;
    Ok(Arc::new(client.with_gate(Arc::new(gate))))
}

fn engine_limits(settings: &Settings) -> EngineLimits {
    EngineLimits {
        deliveries_in_flight_max: settings.hands,
        bytes_max: settings.queued_bytes_max,
        in_flight_per_endpoint: settings.in_flight_per_endpoint,
        limits: SharedLimits {
            in_flight_per_app: settings.in_flight_per_app,
            in_flight: settings.in_flight_max,
            rate: settings.rate_max.map(RateLimit::per_second),
        },
    }
}

fn node_info(settings: &Settings, address: SocketAddr) -> NodeInfo {
    NodeInfo {
        node: host::host_name(),
        store: open_store::name(settings),
        proxy: settings.proxy.as_ref().map(ToString::to_string),
        proxy_resolves: settings.proxy_resolves,
        public_url: settings.public_url.clone().unwrap_or_else(|| dashboard_at(address)),
        portal_origins: settings.portal_origins.clone(),
    }
}

/// Returns the URL of the dashboard for a browser on this machine.
fn dashboard_at(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        given => given,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

fn extra_ca(settings: &Settings) -> anyhow::Result<Option<Vec<u8>>> {
    let read = |path| std::fs::read(path).with_context(|| format!("extra_ca: {}", Path::display(path)));
    settings.extra_ca.as_deref().map(read).transpose()
}

fn outbound_options(settings: &Settings, addresses: &AddressPolicy) -> anyhow::Result<ClientOptions> {
    let extra_ca_pem = extra_ca(settings)?;
    if settings.proxy_resolves && settings.proxy.is_none() {
        bail!("proxy_resolves: there is no proxy that could; set proxy too");
    }
    Ok(ClientOptions {
        policy: addresses.clone(),
        extra_ca_pem,
        proxy: settings.proxy.clone(),
        proxy_resolves: settings.proxy_resolves,
        source_headers: settings.source_headers.clone(),
        ..ClientOptions::default()
    })
}

fn keyring(settings: &Settings, entropy: &dyn Entropy) -> anyhow::Result<Keyring> {
    let text = match (&settings.encryption_key, &settings.store) {
        (Some(key), _) => key.reveal().to_owned(),
        (None, StoreLocation::Sqlite(path)) => generated_keys::encryption_key_file(path, entropy)?,
        (None, StoreLocation::Postgres(_)) => return Err(open_store::no_key("encryption_key")),
    };
    Keyring::parse(&text).context("encryption_key")
}
