//! A plugin's life, as a kubelet sees it.

use crate::kubelet::{Kubelet, allocate, healthy, soon, watch};
use crate::node::Node;
use device_plugin::api::{Empty, GET_OPTIONS, Mount, Options, PRE_START};
use device_plugin::kubelet::SOCKET;
use device_plugin::rpc::Status;
use prost::Message;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use wire::Reason;
use wire::host::Message as Daemons;

#[tokio::test]
async fn a_container_that_gets_a_device_gets_what_the_specification_says() {
    let mut node = Node::new();
    let _daemon = node.daemon();
    let mut kubelet = Kubelet::start(&node.plugins());
    node.start(&["--devices", "3"]);
    let request = kubelet.registered().await;
    assert_eq!((request.version.as_str(), request.resource_name.as_str()), ("v1beta1", "isthmus/smc"));
    assert_eq!(request.endpoint, SOCKET);
    let plugin = kubelet.connect().await;
    let ids = healthy(&mut watch(&plugin).await, 3).await;
    let answer = allocate(&plugin, &[&ids[..1], &ids[1..]]).await.expect("allocated");
    let [one, other] = &answer.containers[..] else { panic!("{answer:?}") };
    assert_eq!(one, other, "once, for however many devices");
    assert_eq!(one.envs["LD_PRELOAD"], "/l.so");
    assert_eq!(one.envs["SMC_ISMD"], "/run/isthmus/s");
    let host_path = node.folder.path().display().to_string();
    let folder = Mount { container_path: "/run/isthmus".into(), host_path, read_only: true };
    assert_eq!((one.mounts.len(), &one.mounts[0], one.cdi_devices.len()), (2, &folder, 0));
}

#[tokio::test]
async fn an_engine_that_knows_the_specification_is_told_a_name() {
    let mut node = Node::new();
    let _daemon = node.daemon();
    let mut kubelet = Kubelet::start(&node.plugins());
    node.start(&["--devices", "1", "--by-name"]);
    let plugin = kubelet.connected().await;
    let ids = healthy(&mut watch(&plugin).await, 1).await;
    let answer = allocate(&plugin, &[&ids]).await.expect("allocated");
    let container = &answer.containers[0];
    assert!(container.envs.is_empty() && container.mounts.is_empty());
    assert_eq!(container.cdi_devices[0].name, "isthmus/smc=host");
}

#[tokio::test]
async fn a_kubelet_that_starts_anew_knows_of_it_again() {
    let mut node = Node::new();
    let _daemon = node.daemon();
    node.start(&["--devices", "2"]);
    for _ in 0..3 {
        let mut kubelet = Kubelet::start(&node.plugins());
        let plugin = kubelet.connected().await;
        healthy(&mut watch(&plugin).await, 2).await;
    }
}

#[tokio::test]
async fn a_kubelet_that_stops_listening_is_told_again() {
    let mut node = Node::new();
    let _daemon = node.daemon();
    let mut kubelet = Kubelet::start(&node.plugins());
    node.start(&["--devices", "1"]);
    let plugin = kubelet.connected().await;
    let mut list = watch(&plugin).await;
    healthy(&mut list, 1).await;
    drop(list);
    kubelet.registered().await;
    healthy(&mut watch(&plugin).await, 1).await;
}

#[tokio::test]
async fn without_the_daemon_no_device_is_healthy() {
    let mut node = Node::new();
    let mut kubelet = Kubelet::start(&node.plugins());
    node.start(&["--devices", "2"]);
    let plugin = kubelet.connected().await;
    let mut list = watch(&plugin).await;
    healthy(&mut list, 0).await;
    let daemon = node.daemon();
    healthy(&mut list, 2).await;
    drop(daemon);
    healthy(&mut list, 0).await;
    let _daemon = node.daemon();
    healthy(&mut list, 2).await;
}

