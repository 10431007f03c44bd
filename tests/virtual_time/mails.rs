//! Mails in virtual time: each dead letter, digests, storms, and a server that is down for days.

use crate::{
    fake_mail_server::FakeMailServer,
    fixture::{ADMIN, Behaviour, Fixture},
};
use posthaste::{
    domain::{
        contract::NoticeChannel,
        id::{AppId, ReplayId},
        notice::{Email, MailState},
        replay::{Replay, ReplayFilter, ReplaySelection, ReplayState},
        time::Timestamp,
    },
    outbound::SendMailResult,
    runtime::Clock,
    service::{endpoints::NewEndpoint, notices::NoticeQuery},
    store::replays::ReplayPage,
};
use serde_json::json;
use std::{collections::HashSet, time::Duration};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

async fn mail_states(fixture: &Fixture) -> Vec<(MailState, Option<String>)> {
    let page = fixture.service.notices_of(&fixture.entry, NoticeQuery::default(), None, 250).await.unwrap();
    page.rows.into_iter().map(|shown| (shown.notice.mail, shown.notice.mail_error)).collect()
}

/// Makes a replay that is over at once and has a mail notice: the kind of which several share a mail.
async fn add_finished_replay(fixture: &Fixture, app: AppId, number: i64) {
    let now = fixture.clock.now();
    let states = vec!["dead".to_owned()];
    let replay = Replay {
        id: ReplayId::from_i64(number),
        app,
        selection: ReplaySelection::Deliveries(ReplayFilter {
            endpoint: None,
            event_type: None,
            states,
            missed_since: None,
        }),
        per_second: 1,
        state: ReplayState::Running,
        from_id: 0,
        to_id: number,
        reached: -1,
        total: 0,
        replayed: 0,
        refused: 0,
        last_refusal: None,
        created_at: now,
        changed_at: now,
        running_time: Duration::ZERO,
    };
    fixture.store.start_replay(replay, None).await.unwrap();
    let page = ReplayPage {
        replay: ReplayId::from_i64(number),
        after_id: -1,
        sources: vec![],
        reached: number,
        is_last: true,
        notify_channel: NoticeChannel::Email,
    };
    fixture.store.advance_replay(page, now).await.unwrap();
}

/// Adds an endpoint whose deliveries are dead after one attempt, however many failed before.
async fn quick_endpoint(fixture: &Fixture, uid: &str) {
    let endpoint = NewEndpoint {
        uid: Some(uid.into()),
        url: "https://quick.example/hook".into(),
        overrides: Some(json!({ "pacing": "strict", "retry": { "waits": [] } })),
        ..NewEndpoint::default()
    };
    fixture.service.add_endpoint(ADMIN, &fixture.entry, endpoint).await.unwrap();
}

/// Mails about dead letters, without those about the endpoint itself.
fn of_dead_letters(taken: &[(Instant, Email)]) -> Vec<&Email> {
    taken.iter().map(|(_, email)| email).filter(|email| email.subject.contains("dead")).collect()
}

