//! The whole table of closing as a checked-in grid, and what must hold for every history of events.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;
use proto::conn::{Conn, Effect, Event, Facts, Guard, ROWS, State};

/// What the table says for one pair, in the words of the snapshot.
fn cell(state: State, event: Event) -> String {
    let rows = ROWS.iter().filter(|row| row.from.contains(&state) && row.on.contains(&event));
    let one = |row: &proto::conn::Row| {
        let to = row.to.map_or("stays".into(), |to| format!("-> {to:?}"));
        let guard = if row.guard == Guard::Always { String::new() } else { format!("{:?}: ", row.guard) };
        let effect =
            if row.effect == Effect::Nothing { String::new() } else { format!(", {:?}", row.effect) };
        format!("{guard}{to}{effect}")
    };
    rows.map(one).collect::<Vec<_>>().join(" | ")
}

fn grid() -> String {
    let mut text = String::from("state, event: what happens (the first guard that holds decides)\n");
    for state in State::ALL {
        write!(text, "\n{state:?} ({}, smcss {})\n", state.number(), state.smcss_name()).unwrap();
        for event in Event::ALL {
            writeln!(text, "  {:<16} {}", format!("{event:?}"), cell(state, event)).unwrap();
        }
    }
    text
}

#[test]
fn the_grid_is_the_reviewed_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/conn.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, grid()).unwrap();
    }
    let reviewed = std::fs::read_to_string(&path).unwrap();
    let now = grid();
    let differing = now.lines().zip(reviewed.lines()).find(|(a, b)| a != b);
    assert!(
        now == reviewed,
        "first change: {differing:?}; if meant, run with UPDATE_SNAPSHOTS=1 and review the diff"
    );
}

fn run(events: &[Event]) -> (Conn, Vec<Effect>) {
    let mut conn = Conn::new();
    let effects = events.iter().map(|event| conn.handle(*event)).collect();
    (conn, effects)
}

/// Stories of section 3.9 of the reference (RFC 7609 section 4.8), each as events and the states passed.
#[test]
fn the_usual_stories_end_as_told() {
    use Event::*;
    use State::*;
    let stories: [(&[Event], &[State]); 7] = [
        (&[Established, Close, PeerClosed], &[Active, PeerCloseWait1, Closed]),
        (&[Established, PeerClosed, Close], &[Active, AppCloseWait1, Closed]),
        (
            &[Established, PeerDoneWriting, Close, PeerClosed],
            &[Active, AppCloseWait1, PeerFinCloseWait, Closed],
        ),
        (
            &[Established, ShutdownWrite, PeerDoneWriting, PeerClosed, Close],
            &[Active, PeerCloseWait1, PeerCloseWait2, AppFinCloseWait, Closed],
        ),
        (&[Established, ShutdownWrite, Close, PeerClosed], &[Active, PeerCloseWait1, PeerCloseWait1, Closed]),
        (&[Established, PeerAbort, Close], &[Active, ProcessAbort, Closed]),
        (&[Established, LinkLost, Close], &[Active, PeerAbortWait, Closed]),
    ];
    for (events, states) in stories {
        let mut conn = Conn::new();
        for (event, state) in events.iter().zip(states) {
            conn.handle(*event);
            assert_eq!(conn.state(), *state, "{events:?} after {event:?}");
        }
    }
}

#[test]
fn what_an_orderly_peer_left_survives_its_death() {
    let (conn, effects) = run(&[Event::Established, Event::PeerClosed, Event::LinkLost]);
    assert_eq!((conn.state(), effects[2]), (State::AppCloseWait1, Effect::Nothing));
    let (conn, effects) = run(&[Event::Established, Event::LinkLost]);
    assert_eq!((conn.state(), effects[1]), (State::PeerAbortWait, Effect::Abort));
}

fn event() -> impl Strategy<Value = Event> {
    prop::sample::select(Event::ALL.to_vec())
}

proptest! {
    #[test]
    fn any_history_keeps_the_rules(events in prop::collection::vec(event(), 0..24)) {
        let mut conn = Conn::new();
        let mut sent = BTreeMap::<String, usize>::new();
        for event in events {
            let (before, facts) = (conn.state(), conn.facts());
            let effect = conn.handle(event);
            *sent.entry(format!("{effect:?}")).or_default() += 1;
            prop_assert!(before != State::Closed || conn.state() == State::Closed, "CLOSED is final");
            let is_final = matches!(effect, Effect::SendClosed | Effect::SendAbort);
            prop_assert!(!(facts.close_sent && is_final), "{before:?} on {event:?} announces its close again");
            prop_assert!(effect != Effect::Refuse || before == conn.state(), "a refusal changes nothing");
        }
        for once in ["SendDoneWriting", "SendClosed", "SendAbort", "Reset", "Abort"] {
            prop_assert!(sent.get(once).copied().unwrap_or(0) <= 1, "{once} more than once");
        }
    }

    #[test]
    fn close_and_the_end_of_the_peer_always_lead_to_closed(
        events in prop::collection::vec(event(), 0..24),
        last in prop::sample::select(vec![Event::PeerClosed, Event::PeerAbort, Event::LinkLost]),
        app_first in any::<bool>(),
    ) {
        let (mut conn, _) = run(&events);
        let order = if app_first { [Event::Close, last] } else { [last, Event::Close] };
        order.into_iter().for_each(|event| { conn.handle(event); });
        prop_assert_eq!(conn.state(), State::Closed, "facts {:?}", conn.facts());
    }
}

#[test]
fn facts_start_empty() {
    assert_eq!(Conn::default().facts(), Facts::default());
    assert_eq!(Conn::new().state(), State::Init);
}