#[tokio::test]
async fn a_daemon_that_does_not_answer_or_marks_nothing_makes_no_device_healthy() {
    let mut node = Node::new();
    let daemon = node.daemon();
    let mut kubelet = Kubelet::start(&node.plugins());
    node.start(&["--devices", "2"]);
    let plugin = kubelet.connected().await;
    let mut list = watch(&plugin).await;
    healthy(&mut list, 2).await;
    drop(daemon);
    // (Its queue is full with the first one.)
    let silent = node.silent_daemon(0);
    healthy(&mut list, 0).await;
    soon("it says so", async {
        while !node.log().contains("does not answer") {
            pause().await
        }
    })
    .await;
    drop(silent);
    let daemon = node.daemon();
    healthy(&mut list, 2).await;
    drop(daemon);
    let _daemon = node.daemon_that(Daemons::Refused(Reason::NOSMCDDEV));
    healthy(&mut list, 0).await;
    soon("it says so", async {
        while !node.log().contains("marks no connections") {
            pause().await
        }
    })
    .await;
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

#[tokio::test]
async fn its_socket_goes_with_it() {
    let mut node = Node::new();
    let _daemon = node.daemon();
    let mut kubelet = Kubelet::start(&node.plugins());
    node.start(&[]);
    let plugin = kubelet.connected().await;
    let mut list = watch(&plugin).await;
    assert_eq!(healthy(&mut list, 255).await.len(), 255);
    node.terminate();
    assert!(node.ended().await.success(), "{}", node.log());
    assert!(!node.plugins().join(SOCKET).exists());
    while let Ok(Some(_)) = soon("the stream ends", list.next()).await {}
}

/// One that was killed has left its own.
#[tokio::test]
async fn a_socket_that_was_left_behind_is_replaced() {
    let mut node = Node::new();
    let _daemon = node.daemon();
    let mut kubelet = Kubelet::start(&node.plugins());
    drop(std::os::unix::net::UnixListener::bind(node.plugins().join(SOCKET)).expect("bound"));
    node.start(&["--devices", "1"]);
    let plugin = kubelet.connected().await;
    healthy(&mut watch(&plugin).await, 1).await;
}

#[tokio::test]
async fn a_kubelet_that_refuses_ends_it() {
    let mut node = Node::new();
    let mut kubelet = Kubelet::refusing(&node.plugins(), Some("no such version"));
    node.start(&[]);
    kubelet.registered().await;
    assert_eq!(node.ended().await.code(), Some(1));
    assert!(node.log().contains("no such version"), "{}", node.log());
    assert!(!node.plugins().join(SOCKET).exists());
}

#[tokio::test]
async fn what_is_no_call_is_refused_and_harms_no_other() {
    let mut node = Node::new();
    let _daemon = node.daemon();
    let mut kubelet = Kubelet::start(&node.plugins());
    node.start(&["--devices", "1"]);
    let plugin = kubelet.connected().await;
    let mut list = watch(&plugin).await;
    let ids = healthy(&mut list, 1).await;
    let code = |answer: Result<_, Status>| answer.map(|_| 0).unwrap_or_else(|status| status.code);
    assert_eq!(code(plugin.ask("/v1beta1.DevicePlugin/GetPreferredAllocation", &[]).await), 12);
    let unknown = allocate(&plugin, &[&["smc-1".to_string()]]).await;
    assert_eq!(unknown.expect_err("there is none").code, Status::INVALID);
    assert_eq!(code(plugin.ask("/v1beta1.DevicePlugin/Allocate", b"\xff\xff\xff").await), Status::INVALID);
    let long = vec![0; device_plugin::rpc::MOST + 1];
    assert_ne!(code(plugin.ask(PRE_START, &long).await), 0);
    // As many as are attended to, and more, that say nothing or no sense.
    let socket = node.plugins().join(SOCKET);
    let mut idle: Vec<_> = (0..30).map(|_| UnixStream::connect(&socket).expect("queued")).collect();
    for stream in &mut idle {
        let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
    }
    let options = plugin.ask(GET_OPTIONS, &Empty {}.encode_to_vec()).await.expect("an answer");
    assert_eq!(Options::decode(options).expect("options"), Options::default());
    assert_eq!(allocate(&plugin, &[&ids]).await.expect("allocated").containers.len(), 1);
    drop(idle);
    let another = kubelet.connect().await;
    let answer = soon("another is attended to", another.ask(PRE_START, &[])).await;
    assert_eq!(code(answer), 0);
}

#[tokio::test]
async fn without_a_specification_it_says_who_writes_it() {
    let mut node = Node::new();
    std::fs::remove_file(node.at("cdi.json")).expect("deleted");
    node.start(&[]);
    assert_eq!(node.ended().await.code(), Some(1));
    assert!(node.log().contains("ismd --print-cdi >"), "{}", node.log());
}
