//! Describes a contract in sentences, for the terminal and for docs/contracts.md.

use crate::domain::{
    contract::{
        BodyForm, BodySource, Contract, DeadLetterNotice, Jitter, JsonForm, KeyForm, NoticeChannel, Pacing,
        PublishedWhileDisabled, RetentionPeriod, RetryAfter, Rotation, SignatureEncoding, StatusPattern,
        TimeForm, WaitingWhenDisabled,
    },
    delivery::DeliveryState,
    time::{format_duration, humanize_duration},
};

/// Returns headings, each with its sentences.
pub(super) fn describe(contract: &Contract) -> Vec<(&'static str, Vec<String>)> {
    let all = [
        ("Body", body(contract)),
        ("Request", request(contract)),
        ("Signature", signature(contract)),
        ("Attempts", attempts(contract)),
        ("Answers", answers(contract)),
        ("Switched off", off(contract)),
        ("Notices", notices(contract)),
        ("Kept", kept(contract)),
        ("Names", names(contract)),
    ];
    all.into_iter().filter(|(_, sentences)| !sentences.is_empty()).collect()
}

pub(super) fn ends(contract: &Contract) -> String {
    let ends: Vec<_> = contract.timeline().ends.iter().map(ToString::to_string).collect();
    ends.join(" or ")
}

/// The name of a state, and the contract's name for it where that differs.
pub(super) fn state(contract: &Contract, state: DeliveryState) -> String {
    match contract.states.of(state, None) {
        same if same == state.name() => state.name().to_owned(),
        other => format!("{}, called `{other}`", state.name()),
    }
}

fn body(contract: &Contract) -> Vec<String> {
    let rule = &contract.body;
    let time = match rule.time {
        TimeForm::Milliseconds => "when it was created, in RFC 3339 with milliseconds",
        TimeForm::Seconds => "when it was created, in RFC 3339 in whole seconds",
    };
    let meaning = |from| match from {
        BodySource::EventId => "the event's id",
        BodySource::Type => "its type",
        BodySource::CreatedAt => time,
        BodySource::Data => "what was published",
        BodySource::Livemode => "the app's setting",
        BodySource::DeliveryId => "the delivery's id, the same on every attempt and replay",
        BodySource::AppId => "the app's id",
        BodySource::PayloadVersion => "the version of the payload",
    };
    let fields: Vec<_> =
        rule.fields.iter().map(|field| format!("`{}` ({})", field.name, meaning(field.from))).collect();
    let mut said = match rule.form {
        BodyForm::Envelope => vec![format!("An object of {}.", fields.join(", "))],
        BodyForm::Flat => vec![
            format!("A flat object: {}, then the members of what was published.", fields.join(", ")),
            "What is no object, or has a member of such a name, cannot be sent so: `dead`, `serialisation_failed`."
                .into(),
        ],
    };
    said.push(match rule.json {
        JsonForm::AsGiven => "What was published goes out byte for byte.".into(),
        JsonForm::Sorted => {
            "Keys are sorted by code point at every depth, without spaces, escaped as Python's `json.dumps` \
             does; numbers stay as given, of duplicate keys the last counts."
                .into()
        }
    });
    said
}

fn request(contract: &Contract) -> Vec<String> {
    let headers: Vec<_> =
        contract.headers.iter().map(|(name, value)| format!("`{name}: {}`", value.source())).collect();
    let mut said = vec![format!(
        "`content-type: application/json`, `user-agent: {}`{}{}.",
        contract.user_agent.source().replace("{brand}", &contract.brand),
        if headers.is_empty() { "" } else { ", " },
        headers.join(", ")
    )];
    let pacing = match contract.pacing {
        Pacing::Strict => "Attempts keep exactly to their times",
        Pacing::Adaptive => "Attempts yield to a receiver in trouble",
    };
    let timeout = humanize_duration(contract.timeout);
    said.push(format!("{pacing}; an answer must be complete within {timeout}."));
    let rendering = contract.rendering;
    if rendering.tries > 1 {
        said.push(format!(
            "Putting the body together and signing it is tried {} times, {} each.",
            rendering.tries,
            humanize_duration(rendering.timeout)
        ));
    }
    match contract.https_only {
        Some(true) => said.push("HTTPS only.".into()),
        Some(false) => said.push("Plain HTTP is allowed.".into()),
        None => {}
    }
    said
}

