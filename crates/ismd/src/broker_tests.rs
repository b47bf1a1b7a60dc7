//! The rules of passing memory, over descriptors that are names.

use super::{Answer, Broker, WRONG_NONCES};
use crate::policy::file::parse;
use crate::who::{Payer, User, Who};
use wire::Reason;
use wire::host::Message;

type Named = Broker<&'static str>;

fn broker(policy: &str) -> Named {
    Broker::new(parse("test", policy).unwrap_or_else(|fault| panic!("{fault}")), 100, 7, 1000)
}

fn process(uid: u32, cgroup: &str) -> Who {
    let user = User { uid, user_namespace: 1, process_namespace: 1 };
    let payer = Payer::User(uid);
    Who { user, payer, pid: 1, gid: uid, cgroup: cgroup.into(), cgroup_id: 1, program: "p".into() }
}

fn enter(broker: &mut Named, uid: u32, cgroup: &str) -> u32 {
    broker.hello(process(uid, cgroup), 0).expect("let in").0
}

fn reason(told: Result<Answer<'_, &'static str>, Reason>) -> Option<Reason> {
    told.err()
}

#[test]
fn memory_goes_to_who_knows_its_nonce_and_doorbells_to_who_has_the_memory() {
    let mut broker = broker("");
    let [client, server] = [1000, 1000].map(|uid| enter(&mut broker, uid, "/"));
    broker.offer(client, (5, 4096, 42), "memory").expect("room");
    broker.hang(client, (5, 6), "bell").expect("room");
    assert_eq!(reason(broker.open(server, (client, 5, 6))), Some(Reason::SYNCERR), "nothing was claimed");
    assert_eq!(reason(broker.claim(server, (client, 5, 41))), Some(Reason::SYNCERR));
    let passed = Message::Passed { size: 4096 };
    assert_eq!(broker.claim(server, (client, 5, 42)), Ok(Answer::Memory(passed, &"memory")));
    let bell = Message::Passed { size: 0 };
    assert_eq!(broker.open(server, (client, 5, 6)), Ok(Answer::Doorbell(bell, &"bell")));
    assert_eq!(reason(broker.open(server, (client, 5, 7))), Some(Reason::SYNCERR));
    broker.withdraw(client, 5);
    assert_eq!(reason(broker.claim(server, (client, 5, 42))), Some(Reason::SYNCERR));
    assert_eq!(reason(broker.open(server, (client, 5, 6))), Some(Reason::SYNCERR));
}

#[test]
fn another_user_gets_nothing_unless_the_policy_says_so() {
    for (policy, expected) in [("", Some(Reason::PEERDECL)), ("[[rule]]\nallow = true\n", None)] {
        let mut broker = broker(policy);
        let (client, server) = (enter(&mut broker, 1, "/"), enter(&mut broker, 2, "/"));
        broker.offer(client, (5, 4096, 42), "memory").expect("room");
        assert_eq!(reason(broker.claim(server, (client, 5, 42))), expected);
    }
}

#[test]
fn memory_is_one_other_domains_and_never_a_third_ones() {
    let mut broker = broker("[[rule]]\nallow = true\n");
    let [client, second, third, again] = [1, 2, 3, 2].map(|uid| enter(&mut broker, uid, "/"));
    broker.offer(client, (5, 4096, 42), "memory").expect("room");
    assert_eq!(reason(broker.claim(second, (client, 5, 42))), None);
    assert_eq!(reason(broker.claim(third, (client, 5, 42))), Some(Reason::PEERDECL));
    assert_eq!(reason(broker.claim(again, (client, 5, 42))), None, "a worker of the same domain");
}

#[test]
fn only_who_is_on_the_same_fabric_can_talk() {
    let mut broker = broker(
        "[[fabric]]\nvchid = 0xFF01\nname = \"a\"\nmembers = [{ cgroup = \"/a\" }]\n\
         [[fabric]]\nvchid = 0xFF02\nname = \"b\"\n[[rule]]\nallow = true\n",
    );
    let (client, server) = (enter(&mut broker, 1, "/a"), enter(&mut broker, 1, "/b"));
    broker.offer(client, (5, 4096, 42), "memory").expect("room");
    assert_eq!(reason(broker.claim(server, (client, 5, 42))), Some(Reason::NOSMCDDEV));
}

#[test]
fn a_function_that_was_taken_away_offers_and_claims_nothing() {
    let mut broker = broker("");
    let [client, server] = [1, 1].map(|uid| enter(&mut broker, uid, "/"));
    broker.offer(client, (5, 4096, 42), "memory").expect("room");
    let other = "[[fabric]]\nvchid = 0xFF09\nname = \"other\"\n";
    broker.adopt(parse("test", other).unwrap_or_else(|fault| panic!("{fault}")));
    assert_eq!(reason(broker.claim(server, (client, 5, 42))), Some(Reason::NOSMCDDEV));
    assert_eq!(broker.offer(client, (6, 4096, 43), "more"), Err(Reason::NOSMCDDEV));
    broker.adopt(parse("test", "").unwrap_or_else(|fault| panic!("{fault}")));
    assert_eq!(reason(broker.claim(server, (client, 5, 42))), None, "and it was given back");
}