#[tokio::test(start_paused = true)]
async fn each_dead_letter_has_a_mail_of_its_own_under_bastionary() {
    let service = FakeMailServer::new(SendMailResult::Sent);
    let fixture =
        Fixture::with_post("bastionary", Behaviour::Answer(500), Some(service.mail_settings())).await;
    fixture.service.remove_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
    quick_endpoint(&fixture, "one").await;
    for _ in 0..100 {
        fixture.publish().await;
    }
    fixture.pass(SECOND).await;
    assert_eq!(mail_states(&fixture).await.len(), 100, "they wait all at once");
    fixture.pass(60 * SECOND).await;
    let sent = service.taken().len();
    assert!((50..=61).contains(&sent), "no more than sixty a minute, and no fewer than it can: {sent}");
    fixture.pass(HOUR).await;
    let taken = service.taken();
    assert!(taken.iter().all(|(_, email)| email.to == "ops@operator.example"));
    let dead = of_dead_letters(&taken);
    let ids: HashSet<_> = dead.iter().map(|email| email.id.clone()).collect();
    assert_eq!((dead.len(), ids.len()), (100, 100));
    assert!(dead.iter().all(|email| email.body.contains("What to do: repair the receiver")));
    assert_eq!(taken.len(), 101, "and one that the endpoint is degraded");
    assert!(taken.windows(2).all(|two| two[1].0 - two[0].0 >= SECOND), "one by one");
    assert!(mail_states(&fixture).await.iter().all(|state| *state == (MailState::Sent, None)));
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_days_loses_nothing_and_causes_no_flood() {
    let service = FakeMailServer::new(SendMailResult::Down("connection refused".into()));
    let fixture =
        Fixture::with_post("bastionary", Behaviour::Answer(500), Some(service.mail_settings())).await;
    for _ in 0..50 {
        fixture.publish().await;
    }
    fixture.pass(72 * HOUR).await;
    let tries = service.tries();
    let mut least = Duration::from_secs(5);
    for two in tries.windows(2) {
        assert!(two[1] - two[0] >= least, "{:?} after {:?}", two[1] - two[0], least);
        least = (least * 2).min(Duration::from_mins(10));
    }
    assert!(
        (400..450).contains(&tries.len()),
        "one try after each pause, however many wait: {}",
        tries.len()
    );
    assert!(mail_states(&fixture).await.iter().all(|(state, _)| *state == MailState::Waiting));

    service.now_does(SendMailResult::Sent);
    fixture.pass(Duration::from_mins(12)).await;
    let taken = service.taken();
    let dead = of_dead_letters(&taken);
    assert_eq!(dead.len(), 50, "all of them, within ten minutes and their pace");
    assert!(taken.windows(2).all(|two| two[1].0 - two[0].0 >= SECOND), "paced");
    let order: Vec<_> = dead.iter().map(|email| email.id.clone()).collect();
    assert!(order.is_sorted(), "in order: {order:?}");
    assert_eq!(order.iter().collect::<HashSet<_>>().len(), 50, "each once");
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_notices_is_two_mails_and_the_next_ones_gather_for_a_minute() {
    let service = FakeMailServer::new(SendMailResult::Sent);
    let fixture = Fixture::with_post("standard", Behaviour::Answer(200), Some(service.mail_settings())).await;
    let app = fixture.entry.app().id;
    for number in 1..=500 {
        add_finished_replay(&fixture, app, number).await;
    }
    fixture.pass(10 * SECOND).await;
    assert_eq!(service.taken().len(), 1, "the first goes at once");
    fixture.pass(Duration::from_mins(5)).await;
    let taken = service.taken();
    assert_eq!(
        taken.len(),
        2,
        "the others together: {:?}",
        taken.iter().map(|(_, l)| &l.subject).collect::<Vec<_>>()
    );
    assert!(taken[1].0 - taken[0].0 >= Duration::from_mins(1));
    assert!(mail_states(&fixture).await.iter().all(|(state, _)| *state == MailState::Sent));
    assert!(taken[1].1.subject.contains("notices, the first: rpl_"), "{}", taken[1].1.subject);
}

#[tokio::test(start_paused = true)]
async fn five_hundred_endpoints_that_flap_are_a_mail_a_minute_and_not_five_hundred() {
    let service = FakeMailServer::new(SendMailResult::Sent);
    let fixture = Fixture::with_post("standard", Behaviour::Answer(503), Some(service.mail_settings())).await;
    let overrides = json!({
        "pacing": "strict", "retry": { "waits": [] }, "notices": { "dead_letter": "none", "degraded": "email" },
    });
    for number in 0..499 {
        fixture.add_endpoint(&format!("flaps-{number}"), Some(overrides.clone())).await;
    }
    let (mut mails, mut mailed) = (0, 0);
    // Failing, healthy again, gone.
    for (does, events) in
        [(Behaviour::Answer(503), 10), (Behaviour::Answer(200), 3), (Behaviour::Answer(410), 1)]
    {
        fixture.set_behaviour(does);
        for _ in 0..events {
            fixture.publish().await;
            fixture.pass(SECOND).await;
        }
        fixture.pass(Duration::from_mins(3)).await;
        let (_, last) = service.taken().last().cloned().unwrap();
        let (before, now) = (mailed, mails_sent(&fixture));
        assert!(now - before >= 499, "{does:?}: a notice for each, {before} and {now}");
        assert!(service.taken().len() - mails <= 2, "{does:?}: the first at once, the others together");
        assert!(last.subject.contains("notices, the first: "), "{}", last.subject);
        (mails, mailed) = (service.taken().len(), now);
    }
    let unsent = "SELECT count(*) FROM notices WHERE email_state = 1 AND open_until IS NULL";
    assert_eq!(fixture.on_disk(|disk| disk.query_row(unsent, [], |row| row.get::<_, i64>(0)).unwrap()), 0);
}

fn mails_sent(fixture: &Fixture) -> i64 {
    let sql = "SELECT count(*) FROM notices WHERE endpoint IS NOT NULL";
    fixture.on_disk(|disk| disk.query_row(sql, [], |row| row.get(0)).unwrap())
}

#[tokio::test(start_paused = true)]
async fn dead_letters_of_a_window_are_one_digest_under_standard() {
    let service = FakeMailServer::new(SendMailResult::Sent);
    let fixture = Fixture::with_post("standard", Behaviour::Answer(500), Some(service.mail_settings())).await;
    for uid in ["one", "two"] {
        quick_endpoint(&fixture, uid).await;
    }
    for _ in 0..30 {
        fixture.publish().await;
        fixture.pass(Duration::from_mins(1)).await;
    }
    assert_eq!(service.taken().len(), 0, "the window is open");
    fixture.pass(HOUR).await;
    let [(at, email)] = &service.taken()[..] else { panic!("one mail: {:?}", service.taken()) };
    assert_eq!(email.subject, "[Posthaste] A: 60 deliveries are dead");
    for words in ["- one, https://quick.example/hook: 30\n", "- two, https://quick.example/hook: 30\n"] {
        assert!(email.body.contains(words), "{}", email.body);
    }
    assert!(at.elapsed() > Duration::from_mins(29), "it went when its window closed");
    fixture.publish().await;
    fixture.pass(2 * HOUR).await;
    assert_eq!(service.taken().len(), 2, "the next window, the next mail");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_of_one_mail_and_an_app_without_an_address_has_none() {
    let service = FakeMailServer::new(SendMailResult::Refused("550 no such user".into()));
    let fixture =
        Fixture::with_post("bastionary", Behaviour::Answer(500), Some(service.mail_settings())).await;
    fixture.publish().await;
    fixture.pass(HOUR).await;
    service.now_does(SendMailResult::Sent);
    fixture.publish().await;
    fixture.pass(HOUR).await;
    let states = mail_states(&fixture).await;
    assert_eq!(states, [(MailState::Sent, None), (MailState::Refused, Some("550 no such user".into()))]);
    assert_eq!(service.tries().len(), 2);

    let nobody = Fixture::new("bastionary", Behaviour::Answer(500)).await;
    nobody.publish().await;
    nobody.pass(HOUR).await;
    let why = "no mail server is set (smtp_server)".to_owned();
    assert_eq!(mail_states(&nobody).await, [(MailState::None, Some(why))]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_keeps_no_mail_waiting() {
    let service = FakeMailServer::new(SendMailResult::Sent);
    let fixture =
        Fixture::with_post("bastionary", Behaviour::Answer(500), Some(service.mail_settings())).await;
    fixture.publish().await;
    fixture.pass(HOUR).await;
    fixture.clock.step(-24 * 3_600_000);
    let before = fixture.clock.now();
    fixture.publish().await;
    fixture.pass(HOUR).await;
    assert!(
        fixture.clock.now() > before && fixture.clock.now() < before.plus(2 * HOUR),
        "{:?}",
        Timestamp::default()
    );
    assert_eq!(service.taken().len(), 2);
}