fn signature(contract: &Contract) -> Vec<String> {
    let (rule, secret) = (&contract.signature, &contract.secret);
    let encoding = match rule.encoding {
        SignatureEncoding::Hex => "lower-case hex",
        SignatureEncoding::Base64 => "base64",
    };
    let mut said = vec![format!(
        "`{}: {}`, where `{{signature}}` is HMAC-SHA256 in {encoding} over `{}`.",
        rule.header,
        rule.hmac_sha256.source(),
        rule.signs.source()
    )];
    if let (Some(template), Some(prefix)) = (&rule.ed25519, &secret.ed25519_prefix) {
        said.push(format!("`{}` by an ed25519 key, given as `{prefix}` and base64.", template.source()));
    }
    let prefix = if secret.prefix.is_empty() { String::new() } else { format!("`{}` and ", secret.prefix) };
    said.push(match secret.key {
        KeyForm::Text => "The key is the UTF-8 of the whole secret, whatever it starts with.".into(),
        KeyForm::Base64 => format!("A secret is {prefix}base64 of 24 to 64 bytes, which are the key."),
    });
    said.push(format!("One that is made up is {prefix}{} random bytes.", secret.bytes));
    said.push(match secret.rotation {
        Rotation::Switch => {
            "During a rotation there is one signature: the new secret takes over at a chosen instant.".into()
        }
        Rotation::Both => {
            let separator =
                if rule.separator == " " { "a space".into() } else { format!("`{}`", rule.separator) };
            format!(
                "During a rotation there is one signature for each valid secret, {separator} between them."
            )
        }
    });
    said
}

fn attempts(contract: &Contract) -> Vec<String> {
    let retry = &contract.retry;
    let waits: Vec<_> = retry.waits.iter().map(|wait| humanize_duration(*wait)).collect();
    let jitter = match retry.jitter {
        Jitter::None => String::new(),
        Jitter::Full => ", each anything between nothing and this".into(),
        Jitter::Percent(percent) => format!(", each up to {percent}% shorter or longer"),
    };
    let mut said = vec![format!(
        "{} attempts; waits from the end of a failed one: {}{jitter}; then {}.",
        contract.timeline().attempts.len(),
        if waits.is_empty() { "none".into() } else { waits.join(" ") },
        ends(contract)
    )];
    if let Some(wait) = retry.final_wait {
        said.push(format!("The last {} are a wait without an attempt.", humanize_duration(wait)));
    }
    if let Some(age) = retry.give_up_after {
        let held = if retry.give_up_while_held { ", held or not" } else { ", not counting while it is held" };
        said.push(format!("Nothing automatic happens after {}{held}.", humanize_duration(age)));
    }
    if retry.retry_after == RetryAfter::Honour {
        said.push("`Retry-After` lengthens a wait, up to the longest.".into());
    }
    said
}

fn answers(contract: &Contract) -> Vec<String> {
    let answers = &contract.answers;
    let list = |statuses: &[StatusPattern]| {
        let names = statuses.iter().map(|statuses| match statuses {
            StatusPattern::Exactly(status) => status.to_string(),
            StatusPattern::Class(first) => format!("{first}xx"),
        });
        names.collect::<Vec<_>>().join(", ")
    };
    let mut said = vec![format!("Success: {}.", list(&answers.success))];
    if !answers.never.is_empty() {
        said.push(format!("Dead at once: {}.", list(&answers.never)));
    }
    if !answers.disable.is_empty() {
        said.push(format!("Dead at once, and the endpoint goes off: {}.", list(&answers.disable)));
    }
    said.push("Everything else is tried again, a timeout and a failed connection too.".into());
    if !answers.advise_rotation.is_empty() {
        said.push(format!(
            "After {} people are advised to rotate the secret.",
            list(&answers.advise_rotation)
        ));
    }
    said
}