#[test]
fn who_guesses_nonces_is_found_out() {
    let mut broker = broker("");
    let [client, guesser] = [1, 1].map(|uid| enter(&mut broker, uid, "/"));
    broker.offer(client, (5, 4096, 42), "memory").expect("room");
    for guess in 1..=u64::from(WRONG_NONCES) {
        let _ = broker.claim(guesser, (client, 5, guess << 32));
    }
    assert!(!broker.is_guessing(guesser));
    let _ = broker.claim(guesser, (client + 1000, 5, 42));
    assert!(broker.is_guessing(guesser));
}

#[test]
fn a_function_has_so_many_connections_and_a_client_leaves_nothing() {
    let mut broker = broker("[[fabric]]\nvchid = 0xFF01\nname = \"a\"\nconnections = 2\n");
    let (client, other) = (enter(&mut broker, 1, "/"), enter(&mut broker, 1, "/"));
    broker.offer(client, (5, 4096, 42), "memory").expect("room");
    for bell in 0..4 {
        broker.hang(client, (5, bell), "bell").expect("room");
    }
    broker.hang(client, (5, 3), "hung anew").expect("it takes the place of one");
    assert_eq!(broker.hang(client, (5, 4), "bell"), Err(Reason::MAX_DMB));
    broker.offer(other, (5, 4096, 42), "memory").expect("room");
    assert_eq!(broker.hang(other, (5, 0), "bell"), Err(Reason::MAX_DMB), "the function is both processes'");
    broker.gone(client);
    broker.hang(other, (5, 0), "bell").expect("room again");
    broker.gone(other);
    assert_eq!((broker.clients(), broker.offered(), broker.functions.all().count()), (0, (0, 0), 0));
    assert_eq!(broker.accounts.users().count(), 0);
}

#[test]
fn all_clients_together_pass_no_more_descriptors_than_there_are() {
    // (What users have by an operator's word they have as long as there is any.)
    let mut broker = broker("[[quota.special]]\nuid = 1\n[[quota.special]]\nuid = 2\n");
    broker.room = 3;
    let (client, other) = (enter(&mut broker, 1, "/"), enter(&mut broker, 2, "/"));
    broker.offer(client, (5, 4096, 42), "memory").expect("room");
    broker.hang(client, (5, 6), "bell").expect("room");
    broker.offer(other, (5, 4096, 42), "memory").expect("room");
    assert_eq!(broker.offer(other, (6, 4096, 42), "memory"), Err(Reason::MEM));
    assert_eq!(broker.hang(other, (5, 6), "bell"), Err(Reason::MEM));
    broker.hang(client, (5, 6), "another").expect("it takes the place of one");
    broker.gone(client);
    broker.hang(other, (5, 6), "bell").expect("room again");
    broker.gone(other);
    assert_eq!(broker.held, 0);
}

/// Eight users with 32 user namespaces each, of whom each makes a domain, and who offer what they can.
#[test]
fn a_few_users_with_many_namespaces_leave_functions_and_descriptors_to_others() {
    let mut broker = broker("");
    let (mut functions, mut offers) = (0, 0);
    for uid in 0..8 {
        for namespace in 0..32 {
            let user = User { user_namespace: namespace, ..process(uid, "/").user };
            let Ok((client, _)) = broker.hello(Who { user, ..process(uid, "/") }, 0) else { continue };
            functions += 1;
            let offered = (0..100).take_while(|n| broker.offer(client, (*n, 4096, 42), "memory").is_ok());
            offers += offered.count();
        }
    }
    assert!((100..200).contains(&functions) && (400..750).contains(&offers), "{functions} {offers}");
    for uid in 100..140 {
        let client = enter(&mut broker, uid, "/");
        broker.offer(client, (5, 4096, 42), "memory").expect("a segment");
        broker.hang(client, (5, 1), "bell").expect("a doorbell");
    }
}

/// A user has 65536 more in user namespaces of his own; a project, as many as its containers like.
#[test]
fn the_users_of_one_payer_and_of_one_project_are_counted_together() {
    let project = "[[project]]\nname = \"web\"\ncgroup = \"/web\"\n";
    for (cgroup, payer) in [("/", Some(Payer::User(1))), ("/web", None)] {
        let mut broker = broker(project);
        let subordinate = |uid| {
            let own = process(uid, cgroup);
            Who { payer: payer.unwrap_or(own.payer), ..own }
        };
        let let_in = (0..60).filter(|uid| broker.hello(subordinate(100_000 + uid), 0).is_ok());
        assert_eq!(let_in.count(), 32, "as many as one user");
        assert!(broker.hello(process(2, "/"), 0).is_ok());
    }
}