fn off(contract: &Contract) -> Vec<String> {
    let health = &contract.health;
    let mut said = Vec::new();
    if let (Some(share), Some(window)) = (health.degraded_above, health.degraded_window) {
        said.push(format!("Degraded when over {}% fail within {}.", share.0, humanize_duration(window)));
    }
    let reason = &health.off_reason;
    if let Some(events) = health.off_after_failed_events {
        said.push(format!("Off after {events} events in a row ended undelivered (`{reason}`)."));
    }
    if let Some(duration) = health.off_after_failing_for {
        let warning = health.warning_after.map_or_else(String::new, |after| {
            format!(", never without a warning, which comes after {}", humanize_duration(after))
        });
        said.push(format!(
            "Off after {} in which nothing succeeded (`{reason}`){warning}.",
            humanize_duration(duration)
        ));
    }
    if said.is_empty() {
        let by_answer =
            if contract.answers.disable.is_empty() { "" } else { ", or by an answer, as said above" };
        said.push(format!("By hand{by_answer}."));
    }
    let waiting = match contract.off.waiting {
        WaitingWhenDisabled::Held => "held",
        WaitingWhenDisabled::Cancelled => "cancelled",
    };
    let published = match contract.off.published {
        PublishedWhileDisabled::Held => "held",
        PublishedWhileDisabled::Cancelled => "cancelled at once",
        PublishedWhileDisabled::None => "not delivered",
    };
    said.push(format!("What waits then is {waiting}; what is published meanwhile is {published}."));
    said
}

fn notices(contract: &Contract) -> Vec<String> {
    let notices = &contract.notices;
    let by = |channel| match channel {
        NoticeChannel::Email => "by e-mail",
        NoticeChannel::List => "in the list of notices",
        NoticeChannel::None => "not at all",
    };
    let health = &contract.health;
    let goes_off = health.off_after_failed_events.is_some() || health.off_after_failing_for.is_some();
    let mut said = Vec::new();
    match notices.dead_letter {
        DeadLetterNotice::Each => said.push(format!("Each dead letter: {}.", by(notices.dead_letter_by))),
        DeadLetterNotice::Digest => {
            let window = humanize_duration(notices.digest_window);
            said.push(format!("Dead letters, those of {window} in one: {}.", by(notices.dead_letter_by)));
        }
        DeadLetterNotice::None => {}
    }
    if health.degraded_above.is_some() {
        said.push(format!("A degraded endpoint: {}.", by(notices.degraded)));
    }
    if health.warning_after.is_some() {
        said.push(format!("The warning before it goes off: {}.", by(notices.off_warning)));
    }
    if goes_off || !contract.answers.disable.is_empty() {
        said.push(format!("An endpoint that was switched off: {}.", by(notices.disabled)));
    }
    said.push(format!("A replay that came to its end: {}.", by(notices.replay_finished)));
    said
}

fn kept(contract: &Contract) -> Vec<String> {
    let retention = &contract.retention;
    let keep = |keep| match keep {
        RetentionPeriod::For(duration) => format!("for {}", format_duration(duration)),
        RetentionPeriod::Forever => "until deleted by hand".into(),
    };
    let all = [
        ("Dead letters", retention.dead_letters),
        ("Events", retention.events),
        ("Payloads", retention.payloads),
        ("Attempts", retention.attempts),
    ];
    all.map(|(what, how_long)| format!("{what}: {}.", keep(how_long))).to_vec()
}

fn names(contract: &Contract) -> Vec<String> {
    let mut named: Vec<(&str, &str)> =
        DeliveryState::ALL.iter().map(|state| (state.name(), contract.states.of(*state, None))).collect();
    named.push(("skipped", &contract.states.skipped));
    for (own, given) in [
        ("serialisation_failed", &contract.states.serialisation_failed),
        ("signing_failed", &contract.states.signing_failed),
    ] {
        named.extend(given.as_deref().map(|given| (own, given)));
    }
    named.retain(|(own, given)| own != given);
    let text: Vec<_> = named.iter().map(|(own, given)| format!("{own} is `{given}`")).collect();
    let mut said = vec![if text.is_empty() {
        "States have our names.".to_owned()
    } else {
        format!("States: {}; the others have our names.", text.join(", "))
    }];
    said.push(format!(
        "Ids: `{}_…` for events, `{}_…` for deliveries.",
        contract.ids.event, contract.ids.delivery
    ));
    if !contract.event_types.is_empty() {
        let types: Vec<_> = contract.event_types.iter().map(|name| format!("`{name}`")).collect();
        said.push(format!("Event types: {}.", types.join(", ")));
    }
    said
}