#[test]
fn a_list_shows_everything_or_one_users_own() {
    let mut broker = broker("[[fabric]]\nvchid = 0xFF01\nname = \"a\"\npnet-id = \"NET1\"\n");
    for uid in [1, 2] {
        enter(&mut broker, uid, "/");
    }
    let users = |only| {
        (0..9)
            .map_while(|after| match broker.list(only, after, true) {
                Message::Function(function) => Some((function.user, function.pnet_id[..4].to_vec())),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(users(None), [(1, b"NET1".to_vec()), (2, b"NET1".to_vec())]);
    assert_eq!(users(Some(process(2, "/").user)), [(2, b"NET1".to_vec())]);
}

/// Whoever makes user namespaces is another user in each; the host counts them as one.
#[test]
fn nobody_takes_all_functions_of_a_fabric() {
    let mut broker = broker("[quota.user]\nfunctions = 2\n");
    let in_namespace = |namespace| {
        let user = User { uid: 1, user_namespace: namespace, process_namespace: 1 };
        Who { user, ..process(1, "/") }
    };
    let first = broker.hello(in_namespace(1), 0).expect("one").0;
    broker.hello(in_namespace(2), 0).expect("two");
    broker.hello(in_namespace(2), 0).expect("the same function again");
    assert_eq!(broker.hello(in_namespace(3), 0).err(), Some(Reason::MAX_DMB));
    assert!(broker.hello(process(2, "/"), 0).is_ok(), "others are not harmed");
    broker.gone(first);
    assert!(broker.hello(in_namespace(3), 0).is_ok());
}

#[test]
fn after_a_change_memory_is_taken_back_from_those_who_may_not_share_it_any_more() {
    let mut broker = broker("[[rule]]\nallow = true\n");
    let [client, second, third] = [1, 2, 3].map(|uid| enter(&mut broker, uid, "/"));
    for (number, memory, claimant) in [(5, "second's", second), (6, "third's", third), (7, "nobody's", 0)] {
        broker.offer(client, (number, 4096, 42), memory).expect("room");
        broker.hang(client, (number, 1), "bell").expect("room");
        let _ = broker.claim(claimant, (client, number, 42));
    }
    let taken = |broker: &mut Named| {
        let mut all: Vec<_> = broker.take_back().iter().map(|offer| offer.memory).collect();
        all.sort_unstable();
        all
    };
    assert!(taken(&mut broker).is_empty(), "nothing has changed");
    let rules = "[[rule]]\nallow = false\nserver = { uid = 3 }\n[[rule]]\nallow = true\n";
    broker.adopt(parse("test", rules).unwrap_or_else(|fault| panic!("{fault}")));
    assert_eq!(taken(&mut broker), ["third's"]);
    assert_eq!(reason(broker.claim(third, (client, 6, 42))), Some(Reason::SYNCERR), "it is offered no more");
    broker.gone(second);
    let of_second = |broker: &Named| broker.functions.all().find(|(id, _)| id.1 == 2).map(|(_, f)| f.uid);
    enter(&mut broker, 2, "/");
    let uid = of_second(&broker).expect("a function");
    assert!(broker.enable(uid, false));
    assert_eq!(taken(&mut broker), ["second's"], "whose process has gone, and whose domain has it");
    assert!(broker.enable(1, false));
    assert_eq!(taken(&mut broker), ["nobody's"], "the client's own function");
    assert_eq!(broker.offer(client, (8, 4096, 42), "more"), Err(Reason::NOSMCDDEV));
    assert_eq!((broker.held, broker.offered()), (0, (0, 0)));
}

#[test]
fn memory_is_taken_back_where_a_policy_leaves_less_than_there_was() {
    let mut broker = broker("");
    let [client, server] = [1, 1].map(|uid| enter(&mut broker, uid, "/"));
    let denied = "[[rule]]\nallow = false\nserver = { port = 7 }\n";
    let all = "[[rule]]\nallow = true\n";
    broker.offer(client, (5, 4096, 42), "memory").expect("room");
    assert_eq!(reason(broker.claim(server, (client, 5, 42))), None);
    for (policy, expected) in [(all, 0), (denied, 1), (denied, 0), (all, 0), ("", 0), (denied, 1)] {
        broker.adopt(parse("test", policy).unwrap_or_else(|fault| panic!("{fault}")));
        let taken = broker.take_back().len();
        assert_eq!(taken, expected, "{policy}");
        if taken > 0 {
            broker.offer(client, (5, 4096, 42), "memory").expect("room");
            assert_eq!(reason(broker.claim(server, (client, 5, 42))), None, "over another port");
        }
    }
}
